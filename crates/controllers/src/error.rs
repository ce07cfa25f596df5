//! Why a pass over one object failed. It is tried again; nothing else is held up.

use karpenter_provider::BoxError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Api(#[from] kube::Error),
    #[error("{what}: {source}")]
    Provider {
        what: &'static str,
        #[source]
        source: BoxError,
    },
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

    pub fn provider(what: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Provider { what, source: source.into() }
    }

    /// All failures of a pass as one; `Ok` if there were none.
    pub fn all(mut errors: Vec<Self>) -> Result<()> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }

    /// With everything that caused it, in one line: what failed says little without why.
    pub fn with_causes(&self) -> String {
        match self {
            Self::Several(all) => all.iter().map(Self::with_causes).collect::<Vec<_>>().join("; "),
            Self::Api(_) | Self::Provider { .. } | Self::Other(_) | Self::Stale(_) | Self::Panicked(_) => {
                karpenter_provider::chain(self)
            }
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

/// "Not found" on a write or delete of the object at hand counts as success.
pub fn unless_gone<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
