//! What passes remember of each other.

/// What was found out in earlier passes and still holds. Never needed for a right answer, only for a quick one.
#[derive(Clone, Debug, Default)]
pub struct Memory {}
