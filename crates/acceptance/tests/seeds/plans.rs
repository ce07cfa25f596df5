//! Plans for manifests, as `karpenter plan` makes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::World;
use karpenter_core::plan::{NewNode, Plan, PoolReason, Reason};
use karpenter_core::settings::Settings;
use karpenter_ec2::Catalogue;
use karpenter_ec2::catalogue::builtin;
use karpenter_ec2::nodeclass::json as class_json;
use karpenter_manifests::{Loaded, Options, Source, load};
use serde_json::{Value, json};

/// The built-in catalogue, which has the prices of us-east-1 only: elsewhere things cost the same.
pub(crate) fn catalogue(region: &str) -> Catalogue {
    let mut catalogue = builtin::catalogue().clone();
    let prices = catalogue.regions["us-east-1"].on_demand.clone();
    catalogue.regions.get_mut(region).unwrap().on_demand = prices;
    catalogue
}

pub(crate) struct Planned {
    pub(crate) world: World,
    pub(crate) plan: Plan,
}

pub(crate) fn plan(region: &str, sources: Vec<Source>) -> Planned {
    let options = Options {
        now: "2026-01-02T00:00:00Z".parse().unwrap(),
        settings: Settings::default(),
        vocabulary: Arc::new(karpenter_ec2::vocabulary()),
        overlays: false,
        instance_types: &mut |class| {
            let facts = class_json::facts(class).unwrap_or_else(|faults| panic!("{faults:?}"));
            let types = karpenter_ec2::instance_types(&catalogue(region), region, &facts, &Default::default()).unwrap();
            Ok(types.into_iter().map(Arc::new).collect())
        },
    };
    let Loaded { world, .. } = load(sources, options).unwrap_or_else(|faults| panic!("{faults:?}"));
    let plan = karpenter_scheduling::solve(&world);
    Planned { world, plan }
}

impl Planned {
    pub(crate) fn pool(&self, node: &NewNode) -> &str {
        &self.world.pools[node.pool].name
    }

    /// Names of all the types a node may become.
    pub(crate) fn types(&self, node: &NewNode) -> BTreeSet<String> {
        let types = &self.world.pools[node.pool].instance_types;
        node.instance_types.iter().map(|position| types[*position].name.to_string()).collect()
    }

    pub(crate) fn by_pool(&self) -> BTreeMap<String, usize> {
        let mut count = BTreeMap::new();
        for node in &self.plan.new_nodes {
            *count.entry(self.pool(node).to_owned()).or_default() += 1;
        }
        count
    }

    /// The pool that the only pod gets a node of, if it does.
    pub(crate) fn only_pool(&self) -> Option<&str> {
        assert!(self.plan.new_nodes.len() <= 1);
        self.plan.new_nodes.first().map(|node| self.pool(node))
    }

    /// Why a pool cannot take the first pod that is left over.
    pub(crate) fn why(&self, pool: &str) -> &PoolReason {
        let left = self.plan.left_over.first().unwrap_or_else(|| panic!("nothing is left over"));
        let Reason::Pools(reasons) = &left.reason else { panic!("{:?}", left.reason) };
        &reasons.iter().find(|(position, _)| &*self.world.pools[*position].name == pool).unwrap().1
    }

    /// A label of the type that a node is expected to be.
    pub(crate) fn label(&self, node: &NewNode, key: &str) -> String {
        let pool = &self.world.pools[node.pool];
        let one = pool.instance_types.iter().find(|one| one.name == node.launch.instance_type).unwrap();
        one.requirements.get(key).pick().unwrap().to_string()
    }
}

pub(crate) fn pod(name: &str, spec: Value) -> Value {
    let mut whole = json!({"containers": [{"name": "main", "image": "example.com/app:1"}]});
    merge(&mut whole, spec);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}}, "spec": whole})
}

/// A pod that asks for this much.
pub(crate) fn asking(name: &str, requests: Value) -> Value {
    pod(
        name,
        json!({"containers": [{"name": "main", "image": "example.com/app:1", "resources": {"requests": requests}}]}),
    )
}

pub(crate) fn merge(onto: &mut Value, from: Value) {
    match (onto, from) {
        (Value::Object(onto), Value::Object(from)) => {
            for (key, value) in from {
                merge(onto.entry(key).or_insert(Value::Null), value);
            }
        }
        (onto, from) => *onto = from,
    }
}
