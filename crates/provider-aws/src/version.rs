//! The version of the control plane, which decides what images are meant. It changes while we run.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use karpenter_provider::{BoxError, ProviderError};

use crate::calls::Aws;
use crate::provider::Parts;
use crate::settings::Settings;

pub const EVERY: Duration = Duration::from_secs(300);
/// Minor versions of Kubernetes 1 that this release was tested with.
const SUPPORTED: std::ops::RangeInclusive<u32> = 26..=36;

/// As last read. A failed look keeps it.
pub struct Version {
    held: Mutex<String>,
    /// The last one that was judged.
    judged: Mutex<String>,
}

impl Version {
    pub fn new(known: &str) -> Self {
        Self { held: Mutex::new(known.to_owned()), judged: Mutex::default() }
    }

    /// `major.minor`.
    pub fn current(&self) -> String {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A version that is not supported is an error once, when it is first seen.
    pub async fn round(&self, parts: &Parts, client: &kube::Client) -> Result<Duration, ProviderError> {
        let seen = read(&parts.aws, client, &parts.settings).await;
        let seen = seen.map_err(|error| ProviderError::new("reading the Kubernetes version", error))?;
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = seen.clone();
        let before = std::mem::replace(&mut *self.judged.lock().unwrap_or_else(PoisonError::into_inner), seen.clone());
        if before == seen {
            return Ok(EVERY);
        }
        tracing::debug!(version = %seen, "discovered kubernetes version");
        match unsupported(&seen) {
            Some(why) => Err(ProviderError::new("validating the Kubernetes version", why)),
            None => Ok(EVERY),
        }
    }
}

/// From EKS where the control plane is EKS's, else from the API server.
pub async fn read(aws: &Aws, client: &kube::Client, settings: &Settings) -> Result<String, BoxError> {
    if settings.eks_control_plane {
        return Ok(aws.eks.describe_cluster(&settings.cluster_name).await?.version);
    }
    of_server(client).await
}

pub async fn of_server(client: &kube::Client) -> Result<String, BoxError> {
    let info = client.apiserver_version().await?;
    Ok(plain(&info.major, &info.minor))
}

/// Providers mark their own builds with a plus.
fn plain(major: &str, minor: &str) -> String {
    format!("{major}.{}", minor.trim_end_matches('+'))
}

fn unsupported(version: &str) -> Option<String> {
    let minor = version.strip_prefix("1.").and_then(|minor| minor.parse::<u32>().ok());
    let known = minor.is_some_and(|minor| SUPPORTED.contains(&minor));
    let (first, last) = (SUPPORTED.start(), SUPPORTED.end());
    (!known).then(|| format!("Kubernetes {version} is not supported, which 1.{first} to 1.{last} are"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_major_and_minor() {
        assert_eq!((plain("1", "36"), plain("1", "29+")), ("1.36".to_owned(), "1.29".to_owned()));
        for (version, supported) in
            [("1.25", false), ("1.26", true), ("1.36", true), ("1.37", false), ("2.0", false), ("", false)]
        {
            assert_eq!(unsupported(version).is_none(), supported, "{version}");
        }
    }
}
