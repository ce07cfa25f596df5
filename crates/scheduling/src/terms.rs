//! Requirement sets as small integers.
//!
//! Every requirement and every set of them is kept once; combining two sets is looked up after the first time. A pass
//! asks the same few hundred questions a million times, so the algebra itself stays the plain one of `core`.

use std::sync::Arc;

use karpenter_core::labels::{HOSTNAME, Vocabulary};
use karpenter_core::{Node, Requirement, Requirements};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyId(pub(crate) u32);

/// A requirement, whatever its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReqId(pub(crate) u32);

/// A set of requirements, at most one for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SetId(pub(crate) u32);

impl SetId {
    pub(crate) const EMPTY: Self = Self(0);
}

type Entries = Arc<[(KeyId, ReqId)]>;

#[derive(Clone)]
pub(crate) struct Terms {
    keys: Vec<Arc<str>>,
    key_ids: FxHashMap<Arc<str>, KeyId>,
    well_known: Vec<bool>,
    vocabulary: Arc<Vocabulary>,
    reqs: Vec<Arc<Requirement>>,
    req_ids: FxHashMap<Arc<Requirement>, ReqId>,
    /// The most frequent requirement, one value, found without building it.
    single_ids: FxHashMap<Arc<str>, ReqId>,
    sets: Vec<Entries>,
    set_ids: FxHashMap<Entries, SetId>,
    joins: FxHashMap<(SetId, SetId), Option<SetId>>,
    unions: FxHashMap<(SetId, SetId), SetId>,
    meets: FxHashMap<(ReqId, ReqId), ReqId>,
    overlaps: FxHashMap<(ReqId, ReqId), bool>,
}

impl Terms {
    pub(crate) fn new(vocabulary: Arc<Vocabulary>) -> Self {
        let empty: Entries = Arc::from([]);
        Self {
            keys: Vec::new(),
            key_ids: FxHashMap::default(),
            well_known: Vec::new(),
            vocabulary,
            reqs: Vec::new(),
            req_ids: FxHashMap::default(),
            single_ids: FxHashMap::default(),
            sets: vec![empty.clone()],
            set_ids: [(empty, SetId::EMPTY)].into_iter().collect(),
            joins: FxHashMap::default(),
            unions: FxHashMap::default(),
            meets: FxHashMap::default(),
            overlaps: FxHashMap::default(),
        }
    }

    pub(crate) fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    pub(crate) fn key(&mut self, key: &str) -> KeyId {
        if let Some(id) = self.key_ids.get(key) {
            return *id;
        }
        let (id, key) = (KeyId(self.keys.len() as u32), Arc::<str>::from(key));
        self.well_known.push(self.vocabulary.is_well_known(&key));
        self.keys.push(key.clone());
        self.key_ids.insert(key, id);
        id
    }

    pub(crate) fn key_name(&self, key: KeyId) -> &Arc<str> {
        &self.keys[key.0 as usize]
    }

    pub(crate) fn is_well_known(&self, key: KeyId) -> bool {
        self.well_known[key.0 as usize]
    }

    pub(crate) fn req(&mut self, requirement: &Requirement) -> ReqId {
        let plain = !requirement.open && requirement.values.len() == 1 && requirement.min_values.is_none();
        let single = requirement.values.first().filter(|_| plain && requirement.at_least.is_none());
        let single = single.filter(|_| requirement.at_most.is_none());
        if let Some(id) = single.and_then(|value| self.single_ids.get(value)) {
            return *id;
        }
        if let Some(id) = self.req_ids.get(requirement) {
            return *id;
        }
        let (id, requirement) = (ReqId(self.reqs.len() as u32), Arc::new(requirement.clone()));
        if let Some(value) = single {
            self.single_ids.insert(value.clone(), id);
        }
        self.reqs.push(requirement.clone());
        self.req_ids.insert(requirement, id);
        id
    }

    pub(crate) fn one(&mut self, value: &str) -> ReqId {
        match self.single_ids.get(value) {
            Some(id) => *id,
            None => self.req(&Requirement::one(value)),
        }
    }

    pub(crate) fn requirement(&self, id: ReqId) -> &Arc<Requirement> {
        &self.reqs[id.0 as usize]
    }

    pub(crate) fn entries(&self, set: SetId) -> &Entries {
        &self.sets[set.0 as usize]
    }

    pub(crate) fn get(&self, set: SetId, key: KeyId) -> Option<ReqId> {
        let entries = &self.sets[set.0 as usize];
        entries.binary_search_by_key(&key, |(key, _)| *key).ok().map(|at| entries[at].1)
    }

    pub(crate) fn set(&mut self, requirements: &Requirements) -> SetId {
        let mut entries: SmallVec<[(KeyId, ReqId); 32]> = SmallVec::new();
        for (key, requirement) in requirements.iter() {
            let key = self.key(key);
            entries.push((key, self.req(requirement)));
        }
        entries.sort_unstable();
        self.intern(&entries)
    }

