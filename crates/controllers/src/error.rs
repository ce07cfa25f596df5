//! Why a pass over one object failed. It is tried again; nothing else is held up.

use karpenter_provider::{BoxError, chain};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Each says what caused it as well: what failed says little without why, wherever it is printed. So causes are no
/// sources, or whoever prints those too would say them twice.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}", chain(.0))]
    Api(kube::Error),
    #[error("{what}: {}", chain(.cause.as_ref()))]
    Provider { what: &'static str, cause: BoxError },
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),
    #[error("{0}")]
    Other(String),
    /// Nothing is destroyed on the word of watches that have been silent, named here.
    #[error("not heard from lately: {0}")]
    Stale(String),
    /// A bug of ours, which stops this object and no other.
    #[error("panicked: {0}")]
    Panicked(String),
}

impl Error {
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }

    pub fn provider(what: &'static str, cause: impl Into<BoxError>) -> Self {
        Self::Provider { what, cause: cause.into() }
    }

    /// All failures of a pass as one; `Ok` if there were none.
    pub fn all(mut errors: Vec<Self>) -> Result<()> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }

    /// Somebody else wrote first: look again, there is nothing to report.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Api(kube::Error::Api(status)) => status.code == 409 && status.reason != "AlreadyExists",
            Self::Several(all) => all.iter().all(Self::is_conflict),
            Self::Api(_) | Self::Provider { .. } | Self::Other(_) | Self::Stale(_) | Self::Panicked(_) => false,
        }
    }

    /// Nothing is wrong with the object at hand: what we know is too old, and will be newer soon.
    pub fn is_stale(&self) -> bool {
        match self {
            Self::Stale(_) => true,
            Self::Several(all) => all.iter().all(|error| error.is_stale() || error.is_conflict()),
            Self::Api(_) | Self::Provider { .. } | Self::Other(_) | Self::Panicked(_) => false,
        }
    }

    /// The API server did not answer, or had no time to: it says nothing about the object either.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Api(kube::Error::Api(status)) => status.code == 429 || status.code >= 500,
            Self::Api(kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_)) => true,
            Self::Several(all) => all.iter().any(Self::is_unavailable),
            Self::Api(_) | Self::Provider { .. } | Self::Other(_) | Self::Stale(_) | Self::Panicked(_) => false,
        }
    }

    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 403)
    }

    /// The server does not take what was sent, as the object stands by now.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 422)
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 404)
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

/// "Not found" on a write or delete of the object at hand counts as success.
pub fn unless_gone<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use karpenter_provider::ProviderError;

    use super::*;

    #[test]
    fn an_error_says_what_caused_it_once_wherever_it_is_printed() {
        let refused = || std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
        let provider = Error::provider("listing machines", ProviderError::new("DescribeInstances", refused()));
        let api = Error::from(kube::Error::Service(Box::new(refused())));
        let both = Error::Several(vec![provider, api]);
        let text = both.to_string();
        assert!(text.starts_with("listing machines: DescribeInstances failed: connection refused; "), "{text}");
        assert_eq!(text.matches("connection refused").count(), 2, "{text}");
        assert_eq!(chain(&both), text, "nothing is said twice");
    }
}
