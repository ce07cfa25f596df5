//! Images that a node class means: SSM parameters and DescribeImages around `karpenter_ec2::images`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::EC2NodeClass;
use karpenter_ec2::AmiFamily;
use karpenter_ec2::images::{self, ChosenImage, ImageQuery, ImageTerm};

use crate::calls::{Aws, AwsError, DescribeImages, Filter, Image};
use crate::node_class::{ClassKey, class_key};
use crate::ttl::Ttl;

const PAGE: u32 = 1000;
const PARAMETER_LIFE: Duration = Duration::from_secs(24 * 3600);
/// Users change what their own parameters hold, and expect it to be seen.
const USER_PARAMETER_LIFE: Duration = Duration::from_secs(300);

pub struct Images {
    aws: Aws,
    cache: Ttl<ClassKey, Vec<ChosenImage>>,
    parameters: Ttl<String, Parameter>,
    /// What the log says of parameters: asked again and again, they are told when they change.
    told: Mutex<BTreeMap<String, String>>,
}

#[derive(Clone, Debug)]
struct Parameter {
    image: String,
    /// Follows releases, so a withdrawn image is worth noticing.
    mutable: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    /// Whatever is published, this alias does not go with this Kubernetes version.
    #[error("{0}")]
    UnsupportedAlias(String),
    #[error("failed to discover any AMIs for alias {0}")]
    AliasNotFound(String),
    #[error(transparent)]
    Aws(#[from] AwsError),
}

impl Images {
    pub fn new(aws: Aws, refresh: Duration) -> Self {
        Self { aws, cache: Ttl::new(refresh), parameters: Ttl::new(PARAMETER_LIFE), told: Mutex::default() }
    }

    pub async fn list(
        &self,
        class: &EC2NodeClass,
        kubernetes: &str,
        now: Timestamp,
    ) -> Result<Vec<ChosenImage>, ImagesError> {
        if let Some(images) = self.cache.get(&class_key(class), now) {
            return Ok(images);
        }
        let mut answers: Vec<(ImageQuery, Vec<Image>)> = Vec::new();
        for query in self.queries(class, kubernetes, now).await? {
            let request = DescribeImages {
                owners: query.owners.clone(),
                filters: query.filters.clone(),
                include_deprecated: true,
                max_results: PAGE,
            };
            let found = self.aws.ec2.describe_images(&request).await?;
            answers.push((query, found));
        }
        let chosen = images::choose(&answers, now);
        self.cache.set(class_key(class), chosen.clone(), now);
        Ok(chosen)
    }

