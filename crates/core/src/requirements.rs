//! A set of requirements, at most one for each key, and when two sets can meet on one node.

use std::fmt;
use std::sync::Arc;

use crate::labels::{HOSTNAME, Labels, Vocabulary};
use crate::requirement::{Expression, Requirement};

pub use map::RequirementMap;

mod map;

/// Cheap to clone: clones share their entries until one of them is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requirements(pub RequirementMap);

/// Why two sets cannot meet on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Incompatible {
    /// The first key that is asked for and that the other side does not define.
    pub undefined: Option<Arc<str>>,
    /// Every key on which both sides have something to say and nothing in common.
    pub disjoint: Vec<Arc<str>>,
}

impl Requirements {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn from_labels(labels: &Labels, words: &Vocabulary) -> Self {
        let mut set = Self::new();
        for (key, value) in labels {
            set.add(words.normalize(key), Requirement::one(value));
        }
        set
    }

    pub fn from_expressions<'a>(expressions: impl IntoIterator<Item = &'a Expression>, words: &Vocabulary) -> Self {
        let mut set = Self::new();
        for expression in expressions {
            set.add(words.normalize(&expression.key), Requirement::from_expression(expression));
        }
        set
    }

    /// Intersects with what the set already says about the key.
    pub fn add(&mut self, key: &str, requirement: Requirement) {
        match self.0.get(key) {
            Some(mine) => {
                let both = mine.intersect(&requirement);
                self.0.insert(Arc::from(key), both);
            }
            None => {
                self.0.insert(Arc::from(key), requirement);
            }
        }
    }

    pub fn add_all(&mut self, other: &Self) {
        if self.0.is_empty() {
            *self = other.clone();
            return;
        }
        for (key, requirement) in other.0.shared() {
            match self.0.get(key) {
                Some(mine) => {
                    let both = mine.intersect(requirement);
                    self.0.insert(key.clone(), both);
                }
                None => {
                    self.0.insert(key.clone(), requirement.clone());
                }
            }
        }
    }

    /// An absent key is unconstrained.
    pub fn get(&self, key: &str) -> Requirement {
        self.0.get(key).cloned().unwrap_or_else(Requirement::any)
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Requirement)> {
        self.0.iter().map(|(key, requirement)| (&**key, requirement))
    }

    /// Whether a node shaped by `self` can satisfy `asked`. Keys for which `may_be_undefined` holds need not be
    /// defined here: the instance type decides them later.
    pub fn compatible(&self, asked: &Self, may_be_undefined: impl Fn(&str) -> bool) -> Result<(), Incompatible> {
        let undefined = asked.0.iter().find(|(key, requirement)| {
            !self.0.contains_key(key) && !may_be_undefined(key) && !requirement.tolerates_absence()
        });
        let found = Incompatible { undefined: undefined.map(|(key, _)| key.clone()), disjoint: self.disjoint(asked) };
        if found == Incompatible::default() { Ok(()) } else { Err(found) }
    }

    /// Whether the keys that both define overlap; keys of one side only are ignored.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.disjoint(other).is_empty()
    }

    fn disjoint(&self, other: &Self) -> Vec<Arc<str>> {
        let conflict = |(key, theirs): &(&Arc<str>, &Requirement)| {
            self.0
                .get(key)
                .is_some_and(|mine| !(mine.overlaps(theirs) || mine.tolerates_absence() && theirs.tolerates_absence()))
        };
        other.0.iter().filter(conflict).map(|(key, _)| key.clone()).collect()
    }

    /// The key a user probably meant: one that contains the text, or that ends with what follows its slash.
    pub fn spelling_hint<'a>(&'a self, key: &str, words: &'a Vocabulary) -> Option<&'a str> {
        let tail = key.rsplit('/').next().unwrap_or(key);
        let similar = |candidate: &&str| candidate.contains(key) || candidate.ends_with(tail);
        let known = words.well_known.iter().map(String::as_str).find(similar);
        known.or_else(|| self.0.keys().map(|key| &**key).find(similar))
    }
}

impl fmt::Display for Requirements {
    /// Sorted by key; the hostname is the scheduler's own business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().filter(|(key, _)| &***key != HOSTNAME);
        for (position, (key, requirement)) in shown.enumerate() {
            write!(f, "{}{key} {requirement}", if position == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
