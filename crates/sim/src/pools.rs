//! What may be bought: NodePools of every policy, the node classes they buy from, and what changes about them during a week.

use karpenter_aws_sim::chance::between;
use serde_json::{Value, json};

/// The label of nodes that says which pool they are of, for tenants that want one.
pub(crate) const TIER: &str = "example.com/tier";
/// Pools that tenants may ask for.
pub(crate) const TIERS: [&str; 4] = ["underutilized", "balanced", "empty", "bounded"];
pub(crate) const STATIC: &str = "static";
/// Nodes of the static pool, and how many it may have while some are replaced.
pub(crate) const REPLICAS: u64 = 4;
pub(crate) const MOST_REPLICAS: u64 = 6;

const CLASSES: [&str; 2] = ["default", "other"];
const OVERLAY: &str = "negotiated";
pub(crate) const POOLS_PATH: &str = "/apis/karpenter.sh/v1/nodepools";
pub(crate) const CLASSES_PATH: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
pub(crate) const OVERLAYS_PATH: &str = "/apis/karpenter.sh/v1alpha1/nodeoverlays";

/// Every pool there is.
pub(crate) fn pools() -> Vec<Value> {
    let any = ["spot", "on-demand"];
    // Whoever says nothing about budgets gets those of ten per cent.
    let underutilized = json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s"});
    let balanced = json!({"consolidationPolicy": "Balanced", "consolidateAfter": "1m", "budgets": [
        {"nodes": "20%"}, {"nodes": "0", "schedule": "0 9 * * *", "duration": "2h", "reasons": ["Underutilized"]}]});
    let empty = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m", "budgets": [{"nodes": "100%"}]});
    let bounded = json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "2m", "budgets": [
        {"nodes": "30%"}, {"nodes": "2", "reasons": ["Drifted"]},
        {"nodes": "1", "schedule": "@hourly", "duration": "10m"}]});
    let fixed = json!({"budgets": [{"nodes": "1"}]});
    let mut bounded = pool("bounded", "other", &any, "12h", bounded);
    bounded["spec"]["template"]["spec"]["terminationGracePeriod"] = json!("15m");
    let mut fixed = pool(STATIC, "default", &["on-demand"], "24h", fixed);
    fixed["spec"]["replicas"] = json!(REPLICAS);
    fixed["spec"]["limits"] = json!({"nodes": MOST_REPLICAS.to_string()});
    vec![
        pool("underutilized", "default", &any, "Never", underutilized),
        pool("balanced", "other", &["on-demand"], "24h", balanced),
        pool("empty", "default", &["spot", "on-demand", "reserved"], "24h", empty),
        bounded,
        fixed,
    ]
}

fn pool(name: &str, class: &str, capacity: &[&str], expire_after: &str, disruption: Value) -> Value {
    let within =
        |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": {TIER: name}}, "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class},
                "requirements": [
                    within("karpenter.sh/capacity-type", "In", capacity),
                    within("karpenter.k8s.aws/instance-category", "In", &["c", "m", "r"]),
                    within("karpenter.k8s.aws/instance-generation", "Gt", &["4"]),
                    within("karpenter.k8s.aws/instance-cpu", "Lt", &["17"]),
                    within("kubernetes.io/arch", "In", &["amd64"]),
                ],
                "expireAfter": expire_after}},
            "disruption": disruption}})
}

pub(crate) fn node_classes() -> Vec<Value> {
    CLASSES.iter().map(|name| node_class(name)).collect()
}

fn node_class(name: &str) -> Value {
    let ours = json!([{"tags": {"karpenter.sh/discovery": "simulated"}}]);
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name},
        "spec": {"role": "KarpenterNodeRole-simulated", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": ours, "securityGroupSelectorTerms": ours,
            "capacityReservationSelectorTerms": ours}})
}

/// Something that users change during a week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Of a node class: all its nodes drift.
    Class,
    /// Of a pool's template: all its nodes drift.
    Pool,
    /// What instances of some families are taken to cost.
    Price,
}

impl Change {
    pub(crate) const ALL: [(Self, u32); 3] = [(Self::Class, 2), (Self::Pool, 2), (Self::Price, 5)];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Class => "classes changed",
            Self::Pool => "pools changed",
            Self::Price => "prices changed",
        }
    }

    /// The `nth` change of its kind, as a request: method, path, body.
    pub(crate) fn request(self, seed: u64, nth: u32) -> (&'static str, String, Value) {
        match self {
            Self::Class => {
                let class = CLASSES[nth as usize % CLASSES.len()];
                let body = json!({"spec": {"tags": {"release": nth.to_string()}}});
                ("PATCH", format!("{CLASSES_PATH}/{class}"), body)
            }
            Self::Pool => {
                let names = [TIERS[0], TIERS[1], TIERS[2], TIERS[3], STATIC];
                let name = names[nth as usize % names.len()];
                let body = json!({"spec": {"template": {"metadata": {"annotations": {"release": nth.to_string()}}}}});
                ("PATCH", format!("{POOLS_PATH}/{name}"), body)
            }
            Self::Price => {
                let percent = between(seed, &["price", &nth.to_string()], 0, 80) as i64 - 40;
                let families = [["c5", "m6i"], ["r5", "c6i"], ["m5", "r6i"]][nth as usize % 3];
                let spec = json!({"priceAdjustment": format!("{percent:+}%"), "requirements": [
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": families}]});
                ("PATCH", format!("{OVERLAYS_PATH}/{OVERLAY}"), json!({"spec": spec}))
            }
        }
    }
}

/// Prices as they were negotiated at first.
pub(crate) fn overlay() -> Value {
    json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": OVERLAY},
        "spec": {"priceAdjustment": "-10%", "requirements": [
            {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5", "c5"]}]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: karpenter_api::Object>(objects: Vec<Value>) -> usize {
        let read = objects.into_iter().map(karpenter_api::parse::<T>).collect::<Result<Vec<_>, _>>();
        read.unwrap_or_else(|faults| panic!("{faults:?}")).len()
    }

    #[test]
    fn what_users_write_is_valid() {
        assert_eq!(read::<karpenter_api::NodePool>(pools()), TIERS.len() + 1);
        assert_eq!(read::<karpenter_api::EC2NodeClass>(node_classes()), CLASSES.len());
        let prices = (0..40).map(|nth| {
            let mut overlay = overlay();
            overlay["spec"] = Change::Price.request(1, nth).2["spec"].clone();
            overlay
        });
        assert_eq!(read::<karpenter_api::NodeOverlay>(prices.chain([overlay()]).collect()), 41);
    }
}