    async fn queries(
        &self,
        class: &EC2NodeClass,
        kubernetes: &str,
        now: Timestamp,
    ) -> Result<Vec<ImageQuery>, ImagesError> {
        if let Some(alias) = class.ami_alias() {
            let family = AmiFamily::parse(alias.family.as_str()).unwrap_or(AmiFamily::Custom);
            if let Some(why) = images::unsupported_alias(family, kubernetes) {
                return Err(ImagesError::UnsupportedAlias(why));
            }
            let mut known: BTreeMap<String, Vec<images::ImageRequirements>> = BTreeMap::new();
            for parameter in images::alias_parameters(family, alias.version, kubernetes) {
                // Only "there is none" may be skipped: a list cut short by a failure would read as drift.
                match self.parameter(&parameter.name, parameter.mutable, PARAMETER_LIFE, now).await {
                    Ok(image) => known.entry(image).or_default().extend(parameter.serves),
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if known.is_empty() {
                let name = format!("{}@{}", alias.family.alias_name(), alias.version);
                return Err(ImagesError::AliasNotFound(name));
            }
            return Ok(vec![ImageQuery::of_known(known)]);
        }
        let mut terms = Vec::new();
        for term in &class.spec.ami_selector_terms {
            let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
            let (mut id, parameter) = (given(&term.id), given(&term.ssm_parameter));
            if let (None, Some(name)) = (&id, &parameter) {
                match self.parameter(name, false, USER_PARAMETER_LIFE, now).await {
                    Ok(image) if image.starts_with("ami-") => id = Some(image),
                    Ok(value) => {
                        tracing::warn!(parameter = %name, %value, "the parameter holds no image id");
                        continue;
                    }
                    Err(error) if error.is_not_found() => {
                        tracing::warn!(parameter = %name, "there is no such parameter");
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let (name, owner) = (given(&term.name), given(&term.owner));
            terms.push(ImageTerm { id, name, owner, tags: term.tags.clone().unwrap_or_default() });
        }
        Ok(images::queries(&terms))
    }

    async fn parameter(
        &self,
        name: &str,
        mutable: bool,
        life: Duration,
        now: Timestamp,
    ) -> crate::calls::Result<String> {
        if let Some(parameter) = self.parameters.get(name, now) {
            return Ok(parameter.image);
        }
        let image = self.aws.ssm.get_parameter(name).await?;
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), image.clone());
        if told.as_ref() != Some(&image) {
            tracing::info!(parameter = name, value = image, "discovered ssm parameter");
        }
        self.parameters.set_for(name.to_owned(), Parameter { image: image.clone(), mutable }, now, life);
        Ok(image)
    }

    /// Forgets what parameters say whose image was withdrawn; the next look asks them again.
    pub async fn drop_withdrawn(&self, now: Timestamp) -> crate::calls::Result<()> {
        let mut by_image: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, parameter) in self.parameters.entries(now) {
            if parameter.mutable {
                by_image.entry(parameter.image).or_default().push(name);
            }
        }
        if by_image.is_empty() {
            return Ok(());
        }
        let request = DescribeImages {
            owners: Vec::new(),
            filters: vec![Filter::new("image-id", by_image.keys().cloned())],
            include_deprecated: true,
            max_results: PAGE,
        };
        let found = self.aws.ec2.describe_images(&request).await?;
        for (image, names) in by_image {
            let described = found.iter().find(|found| found.id == image);
            let deprecated = described.is_none_or(|i| i.deprecated_from.is_some_and(|from| from <= now));
            if deprecated {
                names.iter().for_each(|name| self.parameters.remove(name.as_str()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{Fake, at};

    #[tokio::test]
    async fn every_parameter_that_holds_a_withdrawn_image_is_asked_again() {
        // covers: AWS-AMI-22, AWS-AMI-23
        let fake = Arc::new(Fake::default());
        let held = [("latest/a", "ami-1"), ("latest/b", "ami-1"), ("latest/c", "ami-2"), ("pinned", "ami-1")];
        *fake.parameters.lock().unwrap() = held.map(|(name, image)| (name.to_owned(), image.to_owned())).to_vec();
        let image = |id: &str, deprecated_from: Option<i64>| Image {
            id: id.into(),
            name: id.into(),
            architecture: "x86_64".into(),
            created: Some(at(0)),
            deprecated_from: deprecated_from.map(at),
        };
        let images = Images::new(fake.aws(), Duration::from_secs(60));
        let read = || async {
            fake.asked();
            for (name, _) in held {
                images.parameter(name, name != "pinned", PARAMETER_LIFE, at(100)).await.unwrap();
            }
            fake.asked()
        };
        assert_eq!(read().await.len(), 4);
        *fake.images.lock().unwrap() = vec![image("ami-1", Some(200)), image("ami-2", None)];
        images.drop_withdrawn(at(100)).await.unwrap();
        assert!(read().await.is_empty(), "not withdrawn yet");
        *fake.images.lock().unwrap() = vec![image("ami-1", Some(100)), image("ami-2", None)];
        images.drop_withdrawn(at(100)).await.unwrap();
        assert_eq!(read().await, ["GetParameter latest/a", "GetParameter latest/b"], "both, and no pinned one");
    }
}
