//! What the cloud would be expected to start for a claim.

use karpenter_core::labels::{CAPACITY_TYPE, CAPACITY_TYPES, ON_DEMAND, SPOT, ZONE};
use karpenter_core::{InstanceType, MicroUsd, Offering};

use crate::claim::{Claim, offerings};
use crate::labels::admits;
use crate::violation::Violation;

/// A launch names at most this many types to the cloud.
const NAMED: usize = 60;
/// Resources that make a type too special to be taken unasked.
const ACCELERATORS: [&str; 5] =
    ["aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "amd.com/gpu", "nvidia.com/gpu", "habana.ai/gaudi"];
const INSTANCE_SIZE: &str = "karpenter.k8s.aws/instance-size";

type OnSale<'w> = (&'w InstanceType, Vec<&'w Offering>);

pub(crate) fn judge(claim: &Claim<'_>, found: &mut Vec<Violation>) {
    let Some((kind, offering)) = expected(claim) else { return };
    let launch = &claim.node.launch;
    let (zone, capacity_type) = (value(offering, ZONE), value(offering, CAPACITY_TYPE));
    let said = (&*launch.instance_type, &*launch.zone, &*launch.capacity_type);
    if said != (&*kind.name, zone, capacity_type) {
        found.push(Violation::Launch {
            node: claim.name.clone(),
            said: format!("{} {} {}", said.0, said.1, said.2),
            expected: format!("{} {zone} {capacity_type}", kind.name),
        });
    } else if launch.price != offering.price {
        let (said, costs) = (launch.price, offering.price);
        found.push(Violation::Price { node: claim.name.clone(), said, costs });
    }
}

fn value<'o>(offering: &'o Offering, key: &str) -> &'o str {
    let declared = offering.requirements.0.get(key);
    declared.and_then(|declared| declared.values.first()).map_or("", |value| &**value)
}

pub(crate) fn cheapest(offerings: &[&Offering]) -> MicroUsd {
    offerings.iter().map(|o| o.price).min().unwrap_or(MicroUsd::UNKNOWN)
}

/// Special types and dear spot offerings are struck out, unless minValues counts on them; of the cheapest types that
/// are left the best capacity type is taken, then the lowest price, type name and zone.
fn expected<'w>(claim: &Claim<'w>) -> Option<(&'w InstanceType, &'w Offering)> {
    let requirements = &claim.node.requirements;
    let sold = claim.types().map(|kind| (kind, offerings(kind, requirements)));
    let mut left: Vec<OnSale<'w>> = sold.filter(|(_, offerings)| !offerings.is_empty()).collect();
    let flexible = requirements.0.values().any(|requirement| requirement.min_values.is_some());
    if !flexible {
        if left.iter().any(|(kind, _)| !is_special(kind)) {
            left.retain(|(kind, _)| !is_special(kind));
        }
        let admitted = |capacity_type| {
            let asked = requirements.0.get(CAPACITY_TYPE);
            asked.is_none_or(|asked| admits(asked, Some(capacity_type)))
        };
        if admitted(SPOT) && admitted(ON_DEMAND) {
            strike_dear_spot(&mut left);
        }
    }
    left.sort_by(|(a, mine), (b, theirs)| cheapest(mine).cmp(&cheapest(theirs)).then_with(|| a.name.cmp(&b.name)));
    left.truncate(NAMED);
    let rank = |offering: &Offering| {
        let capacity_type = value(offering, CAPACITY_TYPE);
        CAPACITY_TYPES.iter().position(|known| *known == capacity_type)
    };
    let options = left.iter().flat_map(|(kind, offerings)| offerings.iter().map(|o| (*kind, *o)));
    options
        .filter(|(_, offering)| rank(offering).is_some())
        .min_by_key(|(kind, offering)| (rank(offering), offering.price, kind.name.clone(), value(offering, ZONE)))
}

fn strike_dear_spot(left: &mut Vec<OnSale<'_>>) {
    let on_demand = left.iter().flat_map(|(_, offerings)| offerings).filter(|o| value(o, CAPACITY_TYPE) == ON_DEMAND);
    let Some(bound) = on_demand.map(|o| o.price).min() else { return };
    for (_, offerings) in left.iter_mut() {
        offerings.retain(|o| value(o, CAPACITY_TYPE) != SPOT || o.price <= bound);
    }
    left.retain(|(_, offerings)| !offerings.is_empty());
}

fn is_special(kind: &InstanceType) -> bool {
    let size = kind.requirements.0.get(INSTANCE_SIZE);
    let metal = size.is_some_and(|size| !size.open && size.values.iter().any(|v| v.contains("metal")));
    let has = |name: &&str| kind.capacity.0.get(name).is_some_and(|quantity| quantity.nanos() != 0);
    metal || ACCELERATORS.iter().any(has)
}
