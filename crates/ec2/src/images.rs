//! Images: how the terms of a node class find them, which one wins, and which instance types it serves.
//!
//! ```text
//!   alias ─▶ parameters ─▶ (SSM) ─▶ image ids ─┐
//!   terms ─────────────────────────────────────┴▶ queries ─▶ (EC2) ─▶ images ─▶ choose ─▶ status ─▶ image_for(type)
//! ```

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_core::labels::{ARCH, OS, WINDOWS_BUILD};
use karpenter_core::requirement::Expression;
use karpenter_core::{InstanceType, Operator, Quantity, Requirements};

use crate::family::AmiFamily;
use crate::labels::{ACCELERATOR_COUNT, GPU_COUNT, vocabulary};

/// A filter of an EC2 Describe call: any of the values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter {
    pub name: String,
    pub values: Vec<String>,
}

impl Filter {
    pub fn new(name: impl Into<String>, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name: name.into(), values: values.into_iter().map(Into::into).collect() }
    }

    /// How selectors match tags: `*` as a value asks for the key only.
    pub fn tag(key: &str, value: &str) -> Self {
        if value == "*" { Self::new("tag-key", [key]) } else { Self::new(format!("tag:{key}"), [value]) }
    }
}

/// What an instance type must meet to boot an image.
pub type ImageRequirements = Vec<Expression>;

/// An SSM parameter that holds an image id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasParameter {
    pub name: String,
    /// One entry for each kind of type the image serves.
    pub serves: Vec<ImageRequirements>,
    /// Whether the value changes with releases.
    pub mutable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Neither GPU nor accelerator.
    Standard,
    Nvidia,
    Neuron,
}

impl Variant {
    pub fn requirements(self) -> ImageRequirements {
        let entry = |key, operator| Expression::new(key, operator, &[]);
        match self {
            Self::Standard => {
                vec![entry(ACCELERATOR_COUNT, Operator::DoesNotExist), entry(GPU_COUNT, Operator::DoesNotExist)]
            }
            Self::Nvidia => vec![entry(GPU_COUNT, Operator::Exists)],
            Self::Neuron => vec![entry(ACCELERATOR_COUNT, Operator::Exists)],
        }
    }
}

pub const LATEST: &str = "latest";

/// Why an alias cannot be used with this Kubernetes version, whatever is published.
pub fn unsupported_alias(family: AmiFamily, kubernetes: &str) -> Option<String> {
    let minor: u32 = kubernetes.split('.').nth(1)?.parse().ok()?;
    match family {
        AmiFamily::Al2 if minor >= 33 => {
            Some(format!("AL2 aliases are not supported on Kubernetes 1.33 and later, this is {kubernetes}"))
        }
        AmiFamily::Windows2025 if minor < 35 => {
            Some(format!("Windows Server 2025 needs Kubernetes 1.35 or later, this is {kubernetes}"))
        }
        _ => None,
    }
}

