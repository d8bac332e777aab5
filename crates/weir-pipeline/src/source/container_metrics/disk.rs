//! The size of a container's writable layer.
//!
//! It can only be counted file by file, so this is done rarely, and up to a limit.
//!
//! Invariant: links are not followed, and at most [`LAYER_FILES_MAX`] files are counted.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::limits::LAYER_FILES_MAX;
use super::runtime::Layer;

/// Bytes of a block in the metadata of a file.
const BLOCK_BYTES: u64 = 512;

/// A layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LayerSize {
    /// What its files occupy, in bytes; a lower bound if there are too many.
    pub(super) used_bytes: u64,
    /// The size of the file system that holds it, in bytes.
    pub(super) total_bytes: u64,
}

/// Measures a layer; `None` if it cannot be found.
pub(super) fn measure(layer: &Layer, proc_root: &Path) -> Option<LayerSize> {
    let dir = match layer {
        Layer::Dir(dir) => dir.clone(),
        Layer::MountedAt(at) => upper_dir(at, &proc_root.join("self/mountinfo"))?,
    };
    let stat = rustix::fs::statvfs(&dir).ok()?;
    Some(LayerSize {
        used_bytes: used_bytes(dir),
        total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
    })
}

fn used_bytes(dir: PathBuf) -> u64 {
    let mut dirs = vec![dir];
    let (mut used, mut left) = (0, LAYER_FILES_MAX);
    while let Some(dir) = dirs.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.filter_map(Result::ok) {
            if left == 0 {
                return used;
            }
            left -= 1;
            // Without following links.
            let Ok(metadata) = entry.metadata() else { continue };
            used += metadata.blocks() * BLOCK_BYTES;
            if metadata.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    used
}

/// Returns the upper directory of the overlay that is mounted at a path.
fn upper_dir(at: &Path, mountinfo: &Path) -> Option<PathBuf> {
    let text = fs::read(mountinfo).ok()?;
    let at = at.as_os_str().as_bytes();
    let lines = text.split(|byte| *byte == b'\n').rev();
    // Number, parent, device, root, mount point, options, ... - type, device, options.
    let mut mounts = lines.map(|line| line.split(|byte| *byte == b' ').skip(4));
    let mut fields =
        mounts.find_map(|mut fields| (unescaped(fields.next()?) == at).then_some(fields))?;
    let _options = fields.next();
    let mut of_file_system = fields.skip_while(|field| *field != b"-").skip(1);
    if of_file_system.next()? != b"overlay" {
        return None;
    }
    let mut options = of_file_system.last()?.split(|byte| *byte == b',');
    let dir = options.find_map(|option| option.strip_prefix(b"upperdir="))?;
    Some(PathBuf::from(OsString::from_vec(unescaped(dir))))
}

/// Returns a field without its escapes: the kernel writes blanks, tabs, newlines, backslashes, and
/// commas in options as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, others)) = rest.split_first() {
        let digits = others.first_chunk::<3>().filter(|_| *first == b'\\');
        let escaped = digits.and_then(|digits| {
            let text = std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+'))?;
            u8::from_str_radix(text, 8).ok()
        });
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &others[3..] } else { others };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_counted_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        let upper = dir.path().join("upper");
        fs::create_dir_all(upper.join("a/b")).unwrap();
        fs::write(upper.join("a/b/file"), vec![1; 100_000]).unwrap();
        fs::write(dir.path().join("outside"), vec![1; 900_000]).unwrap();
        std::os::unix::fs::symlink(dir.path(), upper.join("link")).unwrap();
        let merged = dir.path().join("merged");
        let mounts = format!(
            "22 1 0:21 / /proc rw - proc proc rw\n36 25 0:32 / {} rw,relatime shared:5 - overlay \
             overlay rw,lowerdir=/l1:/l2,upperdir={},workdir=/w\n",
            merged.display(),
            upper.display()
        );
        fs::create_dir(dir.path().join("self")).unwrap();
        fs::write(dir.path().join("self/mountinfo"), mounts).unwrap();
        let by_mount = measure(&Layer::MountedAt(merged), dir.path()).unwrap();
        assert_eq!(measure(&Layer::Dir(upper), dir.path()), Some(by_mount));
        assert!((100_000..200_000).contains(&by_mount.used_bytes), "{by_mount:?}");
        assert!(by_mount.total_bytes > by_mount.used_bytes);
        assert_eq!(measure(&Layer::MountedAt("/none".into()), dir.path()), None);
    }

    #[test]
    fn paths_in_mounts_are_without_escapes() {
        let dir = tempfile::tempdir().unwrap();
        let mountinfo = dir.path().join("mountinfo");
        let mounts = "36 25 0:32 / /run/a\\040b\\134c rw shared:5 - overlay overlay \
                      rw,lowerdir=/l,upperdir=/var/u\\054\\011p\\040\\0x,workdir=/w\n\
                      37 25 0:33 / /run/ext rw - ext4 /dev/vda rw\n";
        fs::write(&mountinfo, mounts).unwrap();
        let upper = upper_dir(Path::new("/run/a b\\c"), &mountinfo);
        assert_eq!(upper, Some(PathBuf::from("/var/u,\tp \\0x")));
        assert_eq!(upper_dir(Path::new("/run/a\\040b\\134c"), &mountinfo), None);
        assert_eq!(upper_dir(Path::new("/run/ext"), &mountinfo), None);
    }
}
