//! Label and node selectors, compiled once and matched often.

use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm, TopologySelectorTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

pub type Labels = BTreeMap<String, String>;

/// A label selector: every requirement must hold. Nothing selects everything and `None` on the wire selects nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    Nothing,
    All(Vec<Requirement>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    Greater(i64),
    Less(i64),
    /// An operator or value nobody defines: never true, as upstream treats a selector it cannot parse.
    Never,
}

impl Test {
    fn new(operator: &str, values: Option<&Vec<String>>) -> Self {
        let values = || values.cloned().unwrap_or_default();
        let number = || values().first().and_then(|v| v.parse().ok());
        match operator {
            "In" => Self::In(values()),
            "NotIn" => Self::NotIn(values()),
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => number().map_or(Self::Never, Self::Greater),
            "Lt" => number().map_or(Self::Never, Self::Less),
            _ => Self::Never,
        }
    }

    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|v| values.iter().any(|w| w == v)),
            Self::NotIn(values) => value.is_none_or(|v| values.iter().all(|w| w != v)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Greater(bound) => number().is_some_and(|n| n > *bound),
            Self::Less(bound) => number().is_some_and(|n| n < *bound),
            Self::Never => false,
        }
    }
}

impl Requirement {
    pub fn equals(key: &str, value: &str) -> Self {
        Self { key: key.into(), test: Test::In(vec![value.into()]) }
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        self.test.holds(labels.get(&self.key).map(String::as_str))
    }
}

impl Selector {
    pub fn new(selector: Option<&LabelSelector>) -> Self {
        let Some(selector) = selector else { return Self::Nothing };
        let equal = selector.match_labels.iter().flatten().map(|(k, v)| Requirement::equals(k, v));
        let expressions = selector.match_expressions.iter().flatten();
        let tested =
            expressions.map(|e| Requirement { key: e.key.clone(), test: Test::new(&e.operator, e.values.as_ref()) });
        Self::All(equal.chain(tested).collect())
    }

    pub fn from_labels(labels: &Labels) -> Self {
        Self::All(labels.iter().map(|(k, v)| Requirement::equals(k, v)).collect())
    }

    /// True for a selector without requirements, which upstream treats specially in several places.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::All(all) if all.is_empty())
    }

    /// A label everything selected has, if there is one.
    pub fn an_equality(&self) -> Option<(&str, &str)> {
        let Self::All(all) = self else { return None };
        all.iter().find_map(|r| match &r.test {
            Test::In(values) if values.len() == 1 => Some((r.key.as_str(), values[0].as_str())),
            _ => None,
        })
    }

    pub fn require(&mut self, more: impl IntoIterator<Item = Requirement>) {
        if let Self::All(all) = self {
            all.extend(more);
        }
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(all) => all.iter().all(|r| r.matches(labels)),
        }
    }
}

/// What a pod demands of its node through `nodeSelector` and required node affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDemand {
    labels: Vec<Requirement>,
    /// `None`: no required affinity. Terms are alternatives; an empty list matches no node.
    terms: Option<Vec<NodeTerm>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTerm {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

impl NodeTerm {
    fn new(term: &NodeSelectorTerm) -> Self {
        let compile = |list: &Option<Vec<NodeSelectorRequirement>>| {
            let list = list.iter().flatten();
            list.map(|r| Requirement { key: r.key.clone(), test: Test::new(&r.operator, r.values.as_ref()) }).collect()
        };
        Self { labels: compile(&term.match_expressions), fields: compile(&term.match_fields) }
    }

    /// A term without requirements matches nothing, on nodes and volumes alike.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        if self.labels.is_empty() && self.fields.is_empty() {
            return false;
        }
        let field = |key: &str| (key == "metadata.name").then_some(name);
        self.labels.iter().all(|r| r.matches(labels)) && self.fields.iter().all(|r| r.test.holds(field(&r.key)))
    }

    /// The node names this term is limited to by `metadata.name in (…)`, if it is.
    fn names(&self) -> Option<Vec<&String>> {
        let mut names: Option<Vec<&String>> = None;
        for field in self.fields.iter().filter(|f| f.key == "metadata.name") {
            if let Test::In(values) = &field.test {
                names = Some(match names {
                    None => values.iter().collect(),
                    Some(before) => before.into_iter().filter(|n| values.contains(n)).collect(),
                });
            }
        }
        names
    }
}

