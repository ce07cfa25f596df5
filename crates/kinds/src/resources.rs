//! The built-in resources in discovery order: what is served where, with which verbs, names and subresources.

use std::sync::OnceLock;

/// One resource or subresource in one version.
#[derive(Clone, Debug)]
pub struct Resource {
    pub group: &'static str,
    pub version: &'static str,
    /// `pods`, or for a subresource the part before the slash.
    pub plural: &'static str,
    /// Empty for the resource itself.
    pub subresource: &'static str,
    pub kind: &'static str,
    /// The group and version of `kind` where they differ from the resource's own (`pods/eviction` is `policy/v1`).
    pub kind_group_version: Option<(&'static str, &'static str)>,
    pub namespaced: bool,
    pub singular: &'static str,
    pub verbs: Vec<&'static str>,
    pub short_names: Vec<&'static str>,
    pub categories: Vec<&'static str>,
    /// A hash the server publishes so that clients notice when the storage version changes.
    pub storage_version_hash: Option<&'static str>,
}

impl Resource {
    pub fn api_version(&self) -> String {
        api_version(self.group, self.version)
    }
}

/// `v1` for the core group, `group/version` otherwise.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// All of them, grouped by group and version in the order discovery lists them.
pub fn all() -> &'static [Resource] {
    static ALL: OnceLock<Vec<Resource>> = OnceLock::new();
    ALL.get_or_init(|| parse(include_str!("../data/resources.txt")))
}

fn parse(text: &'static str) -> Vec<Resource> {
    let mut group = "";
    let mut version = "";
    let mut resources = Vec::new();
    for line in text.lines() {
        if let Some(group_version) = line.strip_prefix("group ") {
            (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
            continue;
        }
        let words: Vec<&'static str> = line.split_whitespace().collect();
        let [name, kind, scope, singular, verbs, extra @ ..] = words.as_slice() else {
            continue;
        };
        let (plural, subresource) = name.split_once('/').unwrap_or((name, ""));
        let option = |key: &str| extra.iter().find_map(|word| word.strip_prefix(key));
        let list = |key: &str| option(key).map(|value| value.split(',').collect()).unwrap_or_default();
        resources.push(Resource {
            group,
            version,
            plural,
            subresource,
            kind,
            kind_group_version: option("gv=").map(|value| value.split_once('/').unwrap_or(("", value))),
            namespaced: *scope == "ns",
            singular: if *singular == "-" { "" } else { singular },
            verbs: verbs.split(',').collect(),
            short_names: list("short="),
            categories: list("cat="),
            storage_version_hash: option("hash="),
        });
    }
    resources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eviction_is_a_subresource_of_another_group() {
        let eviction = all().iter().find(|r| r.plural == "pods" && r.subresource == "eviction").unwrap();
        assert_eq!(eviction.kind_group_version, Some(("policy", "v1")));
        assert!(eviction.namespaced);
    }

    #[test]
    fn every_stored_kind_has_a_type() {
        for resource in all().iter().filter(|r| r.subresource.is_empty()) {
            let known = crate::types::Types::get().kind(&resource.api_version(), resource.kind);
            assert!(known.is_some(), "{} {}", resource.api_version(), resource.kind);
        }
    }
}
