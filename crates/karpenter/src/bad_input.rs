//! Input that cannot be used, told line by line.

use std::fmt;

/// One line for each fault.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) Vec<String>);

/// The exit status for it.
pub(crate) const STATUS: u8 = 2;

impl BadInput {
    pub(crate) fn from_all<T: fmt::Display>(faults: impl IntoIterator<Item = T>) -> Self {
        Self(faults.into_iter().map(|fault| fault.to_string()).collect())
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for BadInput {}
