//! Damages the journal's files while weir is not running: random bytes are hit, as by a failing
//! disk.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use fastrand::Rng;

/// Maximum length of a range that is zeroed, bytes.
const ZEROED_BYTES_MAX: u64 = 1 << 20;

/// Returns the files with this extension below a directory, oldest name first; none if it does not
/// exist.
pub(super) fn files(dir: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if !dir.exists() {
        return Ok(found);
    }
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, ending)?);
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Removes all but the last damaged files that weir has moved aside: a run of several days damages
/// thousands.
pub(super) fn forget_all_but(dir: &Path, ending: &str, kept: usize) -> io::Result<()> {
    let mut found = Vec::new();
    for path in files(dir, ending)? {
        found.push((path.metadata()?.modified()?, path));
    }
    found.sort();
    found.truncate(found.len().saturating_sub(kept));
    found.iter().try_for_each(|(_, path)| std::fs::remove_file(path))
}

/// Damages a file, and describes how.
pub(super) fn damage(path: &Path, rng: &mut Rng) -> io::Result<String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let len = file.metadata()?.len();
    if len == 0 {
        return Ok(format!("{name} is empty"));
    }
    let at = rng.u64(..len);
    match rng.u8(..4) {
        0 => {
            let flips = rng.usize(1..20) * 2 - 1;
            for _ in 0..flips {
                let at = rng.u64(..len);
                let mut byte = [0];
                file.read_exact_at(&mut byte, at)?;
                file.write_all_at(&[byte[0] ^ (1 << rng.u8(..8))], at)?;
            }
            Ok(format!("{flips} bits of {name} flipped"))
        }
        1 => {
            let zeros = rng.u64(1..=ZEROED_BYTES_MAX).min(len - at);
            file.write_all_at(&vec![0; zeros as usize], at)?;
            Ok(format!("{zeros} of {len} bytes of {name} zeroed at {at}"))
        }
        2 => {
            file.set_len(at)?;
            Ok(format!("{name} truncated to {at} of {len} bytes"))
        }
        _ => {
            std::fs::remove_file(path)?;
            Ok(format!("{name} ({len} bytes) removed"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_are_kept_of_what_was_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..5 {
            std::fs::write(dir.path().join(format!("{n}.bad")), "bad").unwrap();
        }
        std::fs::write(dir.path().join("5.wseg"), "good").unwrap();
        forget_all_but(dir.path(), "bad", 2).unwrap();
        assert_eq!(files(dir.path(), "bad").unwrap().len(), 2);
        assert_eq!(files(dir.path(), "wseg").unwrap().len(), 1);
    }

    #[test]
    fn damage_changes_the_file_and_says_how() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wseg");
        let whole = vec![1; 10_000];
        let mut rng = Rng::with_seed(7);
        for _ in 0..40 {
            std::fs::write(&path, &whole).unwrap();
            assert_eq!(files(dir.path(), "wseg").unwrap(), std::slice::from_ref(&path));
            assert!(damage(&path, &mut rng).unwrap().contains("a.wseg"));
            assert_ne!(std::fs::read(&path).ok().as_ref(), Some(&whole));
        }
    }
}