impl NodeDemand {
    pub fn new(node_selector: Option<&Labels>, required: Option<&NodeSelector>) -> Self {
        Self {
            labels: node_selector.into_iter().flatten().map(|(k, v)| Requirement::equals(k, v)).collect(),
            terms: required.map(|s| s.node_selector_terms.iter().map(NodeTerm::new).collect()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.terms.is_none()
    }

    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.labels.iter().all(|r| r.matches(labels))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|t| t.matches(name, labels)))
    }

    /// The only nodes that can match, when every term names its nodes; sorted, possibly empty.
    pub fn named_nodes(&self) -> Option<Vec<String>> {
        let terms = self.terms.as_ref().filter(|t| !t.is_empty())?;
        let mut all = Vec::new();
        for term in terms {
            all.extend(term.names()?.into_iter().cloned());
        }
        all.sort();
        all.dedup();
        Some(all)
    }
}

/// Matches a volume's node affinity. A volume that names no nodes can be used from every node.
pub fn selector_matches(selector: &NodeSelector, name: &str, labels: &Labels) -> bool {
    selector.node_selector_terms.iter().any(|t| NodeTerm::new(t).matches(name, labels))
}

/// The sum of the weights of the preferred terms a node meets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences(Vec<(i64, NodeTerm)>);

impl Preferences {
    pub fn new(terms: &[PreferredSchedulingTerm]) -> Self {
        Self(
            terms
                .iter()
                .filter(|t| t.weight != 0)
                .map(|t| (i64::from(t.weight), NodeTerm::new(&t.preference)))
                .collect(),
        )
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn score(&self, name: &str, labels: &Labels) -> i64 {
        self.0.iter().filter(|(_, term)| term.matches(name, labels)).map(|(weight, _)| weight).sum()
    }
}

/// A storage class without allowed topologies can provision anywhere.
pub fn topology_allowed(terms: Option<&Vec<TopologySelectorTerm>>, labels: &Labels) -> bool {
    let Some(terms) = terms.filter(|t| !t.is_empty()) else {
        return true;
    };
    terms.iter().any(|term| {
        let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
        !expressions.is_empty() && expressions.iter().all(|e| labels.get(&e.key).is_some_and(|v| e.values.contains(v)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
    }

    #[test]
    fn no_selector_selects_nothing_and_an_empty_one_everything() {
        assert!(!Selector::new(None).matches(&labels(&[])));
        assert!(Selector::new(Some(&LabelSelector::default())).matches(&labels(&[("a", "b")])));
    }

    #[test]
    fn operators_follow_the_api() {
        let node = labels(&[("zone", "a"), ("cores", "8")]);
        for (requirement, holds) in [
            (json!({"key": "zone", "operator": "In", "values": ["a", "b"]}), true),
            (json!({"key": "zone", "operator": "NotIn", "values": ["a"]}), false),
            (json!({"key": "arch", "operator": "NotIn", "values": ["arm64"]}), true),
            (json!({"key": "zone", "operator": "Exists"}), true),
            (json!({"key": "zone", "operator": "DoesNotExist"}), false),
            (json!({"key": "cores", "operator": "Gt", "values": ["4"]}), true),
            (json!({"key": "cores", "operator": "Lt", "values": ["8"]}), false),
            (json!({"key": "zone", "operator": "Gt", "values": ["4"]}), false),
        ] {
            let selector = json!({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]});
            let demand = NodeDemand::new(None, Some(&serde_json::from_value(selector).unwrap()));
            assert_eq!(demand.matches("n", &node), holds, "{requirement}");
        }
    }

    #[test]
    fn terms_are_alternatives_and_an_empty_term_matches_nothing() {
        let affinity = |terms: serde_json::Value| {
            NodeDemand::new(None, Some(&serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap()))
        };
        let in_a = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
        let in_b = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]});
        let node = labels(&[("zone", "b")]);
        assert!(affinity(json!([in_a, in_b])).matches("n", &node));
        assert!(!affinity(json!([in_a, {}])).matches("n", &node));
        assert!(!affinity(json!([])).matches("n", &node));
    }

    #[test]
    fn named_nodes_are_found_when_every_term_names_them() {
        let named =
            |values: &[&str]| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": values}]});
        let demand = |terms: serde_json::Value| {
            NodeDemand::new(None, Some(&serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap()))
        };
        assert_eq!(demand(json!([named(&["b"]), named(&["a"])])).named_nodes(), Some(vec!["a".into(), "b".into()]));
        let open = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        assert_eq!(demand(json!([named(&["b"]), open])).named_nodes(), None);
    }
}
