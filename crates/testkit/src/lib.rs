//! Worlds for tests: written by hand, generated at random, or those of the reference's benchmark.
//!
//! ```text
//!   pod("web").cpu("1").zone_spread(1) ─┐
//!   pool("default").types(...) ─────────┼─ world() ──▶ World ──▶ the solver under test
//!   node("n1").zone("test-zone-1") ─────┘
//!   fake::incremental(400) · benchmark::mixed_world(1000, …) · random::recipes(size)
//! ```
//!
//! Only ever a dev-dependency. Fixtures panic on nonsense: a test that asks for `cpu("one")` has a bug.

pub mod benchmark;
pub mod cluster;
pub mod dice;
pub mod express;
pub mod fake;
pub mod lines;
pub mod node;
pub mod pod;
pub mod pool;
pub mod random;
pub mod world;

pub use node::{NodeBuilder, launched, node};
pub use pod::{PodBuilder, pod};
pub use pool::{PoolBuilder, pool};
pub use world::{WorldBuilder, world};

use karpenter_core::{Quantity, Resources};

/// A quantity as manifests write it.
pub fn quantity(text: &str) -> Quantity {
    text.parse().expect("a fixture's quantity is well-formed")
}

/// `resources(&[("cpu", "1"), ("memory", "1Gi")])`.
pub fn resources(items: &[(&str, &str)]) -> Resources {
    items.iter().map(|(name, text)| (*name, quantity(text))).collect()
}
