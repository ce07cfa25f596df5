//! Instance profiles: what gives an instance its role.
//!
//! A profile's name is used once: IAM takes its time to tell all of EC2 about a change, so a changed role means a new
//! profile, and old ones are swept when nothing refers to them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::{EC2NodeClass, labels};

use crate::calls::{Aws, AwsError, InstanceProfile, NewInstanceProfile, Result, Tags};
use crate::fnv::fnv1_64;
use crate::permissions::{Feature, Permissions};
use crate::ttl::Ttl;

const READ_LIFE: Duration = Duration::from_secs(15 * 60);
const REMEMBERED: Duration = Duration::from_secs(60);
/// So long a new profile, and the one it replaced, are not swept: nodes may be starting with either.
const PROTECTED: Duration = Duration::from_secs(3600);

pub struct Profiles {
    aws: Aws,
    cluster: String,
    reads: Ttl<String, InstanceProfile>,
    missing_roles: Ttl<String, AwsError>,
    /// By role and node class: what was just made, should the status update get lost.
    made: Ttl<(String, String), String>,
    protected: Ttl<String, ()>,
    permissions: Arc<Permissions>,
}

impl Profiles {
    pub fn new(aws: Aws, cluster: &str, permissions: Arc<Permissions>) -> Self {
        Self {
            aws,
            cluster: cluster.to_owned(),
            reads: Ttl::new(READ_LIFE),
            missing_roles: Ttl::new(REMEMBERED),
            made: Ttl::new(REMEMBERED),
            protected: Ttl::new(PROTECTED),
            permissions,
        }
    }

    /// The profile that instances of the class launch with; makes one if need be. `unique` makes a new name unique.
    pub async fn ensure(&self, class: &EC2NodeClass, unique: &str, now: Timestamp) -> Result<String> {
        if let Some(profile) = class.spec.instance_profile.as_ref().filter(|name| !name.is_empty()) {
            return Ok(profile.clone());
        }
        let role = bare(class.spec.role.as_deref().unwrap_or_default()).to_owned();
        let current = class.status.as_ref().and_then(|status| status.instance_profile.clone()).unwrap_or_default();
        if !current.is_empty() && self.has_role(&current, &role, now).await? {
            return Ok(current);
        }
        let uid = class.metadata.uid.clone().unwrap_or_default();
        if let Some(name) = self.made.get(&(role.clone(), uid.clone()), now) {
            return Ok(name);
        }
        if let Some(error) = self.missing_roles.get(&role, now) {
            return Err(error);
        }
        let class_name = class.metadata.name.clone().unwrap_or_default();
        let name = self.name(&format!("{class_name}{unique}"));
        let made = self.make(class, &name, &uid, &role).await;
        if let Err(error) = made {
            if error.is_role_not_found() {
                self.missing_roles.set(role, error.clone(), now);
            }
            // Half a profile helps nobody; what cannot be removed now is swept later.
            let _ = self.aws.iam.delete_instance_profile(&name).await;
            return Err(error);
        }
        self.made.set((role, uid), name.clone(), now);
        self.protected.set(name.clone(), (), now);
        if !current.is_empty() {
            self.protected.set(current, (), now);
        }
        Ok(name)
    }

