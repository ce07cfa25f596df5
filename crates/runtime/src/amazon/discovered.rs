//! What the log says of a node class: what its selectors came to, when that changes.

use std::collections::BTreeSet;

use karpenter_api::ec2nodeclass::EC2NodeClassStatus;

/// Compares what a class resolved to with what it resolved to before.
pub(super) fn tell(name: &str, before: Option<&EC2NodeClassStatus>, now: Option<&EC2NodeClassStatus>) {
    let nothing = EC2NodeClassStatus::default();
    let (before, now) = (before.unwrap_or(&nothing), now.unwrap_or(&nothing));
    if let Some(ids) = news(ids(&before.amis, |ami| &ami.id), ids(&now.amis, |ami| &ami.id)) {
        tracing::debug!(nodeclass = name, ids, "discovered amis");
    }
    if let Some(subnets) = news(ids(&before.subnets, |subnet| &subnet.id), ids(&now.subnets, |subnet| &subnet.id)) {
        tracing::debug!(nodeclass = name, subnets, "discovered subnets");
    }
    let of = |status: &EC2NodeClassStatus| ids(&status.security_groups, |group| &group.id);
    if let Some(security_groups) = news(of(before), of(now)) {
        tracing::debug!(nodeclass = name, security_groups, "discovered security groups");
    }
    let of = |status: &EC2NodeClassStatus| ids(&status.capacity_reservations, |reservation| &reservation.id);
    if let Some(ids) = news(of(before), of(now)) {
        tracing::debug!(nodeclass = name, ids, "discovered capacity reservations");
    }
}

/// The order says how much is free, and changes with every launch.
fn ids<T>(all: &Option<Vec<T>>, id: impl Fn(&T) -> &String) -> BTreeSet<String> {
    all.iter().flatten().map(|one| id(one).clone()).collect()
}

fn news(before: BTreeSet<String>, now: BTreeSet<String>) -> Option<String> {
    (before != now).then(|| now.into_iter().collect::<Vec<_>>().join(", "))
}
