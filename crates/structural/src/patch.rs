//! The three patches of the Kubernetes API that need no ownership: a patch and an object in, the patched object out.
//! (Server-side apply is the fourth.)

mod json;
mod merge;
mod strategic;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;

/// Why a patch was refused, cut by the status code it is answered with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400: this is not a patch.
    #[error("{0}")]
    BadRequest(String),
    /// 422: it does not fit this object.
    #[error("{0}")]
    Unprocessable(String),
    /// 413: it has too many operations.
    #[error("{0}")]
    TooLarge(String),
    /// 500: what the real server does not expect either, and answers without a reason.
    #[error("{0}")]
    Unexpected(String),
}