    async fn has_role(&self, name: &str, role: &str, now: Timestamp) -> Result<bool> {
        let profile = match self.reads.get(name, now) {
            Some(profile) => profile,
            None => match self.aws.iam.get_instance_profile(name).await {
                Ok(profile) => {
                    self.reads.set(name.to_owned(), profile.clone(), now);
                    profile
                }
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) => return Err(error),
            },
        };
        Ok(profile.roles.first().is_some_and(|found| bare(found) == role))
    }

    async fn make(&self, class: &EC2NodeClass, name: &str, uid: &str, role: &str) -> Result<()> {
        let profile = NewInstanceProfile { name: name.to_owned(), path: self.path(uid), tags: self.tags(class) };
        let existing = match self.aws.iam.create_instance_profile(&profile).await {
            Ok(created) => created,
            Err(error) if error.is_already_exists() => self.aws.iam.get_instance_profile(name).await?,
            Err(error) => return Err(error),
        };
        for attached in &existing.roles {
            if bare(attached) == role {
                return Ok(());
            }
            self.aws.iam.remove_role_from_instance_profile(name, bare(attached)).await?;
        }
        self.aws.iam.add_role_to_instance_profile(name, role).await
    }

    fn tags(&self, class: &EC2NodeClass) -> Tags {
        let mut tags: Tags = class.spec.tags.clone().unwrap_or_default();
        tags.insert(format!("kubernetes.io/cluster/{}", self.cluster), "owned".to_owned());
        tags.insert(labels::EKS_CLUSTER_NAME_TAG.to_owned(), self.cluster.clone());
        tags.insert(labels::EC2_NODE_CLASS.to_owned(), class.metadata.name.clone().unwrap_or_default());
        tags.insert(labels::REGION.to_owned(), self.aws.region.clone());
        tags
    }

    fn name(&self, salt: &str) -> String {
        format!("{}_{}", self.cluster, fnv1_64(format!("{}{salt}", self.aws.region).as_bytes()))
    }

    fn cluster_path(&self) -> String {
        format!("/karpenter/{}/{}/", self.aws.region, self.cluster)
    }

    fn path(&self, uid: &str) -> String {
        format!("{}{uid}/", self.cluster_path())
    }

    /// All profiles of a node class, and the one that older releases named by the class alone.
    pub async fn delete_of(&self, class: &EC2NodeClass, now: Timestamp) -> Result<()> {
        let path = self.path(&class.metadata.uid.clone().unwrap_or_default());
        let found = match self.under(&path, now).await? {
            Some(found) => found,
            // What cannot be listed is found by the one name we know, if it is ours.
            None => self.in_status(class, &path).await?.into_iter().collect(),
        };
        for profile in found {
            self.delete(&profile).await?;
        }
        let legacy = self.name(&class.metadata.name.clone().unwrap_or_default());
        if !is_profile_name(&legacy) {
            return Ok(());
        }
        match self.aws.iam.get_instance_profile(&legacy).await {
            Ok(profile) => self.delete(&profile).await,
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes profiles of this cluster that nothing refers to. The first failure ends the round.
    pub async fn sweep(&self, in_use: &BTreeSet<String>, now: Timestamp) -> Result<usize> {
        let mut deleted = 0;
        for profile in self.under(&self.cluster_path(), now).await?.unwrap_or_default() {
            let kept = in_use.contains(&profile.name) || self.protected.get(&profile.name, now).is_some();
            if !kept {
                self.delete(&profile).await?;
                deleted += 1;
            }
        }
        Ok(deleted)
    }

    /// Some endpoints ignore the prefix, and what follows deletes; so it is checked here again. `None`: we may not know.
    async fn under(&self, path: &str, now: Timestamp) -> Result<Option<Vec<InstanceProfile>>> {
        if !self.permissions.allow(Feature::ProfileListing, now) {
            return Ok(None);
        }
        match self.aws.iam.list_instance_profiles(path).await {
            Ok(mut profiles) => {
                self.permissions.granted(Feature::ProfileListing);
                profiles.retain(|profile| profile.path.starts_with(path));
                Ok(Some(profiles))
            }
            Err(error) if error.is_denied() => {
                self.permissions.denied(Feature::ProfileListing, &error.to_string(), now);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The profile that the status names, unless somebody else made it.
    async fn in_status(&self, class: &EC2NodeClass, path: &str) -> Result<Option<InstanceProfile>> {
        let named = class.status.as_ref().and_then(|status| status.instance_profile.as_deref()).unwrap_or_default();
        if named.is_empty() {
            return Ok(None);
        }
        match self.aws.iam.get_instance_profile(named).await {
            Ok(profile) => Ok(Some(profile).filter(|profile| profile.path.starts_with(path))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, profile: &InstanceProfile) -> Result<()> {
        let gone = |result: Result<()>| match result {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        };
        for role in &profile.roles {
            gone(self.aws.iam.remove_role_from_instance_profile(&profile.name, bare(role)).await)?;
        }
        gone(self.aws.iam.delete_instance_profile(&profile.name).await)?;
        self.reads.remove(&profile.name);
        Ok(())
    }
}

/// A role may be given with its path; IAM's calls take the name alone.
fn bare(role: &str) -> &str {
    role.rsplit('/').next().unwrap_or(role)
}

fn is_profile_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    (1..=128).contains(&name.len()) && name.chars().all(allowed)
}

#[cfg(test)]
mod tests;
