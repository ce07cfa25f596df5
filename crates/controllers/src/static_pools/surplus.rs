//! Which nodes of a static pool go first: those that cost nobody anything.

use std::cmp::Ordering;

use jiff::Timestamp;
use karpenter_api::NodeClaim;
use karpenter_disruption::cost;
use karpenter_index::TrackedPod;

use crate::clock::until;
use crate::context::Context;
use crate::ownership::claim_provider_id;
use crate::pods::PodFacts;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) uid: String,
    rank: Rank,
    /// What evicting its pods costs, less the nearer its own end is.
    cost: f64,
}

/// The first go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It has no machine yet.
    Unlaunched,
    /// Nothing runs on it but daemons that nobody protects.
    Empty,
    Free,
    /// Some pod on it is not to be disrupted.
    Protected,
}

impl Member {
    pub(super) fn of(claim: &NodeClaim, context: &Context) -> Self {
        let nodes = claim_provider_id(claim).map(|id| context.index.nodes_of(id)).unwrap_or_default();
        let names = nodes.iter().filter_map(|node| node.metadata.name.as_deref());
        let pods: Vec<_> = names.flat_map(|name| context.index.pods_on(name)).collect();
        let pods: Vec<&TrackedPod> = pods.iter().map(|pod| &**pod).filter(|pod| !pod.pod.is_terminal()).collect();
        Self::with(claim, &pods, context.clock.now())
    }

    fn with(claim: &NodeClaim, pods: &[&TrackedPod], now: Timestamp) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let protected = pods.iter().map(|pod| PodFacts::of(pod)).any(|pod| !pod.is_disruptable(now));
        let rank = match (claim_provider_id(claim), pods.iter().all(|pod| pod.pod.is_daemon()), protected) {
            (None, _, _) => Rank::Unlaunched,
            (Some(_), true, false) => Rank::Empty,
            (Some(_), false, false) => Rank::Free,
            (Some(_), _, true) => Rank::Protected,
        };
        let evictions: f64 = pods.iter().map(|pod| cost::eviction(&pod.pod)).sum();
        let cost = evictions * lifetime_left(claim, now);
        Self { name: text(&claim.metadata.name), uid: text(&claim.metadata.uid), rank, cost }
    }
}

/// The part of its life that a claim has before it; all of it where it never expires.
fn lifetime_left(claim: &NodeClaim, now: Timestamp) -> f64 {
    let (Some(life), Some(created)) = (claim.spec.expire_after.duration(), &claim.metadata.creation_timestamp) else {
        return 1.0;
    };
    let (life, age) = (life.to_std().as_secs_f64(), until(created.0, now).as_secs_f64());
    if life > 0.0 { ((life - age) / life).clamp(0.0, 1.0) } else { 0.0 }
}

/// So many, of those that go first; equal ones by name.
pub(super) fn first(mut members: Vec<Member>, count: usize) -> Vec<Member> {
    members.sort_by(|a, b| {
        let cost = match a.rank {
            Rank::Unlaunched | Rank::Empty => Ordering::Equal,
            Rank::Free | Rank::Protected => a.cost.total_cmp(&b.cost),
        };
        a.rank.cmp(&b.rank).then(cost).then_with(|| a.name.cmp(&b.name))
    });
    members.truncate(count);
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_index::{Interner, reduce};
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn claim(name: &str, launched: bool, expires: &str) -> NodeClaim {
        let id = if launched { format!("aws:///{name}") } else { String::new() };
        let class = json!({"group": "g", "kind": "K", "name": "n"});
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": at(0).to_string()},
            "spec": {"nodeClassRef": class, "requirements": [], "expireAfter": expires}, "status": {"providerID": id}}))
        .unwrap()
    }

    fn pod(owner: Option<&str>, metadata: Value, priority: i64) -> TrackedPod {
        let owners = owner.map(|kind| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o"}]));
        let mut pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u", "ownerReferences": owners},
            "spec": {"nodeName": "x", "containers": [], "priority": priority}, "status": {"phase": "Running"}});
        pod["metadata"]["annotations"] = metadata;
        reduce::tracked_pod(&serde_json::from_value(pod).unwrap(), &mut Interner::default()).unwrap()
    }

    #[test]
    fn those_go_first_that_cost_nobody_anything() {
        // covers: STATIC-09, DIS-CAND-11
        let protected = || json!({"karpenter.sh/do-not-disrupt": "true"});
        let (plain, daemon) = (pod(None, json!({}), 0), pod(Some("DaemonSet"), json!({}), 0));
        let (dear, held) = (pod(None, json!({}), 1 << 25), pod(None, protected(), 0));
        let held_daemon = pod(Some("DaemonSet"), protected(), 0);
        let member = |name: &str, launched: bool, expires: &str, pods: &[&TrackedPod]| {
            Member::with(&claim(name, launched, expires), pods, at(3_600))
        };
        let all = vec![
            member("m-held-by-two", true, "Never", &[&held, &plain]),
            member("l-held", true, "Never", &[&held]),
            member("k-held-daemon", true, "4h", &[&held_daemon]),
            member("j-dear", true, "Never", &[&dear]),
            member("i-plain", true, "Never", &[&plain]),
            // Twice the trouble, of which its end is to come soon anyway.
            member("h-old", true, "80m", &[&plain, &plain]),
            member("b-daemons", true, "Never", &[&daemon, &daemon]),
            member("c-empty", true, "Never", &[]),
            member("z-unlaunched", false, "Never", &[]),
        ];
        let names = |count| first(all.clone(), count).into_iter().map(|one| one.name).collect::<Vec<_>>();
        let want = [
            "z-unlaunched",
            "b-daemons",
            "c-empty",
            "h-old",
            "i-plain",
            "j-dear",
            "k-held-daemon",
            "l-held",
            "m-held-by-two",
        ];
        assert_eq!(names(9), want);
        assert_eq!(names(2), want[..2]);
    }
}
