//! The target of an export: standard output, or a file that gets its final name only when it is
//! complete.
//!
//! Invariants: a file with the final name was written completely and is durable, or was there
//! before; whatever ends a piece early, an error or a signal, removes what was written so far
//! (`FILE.part`); a signal arrives before the file is renamed or after, never in between; only one
//! export at a time writes `FILE.part`, and a leftover of a crash does not block later exports.

use std::borrow::Cow;
use std::fs::{self, File, TryLockError};
use std::io::{self, IsTerminal as _, StdoutLock, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use weir_host::terminal::{printable_json, printable_lines};
use weir_host::{Disk as _, RealDisk};

use crate::cli::ExportFormat;
use crate::exit::Exit;
use crate::signal;
use crate::term::{note, note_in_place};

/// The state of an export on the disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Pieces(Arc<Mutex<PiecesState>>);

#[derive(Debug, Default)]
struct PiecesState {
    /// The file that is being written.
    part: Option<PathBuf>,
    complete: Vec<PathBuf>,
}

impl Pieces {
    /// From now on a signal that ends the command first removes the incomplete piece.
    pub(super) fn removed_on_signal() -> Result<Self> {
        let pieces = Self::default();
        let seen = pieces.clone();
        signal::when_interrupted(move || {
            // Held to the end, so that no file is renamed any more.
            let mut state = seen.lock();
            state.remove_part();
            let whole = state.complete().map(|whole| format!("; {whole}")).unwrap_or_default();
            if io::stderr().is_terminal() {
                note_in_place("");
            }
            note(&format!("interrupted: the export is incomplete{whole}"));
            std::process::exit(Exit::Interrupted.code().into());
        })?;
        Ok(pieces)
    }

    /// The complete pieces, if a later one failed.
    pub(super) fn complete(&self) -> Option<String> {
        self.lock().complete()
    }

    fn lock(&self) -> MutexGuard<'_, PiecesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PiecesState {
    fn complete(&self) -> Option<String> {
        let names: Vec<_> = self.complete.iter().map(|path| path.display().to_string()).collect();
        (!names.is_empty()).then(|| format!("only the beginning was written: {}", names.join(", ")))
    }

    /// Prints a note if the file cannot be removed.
    fn remove_part(&mut self) {
        if let Some(part) = self.part.take()
            && let Err(error) = fs::remove_file(&part)
        {
            note(&format!("could not remove {}: {error}", part.display()));
        }
    }
}

/// Where a piece is written to.
pub(super) enum Target {
    /// Standard output.
    Stdout(StdoutLock<'static>),
    /// Standard output if it is a terminal.
    Terminal(Terminal),
    /// A pipe or a device: what was written to it cannot be undone.
    Direct(File),
    /// A file.
    Part(Part),
}

impl Target {
    /// Opens standard output, which may be a terminal.
    pub(super) fn stdout(format: ExportFormat) -> Self {
        let out = io::stdout().lock();
        match format {
            _ if !out.is_terminal() => Self::Stdout(out),
            ExportFormat::Ndjson => Self::Terminal(Terminal::new(out, printable_json)),
            // Parquet is refused before.
            ExportFormat::Csv | ExportFormat::Parquet => {
                Self::Terminal(Terminal::new(out, printable_lines))
            }
        }
    }

    /// Opens a file.
    pub(super) fn open(name: &Path, pieces: &Pieces) -> Result<Self> {
        let opened = match fs::metadata(name) {
            Ok(old) if !old.is_file() => File::options().write(true).open(name).map(Self::Direct),
            // The target of a link is replaced, not the link.
            Ok(_) => {
                name.canonicalize().and_then(|name| Part::create(name, pieces)).map(Self::Part)
            }
            Err(_) => Part::create(name.to_owned(), pieces).map(Self::Part),
        };
        opened.with_context(|| format!("could not write {}", name.display()))
    }

    /// Finishes a complete piece.
    pub(super) fn complete(self) -> io::Result<()> {
        match self {
            Self::Stdout(mut out) => out.flush(),
            Self::Terminal(out) => out.complete(),
            Self::Direct(_) => Ok(()),
            Self::Part(part) => part.complete(),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::Terminal(out) => out.write(bytes),
            Self::Direct(file) => file.write(bytes),
            Self::Part(part) => part.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::Terminal(out) => out.out.flush(),
            Self::Direct(file) => file.flush(),
            Self::Part(part) => part.file.flush(),
        }
    }
}

/// A terminal: what it would interpret or not show is escaped.
pub(super) struct Terminal<W = StdoutLock<'static>> {
    out: W,
    escape: fn(&str) -> Cow<'_, str>,
    /// The beginning of a character.
    rest: Vec<u8>,
}

impl<W: Write> Terminal<W> {
    fn new(out: W, escape: fn(&str) -> Cow<'_, str>) -> Self {
        Self { out, escape, rest: Vec::new() }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let len = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Ok(_) | Err(_) => self.rest.len(),
        };
        self.print(len)?;
        Ok(bytes.len())
    }

    fn print(&mut self, len: usize) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.rest[..len]);
        self.out.write_all((self.escape)(&text).as_bytes())?;
        self.rest.drain(..len);
        Ok(())
    }

    fn complete(mut self) -> io::Result<()> {
        self.print(self.rest.len())?;
        self.out.flush()
    }
}

