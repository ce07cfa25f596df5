//! What a new node may become: each listed type in each available offering that the claim's requirements admit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use karpenter_core::labels::{CAPACITY_TYPE, HOSTNAME, INITIALIZED, NODEPOOL, REGISTERED, ZONE};
use karpenter_core::plan::NewNode;
use karpenter_core::{InstanceType, Offering, Pool, Requirement, Requirements, World};

use crate::daemons::Daemon;
use crate::labels::{Labelled, admits, canonical};
use crate::volumes;

pub(crate) struct Claim<'w> {
    pub(crate) name: String,
    pub(crate) pool: &'w Pool,
    pub(crate) node: &'w NewNode,
    /// Of the template and the claim, under canonical keys.
    labels: BTreeMap<&'w str, &'w str>,
    /// Keys somebody asks about: only these need every combination of values tried.
    keys: BTreeSet<&'w str>,
    /// For each topology key the values it may get.
    domains: BTreeMap<&'w str, BTreeSet<&'w str>>,
}

/// One node a claim may become.
#[derive(Clone)]
pub(crate) struct Possible<'c> {
    name: &'c str,
    labels: &'c BTreeMap<&'c str, &'c str>,
    pub(crate) kind: &'c InstanceType,
    pub(crate) offering: &'c Offering,
    /// Where the type leaves a key open that somebody asks about.
    chosen: Vec<(&'c str, &'c str)>,
}

impl<'w> Claim<'w> {
    pub(crate) fn new(
        world: &'w World,
        node: &'w NewNode,
        position: usize,
        daemons: &[Daemon<'w>],
        topology_keys: &BTreeSet<&'w str>,
    ) -> Self {
        let pool = &world.pools[node.pool];
        let words = &world.vocabulary;
        let mut labels = template_labels(world, pool);
        for (key, value) in &node.labels {
            labels.entry(canonical(words, key)).or_insert(value);
        }
        let mut keys: BTreeSet<&str> = pool.requirements.iter().map(|e| canonical(words, &e.key)).collect();
        for pod in &node.pods {
            let pod = &world.pods[*pod];
            let terms = pod.shape.required_node_affinity.iter().flat_map(|term| &term.expressions);
            let asked = pod.shape.node_selector.keys().map(String::as_str);
            keys.extend(asked.chain(terms.map(|e| &*e.key)).map(|key| canonical(words, key)));
            keys.extend(volumes::keys(world, pod).into_iter().map(|key| canonical(words, key)));
        }
        let asked_by_daemons = daemons.iter().flat_map(Daemon::keys);
        keys.extend(asked_by_daemons.map(|key| canonical(words, key)));
        Self {
            name: format!("new-{position}"),
            pool,
            node,
            domains: domains(pool, node, &labels, topology_keys),
            labels,
            keys,
        }
    }

    pub(crate) fn types(&self) -> impl Iterator<Item = &'w InstanceType> {
        self.node.instance_types.iter().map(|kind| &*self.pool.instance_types[*kind])
    }

    /// Every node the claim may become as this type.
    pub(crate) fn possible<'c>(&'c self, kind: &'c InstanceType) -> Vec<Possible<'c>> {
        possible(&self.name, &self.labels, kind, &self.node.requirements, &self.keys)
    }

    /// Every value of a topology key that it may get.
    pub(crate) fn domains(&self, key: &str) -> BTreeSet<&str> {
        if key == HOSTNAME {
            return [self.name.as_str()].into();
        }
        self.domains.get(key).cloned().unwrap_or_default()
    }

    /// The node it becomes if the launch goes as the plan says.
    pub(crate) fn launched(&self) -> Option<Possible<'_>> {
        let launch = &self.node.launch;
        let kind = self.types().find(|kind| kind.name == launch.instance_type)?;
        let said = |possible: &Possible<'_>| {
            possible.label(ZONE) == Some(&*launch.zone) && possible.label(CAPACITY_TYPE) == Some(&*launch.capacity_type)
        };
        self.possible(kind).into_iter().find(said)
    }

    pub(crate) fn label(&self, key: &str) -> Option<&'w str> {
        self.labels.get(key).copied()
    }
}

fn domains<'w>(
    pool: &'w Pool,
    node: &'w NewNode,
    labels: &BTreeMap<&'w str, &'w str>,
    keys: &BTreeSet<&'w str>,
) -> BTreeMap<&'w str, BTreeSet<&'w str>> {
    let mut domains: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for kind in node.instance_types.iter().map(|kind| &*pool.instance_types[*kind]) {
        for offering in offerings(kind, &node.requirements) {
            for key in keys {
                let values = domains.entry(key).or_default();
                let Some(declared) = offering.requirements.0.get(key).or_else(|| kind.requirements.0.get(key)) else {
                    values.extend(labels.get(key));
                    continue;
                };
                let asked = node.requirements.0.get(key);
                let declared = declared.values.iter().map(|value| &**value);
                values.extend(declared.filter(|value| asked.is_none_or(|asked| admits(asked, Some(value)))));
            }
        }
    }
    domains
}

