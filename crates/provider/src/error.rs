//! Errors, cut by what the caller can do about them.

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A launch that gave no machine.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Nothing that the claim allows can be bought now: give the claim up, plan its pods anew.
    #[error("insufficient capacity: {message}")]
    InsufficientCapacity { message: String },
    /// The node class must change before any launch can work: give the claim up, wait for the node class.
    #[error("node class not ready: {message}")]
    NodeClassNotReady { message: String },
    /// The cloud refused, and said why: `Launched=False` with this reason and message, then try again.
    #[error("{message}")]
    Create {
        message: String,
        /// Upper camel case, for the condition.
        condition_reason: String,
        condition_message: String,
    },
    /// The cloud asked us to slow down: try again later, nothing was launched.
    #[error("the cloud asked us to slow down: {message}")]
    Throttled { message: String },
    /// The world failed us; try again.
    #[error("{operation} failed")]
    Other {
        operation: &'static str,
        #[source]
        source: BoxError,
    },
}

impl LaunchError {
    /// Metric label. `&'static str` bounds the cardinality by construction.
    pub fn label(&self) -> &'static str {
        match self {
            Self::InsufficientCapacity { .. } => "insufficient_capacity",
            Self::NodeClassNotReady { .. } => "nodeclass_not_ready",
            Self::Create { .. } => "create_error",
            Self::Throttled { .. } => "throttled",
            Self::Other { .. } => "other",
        }
    }

    pub fn other(operation: &'static str, source: impl Into<BoxError>) -> Self {
        Self::Other { operation, source: source.into() }
    }

    pub fn create(message: impl Into<String>, reason: &str, condition_message: impl Into<String>) -> Self {
        Self::Create {
            message: message.into(),
            condition_reason: reason.to_owned(),
            condition_message: condition_message.into(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// The machine is gone.
    #[error("no machine {provider_id}")]
    NotFound { provider_id: String },
    #[error(transparent)]
    Other(#[from] ProviderError),
}

#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// There is no such machine, or it is not this cluster's, or it is terminated.
    #[error("no machine {provider_id}")]
    NotFound { provider_id: String },
    #[error(transparent)]
    Other(#[from] ProviderError),
}

/// Why a pool's instance types are not known.
#[derive(Debug, thiserror::Error)]
pub enum TypesError {
    /// The pool's part of the configuration is not usable (yet); other pools are not affected.
    #[error("{message}")]
    NotResolved { message: String },
    /// Nobody has judged yet what [`crate::overlay`] says of it.
    #[error("the node overlays of NodePool {pool} have not been evaluated yet")]
    Unevaluated { pool: String },
    #[error(transparent)]
    Other(#[from] ProviderError),
}

/// The cloud or the cluster failed us.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed")]
pub struct ProviderError {
    pub operation: &'static str,
    #[source]
    pub source: BoxError,
}

impl ProviderError {
    pub fn new(operation: &'static str, source: impl Into<BoxError>) -> Self {
        Self { operation, source: source.into() }
    }
}

/// An error with what caused it, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}
