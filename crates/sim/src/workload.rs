//! Who lives in the cluster: deployments of many shapes, some spread over zones, some with a budget.

use karpenter_aws_sim::chance::{between, draw, share};
use serde_json::{Value, json};

use crate::audit::budgets::APP;

pub(crate) const NAMESPACE: &str = "default";
/// CPU and memory of a pod.
const SHAPES: [(&str, &str); 6] =
    [("100m", "256Mi"), ("250m", "256Mi"), ("500m", "2Gi"), ("1", "1Gi"), ("1", "4Gi"), ("2", "4Gi")];
/// Pods that fill a machine each: several at once are several machines of one kind, bought together.
const LARGE: (&str, &str) = ("7", "12Gi");
/// One deployment in so many has large pods, is spread over zones, or has a budget.
const LARGE_ONES: u64 = 25;
const SPREAD: u64 = 5;
const BUDGETED: u64 = 3;
/// At most so many replicas.
const MOST: u64 = 8;

/// A deployment and what belongs to it, from a seed and its number.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) name: String,
    seed: u64,
}

impl Tenant {
    pub(crate) fn new(seed: u64, number: usize) -> Self {
        Self { name: format!("tenant-{number:03}"), seed }
    }

    /// How many replicas it wants from its `nth` scaling on: more by day than by night, and now and then none.
    pub(crate) fn replicas(&self, nth: usize, quarter: usize) -> u64 {
        let word = nth.to_string();
        if share(self.seed, &["off", &self.name, &word]) < 0.1 {
            return 0;
        }
        let most = if quarter == 0 { MOST / 2 } else { MOST };
        between(self.seed, &["replicas", &self.name, &word], 1, most)
    }

    pub(crate) fn deployment(&self, replicas: u64) -> Value {
        let name = &self.name;
        let large = draw(self.seed, &["large", name]).is_multiple_of(LARGE_ONES);
        let drawn = SHAPES[(draw(self.seed, &["shape", name]) % SHAPES.len() as u64) as usize];
        let (cpu, memory) = if large { LARGE } else { drawn };
        let mut spec = json!({
            "terminationGracePeriodSeconds": 10,
            "containers": [{"name": "main", "image": "example.com/tenant:1",
                "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        });
        if draw(self.seed, &["spread", name]).is_multiple_of(SPREAD) {
            spec["topologySpreadConstraints"] = json!([{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {APP: name}}}]);
        }
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {APP: name}},
                "template": {"metadata": {"labels": {APP: name}}, "spec": spec}}})
    }

    /// Some want one or two of them up whatever happens.
    pub(crate) fn budget(&self) -> Option<Value> {
        let name = &self.name;
        let drawn = draw(self.seed, &["budget", name]);
        let least = 1 + drawn / BUDGETED % 2;
        drawn.is_multiple_of(BUDGETED).then(|| {
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"minAvailable": least, "selector": {"matchLabels": {APP: name}}}})
        })
    }
}

/// What may be bought: ordinary machines of any kind of capacity, for a day each.
pub(crate) fn pool() -> Value {
    let within =
        |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    within("karpenter.sh/capacity-type", "In", &["spot", "on-demand", "reserved"]),
                    within("karpenter.k8s.aws/instance-category", "In", &["c", "m", "r"]),
                    within("karpenter.k8s.aws/instance-generation", "Gt", &["4"]),
                    within("karpenter.k8s.aws/instance-cpu", "Lt", &["17"]),
                    within("kubernetes.io/arch", "In", &["amd64"]),
                ],
                "expireAfter": "24h"}},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m",
                "budgets": [{"nodes": "100%"}]}}})
}

pub(crate) fn node_class() -> Value {
    let ours = json!([{"tags": {"karpenter.sh/discovery": "simulated"}}]);
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"role": "KarpenterNodeRole-simulated", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": ours, "securityGroupSelectorTerms": ours,
            "capacityReservationSelectorTerms": ours}})
}
