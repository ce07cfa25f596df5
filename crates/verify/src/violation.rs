//! What can be wrong with a plan, as data.

use std::fmt;

use karpenter_core::MicroUsd;

/// One rule that a plan breaks. Pods are `namespace/name`, nodes their name, new ones `new-<position>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    // The plan as a list.
    UnknownPosition { place: String, position: usize },
    Lost { pod: String },
    ListedTwice { pod: String, places: Vec<String> },
    NotWaiting { pod: String, place: String },
    PlacedThoughInvalid { pod: String, place: String, why: String },
    IgnoredThoughValid { pod: String },
    // One pod on one node.
    Untolerated { pod: String, node: String, taint: String },
    NotSelected { pod: String, node: String, as_it_may_be: String },
    VolumeOutOfReach { pod: String, claim: String, node: String, as_it_may_be: String },
    // One node.
    OnDeletingNode { node: String },
    Overfull { node: String, as_it_may_be: String, resource: String, wanted: i128, allocatable: i128 },
    PortClash { node: String, pod: String, other: String },
    TooManyVolumes { node: String, driver: String, attached: usize, limit: u32 },
    // One new node.
    NoPods { node: String },
    NoTypes { node: String },
    TooManyTypes { node: String, count: usize },
    TypeTwice { node: String, instance_type: String },
    TypesUnsorted { node: String, dearer: String, cheaper: String },
    NotForSale { node: String, instance_type: String },
    CapacityTypesNotRequired { node: String },
    PoolNotMet { node: String, as_it_may_be: String, key: String },
    TemplateLabelLost { node: String, key: String },
    LabelNotRequired { node: String, key: String },
    InventedLabel { node: String, key: String },
    RequestsWrong { node: String, resource: String },
    MinValuesUnmet { node: String, key: String, values: usize, wanted: u32 },
    MinValuesRelaxation { node: String, said: bool },
    Launch { node: String, said: String, expected: String },
    Price { node: String, said: MicroUsd, costs: MicroUsd },
    // Reservations.
    ReservationNotThere { node: String, reservation: String },
    ReservationOverdrawn { reservation: String, held: usize, remaining: u32 },
    ReservationNotHeld { node: String },
    ReservationNotRequired { node: String },
    // Several nodes.
    NoDomain { pod: String, node: String, key: String },
    Undecided { pod: String, node: String, key: String, domains: Vec<String> },
    Skew { pod: String, key: String, domain: String, count: i64, least: i64, max_skew: i32 },
    NoCompany { pod: String, node: String, key: String, company_in: Vec<String> },
    UnwantedCompany { owner: String, other: String, key: String, domain: String },
    // One pool.
    Limit { pool: String, resource: String, used: i128, limit: i128 },
    LighterPool { node: String, pool: String, heavier: String },
    // Pods that were left.
    LeftOver { pod: String, fits: String },
}

