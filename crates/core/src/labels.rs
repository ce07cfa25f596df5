//! Label keys we know by name, and the rules about which keys users may use.

use std::collections::{BTreeMap, BTreeSet};

pub type Labels = BTreeMap<String, String>;

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const REGION: &str = "topology.kubernetes.io/region";
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub const ARCH: &str = "kubernetes.io/arch";
pub const OS: &str = "kubernetes.io/os";
pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub const REGISTERED: &str = "karpenter.sh/registered";
pub const INITIALIZED: &str = "karpenter.sh/initialized";
/// The domain users may not put labels of their own under.
pub const KARPENTER_DOMAIN: &str = "karpenter.sh";

pub const RESERVED: &str = "reserved";
pub const SPOT: &str = "spot";
pub const ON_DEMAND: &str = "on-demand";
/// In the order in which a launch prefers them.
pub const CAPACITY_TYPES: [&str; 3] = [RESERVED, SPOT, ON_DEMAND];

/// Which keys mean something to us: what Kubernetes and Karpenter define, and what the cloud provider adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// Keys whose value the instance type or offering decides; a NodePool need not define them.
    pub well_known: BTreeSet<String>,
    /// Deprecated or provider-specific spellings, and what they mean.
    pub aliases: BTreeMap<String, String>,
    /// Domains (with their subdomains) in which only well-known keys may be used.
    pub restricted_domains: BTreeSet<String>,
    /// The label that carries a capacity reservation's id, where the provider has reservations.
    pub reservation_id: Option<String>,
}

impl Vocabulary {
    /// What holds whatever the cloud.
    pub fn kubernetes() -> Self {
        let owned = |text: &&str| (*text).to_owned();
        let aliases = [
            ("failure-domain.beta.kubernetes.io/zone", ZONE),
            ("failure-domain.beta.kubernetes.io/region", REGION),
            ("beta.kubernetes.io/arch", ARCH),
            ("beta.kubernetes.io/os", OS),
            ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
        ];
        Self {
            well_known: [NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD]
                .iter()
                .map(owned)
                .collect(),
            aliases: aliases.iter().map(|(old, new)| (owned(old), owned(new))).collect(),
            restricted_domains: [owned(&KARPENTER_DOMAIN)].into(),
            reservation_id: None,
        }
    }

    /// The key a requirement is really about.
    pub fn normalize<'a>(&'a self, key: &'a str) -> &'a str {
        self.aliases.get(key).map_or(key, String::as_str)
    }

    pub fn is_well_known(&self, key: &str) -> bool {
        self.well_known.contains(key)
    }

    /// Whether users may not select by this key: hostname is the scheduler's own, and a restricted domain holds only
    /// what is well known.
    pub fn is_restricted(&self, key: &str) -> bool {
        if self.well_known.contains(key) {
            return false;
        }
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let below = |restricted: &String| {
            domain == restricted || domain.strip_suffix(restricted.as_str()).is_some_and(|rest| rest.ends_with('.'))
        };
        key == HOSTNAME || self.restricted_domains.iter().any(below)
    }
}

/// A qualified name: an optional DNS subdomain and a slash, then up to 63 letters, digits, `-`, `_`, `.`.
pub fn is_qualified_name(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    domain.is_none_or(is_dns_subdomain) && !name.is_empty() && is_label_text(name)
}

/// A label value: empty, or up to 63 characters that begin and end with a letter or digit.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_text(value)
}

fn is_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

pub fn is_dns_subdomain(text: &str) -> bool {
    let label = |part: &str| {
        let bytes = part.as_bytes();
        let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deprecated_keys_are_rewritten() {
        // covers: SCH-REQ-05
        let words = Vocabulary::kubernetes();
        for (old, new) in [
            ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
            ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
            ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
            ("beta.kubernetes.io/os", "kubernetes.io/os"),
            ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
            ("example.com/zone", "example.com/zone"),
        ] {
            assert_eq!(words.normalize(old), new);
        }
    }

    #[test]
    fn well_known_labels_are_these() {
        // covers: SCH-REQ-29
        let words = Vocabulary::kubernetes();
        let known: Vec<_> = words.well_known.iter().map(String::as_str).collect();
        assert_eq!(
            known,
            [
                "karpenter.sh/capacity-type",
                "karpenter.sh/nodepool",
                "kubernetes.io/arch",
                "kubernetes.io/os",
                "node.kubernetes.io/instance-type",
                "node.kubernetes.io/windows-build",
                "topology.kubernetes.io/region",
                "topology.kubernetes.io/zone",
            ]
        );
    }

    #[test]
    fn restricted_keys() {
        // covers: SCH-REQ-35, SCH-REQ-36
        let words = Vocabulary::kubernetes();
        for (key, want) in [
            ("kubernetes.io/hostname", true),
            ("karpenter.sh/custom", true),
            ("sub.karpenter.sh/custom", true),
            ("notkarpenter.sh/custom", false),
            ("karpenter.sh/nodepool", false),
            ("karpenter.sh/capacity-type", false),
            ("kubernetes.io/anything", false),
            ("k8s.io/anything", false),
            ("team", false),
        ] {
            assert_eq!(words.is_restricted(key), want, "{key}");
        }
    }

    #[test]
    fn names_and_values_follow_kubernetes_syntax() {
        for (key, want) in [("a", true), ("a.b/c", true), ("A/b", false), ("/b", false), ("a/", false), ("-a", false)] {
            assert_eq!(is_qualified_name(key), want, "{key}");
        }
        for (value, want) in [("", true), ("a-b", true), ("a b", false), ("a-", false)] {
            assert_eq!(is_label_value(value), want, "{value}");
        }
    }
}