/// Labels that every node of the pool has, under canonical keys.
pub(crate) fn template_labels<'w>(world: &'w World, pool: &'w Pool) -> BTreeMap<&'w str, &'w str> {
    let words = &world.vocabulary;
    let own = pool.labels.iter().map(|(key, value)| (canonical(words, key), value.as_str()));
    let mut labels: BTreeMap<&str, &str> = own.collect();
    labels.insert(NODEPOOL, &pool.name);
    labels.insert(&pool.node_class_label.0, &pool.node_class_label.1);
    labels
}

/// Available offerings of a type that a claim with these requirements may launch.
pub(crate) fn offerings<'t>(kind: &'t InstanceType, claim: &Requirements) -> Vec<&'t Offering> {
    let meets = |declared: &Requirements, except: &dyn Fn(&str) -> bool| {
        declared.0.iter().all(|(key, mine)| match claim.0.get(key) {
            Some(asked) if !except(key) => can_meet(mine, asked),
            Some(_) | None => true,
        })
    };
    let fits = |offering: &&Offering| {
        // What the offering says itself is more exact than the type's summary of all its offerings.
        let decided = |key: &str| offering.requirements.0.contains_key(key);
        offering.available && meets(&offering.requirements, &|_| false) && meets(&kind.requirements, &decided)
    };
    kind.offerings.iter().filter(fits).collect()
}

/// Whether one of the declared values, or declared absence, is what the claim asks for.
fn can_meet(declared: &Requirement, asked: &Requirement) -> bool {
    if declared.open {
        return true;
    }
    if declared.values.is_empty() {
        return admits(asked, None);
    }
    declared.values.iter().any(|value| admits(asked, Some(value)))
}

/// Every node that a type can become for a claim with these labels and requirements.
pub(crate) fn possible<'c>(
    name: &'c str,
    labels: &'c BTreeMap<&'c str, &'c str>,
    kind: &'c InstanceType,
    claim: &Requirements,
    keys: &BTreeSet<&str>,
) -> Vec<Possible<'c>> {
    let mut all = Vec::new();
    for offering in offerings(kind, claim) {
        let mut combinations: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
        for (key, declared) in &kind.requirements.0 {
            let open = !declared.open && declared.values.len() > 1 && !offering.requirements.0.contains_key(key);
            if !open || !keys.contains(&**key) {
                continue;
            }
            let asked = claim.0.get(key);
            let values = declared.values.iter().map(|value| &**value);
            let values: Vec<&str> = values.filter(|v| asked.is_none_or(|asked| admits(asked, Some(v)))).collect();
            let extended = |so_far: &Vec<(&'c str, &'c str)>| {
                let with = |value: &&'c str| so_far.iter().copied().chain([(&**key, *value)]).collect::<Vec<_>>();
                values.iter().map(with).collect::<Vec<_>>()
            };
            combinations = combinations.iter().flat_map(extended).collect();
        }
        all.extend(combinations.into_iter().map(|chosen| Possible { name, labels, kind, offering, chosen }));
    }
    all
}

impl<'c> Possible<'c> {
    /// The offering knows best, then the type; what neither speaks of is as the claim is labelled.
    pub(crate) fn label_of(&self, key: &str) -> Option<&'c str> {
        if let Some(declared) = self.offering.requirements.0.get(key) {
            return declared.values.first().map(|value| &**value);
        }
        if let Some((_, value)) = self.chosen.iter().find(|(chosen, _)| *chosen == key) {
            return Some(value);
        }
        if let Some(declared) = self.kind.requirements.0.get(key) {
            return declared.values.first().map(|value| &**value);
        }
        match key {
            HOSTNAME => Some(self.name),
            // By the time pods are scheduled to it.
            REGISTERED | INITIALIZED => Some("true"),
            _ => self.labels.get(key).copied(),
        }
    }
}

impl Labelled for Possible<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.label_of(key)
    }
}

impl fmt::Display for Possible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |key| self.label_of(key).unwrap_or("?");
        write!(f, "{} {} {}", self.kind.name, of(ZONE), of(CAPACITY_TYPE))?;
        self.chosen.iter().try_for_each(|(_, value)| write!(f, " {value}"))
    }
}