/// The parameters an alias stands for. Some may not exist, for instance those of an architecture a release skipped.
pub fn alias_parameters(family: AmiFamily, version: &str, kubernetes: &str) -> Vec<AliasParameter> {
    use Variant::{Neuron, Nvidia, Standard};
    let latest = version == LATEST;
    let parameter = |name: String, variants: &[Variant]| AliasParameter {
        name,
        serves: variants.iter().map(|variant| variant.requirements()).collect(),
        mutable: latest,
    };
    let release = |pinned: String| if latest { "recommended".to_owned() } else { pinned };
    let eks = format!("/aws/service/eks/optimized-ami/{kubernetes}");
    match family {
        AmiFamily::Al2 => [
            ("amazon-linux-2", "amazon-eks-node", [Standard].as_slice()),
            ("amazon-linux-2-arm64", "amazon-eks-arm64-node", &[Standard]),
            ("amazon-linux-2-gpu", "amazon-eks-gpu-node", &[Neuron, Nvidia]),
        ]
        .map(|(os, image, variants)| {
            let release = release(format!("{image}-{kubernetes}-{version}"));
            parameter(format!("{eks}/{os}/{release}/image_id"), variants)
        })
        .to_vec(),
        AmiFamily::Al2023 => [
            ("x86_64", "standard", Standard),
            ("x86_64", "nvidia", Nvidia),
            ("x86_64", "neuron", Neuron),
            ("arm64", "standard", Standard),
            ("arm64", "nvidia", Nvidia),
        ]
        .map(|(arch, name, variant)| {
            let release = release(format!("amazon-eks-node-al2023-{arch}-{name}-{kubernetes}-{version}"));
            parameter(format!("{eks}/amazon-linux-2023/{arch}/{name}/{release}/image_id"), &[variant])
        })
        .to_vec(),
        AmiFamily::Bottlerocket => {
            let version = version.trim_start_matches('v');
            [
                ("", "x86_64", [Standard, Neuron].as_slice()),
                ("", "arm64", &[Standard]),
                ("-nvidia", "x86_64", &[Nvidia]),
                ("-nvidia", "arm64", &[Nvidia]),
            ]
            .map(|(suffix, arch, variants)| {
                let name = format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{arch}/{version}/image_id");
                parameter(name, variants)
            })
            .to_vec()
        }
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            let year = family.as_str().trim_start_matches("Windows");
            let name = format!(
                "/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}/image_id"
            );
            let build = family.windows_build().unwrap_or_default();
            let serves = vec![
                Expression::new(OS, Operator::In, &["windows"]),
                Expression::new(WINDOWS_BUILD, Operator::In, &[build]),
            ];
            vec![AliasParameter { name, serves: vec![serves], mutable: true }]
        }
        AmiFamily::Custom => Vec::new(),
    }
}

/// A term that names no alias, its SSM parameter already looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageTerm {
    pub id: Option<String>,
    pub name: Option<String>,
    pub owner: Option<String>,
    pub tags: BTreeMap<String, String>,
}

/// One DescribeImages call, its `state=available` filter included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageQuery {
    pub owners: Vec<String>,
    pub filters: Vec<Filter>,
    /// What is known about images beyond what EC2 tells, by id.
    pub known: BTreeMap<String, Vec<ImageRequirements>>,
}

impl ImageQuery {
    /// For images known by id, such as those of an alias.
    pub fn of_known(known: BTreeMap<String, Vec<ImageRequirements>>) -> Self {
        let filters = vec![Filter::new("image-id", known.keys().cloned()), available()];
        Self { owners: Vec::new(), filters, known }
    }
}

fn available() -> Filter {
    Filter::new("state", ["available"])
}

/// All ids in one query, every other term in one of its own.
pub fn queries(terms: &[ImageTerm]) -> Vec<ImageQuery> {
    let mut queries = Vec::new();
    for term in terms.iter().filter(|term| term.id.is_none()) {
        let mut filters: Vec<Filter> = term.name.iter().map(|name| Filter::new("name", [name])).collect();
        filters.extend(term.tags.iter().map(|(key, value)| Filter::tag(key, value)));
        filters.push(available());
        let owners = match (&term.owner, &term.name) {
            (Some(owner), _) => vec![owner.clone()],
            // By name alone, anybody's public image could slip in.
            (None, Some(_)) => vec!["self".to_owned(), "amazon".to_owned()],
            (None, None) => Vec::new(),
        };
        queries.push(ImageQuery { owners, filters, known: BTreeMap::new() });
    }
    let ids: Vec<String> = terms.iter().filter_map(|term| term.id.clone()).collect();
    if !ids.is_empty() {
        let filters = vec![Filter::new("image-id", ids), available()];
        queries.push(ImageQuery { owners: Vec::new(), filters, known: BTreeMap::new() });
    }
    queries
}

