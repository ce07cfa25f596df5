//! Whatever a selector asks for by tag or name is there; by id only what is listed, or what a selector made before.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_ec2::AmiFamily;
use karpenter_provider_aws::calls::{Filter, Image, SecurityGroup, Subnet, Tags};

use crate::chance::{draw, id};
use crate::market::Market;
use crate::options::Options;
use crate::region::matches_tags;

/// Images of a release were made before any cluster here: in 2025, each on a day of its own.
const IMAGES_FROM: i64 = 1_735_689_600;
const DAY: i64 = 86_400;

#[derive(Clone, Debug)]
pub(crate) struct KnownImage {
    pub(crate) image: Image,
    pub(crate) family: AmiFamily,
}

pub(crate) struct Names {
    seed: u64,
    pub(crate) subnets: BTreeMap<String, Subnet>,
    groups: BTreeMap<String, SecurityGroup>,
    /// No others are made for those who ask.
    only_groups: bool,
    images: BTreeMap<String, KnownImage>,
}

impl Names {
    pub(crate) fn new(options: &Options, market: &Market) -> Self {
        let (seed, addresses, listed) = (options.seed, options.subnet_addresses, &options.listed_ids);
        let groups: BTreeMap<String, SecurityGroup> =
            options.groups.iter().map(|group| (group.id.clone(), group.clone())).collect();
        let only_groups = !groups.is_empty();
        let mut names = Self { seed, subnets: BTreeMap::new(), groups, only_groups, images: BTreeMap::new() };
        for (zone, zone_id) in &market.zones {
            names.add_subnet(id("subnet", seed, &["subnet", zone]), zone, zone_id, addresses);
        }
        for listed in listed {
            if listed.starts_with("subnet-") {
                let (zone, zone_id) =
                    &market.zones[(draw(seed, &["zone of", listed]) % market.zones.len() as u64) as usize];
                names.add_subnet(listed.clone(), zone, zone_id, addresses);
            } else if listed.starts_with("sg-") {
                names.groups.insert(listed.clone(), group(listed, "listed"));
            } else if listed.starts_with("ami-") {
                names.add_image(listed.clone(), listed, "x86_64", AmiFamily::Custom);
            }
        }
        names
    }

    fn add_subnet(&mut self, id: String, zone: &str, zone_id: &str, free_addresses: i64) {
        let (zone, zone_id) = (zone.to_owned(), zone_id.to_owned());
        self.subnets.insert(id.clone(), Subnet { id, zone, zone_id, free_addresses, tags: Tags::new() });
    }

    /// By tags: one in every zone.
    pub(crate) fn find_subnets(&self, filters: &[Filter]) -> Vec<Subnet> {
        let ids = values(filters, "subnet-id");
        let base = self.subnets.values().filter(|subnet| {
            // Listed ones answer to their id only.
            if ids.is_empty() {
                subnet.id == id("subnet", self.seed, &["subnet", &subnet.zone])
            } else {
                ids.contains(&&subnet.id)
            }
        });
        base.cloned().collect()
    }

    pub(crate) fn find_groups(&mut self, filters: &[Filter]) -> Vec<SecurityGroup> {
        let ids = values(filters, "group-id");
        if !ids.is_empty() {
            return ids.into_iter().filter_map(|id| self.groups.get(id).cloned()).collect();
        }
        if self.only_groups {
            let meant = |group: &&SecurityGroup| {
                filters.iter().all(|filter| match filter.name.as_str() {
                    "group-name" => filter.values.contains(&group.name),
                    _ => matches_tags(filter, &group.tags).unwrap_or(false),
                })
            };
            return self.groups.values().filter(meant).cloned().collect();
        }
        let names: Vec<String> = match values(filters, "group-name") {
            names if names.is_empty() => vec![format!("group of {}", spelled(filters))],
            names => names.into_iter().cloned().collect(),
        };
        let seed = self.seed;
        let make = |name: String| {
            let id = id("sg", seed, &["group", &name]);
            self.groups.entry(id.clone()).or_insert_with(|| group(&id, &name)).clone()
        };
        names.into_iter().map(make).collect()
    }

    /// The image a public or private parameter holds; each release has its own.
    pub(crate) fn image_of_parameter(&mut self, parameter: &str) -> String {
        let arm = parameter.contains("arm64");
        let image_id = id("ami", self.seed, &["parameter", parameter]);
        let name = parameter.trim_start_matches('/').replace("/image_id", "").replace('/', "-");
        self.add_image(image_id.clone(), &name, if arm { "arm64" } else { "x86_64" }, family_of(parameter));
        image_id
    }

    pub(crate) fn withdraw(&mut self, parameter: &str, now: Timestamp) {
        let image = self.image_of_parameter(parameter);
        if let Some(known) = self.images.get_mut(&image) {
            known.image.deprecated_from = Some(now);
        }
    }

    /// By name or tag: one image for each architecture.
    pub(crate) fn find_images(&mut self, filters: &[Filter]) -> Vec<KnownImage> {
        let ids = values(filters, "image-id");
        if !ids.is_empty() {
            return ids.into_iter().filter_map(|id| self.images.get(id).cloned()).collect();
        }
        let asked: Vec<Filter> = filters.iter().filter(|filter| filter.name != "state").cloned().collect();
        let words = spelled(&asked);
        let name = values(filters, "name").first().map_or_else(|| words.clone(), |name| name.replace('*', "any"));
        ["x86_64", "arm64"]
            .into_iter()
            .map(|arch| {
                let image_id = id("ami", self.seed, &["selected", &words, arch]);
                self.add_image(image_id.clone(), &format!("{name}-{arch}"), arch, family_of(&name));
                self.images[&image_id].clone()
            })
            .collect()
    }

    pub(crate) fn family_of_image(&self, image: &str) -> AmiFamily {
        self.images.get(image).map_or(AmiFamily::Custom, |image| image.family)
    }

    fn add_image(&mut self, id: String, name: &str, architecture: &str, family: AmiFamily) {
        let day = (draw(self.seed, &["created", &id]) % 365) as i64;
        let image = Image {
            id: id.clone(),
            name: name.to_owned(),
            architecture: architecture.to_owned(),
            created: Timestamp::from_second(IMAGES_FROM + day * DAY).ok(),
            deprecated_from: None,
        };
        self.images.entry(id).or_insert(KnownImage { image, family });
    }
}

fn group(id: &str, name: &str) -> SecurityGroup {
    SecurityGroup { id: id.to_owned(), name: name.to_owned(), tags: Tags::new() }
}

fn values<'a>(filters: &'a [Filter], name: &str) -> Vec<&'a String> {
    filters.iter().filter(|filter| filter.name == name).flat_map(|filter| &filter.values).collect()
}

fn spelled(filters: &[Filter]) -> String {
    let mut words: Vec<String> = filters.iter().map(|f| format!("{}={}", f.name, f.values.join(","))).collect();
    words.sort();
    words.join(" ")
}

/// What an image would boot as, by the name it goes under.
fn family_of(name: &str) -> AmiFamily {
    let has = |text: &str| name.contains(text);
    if has("bottlerocket") {
        AmiFamily::Bottlerocket
    } else if has("2019") && has("Windows") {
        AmiFamily::Windows2019
    } else if has("2022") && has("Windows") {
        AmiFamily::Windows2022
    } else if has("2025") && has("Windows") {
        AmiFamily::Windows2025
    } else if has("amazon-linux-2023") || has("al2023") {
        AmiFamily::Al2023
    } else if has("amazon-linux-2") || has("amazon-eks-node") {
        AmiFamily::Al2
    } else {
        AmiFamily::Custom
    }
}
