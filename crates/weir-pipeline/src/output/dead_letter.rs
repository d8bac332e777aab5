//! Records that a destination permanently refused, one JSON object per line in
//! `data_dir/dead-letter/<output>.jsonl`.
//!
//! Invariants: an entry is on stable storage before its record counts as dead-lettered; an
//! incomplete last line is cut off before the next append (it was never counted); the file size is
//! limited, and when it is full, records are refused here, so that the caller counts them as
//! rejected. The file is reopened for each append, under a lock, so that `resend` may move it away
//! at any time.

mod entry;
mod resend;

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_host::{Disk, DiskFile, OpenMode};

pub use entry::DeadLetter;
pub use resend::{ResendError, ResendReport, resend};

/// Size of one output's dead-letter file at which further records are rejected: far more than an
/// operator will look through, and small compared to the journal.
pub const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Whether an append was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appended {
    /// Written to stable storage.
    Durable,
    /// The file has reached its limit; nothing was written.
    Full,
}

/// The dead-letter file of one output.
#[derive(Debug)]
pub(crate) struct DeadLetterFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    lock_path: PathBuf,
    bytes_max: u64,
}

fn dir(data_dir: &Path) -> PathBuf {
    data_dir.join("dead-letter")
}

fn file_of(data_dir: &Path, output: &str) -> PathBuf {
    dir(data_dir).join(format!("{output}.jsonl"))
}

impl DeadLetterFile {
    pub(crate) fn new(disk: Arc<dyn Disk>, data_dir: &Path, output: &str) -> Self {
        Self {
            disk,
            path: file_of(data_dir, output),
            lock_path: dir(data_dir).join(format!("{output}.lock")),
            bytes_max: FILE_BYTES_MAX,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends all entries or none, durably.
    pub(crate) fn append(&self, entries: &[DeadLetter]) -> io::Result<Appended> {
        let mut lines = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut lines, entry)?;
            lines.push(b'\n');
        }
        let dir = self.path.parent().unwrap_or(Path::new(""));
        self.disk.create_dir_all(dir)?;
        let _locked = self.lock()?;
        let file = self.disk.open(&self.path, OpenMode::Create)?;
        let end = whole_entries(&*file)?;
        if end + lines.len() as u64 > self.bytes_max {
            return Ok(Appended::Full);
        }
        let written = file
            .write_all_at(&mut [IoSlice::new(&lines)], end)
            .and_then(|()| file.sync_data())
            .and_then(|()| if end == 0 { self.disk.sync_dir(dir) } else { Ok(()) });
        if let Err(error) = written {
            // The next append cuts off what a failure here leaves behind.
            drop(file.set_len(end));
            return Err(error);
        }
        Ok(Appended::Durable)
    }
}

impl DeadLetterFile {
    /// Locks out other processes until it is dropped; fails if another one holds the lock.
    pub(crate) fn lock(&self) -> io::Result<Box<dyn DiskFile>> {
        let lock = self.disk.open(&self.lock_path, OpenMode::Create)?;
        if lock.try_lock()? { Ok(lock) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }
}

/// Returns the length up to the last complete entry, and cuts off the rest.
fn whole_entries(file: &dyn DiskFile) -> io::Result<u64> {
    let len = file.len()?;
    let mut end = len;
    let mut block = vec![0; 64 * 1024];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - start) as usize];
        file.read_exact_at(part, start)?;
        if let Some(at) = memchr::memrchr(b'\n', part) {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    if end < len {
        file.set_len(end)?;
    }
    Ok(end)
}

/// Returns the names of the outputs that have dead letters.
pub fn outputs(data_dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let entries = match std::fs::read_dir(dir(data_dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let name = name.strip_suffix(".jsonl").or_else(|| name.strip_suffix(".resending"));
        names.extend(name.map(ToOwned::to_owned));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Returns every dead letter of an output, oldest first. An invalid line (such as an incomplete
/// last one) is an error of kind `InvalidData`, and reading continues after it.
pub fn list(
    data_dir: &Path,
    output: &str,
) -> io::Result<impl Iterator<Item = io::Result<DeadLetter>> + use<>> {
    let resending = resend::resending_file(data_dir, output);
    let files = [entry::read_file(&resending)?, entry::read_file(&file_of(data_dir, output))?];
    Ok(files.into_iter().flatten().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::{LogRecord, RecordKind, Resource, Severity};

    fn letter(body: &[u8]) -> DeadLetter {
        let record = LogRecord {
            timestamp: 1_700_000_000_123_456_789,
            observed_timestamp: 1_700_000_001_000_000_000,
            severity_number: Severity::INFO,
            body: body.to_vec(),
            attributes: r#"{"a":1}"#.to_owned(),
            resource: Resource::new().with("host.name", "vm"),
            kind: RecordKind::Event,
            facility: Some(4),
            process_id: "17".to_owned(),
            message_id: "m".to_owned(),
        };
        DeadLetter::new(5, "splunk", "no \"event\"", Some(12), record, 0)
    }

    fn file(dir: &Path) -> DeadLetterFile {
        DeadLetterFile::new(Arc::new(weir_host::RealDisk), dir, "splunk")
    }

    #[test]
    fn dead_letters_come_back_byte_for_byte() {
        let dir = tempfile::tempdir().unwrap();
        let letters = [letter(b"text \xc3\xa9"), letter(b"bytes \xff\x00 end"), letter(b"")];
        assert_eq!(file(dir.path()).append(&letters).unwrap(), Appended::Durable);
        assert_eq!(file(dir.path()).append(&letters[..1]).unwrap(), Appended::Durable);
        let seen: Vec<_> = list(dir.path(), "splunk").unwrap().map(Result::unwrap).collect();
        assert_eq!(seen, [&letters[..], &letters[..1]].concat());
        assert_eq!(outputs(dir.path()).unwrap(), ["splunk"]);
    }

    #[test]
    fn a_torn_entry_is_cut_off_by_the_next_append() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(dir.path());
        file.append(&[letter(b"one")]).unwrap();
        let whole = std::fs::read(file.path()).unwrap();
        std::fs::write(file.path(), [&whole[..], &whole[..40]].concat()).unwrap();
        assert!(list(dir.path(), "splunk").unwrap().any(|entry| entry.is_err()));
        file.append(&[letter(b"two")]).unwrap();
        let seen: Vec<_> = list(dir.path(), "splunk").unwrap().map(Result::unwrap).collect();
        assert_eq!(seen, [letter(b"one"), letter(b"two")]);
    }

    #[test]
    fn a_full_file_takes_nothing_more() {
        let dir = tempfile::tempdir().unwrap();
        let file = DeadLetterFile { bytes_max: 100, ..file(dir.path()) };
        assert_eq!(file.append(&[letter(b"one")]).unwrap(), Appended::Full);
        assert_eq!(list(dir.path(), "splunk").unwrap().count(), 0);
    }
}
