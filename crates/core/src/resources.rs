//! Lists of quantities by resource name, and the arithmetic of fitting one into another.

use std::sync::{Arc, LazyLock};

use crate::named::Named;
use crate::quantity::Quantity;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const PODS: &str = "pods";
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// The pseudo-resource under which NodePool limits count nodes.
pub const NODES: &str = "nodes";
/// The pseudo-resource under which NodePool limits count GPUs of any vendor.
pub const GPU: &str = "gpu";
const GPUS: [&str; 2] = ["nvidia.com/gpu", "amd.com/gpu"];
pub const HUGEPAGES_PREFIX: &str = "hugepages-";

/// Quantities by resource name. An absent resource and a zero one differ only where a line below says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources(pub Named<Quantity>);

/// Names that nearly every list has: each is in memory once, however many pods and nodes there are.
static USUAL: LazyLock<[Arc<str>; 14]> = LazyLock::new(|| {
    let mut names = [
        CPU,
        MEMORY,
        PODS,
        EPHEMERAL_STORAGE,
        NODES,
        "amd.com/gpu",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "habana.ai/gaudi",
        "hugepages-1Gi",
        "hugepages-2Mi",
        "nvidia.com/gpu",
        "vpc.amazonaws.com/efa",
        "vpc.amazonaws.com/pod-eni",
    ];
    names.sort_unstable();
    names.map(Arc::from)
});

fn shared(name: &str) -> Arc<str> {
    match USUAL.binary_search_by(|usual| (**usual).cmp(name)) {
        Ok(at) => USUAL[at].clone(),
        Err(_) => Arc::from(name),
    }
}

impl Resources {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn get(&self, name: &str) -> Quantity {
        self.0.get(name).copied().unwrap_or(Quantity::ZERO)
    }

    /// What a NodePool's limit of this name counts of a capacity.
    pub fn counted(&self, limit: &str) -> Quantity {
        match limit {
            GPU => GPUS.iter().fold(self.get(GPU), |sum, vendor| sum + self.get(vendor)),
            name => self.get(name),
        }
    }

    pub fn set(&mut self, name: &str, quantity: Quantity) {
        match self.0.get_mut(name) {
            Some(held) => *held = quantity,
            None => {
                self.0.insert(shared(name), quantity);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, quantity)| (&**name, *quantity))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            match self.0.get_mut(name) {
                Some(mine) => *mine += *quantity,
                None => {
                    self.0.insert(name.clone(), *quantity);
                }
            }
        }
    }

    /// Over this list's resources only: what only `other` names is ignored.
    pub fn minus(&self, other: &Self) -> Self {
        Self(self.0.iter().map(|(name, quantity)| (name.clone(), *quantity - other.get(name))).collect())
    }

    /// Whether `self` can be taken out of `available`: nothing available is negative, not even what nobody asks for,
    /// and each request is covered, a missing resource counting as zero.
    pub fn fits(&self, available: &Self) -> bool {
        available.iter().all(|(_, quantity)| !quantity.is_negative())
            && self.iter().all(|(name, quantity)| quantity <= available.get(name))
    }

    /// Element-wise maximum; a resource present in either is present.
    pub fn max(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            let larger = self.0.get(name).map_or(*quantity, |mine| (*mine).max(*quantity));
            self.0.insert(name.clone(), larger);
        }
    }

    /// Element-wise minimum; only resources present in both remain.
    pub fn min(&self, other: &Self) -> Self {
        let both = self.0.iter().filter_map(|(name, mine)| Some((name.clone(), (*mine).min(*other.0.get(name)?))));
        Self(both.collect())
    }

    pub fn without_zeros(&self) -> Self {
        Self(self.0.iter().filter(|(_, quantity)| !quantity.is_zero()).map(|(n, q)| (n.clone(), *q)).collect())
    }
}

impl<'a> FromIterator<(&'a str, Quantity)> for Resources {
    fn from_iter<I: IntoIterator<Item = (&'a str, Quantity)>>(items: I) -> Self {
        Self(items.into_iter().map(|(name, quantity)| (shared(name), quantity)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[(&str, &str)]) -> Resources {
        items.iter().map(|(name, text)| (*name, text.parse().unwrap())).collect()
    }

    #[test]
    fn fitting_looks_at_every_available_quantity() {
        // covers: SCH-RES-11
        for (requests, available, want) in [
            (list(&[("cpu", "1")]), list(&[("cpu", "1")]), true),
            (list(&[("cpu", "1001m")]), list(&[("cpu", "1")]), false),
            (list(&[("cpu", "1")]), list(&[]), false),
            (list(&[("gpu", "0")]), list(&[("cpu", "1")]), true),
            (list(&[]), list(&[("memory", "-1")]), false),
            (list(&[("cpu", "1")]), list(&[("cpu", "1"), ("memory", "-1")]), false),
        ] {
            assert_eq!(requests.fits(&available), want, "{requests:?} in {available:?}");
        }
    }

    #[test]
    fn subtraction_keeps_the_left_hand_side_only() {
        // covers: SCH-RES-12
        let left = list(&[("cpu", "3"), ("memory", "1Gi")]);
        assert_eq!(left.minus(&list(&[("cpu", "1"), ("gpu", "4")])), list(&[("cpu", "2"), ("memory", "1Gi")]));
    }

    #[test]
    fn a_limit_on_gpus_counts_those_of_every_vendor() {
        // covers: EXT-07
        let capacity = list(&[("cpu", "8"), ("nvidia.com/gpu", "4"), ("amd.com/gpu", "1")]);
        assert_eq!(capacity.counted("gpu"), Quantity::from_units(5));
        assert_eq!(capacity.counted("nvidia.com/gpu"), Quantity::from_units(4));
        assert_eq!(list(&[("cpu", "8")]).counted("gpu"), Quantity::ZERO);
    }

    #[test]
    fn maximum_keeps_any_and_minimum_keeps_all() {
        // covers: SCH-RES-18
        let (a, b) = (list(&[("cpu", "1"), ("memory", "2Gi")]), list(&[("cpu", "2"), ("gpu", "1")]));
        let mut larger = a.clone();
        larger.max(&b);
        assert_eq!(larger, list(&[("cpu", "2"), ("memory", "2Gi"), ("gpu", "1")]));
        assert_eq!(a.min(&b), list(&[("cpu", "1")]));
    }
}
