//! Files that a configuration names: secrets, certificates and keys.
//!
//! Invariant: reading one never waits and is bounded, whatever is found under the name.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// Maximum length of a file with certificates or a key. The authorities of a whole system take a
/// few hundred KiB.
pub const PEM_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads a whole file of at most `bytes_max` bytes.
///
/// # Errors
/// Those of the system; [`io::ErrorKind::InvalidInput`] for a directory, a pipe or a device, since
/// reading one could wait forever, and a second time for other contents;
/// [`io::ErrorKind::FileTooLarge`] for a longer file.
pub fn read_named_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("longer than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_pipe_is_refused_instead_of_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [&pipe, dir.path(), Path::new("/dev/zero")] {
            let error = read_named_file(path, 10).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file");
        }
    }

    #[test]
    fn a_file_is_read_up_to_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, b"0123456789").unwrap();
        assert_eq!(read_named_file(&path, 10).unwrap(), b"0123456789");
        assert_eq!(read_named_file(&path, 9).unwrap_err().to_string(), "longer than 9 bytes");
    }
}