    /// What a node is: each of its labels, and the name it goes by. Labels of one meaning must agree.
    pub(crate) fn of_node(&mut self, node: &Node) -> SetId {
        let vocabulary = self.vocabulary.clone();
        let mut entries: SmallVec<[(KeyId, ReqId); 32]> = SmallVec::new();
        for (key, value) in &node.labels {
            let key = vocabulary.normalize(key);
            if key != HOSTNAME {
                entries.push((self.key(key), self.one(value)));
            }
        }
        entries.push((self.key(HOSTNAME), self.one(node.hostname())));
        entries.sort_unstable();
        let mut set: SmallVec<[(KeyId, ReqId); 32]> = SmallVec::new();
        for (key, req) in entries {
            match set.last_mut() {
                Some((last, known)) if *last == key => *known = self.meet(*known, req),
                _ => set.push((key, req)),
            }
        }
        self.intern(&set)
    }

    pub(crate) fn single(&mut self, key: KeyId, req: ReqId) -> SetId {
        self.intern(&[(key, req)])
    }

    fn intern(&mut self, entries: &[(KeyId, ReqId)]) -> SetId {
        if let Some(id) = self.set_ids.get(entries) {
            return *id;
        }
        let (id, entries) = (SetId(self.sets.len() as u32), Entries::from(entries));
        self.sets.push(entries.clone());
        self.set_ids.insert(entries, id);
        id
    }

    /// The set as plain data, for people and API objects.
    pub(crate) fn to_requirements(&self, set: SetId) -> Requirements {
        let entries = self.entries(set).iter();
        Requirements(
            entries.map(|(key, req)| (self.key_name(*key).clone(), (**self.requirement(*req)).clone())).collect(),
        )
    }

    pub(crate) fn meet(&mut self, a: ReqId, b: ReqId) -> ReqId {
        if a == b {
            return a;
        }
        if let Some(id) = self.meets.get(&(a, b)) {
            return *id;
        }
        let met = self.requirement(a).intersect(self.requirement(b));
        let id = self.req(&met);
        self.meets.insert((a, b), id);
        id
    }

    /// Whether two requirements on one key can hold on one node: they overlap, or both are content with an absent
    /// label.
    pub(crate) fn reconcilable(&mut self, a: ReqId, b: ReqId) -> bool {
        if a == b {
            return !self.is_impossible(a);
        }
        if let Some(known) = self.overlaps.get(&(a, b)) {
            return *known;
        }
        let (left, right) = (self.requirement(a), self.requirement(b));
        let answer = left.overlaps(right) || left.tolerates_absence() && right.tolerates_absence();
        self.overlaps.insert((a, b), answer);
        answer
    }

    /// Equal requirements overlap unless nothing satisfies them; `DoesNotExist` is satisfied by absence.
    fn is_impossible(&self, id: ReqId) -> bool {
        let requirement = self.requirement(id);
        !requirement.overlaps(requirement) && !requirement.tolerates_absence()
    }

    /// Everything both sets say.
    pub(crate) fn union(&mut self, a: SetId, b: SetId) -> SetId {
        if b == SetId::EMPTY || a == b {
            return a;
        }
        if a == SetId::EMPTY {
            return b;
        }
        if let Some(id) = self.unions.get(&(a, b)) {
            return *id;
        }
        let (left, right) = (self.entries(a).clone(), self.entries(b).clone());
        let mut merged: SmallVec<[(KeyId, ReqId); 32]> = SmallVec::new();
        let (mut i, mut j) = (0, 0);
        while i < left.len() || j < right.len() {
            let order = match (left.get(i), right.get(j)) {
                (Some((a, _)), Some((b, _))) => a.cmp(b),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, _) => std::cmp::Ordering::Greater,
            };
            match order {
                std::cmp::Ordering::Less => merged.push(left[i]),
                std::cmp::Ordering::Greater => merged.push(right[j]),
                std::cmp::Ordering::Equal => merged.push((left[i].0, self.meet(left[i].1, right[j].1))),
            }
            i += usize::from(order.is_le());
            j += usize::from(order.is_ge());
        }
        let id = self.intern(&merged);
        self.unions.insert((a, b), id);
        id
    }

    /// What a claim shaped by `node` becomes when `asked` joins it; nothing where it cannot. Well-known labels may be
    /// undefined on the claim: the instance type decides them.
    pub(crate) fn join(&mut self, node: SetId, asked: SetId) -> Option<SetId> {
        if asked == SetId::EMPTY {
            return Some(node);
        }
        if let Some(known) = self.joins.get(&(node, asked)) {
            return *known;
        }
        let answer = if self.compatible(node, asked, true) { Some(self.union(node, asked)) } else { None };
        self.joins.insert((node, asked), answer);
        answer
    }

    /// Whether a node that says `node` satisfies `asked`.
    pub(crate) fn compatible(&mut self, node: SetId, asked: SetId, well_known_may_be_undefined: bool) -> bool {
        let asked = self.entries(asked).clone();
        asked.iter().all(|(key, theirs)| match self.get(node, *key) {
            Some(mine) => self.reconcilable(mine, *theirs),
            None => {
                well_known_may_be_undefined && self.is_well_known(*key) || self.requirement(*theirs).tolerates_absence()
            }
        })
    }
}