/// An image as EC2 describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub id: String,
    pub name: String,
    /// In EC2's spelling.
    pub architecture: String,
    pub created: Option<Timestamp>,
    pub deprecated_from: Option<Timestamp>,
}

/// An image with one set of requirements: the form a node class's status has it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenImage {
    pub id: String,
    pub name: String,
    pub created: Option<Timestamp>,
    pub deprecated: bool,
    /// By length of the key, then key.
    pub requirements: ImageRequirements,
}

/// One image for each set of requirements, newest first.
pub fn choose(answers: &[(ImageQuery, Vec<Image>)], now: Timestamp) -> Vec<ChosenImage> {
    let mut best: BTreeMap<ImageRequirements, ChosenImage> = BTreeMap::new();
    for (query, images) in answers {
        for image in images {
            let Some(arch) = kubernetes_arch(&image.architecture) else { continue };
            let bare = vec![Vec::new()];
            for known in query.known.get(&image.id).unwrap_or(&bare) {
                let mut requirements = known.clone();
                requirements.push(Expression::new(ARCH, Operator::In, &[arch]));
                requirements.sort_by(|a, b| (a.key.len(), &a.key).cmp(&(b.key.len(), &b.key)));
                let candidate = ChosenImage {
                    id: image.id.clone(),
                    name: image.name.clone(),
                    created: image.created,
                    deprecated: image.deprecated_from.is_some_and(|from| from.as_second() <= now.as_second()),
                    requirements: requirements.clone(),
                };
                let better = best.get(&requirements).is_none_or(|held| prefer(&candidate, held) == Ordering::Less);
                if better {
                    best.insert(requirements, candidate);
                }
            }
        }
    }
    let mut chosen: Vec<ChosenImage> = best.into_values().collect();
    chosen.sort_by(|a, b| {
        let key = |image: &ChosenImage| (Reverse(seconds(image)), image.id.clone());
        key(a).cmp(&key(b)).then_with(|| a.requirements.cmp(&b.requirements))
    });
    chosen
}

/// `Less` is better: in use before deprecated, newer before older, then the greater name; the id settles the rest, so
/// that the order of EC2's answer never does.
fn prefer(a: &ChosenImage, b: &ChosenImage) -> Ordering {
    let rank = |image: &ChosenImage| (image.deprecated, Reverse(seconds(image)), Reverse(image.name.clone()));
    rank(a).cmp(&rank(b)).then_with(|| a.id.cmp(&b.id))
}

fn seconds(image: &ChosenImage) -> i64 {
    image.created.map_or(i64::MIN, Timestamp::as_second)
}

fn kubernetes_arch(architecture: &str) -> Option<&'static str> {
    match architecture {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    }
}

/// The first image that the type can boot.
pub fn image_for<'a>(
    instance_type: &InstanceType,
    images: impl IntoIterator<Item = (&'a str, &'a Requirements)>,
) -> Option<&'a str> {
    let fits = |requirements: &Requirements| instance_type.requirements.compatible(requirements, |_| false).is_ok();
    images.into_iter().find(|(_, requirements)| fits(requirements)).map(|(id, _)| id)
}

/// Requirements of an image in the form [`image_for`] takes.
pub fn requirements<'a>(expressions: impl IntoIterator<Item = &'a Expression>) -> Requirements {
    Requirements::from_expressions(expressions, &vocabulary())
}

/// The volumes a family boots with unless the node class names some: device and size, all encrypted gp3.
pub fn default_volumes(family: AmiFamily) -> Vec<(&'static str, Quantity)> {
    let mut volumes: Vec<_> = family.ephemeral_device().into_iter().collect();
    if family == AmiFamily::Bottlerocket {
        // The operating system has a disk of its own.
        volumes.insert(0, ("/dev/xvda", Quantity::from_bytes(4 << 30)));
    }
    volumes
}

#[cfg(test)]
mod tests;
