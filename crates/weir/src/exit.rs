//! Exit codes, and the errors that lead to them.
//!
//! Invariant: a script can distinguish an invalid configuration, a failure and an empty result; the
//! codes are part of the interface and listed in `weir --help`.

use std::fmt;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Ok,
    /// The command failed; stderr has the reason.
    Failed,
    /// The configuration is not valid.
    ConfigInvalid,
    /// The arguments cannot be combined, or a query, a time or a field among them is invalid.
    Usage,
    /// A named object does not exist.
    NotFound,
    /// The result is incomplete.
    Partial,
    /// The books do not balance.
    Broken,
    /// Temporarily unavailable: try again.
    Temporary,
    /// Interrupted by Ctrl-C.
    Interrupted,
}

impl Exit {
    /// The exit code for the shell.
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

/// An error that ends a command with a specific code instead of 1.
#[derive(Debug)]
pub(crate) struct ExitError {
    pub(crate) exit: Exit,
    /// One line; empty if everything has already been printed.
    pub(crate) message: String,
}

impl ExitError {
    /// Returns an error that ends the command with this code and message.
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
