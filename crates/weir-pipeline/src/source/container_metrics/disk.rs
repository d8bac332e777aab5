//! The size of a container's writable layer.
//!
//! It can only be counted file by file, so this is done rarely, and up to a limit.
//!
//! Invariant: links are not followed, and at most [`LAYER_FILES_MAX`] files are counted.

use std::fs;
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
    let text = fs::read_to_string(mountinfo).ok()?;
    let at = at.to_str()?;
    // Number, parent, device, root, mount point, options, ... - type, device, options.
    let line = text.lines().rev().find(|line| line.split(' ').nth(4) == Some(at))?;
    let (_, overlay) = line.split_once(" - overlay ")?;
    let options = overlay.rsplit(' ').next()?;
    let dir = options.split(',').find_map(|option| option.strip_prefix("upperdir="))?;
    Some(PathBuf::from(dir))
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
}