/// A file next to its final name; removed if dropped before it is complete.
pub(super) struct Part {
    file: File,
    path: PathBuf,
    name: PathBuf,
    pieces: Pieces,
}

impl Part {
    fn create(name: PathBuf, pieces: &Pieces) -> io::Result<Self> {
        let path = with_suffix(&name, "part");
        let mut state = pieces.lock();
        let file = locked(&path)?;
        state.part = Some(path.clone());
        drop(state);
        let created = Self { file, path, name, pieces: pieces.clone() };
        // The new file has the permissions of the older one.
        if let Ok(old) = fs::metadata(&created.name) {
            created.file.set_permissions(old.permissions())?;
        }
        Ok(created)
    }

    fn complete(self) -> io::Result<()> {
        self.file.sync_all()?;
        let mut state = self.pieces.lock();
        RealDisk.rename(&self.path, &self.name)?;
        state.part = None;
        state.complete.push(self.name.clone());
        drop(state);
        let dir = self.name.parent().filter(|dir| !dir.as_os_str().is_empty());
        RealDisk.sync_dir(dir.unwrap_or(Path::new(".")))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.pieces.lock().remove_part();
    }
}

/// Opens the file, empty and exclusive: the writer holds its lock, which ends with the process.
fn locked(path: &Path) -> io::Result<File> {
    loop {
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let what = format!("{} is being written by another export", path.display());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
            }
            // Some file systems do not support locks.
            Err(TryLockError::Error(error)) if error.kind() != io::ErrorKind::Unsupported => {
                return Err(error);
            }
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // The previous owner may have removed or renamed it since it was opened.
        let mine = file.metadata()?;
        let is_there = |there: fs::Metadata| (there.dev(), there.ino()) == (mine.dev(), mine.ino());
        if fs::metadata(path).is_ok_and(is_there) {
            file.set_len(0)?;
            return Ok(file);
        }
    }
}

/// `FILE.suffix`.
pub(super) fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_renamed_when_complete() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("out");
        let names = || {
            let names = fs::read_dir(dir.path()).unwrap();
            let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let pieces = Pieces::default();
        let mut target = Target::open(&name, &pieces).unwrap();
        target.write_all(b"first").unwrap();
        assert_eq!(names(), ["out.part"]);
        target.complete().unwrap();
        assert_eq!((names(), fs::read(&name).unwrap()), (vec!["out".into()], b"first".to_vec()));
        let mut target = Target::open(&name, &pieces).unwrap();
        target.write_all(b"sec").unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"first");
        drop(target);
        assert_eq!((names(), fs::read(&name).unwrap()), (vec!["out".into()], b"first".to_vec()));
        assert_eq!(pieces.lock().part, None);
    }

    #[test]
    fn terminal_shows_escapes_wherever_the_text_is_cut() {
        let text = "{\"a\":\"\u{9b}\u{202e}\u{e9}\u{2800}\"}\n".as_bytes();
        for cut in 0..text.len() {
            let mut shown = Vec::new();
            let mut terminal = Terminal::new(&mut shown, printable_json);
            terminal.write(&text[..cut]).unwrap();
            terminal.write(&text[cut..]).unwrap();
            terminal.complete().unwrap();
            let want = "{\"a\":\"\\u009b\\u202e\u{e9}\\u2800\"}\n";
            assert_eq!(String::from_utf8(shown).unwrap(), want, "{cut}");
        }
    }

    #[test]
    fn export_file_is_locked_and_survives_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("out");
        // As left by a crash.
        fs::write(dir.path().join("out.part"), "leftover of a crash, and longer").unwrap();
        let (pieces, others) = (Pieces::default(), Pieces::default());
        let mut target = Target::open(&name, &pieces).unwrap();
        let refused = Target::open(&name, &others).map(drop).unwrap_err();
        assert!(
            format!("{refused:#}").contains("is being written by another export"),
            "{refused:#}"
        );
        assert_eq!(others.lock().part, None);
        target.write_all(b"mine").unwrap();
        target.complete().unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"mine");
        Target::open(&name, &others).unwrap().complete().unwrap();
        assert_eq!(fs::read(&name).unwrap(), b"");
    }

    #[test]
    fn links_are_followed_and_devices_written_directly() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        let mut target = Target::open(&link, &Pieces::default()).unwrap();
        target.write_all(b"new").unwrap();
        target.complete().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let null = Target::open(Path::new("/dev/null"), &Pieces::default()).unwrap();
        assert!(matches!(null, Target::Direct(_)));
    }
}
