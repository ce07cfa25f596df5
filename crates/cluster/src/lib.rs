//! What surrounds an autoscaler in a cluster: scheduler, workload controllers, kubelets.
//!
//! ```text
//!   scheduler    where a pod goes: kube-scheduler's decisions, pure
//!   controllers  what kube-controller-manager does, each a pure function of the world
//!   kubelet      simulated machines and the pods on them
//!   world        a mirror of the objects       op      writes as plain data
//!   driver       the one task that reads, decides and writes, through kube::Client only
//!   cluster      all of it, started            handle  machines come and go
//!   furniture    a storage class and a DNS service
//! ```
//!
//! Nothing here knows which API server it speaks to: the embedded one in a test, or a real one.

pub mod cases;
pub mod chance;
pub mod clock;
pub mod cluster;
pub mod controllers;
pub mod driver;
pub mod furniture;
pub mod handle;
pub mod key;
pub mod kubelet;
pub mod op;
pub mod quantity;
pub mod resources;
pub mod scheduler;
pub mod selector;
pub mod world;

pub use cluster::{Cluster, Parts, Settings};
pub use handle::Handle;
