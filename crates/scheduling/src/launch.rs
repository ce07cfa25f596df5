//! What a launch of a claim is expected to get: the provider's filters, then the cheapest.

use karpenter_core::labels::{CAPACITY_TYPES, ON_DEMAND, SPOT};
use karpenter_core::plan::Launch;
use karpenter_core::{InstanceType, MicroUsd};

use crate::bits::Bits;
use crate::problem::Problem;
use crate::terms::SetId;

/// A launch hands the cloud this many types.
const HANDED_OVER: usize = 60;
/// A claim lists at most this many.
pub(crate) const LISTED: usize = 600;

const INSTANCE_SIZE: &str = "karpenter.k8s.aws/instance-size";
const ACCELERATORS: [&str; 5] = [
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "amd.com/gpu",
    "nvidia.com/gpu",
    "habana.ai/gaudi",
];

/// Bare metal and accelerators are launched only where nothing else is left.
pub(crate) fn is_exotic(kind: &InstanceType) -> bool {
    kind.requirements
        .get(INSTANCE_SIZE)
        .values
        .iter()
        .any(|size| size.contains("metal"))
        || ACCELERATORS
            .iter()
            .any(|resource| !kind.capacity.get(resource).is_zero())
}

impl Problem<'_> {
    /// Types by the cheapest offering the set allows, equal prices by name.
    pub(crate) fn by_price(&mut self, catalog: usize, set: SetId, types: &Bits) -> Vec<(MicroUsd, usize)> {
        let usable = self.catalogs[catalog].usable(set, &mut self.terms);
        let of = &self.catalogs[catalog];
        let mut priced: Vec<(MicroUsd, usize)> = types
            .iter()
            .map(|kind| (of.cheapest(kind, &usable.profiles), kind))
            .collect();
        priced.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| of.types[a.1].name.cmp(&of.types[b.1].name)));
        priced
    }

    /// What a claim with this set and these types, cheapest first, would become.
    pub(crate) fn launch(&mut self, catalog: usize, set: SetId, types: &[usize]) -> Option<Launch> {
        let usable = self.catalogs[catalog].usable(set, &mut self.terms);
        let of = &self.catalogs[catalog];
        let flexible = self
            .terms
            .entries(set)
            .iter()
            .any(|(_, req)| self.terms.requirement(*req).min_values.is_some());
        let mut types: Vec<usize> = types.to_vec();
        if !flexible {
            let plain: Vec<usize> = types
                .iter()
                .copied()
                .filter(|kind| !is_exotic(&of.types[*kind]))
                .collect();
            if !plain.is_empty() {
                types = plain;
            }
        }
        let offers = |capacity_type: &str, types: &[usize]| {
            let mut found: Vec<(MicroUsd, usize, usize)> = Vec::new();
            for at in &usable.profiles {
                let profile = &of.profiles[*at];
                if profile.capacity_type.as_deref() == Some(capacity_type) {
                    let sold = types.iter().filter(|kind| profile.available.contains(**kind));
                    found.extend(sold.map(|kind| (profile.prices[*kind], *kind, *at)));
                }
            }
            found
        };
        // Spot dearer than the cheapest on-demand is no bargain.
        let ceiling = match flexible {
            true => None,
            false => offers(ON_DEMAND, &types).into_iter().map(|(price, _, _)| price).min(),
        };
        let worth = |(price, kind, at): &(MicroUsd, usize, usize)| {
            let _ = kind;
            of.profiles[*at].capacity_type.as_deref() != Some(SPOT) || ceiling.is_none_or(|most| *price <= most)
        };
        types.truncate(HANDED_OVER);
        for capacity_type in CAPACITY_TYPES {
            let best = offers(capacity_type, &types).into_iter().filter(worth).min_by(|a, b| {
                let key = |offer: &(MicroUsd, usize, usize)| {
                    (
                        offer.0,
                        of.types[offer.1].name.clone(),
                        of.profiles[offer.2].zone.clone(),
                    )
                };
                key(a).cmp(&key(b))
            });
            if let Some((price, kind, at)) = best {
                let zone = of.profiles[at].zone.clone()?;
                let instance_type = of.types[kind].name.clone();
                return Some(Launch {
                    instance_type,
                    zone,
                    capacity_type: capacity_type.into(),
                    price,
                });
            }
        }
        None
    }
}
