//! Security groups that a node class means.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::EC2NodeClass;

use crate::calls::{Aws, Filter, Result, SecurityGroup};
use crate::node_class::{ClassKey, class_key};
use crate::ttl::Ttl;

const PAGE: u32 = 500;
const LIFE: Duration = Duration::from_secs(60);

pub struct SecurityGroups {
    aws: Aws,
    cache: Ttl<ClassKey, Vec<SecurityGroup>>,
}

impl SecurityGroups {
    pub fn new(aws: Aws) -> Self {
        Self { aws, cache: Ttl::new(LIFE) }
    }

    /// By id.
    pub async fn list(&self, class: &EC2NodeClass, now: Timestamp) -> Result<Vec<SecurityGroup>> {
        if let Some(groups) = self.cache.get(&class_key(class), now) {
            return Ok(groups);
        }
        let mut found: BTreeMap<String, SecurityGroup> = BTreeMap::new();
        for filters in queries(class) {
            for group in self.aws.ec2.describe_security_groups(&filters, PAGE).await? {
                found.insert(group.id.clone(), group);
            }
        }
        let groups: Vec<SecurityGroup> = found.into_values().collect();
        self.cache.set(class_key(class), groups.clone(), now);
        Ok(groups)
    }
}

/// In a term with several fields the id counts, else the name, else the tags.
fn queries(class: &EC2NodeClass) -> Vec<Vec<Filter>> {
    let (mut ids, mut names, mut queries) = (Vec::new(), Vec::new(), Vec::new());
    let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    for term in &class.spec.security_group_selector_terms {
        if let Some(id) = given(&term.id) {
            ids.push(id);
        } else if let Some(name) = given(&term.name) {
            names.push(name);
        } else {
            let filters: Vec<Filter> = term.tags.iter().flatten().map(|(key, value)| Filter::tag(key, value)).collect();
            queries.extend((!filters.is_empty()).then_some(filters));
        }
    }
    for (name, values) in [("group-id", ids), ("group-name", names)] {
        if !values.is_empty() {
            queries.push(vec![Filter::new(name, values)]);
        }
    }
    queries
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_api::ec2nodeclass::SecurityGroupSelectorTerm as Term;

    #[test]
    fn terms_become_queries() {
        // covers: AWS-SG-01, AWS-SG-05
        let text = |text: &str| Some(text.to_owned());
        let tags = |pairs: &[(&str, &str)]| {
            Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        };
        let mut class = EC2NodeClass::default();
        class.spec.security_group_selector_terms = vec![
            Term { id: text("sg-1"), name: text("ignored"), tags: tags(&[("ignored", "x")]) },
            Term { name: text("web"), tags: tags(&[("ignored", "x")]), ..Default::default() },
            Term { tags: tags(&[("a", "1"), ("b", "*")]), ..Default::default() },
            Term { id: text("sg-2"), ..Default::default() },
            Term { name: text("db"), ..Default::default() },
        ];
        let want = vec![
            vec![Filter::new("tag:a", ["1"]), Filter::new("tag-key", ["b"])],
            vec![Filter::new("group-id", ["sg-1", "sg-2"])],
            vec![Filter::new("group-name", ["web", "db"])],
        ];
        assert_eq!(queries(&class), want);
    }
}