/// Quantities are kept in nanos; people read units.
struct Units(i128);

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000_000, (self.0 % 1_000_000_000).abs());
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{rest:09}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPosition { place, position } => write!(f, "{place}: there is no number {position}"),
            Self::Lost { pod } => write!(f, "{pod} is waiting for a node and is in no list"),
            Self::ListedTwice { pod, places } => write!(f, "{pod} is listed twice: {}", places.join(", ")),
            Self::NotWaiting { pod, place } => write!(f, "{pod} is not waiting for a node but listed under {place}"),
            Self::PlacedThoughInvalid { pod, place, why } => {
                write!(f, "{pod} is placed on {place} but must not be scheduled: {why}")
            }
            Self::IgnoredThoughValid { pod } => write!(f, "{pod} is ignored as invalid, but it is valid"),
            Self::Untolerated { pod, node, taint } => write!(f, "{pod} does not tolerate {taint} of {node}"),
            Self::NotSelected { pod, node, as_it_may_be } => {
                write!(f, "{pod} does not select {node} as {as_it_may_be}")
            }
            Self::VolumeOutOfReach { pod, claim, node, as_it_may_be } => {
                write!(f, "{pod}: the volume of {claim} cannot be reached from {node} as {as_it_may_be}")
            }
            Self::OnDeletingNode { node } => write!(f, "{node} is going away and no target"),
            Self::Overfull { node, as_it_may_be, resource, wanted, allocatable } => write!(
                f,
                "{node} as {as_it_may_be}: {} {resource} wanted, {} allocatable",
                Units(*wanted),
                Units(*allocatable)
            ),
            Self::PortClash { node, pod, other } => write!(f, "{pod} and {other} want the same host port of {node}"),
            Self::TooManyVolumes { node, driver, attached, limit } => {
                write!(f, "{node}: {attached} volumes of {driver}, the limit is {limit}")
            }
            Self::NoPods { node } => write!(f, "{node} is for no pod"),
            Self::NoTypes { node } => write!(f, "{node} lists no instance type"),
            Self::TooManyTypes { node, count } => write!(f, "{node} lists {count} instance types, the most is 600"),
            Self::TypeTwice { node, instance_type } => write!(f, "{node} lists {instance_type} twice"),
            Self::TypesUnsorted { node, dearer, cheaper } => {
                write!(f, "{node} lists {dearer} before {cheaper}, which is cheaper")
            }
            Self::NotForSale { node, instance_type } => {
                write!(f, "{node}: no available offering of {instance_type} meets the claim's requirements")
            }
            Self::CapacityTypesNotRequired { node } => {
                write!(f, "{node}: the requirement on the capacity type is not what its offerings have")
            }
            Self::PoolNotMet { node, as_it_may_be, key } => {
                write!(f, "{node} as {as_it_may_be} does not meet its pool's requirement on {key}")
            }
            Self::TemplateLabelLost { node, key } => write!(f, "{node}: the pool's label {key} is missing or changed"),
            Self::LabelNotRequired { node, key } => {
                write!(f, "{node}: its label {key} is not what its own requirement asks for")
            }
            Self::InventedLabel { node, key } => write!(f, "{node}: neither pool nor pods give it a label {key}"),
            Self::RequestsWrong { node, resource } => {
                write!(f, "{node}: the requested {resource} is not that of its pods and daemons")
            }
            Self::MinValuesUnmet { node, key, values, wanted } => {
                write!(f, "{node}: {values} values of {key}, minValues is {wanted}")
            }
            Self::MinValuesRelaxation { node, said } => {
                write!(f, "{node}: says minValues relaxed: {said}, which is not so")
            }
            Self::Launch { node, said, expected } => write!(f, "{node} would launch {expected}, not {said}"),
            Self::Price { node, said, costs } => write!(f, "{node} costs {costs}, not {said}"),
            Self::ReservationNotThere { node, reservation } => {
                write!(f, "{node} holds {reservation}, into which it cannot launch")
            }
            Self::ReservationOverdrawn { reservation, held, remaining } => {
                write!(f, "{held} nodes hold {reservation}, which has {remaining} left")
            }
            Self::ReservationNotHeld { node } => write!(f, "{node} may launch into a reservation but holds none"),
            Self::ReservationNotRequired { node } => {
                write!(f, "{node}: its requirements do not name the reservations it holds")
            }
            Self::NoDomain { pod, node, key } => write!(f, "{pod} is bound to {key}, which {node} does not have"),
            Self::Undecided { pod, node, key, domains } => {
                write!(f, "{pod} depends on {key} of {node}, which may still be any of {}", domains.join(", "))
            }
            Self::Skew { pod, key, domain, count, least, max_skew } => {
                write!(f, "pods like {pod}: {count} in {key} {domain}, {least} elsewhere, maxSkew is {max_skew}")
            }
            Self::NoCompany { pod, node, key, company_in } => write!(
                f,
                "{pod} on {node}: no pod it must join in that {key}; there are in [{}]",
                company_in.join(", ")
            ),
            Self::UnwantedCompany { owner, other, key, domain } => {
                write!(f, "{owner} must not share a {key} with {other}, both may be in {domain}")
            }
            Self::Limit { pool, resource, used, limit } => {
                write!(f, "pool {pool} may reach {} {resource}, its limit is {}", Units(*used), Units(*limit))
            }
            Self::LighterPool { node, pool, heavier } => {
                write!(f, "{node} comes from pool {pool}, but {heavier} is heavier and could serve its pods")
            }
            Self::LeftOver { pod, fits } => write!(f, "{pod} is left over although it fits {fits}"),
        }
    }
}
