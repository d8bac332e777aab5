//! Secret values, and where they come from: the environment or a file, never the configuration
//! itself.
//!
//! Invariants: the type cannot be printed or serialized, and no error message contains any part of
//! a value.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::named_file::read_named_file;

/// Maximum length of a secret. Longer than any token or passphrase; a larger file is a mistake.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// A secret. `Debug` shows three asterisks; there is no `Display` and no serialization.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why a secret could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The variable does not exist.
    #[error("the environment variable {name} is not set")]
    NotSet {
        /// Name of the variable.
        name: String,
    },
    /// The file cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system error.
        error: std::io::Error,
    },
    /// It contains nothing but white space.
    #[error("{place} is empty")]
    Empty {
        /// The variable or file.
        place: String,
    },
    /// It is too long for a secret.
    #[error("{place} exceeds the 64 KiB limit for secrets")]
    TooLong {
        /// The variable or file.
        place: String,
    },
    /// Bytes that are not allowed in a header line, or not UTF-8.
    #[error("{place} contains more than one line, control characters or invalid UTF-8")]
    NotText {
        /// The variable or file.
        place: String,
    },
}

impl Secret {
    /// Wraps a value read from the environment or a file.
    pub fn new(value: String) -> Self {
        Self(value)
    }

    /// Reads an environment variable.
    pub fn from_env(name: &str) -> Result<Self, SecretError> {
        let place = || format!("the environment variable {name}");
        match std::env::var(name) {
            Ok(value) => Self::checked(&value, place),
            Err(std::env::VarError::NotPresent) => {
                Err(SecretError::NotSet { name: name.to_owned() })
            }
            Err(std::env::VarError::NotUnicode(_)) => Err(SecretError::NotText { place: place() }),
        }
    }

    /// Reads a file; surrounding white space (such as the final newline) is not part of the value.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        let place = || path.display().to_string();
        let bytes =
            read_named_file(path, SECRET_BYTES_MAX).map_err(|error| match error.kind() {
                io::ErrorKind::FileTooLarge => SecretError::TooLong { place: place() },
                _ => SecretError::Unreadable { path: path.to_owned(), error },
            })?;
        match String::from_utf8(bytes) {
            Ok(value) => Self::checked(&value, place),
            Err(_) => Err(SecretError::NotText { place: place() }),
        }
    }

    /// Returns the secrets of a comma-separated list, without surrounding white space. `None` if
    /// one is empty: a list with a missing part must not pass for a shorter one.
    pub fn list(&self) -> Option<Vec<&str>> {
        let all = self.0.split(',').map(str::trim);
        all.map(|secret| Some(secret).filter(|secret| !secret.is_empty())).collect()
    }

    /// Returns the value, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn checked(value: &str, place: impl Fn() -> String) -> Result<Self, SecretError> {
        if value.len() as u64 > SECRET_BYTES_MAX {
            return Err(SecretError::TooLong { place: place() });
        }
        let value = value.trim();
        if value.is_empty() {
            return Err(SecretError::Empty { place: place() });
        }
        if value.chars().any(char::is_control) {
            return Err(SecretError::NotText { place: place() });
        }
        Ok(Self(value.to_owned()))
    }
}

/// Returns true if users other than the owner and the group may read the file: worth a warning if
/// it contains a secret. Returns false if that cannot be determined.
pub fn is_world_readable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o004 != 0)
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_bytes(bytes: &[u8]) -> Result<Secret, SecretError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, bytes).unwrap();
        Secret::from_file(&path)
    }

    #[test]
    fn the_final_newline_of_a_file_is_not_part_of_the_secret() {
        assert_eq!(from_bytes(b"abc-123\n").unwrap().expose(), "abc-123");
    }

    #[test]
    fn a_list_with_an_empty_secret_is_none() {
        let list = |text: &str| Secret::new(text.to_owned()).list().map(|all| all.join("|"));
        assert_eq!(list("a, b,c ").as_deref(), Some("a|b|c"));
        for text in ["", ",", "a,", ",a", "a, ,b"] {
            assert_eq!(list(text), None, "{text:?}");
        }
    }

    #[test]
    fn files_that_hold_no_secret_are_refused_without_showing_their_content() {
        for (bytes, expected) in [
            (&b" \n"[..], "is empty"),
            (b"one-hidden\ntwo", "more than one line"),
            (b"\xff\xfehidden", "invalid UTF-8"),
            ("x".repeat(70_000).as_bytes(), "the 64 KiB limit"),
        ] {
            let error = from_bytes(bytes).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("hidden"), "{error}");
        }
        let error = Secret::from_file(Path::new("/no/such/token")).unwrap_err().to_string();
        assert!(error.starts_with("/no/such/token cannot be read: No such file"), "{error}");
        let error = Secret::from_env("WEIR_NO_SUCH_VARIABLE").unwrap_err().to_string();
        assert_eq!(error, "the environment variable WEIR_NO_SUCH_VARIABLE is not set");
    }

    #[test]
    fn a_secret_does_not_print() {
        assert_eq!(format!("{:?}", Secret::new("hidden".to_owned())), "***");
    }
}
