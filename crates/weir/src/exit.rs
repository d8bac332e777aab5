//! Exit codes, and the errors that lead to them.
//!
//! Invariant: a script can tell a wrong configuration from a failure from nothing found; the
//! codes are part of the interface and listed in `weir --help`.

use std::fmt;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Ok,
    /// It did not; stderr says why.
    Failed,
    /// The configuration is not valid.
    ConfigInvalid,
    /// The arguments cannot be used together, or a query, a time or a field among them is wrong.
    Usage,
    /// What was named does not exist.
    NotFound,
    /// The answer is not the whole one.
    Partial,
    /// The books do not balance.
    Broken,
    /// Not possible now: try again.
    Temporary,
    /// Ended by Ctrl-C before it was done.
    Interrupted,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::ConfigInvalid => 3,
            Self::Usage => 2,
            Self::NotFound => 4,
            Self::Partial => 5,
            Self::Broken => 6,
            Self::Temporary => 75,
            Self::Interrupted => 130,
        }
    }
}

/// An error that ends a command with a code of its own instead of 1.
#[derive(Debug)]
pub(crate) struct ExitError {
    pub(crate) exit: Exit,
    /// One line; empty when everything has been said.
    pub(crate) message: String,
}

impl ExitError {
    /// Ends the command with this code and line.
    pub(crate) fn with(exit: Exit, message: impl Into<String>) -> anyhow::Error {
        Self { exit, message: message.into() }.into()
    }
}

impl fmt::Display for ExitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExitError {}
