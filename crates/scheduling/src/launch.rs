//! What a launch of a claim is expected to get: the provider's filters, then the cheapest.

use std::sync::Arc;

use karpenter_core::labels::{CAPACITY_TYPES, ON_DEMAND, SPOT};
use karpenter_core::plan::Launch;
use karpenter_core::{InstanceType, MicroUsd};

use crate::problem::Problem;
use crate::terms::SetId;

/// A launch hands the cloud this many types.
const HANDED_OVER: usize = 60;
/// A claim lists at most this many.
pub(crate) const LISTED: usize = 600;

const INSTANCE_SIZE: &str = "karpenter.k8s.aws/instance-size";
const ACCELERATORS: [&str; 5] =
    ["aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "amd.com/gpu", "nvidia.com/gpu", "habana.ai/gaudi"];

/// Bare metal and accelerators are launched only where nothing else is left.
pub(crate) fn is_exotic(kind: &InstanceType) -> bool {
    kind.requirements.get(INSTANCE_SIZE).values.iter().any(|size| size.contains("metal"))
        || ACCELERATORS.iter().any(|resource| !kind.capacity.get(resource).is_zero())
}

impl Problem<'_> {
    /// What a claim with this set and these types, cheapest first, would become.
    pub(crate) fn launch(&mut self, catalog: usize, set: SetId, types: &[usize]) -> Option<Launch> {
        let usable = self.catalogs[catalog].usable(set, &mut self.terms);
        let of = &self.catalogs[catalog];
        let flexible = self.terms.entries(set).iter().any(|(_, req)| self.terms.requirement(*req).min_values.is_some());
        let only_exotic = flexible || types.iter().all(|kind| of.exotic.contains(*kind));
        let candidates = || types.iter().copied().filter(|kind| only_exotic || !of.exotic.contains(*kind));
        let sold_as = |capacity_type: &'static str| {
            let profiles = usable.profiles.iter().copied();
            profiles.filter(move |at| of.profiles[*at].capacity_type.as_deref() == Some(capacity_type))
        };
        // Spot dearer than the cheapest on-demand is no bargain.
        let mut ceiling = MicroUsd::UNKNOWN;
        if !flexible {
            for at in sold_as(ON_DEMAND) {
                let prices = &of.profiles[at].prices;
                ceiling = candidates().map(|kind| prices[kind]).fold(ceiling, MicroUsd::min);
            }
        }
        for capacity_type in CAPACITY_TYPES {
            let most = if capacity_type == SPOT { ceiling } else { MicroUsd::UNKNOWN };
            let mut best: Option<(MicroUsd, u32, Option<&Arc<str>>, usize)> = None;
            for at in sold_as(capacity_type) {
                let profile = &of.profiles[at];
                for kind in candidates().take(HANDED_OVER).filter(|kind| profile.available.contains(*kind)) {
                    let offer = (profile.prices[kind], of.name_rank[kind], profile.zone.as_ref(), kind);
                    if offer.0 <= most && best.is_none_or(|best| offer < best) {
                        best = Some(offer);
                    }
                }
            }
            if let Some((price, _, zone, kind)) = best {
                let (instance_type, zone) = (of.types[kind].name.clone(), zone?.clone());
                return Some(Launch { instance_type, zone, capacity_type: capacity_type.into(), price });
            }
        }
        None
    }
}
