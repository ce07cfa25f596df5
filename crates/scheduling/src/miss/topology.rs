//! Changes for pods that every check but topology would let in.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_core::pod::{Pod, WhenUnsatisfiable};

use super::change::{Change, PodChange, PoolChange, with_value};
use super::screen::Screen;
use crate::bits::Bits;
use crate::groups::{Kind, spread_selector};
use crate::template::base_requirements;

/// How many further domains a pool is tried with.
const DOMAINS: usize = 3;

impl Screen<'_, '_> {
    /// `able`: pools that would take the pod if topology let them. `alike`: pods like it that are left over.
    pub(super) fn topology_changes(
        &mut self,
        pod: &Pod,
        class: usize,
        able: &BTreeSet<usize>,
        alike: u32,
    ) -> Vec<Change> {
        let shape = &pod.shape;
        let mut found: Vec<PodChange> = Vec::new();
        let hard = |when| when == WhenUnsatisfiable::DoNotSchedule;
        for (constraint, spread) in shape.spread.iter().enumerate().filter(|(_, spread)| hard(spread.when)) {
            let needed = self.needed_skew(class, constraint, able);
            for extra in BTreeSet::from([0, alike.min(1000) as i32 - 1]) {
                let to = needed.saturating_add(extra);
                if to > spread.max_skew {
                    found.push(PodChange::MaxSkew { constraint, from: spread.max_skew, to });
                }
            }
            found.push(PodChange::Anyway { constraint });
        }
        if shape.spread.len() > 1 {
            found.push(PodChange::NoSpread);
        }
        let near = shape.required_pod_affinity.len();
        found.extend((0..near).map(|term| PodChange::NoPodAffinityTerm { term }));
        let far = shape.required_pod_anti_affinity.len();
        found.extend((0..far).map(|term| PodChange::NoPodAntiAffinityTerm { term }));
        if near > 1 {
            found.push(PodChange::NoPodAffinity);
        }
        if far > 1 {
            found.push(PodChange::NoPodAntiAffinity);
        }
        let keys = self.topology_keys(class);
        let words = &self.problem.world.vocabulary;
        for (key, from) in shape.node_selector.iter().filter(|(key, _)| keys.contains(words.normalize(key))) {
            found.push(PodChange::Selector { key: key.clone(), from: from.clone(), to: None });
        }
        if let [term] = shape.required_node_affinity.as_slice() {
            let about = |key: &str| keys.contains(words.normalize(key));
            if term.expressions.iter().any(|expression| about(&expression.key)) {
                found.push(PodChange::NoNodeAffinity);
            }
            for (expression, from) in term.expressions.iter().enumerate().filter(|(_, e)| about(&e.key)) {
                if term.expressions.len() > 1 {
                    found.push(PodChange::NoAffinityExpression { term: 0, expression, from: from.clone() });
                }
            }
        }
        let mut changes: Vec<Change> = found.into_iter().map(Change::Pod).collect();
        for pool in able {
            changes.extend(self.more_domains(*pool, &keys).into_iter().map(|change| Change::Pool(*pool, change)));
        }
        changes
    }

    fn topology_keys(&self, class: usize) -> BTreeSet<Arc<str>> {
        let last = self.problem.classes[class].variants.len() - 1;
        self.problem.deciding(class, last).map(|id| self.problem.groups.get(id).key.clone()).collect()
    }

    /// The pool with one more domain of a key that decides, or without its word on the key.
    fn more_domains(&mut self, index: usize, keys: &BTreeSet<Arc<str>>) -> Vec<PoolChange> {
        let world = self.problem.world;
        let (pool, words) = (&world.pools[index], &world.vocabulary);
        let mut found = Vec::new();
        for (requirement, from) in pool.requirements.iter().enumerate() {
            let Some(key) = keys.get(words.normalize(&from.key)) else { continue };
            let id = self.problem.terms.key(key);
            if let Some(table) = self.problem.domains.table(id) {
                let names = self.problem.domains.keys[table].names.clone();
                let catalog = self.problem.catalogs.iter().find(|c| Arc::ptr_eq(&c.types, &pool.instance_types));
                let groups = catalog.map_or(&[][..], |catalog| catalog.groups(id));
                let mut values: BTreeSet<Arc<str>> = names.into_iter().collect();
                values.extend(groups.iter().flat_map(|(req, _)| self.problem.terms.requirement(*req).values.clone()));
                for to in values.iter().filter_map(|value| with_value(from, value)).take(DOMAINS) {
                    found.push(PoolChange::Values { requirement, from: from.values.clone(), to });
                }
            }
            found.push(PoolChange::NoRequirement { requirement, from: from.clone() });
        }
        found
    }

    /// The least skew with which some domain of an able pool takes one more.
    fn needed_skew(&mut self, class: usize, constraint: usize, able: &BTreeSet<usize>) -> i32 {
        let world = self.problem.world;
        let shape = self.problem.classes[class].shape.clone();
        let spread = &shape.spread[constraint];
        let one_more = spread.max_skew.saturating_add(1);
        let (key, selector) =
            (world.vocabulary.normalize(&spread.topology_key), spread_selector(spread, &shape.labels));
        let last = self.problem.classes[class].variants.len() - 1;
        let owned = &self.problem.classes[class].variants[last].owned;
        let same = |id: &&crate::groups::GroupId| {
            let group = self.problem.groups.get(**id);
            group.kind == Kind::Spread
                && &*group.key == key
                && group.selector == selector
                && group.max_skew == i64::from(spread.max_skew)
        };
        let Some(id) = owned.iter().find(same).copied() else { return one_more };
        let Some(table) = self.problem.domains.groups[id.0 as usize].table else { return one_more };
        let strict = self.problem.classes[class].variants[last].strict;
        let key = self.problem.domains.keys[table].key;
        let own_req = self.problem.terms.get(strict, key);
        let own = self.problem.domains.allowed(table, own_req, &self.problem.terms);
        let mut reachable = Bits::new();
        for pool in able {
            let base = base_requirements(&world.pools[*pool], &world.vocabulary);
            let base = self.problem.terms.set(&base);
            let req = self.problem.terms.get(base, key);
            reachable.or(&self.problem.domains.allowed(table, req, &self.problem.terms));
        }
        reachable.and(&own);
        let counts = &self.state.groups[id.0 as usize].domains;
        let eligible: Vec<u32> = self.problem.domains.groups[id.0 as usize]
            .known
            .iter()
            .filter(|d| own.contains(*d))
            .map(|d| counts[d])
            .collect();
        let unmet = spread.min_domains.is_some_and(|wanted| (eligible.len() as i64) < i64::from(wanted));
        let least = if unmet { 0 } else { eligible.iter().copied().min().unwrap_or(0) };
        let itself = u32::from(self.problem.classes[class].counted_in.binary_search(&id).is_ok());
        let known = &self.problem.domains.groups[id.0 as usize].known;
        let best = reachable.iter().filter(|domain| known.contains(*domain)).map(|domain| counts[domain]).min();
        best.map_or(one_more, |count| (count + itself).saturating_sub(least) as i32)
    }
}
