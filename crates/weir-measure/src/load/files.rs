//! One log file as its writer sees it: appends, and rotation as docker, kubelet and logrotate do
//! it.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::encode::kubelet_suffix;
use super::{RotateWhen, Rotation};

/// A file that is written and rotated.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    rotation: Option<Rotation>,
    /// When it was last rotated, since the start of the run.
    rotated_at: Duration,
    /// Rotated files with kubelet's names, oldest first.
    kubelet_names: VecDeque<PathBuf>,
    kubelet_second: i64,
    /// kubelet renamed the file and the runtime has not reopened it yet.
    reopen_due: bool,
    /// Number of files started after the first one.
    pub(crate) generation: u64,
}

impl LogFile {
    pub(crate) fn create(path: PathBuf, rotation: Option<Rotation>) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let size_bytes = file.metadata()?.len();
        Ok(Self {
            path,
            file,
            size_bytes,
            rotation,
            rotated_at: Duration::ZERO,
            kubelet_names: VecDeque::new(),
            kubelet_second: 0,
            reopen_due: false,
            generation: 0,
        })
    }

    /// Appends with one call (more only after a short write).
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.size_bytes += bytes.len() as u64;
        if self.reopen_due {
            self.reopen()?;
        }
        Ok(())
    }

    /// Returns true if the file must be rotated before more is written, with `pending` bytes about
    /// to be written to it.
    pub(crate) fn is_due(&self, elapsed: Duration, pending: usize) -> bool {
        let size_bytes = self.size_bytes + pending as u64;
        match self.rotation.map(Rotation::when) {
            None => false,
            Some(_) if self.reopen_due => false,
            Some(RotateWhen::Bytes(bytes)) => size_bytes >= bytes,
            Some(RotateWhen::Every(interval)) => {
                size_bytes > 0 && elapsed >= self.rotated_at + interval
            }
        }
    }

    /// Rotates. In kubelet's way, the next append still goes to the renamed file, like those of a
    /// runtime until it is told to reopen.
    pub(crate) fn rotate(&mut self, elapsed: Duration, unix_ns: i64) -> io::Result<()> {
        self.rotated_at = elapsed;
        match self.rotation {
            None => Ok(()),
            Some(Rotation::Rename { keep, .. }) => {
                self.shift_names(keep)?;
                self.reopen()
            }
            Some(Rotation::Kubelet { keep, .. }) => {
                self.reopen_due = true;
                self.rename_with_time(keep, unix_ns)
            }
            Some(Rotation::CopyTruncate { .. }) => {
                std::fs::copy(&self.path, numbered(&self.path, 1))?;
                self.file.set_len(0)?;
                self.size_bytes = 0;
                self.generation += 1;
                Ok(())
            }
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = OpenOptions::new().create_new(true).append(true).open(&self.path)?;
        self.reopen_due = false;
        self.size_bytes = 0;
        self.generation += 1;
        Ok(())
    }

    /// docker: removes the oldest file, shifts the others, and renames the current one to `.1` (or
    /// removes it, too, if none is kept).
    fn shift_names(&self, keep: usize) -> io::Result<()> {
        if keep == 0 {
            return std::fs::remove_file(&self.path);
        }
        for number in (1..keep).rev() {
            let from = numbered(&self.path, number);
            if from.exists() {
                std::fs::rename(from, numbered(&self.path, number + 1))?;
            }
        }
        std::fs::rename(&self.path, numbered(&self.path, 1))
    }

    /// kubelet: the current file gets the time as suffix; files beyond `keep` are removed.
    fn rename_with_time(&mut self, keep: usize, unix_ns: i64) -> io::Result<()> {
        self.kubelet_second = (unix_ns / 1_000_000_000).max(self.kubelet_second + 1);
        let name = with_suffix(&self.path, &kubelet_suffix(self.kubelet_second));
        std::fs::rename(&self.path, &name)?;
        self.kubelet_names.push_back(name);
        while self.kubelet_names.len() > keep {
            if let Some(oldest) = self.kubelet_names.pop_front() {
                std::fs::remove_file(oldest)?;
            }
        }
        Ok(())
    }
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    with_suffix(path, &number.to_string())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHEN: RotateWhen = RotateWhen::Bytes(1);

    fn written(rotation: Rotation) -> Vec<(String, String)> {
        let dir = tempfile::tempdir().unwrap();
        let mut file = LogFile::create(dir.path().join("a.log"), Some(rotation)).unwrap();
        for i in 0..4 {
            file.append(format!("{i}\n").as_bytes()).unwrap();
            assert!(file.is_due(Duration::ZERO, 0));
            file.rotate(Duration::ZERO, 0).unwrap();
            assert!(!file.is_due(Duration::ZERO, 0));
        }
        file.append(b"4\n").unwrap();
        files(dir.path())
    }

    fn files(dir: &Path) -> Vec<(String, String)> {
        let mut files: Vec<(String, String)> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, std::fs::read_to_string(path).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn docker_shifts_numbers() {
        assert_eq!(
            written(Rotation::Rename { when: WHEN, keep: 2 }),
            owned(&[("a.log", "4\n"), ("a.log.1", "3\n"), ("a.log.2", "2\n")])
        );
        assert_eq!(written(Rotation::Rename { when: WHEN, keep: 0 }), owned(&[("a.log", "4\n")]));
    }

    #[test]
    fn kubelet_appends_the_time_and_the_runtime_reopens_one_write_later() {
        let dir = tempfile::tempdir().unwrap();
        let rotation = Some(Rotation::Kubelet { when: WHEN, keep: 1 });
        let mut file = LogFile::create(dir.path().join("0.log"), rotation).unwrap();
        for _ in 0..3 {
            file.append(b"a\n").unwrap();
            file.rotate(Duration::ZERO, 0).unwrap();
            file.append(b"late\n").unwrap();
        }
        file.append(b"b\n").unwrap();
        assert_eq!(
            files(dir.path()),
            owned(&[("0.log", "b\n"), ("0.log.19700101-000003", "a\nlate\n")])
        );
        assert_eq!(file.generation, 3);
    }

    #[test]
    fn copytruncate_keeps_the_inode() {
        assert_eq!(
            written(Rotation::CopyTruncate { when: WHEN }),
            owned(&[("a.log", "4\n"), ("a.log.1", "3\n")])
        );
    }
}
