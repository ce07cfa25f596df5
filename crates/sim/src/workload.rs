//! Who lives in the cluster: deployments of many shapes, some spread over zones, some with budgets of every kind, some that are
//! not to be disrupted.

use karpenter_aws_sim::chance::{between, draw, share};
use serde_json::{Value, json};

use crate::audit::budgets::APP;
use crate::pools::{TIER, TIERS};

pub(crate) const NAMESPACE: &str = "default";
/// CPU and memory of a pod.
const SHAPES: [(&str, &str); 6] =
    [("100m", "256Mi"), ("250m", "256Mi"), ("500m", "2Gi"), ("1", "1Gi"), ("1", "4Gi"), ("2", "4Gi")];
/// Pods that fill a machine each: several at once are several machines of one kind, bought together.
const LARGE: (&str, &str) = ("7", "12Gi");
/// One deployment in so many has large pods, is spread over zones, or has a budget.
const LARGE_ONES: u64 = 25;
const SPREAD: u64 = 5;
const BUDGETED: u64 = 2;
/// One budget in so many lets no pod go, and one deployment in so many has two budgets, with which no pod may be evicted.
const STRICT: u64 = 20;
const OVERLAPPING: u64 = 40;
/// One deployment in so many is not to be disrupted at all, or for a while after its pods have started.
const PROTECTED: u64 = 30;
const PROTECTED_FOR_A_WHILE: u64 = 10;
const WHILES: [&str; 3] = ["10m", "1h", "3h"];
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
        let (cpu, memory) = match self.is_one_of("large", LARGE_ONES) {
            true => LARGE,
            false => SHAPES[(self.draw("shape") % SHAPES.len() as u64) as usize],
        };
        let mut spec = json!({
            "terminationGracePeriodSeconds": 10,
            "containers": [{"name": "main", "image": "example.com/tenant:1",
                "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        });
        if self.is_one_of("spread", SPREAD) {
            spec["topologySpreadConstraints"] = json!([{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {APP: name}}}]);
        }
        if let Some(tier) = self.tier() {
            spec["nodeSelector"] = json!({TIER: tier});
        }
        let mut metadata = json!({"labels": {APP: name}});
        if let Some(protection) = self.protection() {
            metadata["annotations"] = json!({"karpenter.sh/do-not-disrupt": protection});
        }
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {APP: name}},
                "template": {"metadata": metadata, "spec": spec}}})
    }

    /// Two of three run in one pool only, the others anywhere.
    fn tier(&self) -> Option<&'static str> {
        let drawn = self.draw("tier") as usize;
        (!drawn.is_multiple_of(3)).then(|| TIERS[drawn / 3 % TIERS.len()])
    }

    fn protection(&self) -> Option<&'static str> {
        if self.is_one_of("protected", PROTECTED) {
            return Some("true");
        }
        let drawn = self.draw("protected for a while");
        let length = WHILES[(drawn / PROTECTED_FOR_A_WHILE % WHILES.len() as u64) as usize];
        drawn.is_multiple_of(PROTECTED_FOR_A_WHILE).then_some(length)
    }

    /// Every second one wants some of its pods up whatever happens.
    pub(crate) fn budgets(&self) -> Vec<Value> {
        if !self.is_one_of("budget", BUDGETED) {
            return Vec::new();
        }
        let drawn = self.draw("kind of budget");
        let wants = match drawn % 6 {
            _ if self.is_one_of("strict", STRICT) => json!({"maxUnavailable": 0}),
            0 => json!({"minAvailable": 1}),
            1 => json!({"minAvailable": 2}),
            2 => json!({"minAvailable": "50%"}),
            3 => json!({"maxUnavailable": 1}),
            4 => json!({"maxUnavailable": 2}),
            _ => json!({"maxUnavailable": "25%"}),
        };
        let mut budgets = vec![self.budget(&self.name, wants, drawn / 6)];
        if self.is_one_of("overlapping", OVERLAPPING) {
            budgets.push(self.budget(&format!("{}-too", self.name), json!({"maxUnavailable": "50%"}), drawn));
        }
        budgets
    }

    fn budget(&self, name: &str, mut spec: Value, drawn: u64) -> Value {
        spec["selector"] = json!({"matchLabels": {APP: self.name}});
        match drawn % 3 {
            0 => spec["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow"),
            1 => spec["unhealthyPodEvictionPolicy"] = json!("IfHealthyBudget"),
            _ => {}
        }
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
    }

    fn is_one_of(&self, word: &str, many: u64) -> bool {
        self.draw(word).is_multiple_of(many)
    }

    fn draw(&self, word: &str) -> u64 {
        draw(self.seed, &[word, &self.name])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_tenants_of_every_kind() {
        let tenants: Vec<Tenant> = (0..200).map(|number| Tenant::new(1, number)).collect();
        let budgets: Vec<Value> = tenants.iter().flat_map(Tenant::budgets).collect();
        let wants = |key: &str, value: Value| budgets.iter().any(|budget| budget["spec"][key] == value);
        for value in [json!(1), json!(2), json!("50%")] {
            assert!(wants("minAvailable", value.clone()), "{value}");
        }
        for value in [json!(0), json!(1), json!("25%")] {
            assert!(wants("maxUnavailable", value.clone()), "{value}");
        }
        assert!(wants("unhealthyPodEvictionPolicy", json!("AlwaysAllow")));
        assert!(tenants.iter().any(|tenant| tenant.budgets().len() == 2));
        let protections: BTreeSet<Option<&str>> = tenants.iter().map(Tenant::protection).collect();
        assert_eq!(protections.len(), 2 + WHILES.len());
        let tiers: BTreeSet<Option<&str>> = tenants.iter().map(Tenant::tier).collect();
        assert_eq!(tiers.len(), 1 + TIERS.len());
    }
}
