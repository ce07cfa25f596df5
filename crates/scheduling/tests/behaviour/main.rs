//! What the solver decides, behaviour by behaviour, seen through its public face alone.
//!
//! Every scenario is solved in the reference's order, whose outcome is pinned, and again as it runs by default, which may
//! only place more and pay less.

mod anti_affinity;
mod pod_affinity;
mod seen;
mod spread;
mod spread_counts;
mod spread_domains;
mod spread_policies;
