//! Finds containers among the cgroups of a machine and reads their usage, for cgroup v1 and v2.
//!
//! A container is a cgroup whose name consists of, or ends with, an ID of 64 hexadecimal digits:
//! `docker-ID.scope`, `cri-containerd-ID.scope`, `crio-ID.scope`, or the bare ID.
//!
//! Memory usage is calculated as by Garden: the memory that counts against the limit, without
//! inactive file pages.
//!
//! Invariant: a value that is missing in a file is an error or absent, never 0.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::limits::{CGROUPS_MAX, CONTAINERS_MAX, DEPTH_MAX};

const ID_LEN: usize = 64;

/// Limits of at least this mean no limit: the kernel rounds its largest number to pages.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// The cgroup of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cgroup {
    /// The ID of the container.
    pub(super) id: String,
    /// Its directory; in version 1, that of the controller for memory.
    memory_dir: PathBuf,
    /// The directory with its CPU time.
    cpu_dir: PathBuf,
    is_v2: bool,
}

/// The usage of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    /// CPU time since its start, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// Memory that counts against its limit, in bytes.
    pub(super) memory_bytes: u64,
    /// The lowest limit of it and its parents, in bytes.
    pub(super) memory_bytes_max: Option<u64>,
}

/// The mounted hierarchies.
#[derive(Debug)]
struct Hierarchies {
    root: PathBuf,
    cpu_root: PathBuf,
    is_v2: bool,
}

impl Hierarchies {
    fn of(root: &Path) -> io::Result<Self> {
        if root.join("cgroup.controllers").is_file() {
            return Ok(Self { root: root.to_owned(), cpu_root: root.to_owned(), is_v2: true });
        }
        let mut cpu = ["cpuacct", "cpu,cpuacct"].map(|name| root.join(name)).into_iter();
        let cpu_root = cpu.find(|dir| dir.is_dir());
        match (cpu_root, root.join("memory")) {
            (Some(cpu_root), memory) if memory.is_dir() => {
                Ok(Self { root: memory, cpu_root, is_v2: false })
            }
            _ => Err(io::Error::other(format!("{} has no cgroups", root.display()))),
        }
    }
}

/// Returns the ID in the name of a cgroup.
fn id_in(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let id = name.rsplit(['-', ':']).next()?;
    (id.len() == ID_LEN && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

/// Finds the cgroups of all containers below a root. The second value is false if there are more
/// than [`CGROUPS_MAX`] cgroups or [`CONTAINERS_MAX`] containers.
pub(super) fn find(root: &Path) -> io::Result<(Vec<Cgroup>, bool)> {
    let hierarchies = Hierarchies::of(root)?;
    let mut found = Vec::new();
    let mut left = CGROUPS_MAX;
    search(&hierarchies, Path::new(""), 0, &mut left, &mut found)?;
    let is_complete = left > 0 && found.len() < CONTAINERS_MAX;
    Ok((found, is_complete))
}

fn search(
    hierarchies: &Hierarchies,
    below: &Path,
    depth: usize,
    left: &mut usize,
    found: &mut Vec<Cgroup>,
) -> io::Result<()> {
    for entry in fs::read_dir(hierarchies.root.join(below))?.filter_map(Result::ok) {
        // Links could lead out of the tree.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if *left == 0 || found.len() == CONTAINERS_MAX {
            return Ok(());
        }
        *left -= 1;
        let path = below.join(entry.file_name());
        match entry.file_name().to_str().and_then(id_in) {
            Some(id) => found.push(Cgroup {
                id: id.to_owned(),
                memory_dir: hierarchies.root.join(&path),
                cpu_dir: hierarchies.cpu_root.join(&path),
                is_v2: hierarchies.is_v2,
            }),
            // A container may end meanwhile.
            None if depth < DEPTH_MAX => {
                let _ended = search(hierarchies, &path, depth + 1, left, found);
            }
            None => {}
        }
    }
    Ok(())
}

impl Cgroup {
    /// Returns whether the container is gone.
    pub(super) fn has_ended(&self) -> bool {
        !self.memory_dir.exists()
    }

    /// Reads the usage of the container; an error if it has ended, or a controller is missing.
    pub(super) fn usage(&self) -> io::Result<Usage> {
        if self.is_v2 { self.usage_v2() } else { self.usage_v1() }
    }

    fn usage_v2(&self) -> io::Result<Usage> {
        let cpu_us = Fields::read(&self.cpu_dir.join("cpu.stat"))?.get("usage_usec")?;
        let memory = Fields::read(&self.memory_dir.join("memory.stat"))?;
        let swap_cached = memory.get("swapcached").unwrap_or(0);
        let used =
            memory.get("file")?.saturating_add(memory.get("anon")?).saturating_add(swap_cached);
        Ok(Usage {
            cpu_ns: cpu_us.saturating_mul(1000),
            memory_bytes: used.saturating_sub(memory.get("inactive_file")?),
            memory_bytes_max: self.limit_v2(),
        })
    }

    /// Returns the lowest limit of this cgroup and its parents.
    fn limit_v2(&self) -> Option<u64> {
        let limit = |dir: &Path| number(&dir.join("memory.max")).ok();
        let dirs = self.memory_dir.ancestors();
        // The root has no limit, and directories above it are not cgroups.
        let dirs = dirs.take_while(|dir| dir.join("memory.max").is_file());
        dirs.filter_map(limit).filter(|bytes| *bytes < UNLIMITED_BYTES).min()
    }

    fn usage_v1(&self) -> io::Result<Usage> {
        let memory = Fields::read(&self.memory_dir.join("memory.stat"))?;
        let swap = memory.get("total_swap").unwrap_or(0);
        let used = memory.get("total_rss")?.saturating_add(memory.get("total_cache")?);
        let used = used.saturating_add(swap);
        let limit = memory.get("hierarchical_memory_limit");
        let limit = limit.or_else(|_| number(&self.memory_dir.join("memory.limit_in_bytes")));
        Ok(Usage {
            cpu_ns: number(&self.cpu_dir.join("cpuacct.usage"))?,
            memory_bytes: used.saturating_sub(memory.get("total_inactive_file")?),
            memory_bytes_max: limit.ok().filter(|bytes| *bytes < UNLIMITED_BYTES),
        })
    }
}

/// A file of lines with a name and a number.
struct Fields {
    text: String,
    path: PathBuf,
}

impl Fields {
    fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| in_file(path, &error))?;
        Ok(Self { text, path: path.to_owned() })
    }

    fn get(&self, name: &str) -> io::Result<u64> {
        let mut lines = self.text.lines().filter_map(|line| line.split_once(' '));
        let value =
            lines.find(|(field, _)| *field == name).and_then(|(_, v)| v.trim().parse().ok());
        value.ok_or_else(|| in_file(&self.path, &format!("no valid {name}")))
    }
}

fn number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path).map_err(|error| in_file(path, &error))?;
    text.trim().parse().map_err(|_| in_file(path, &"not a number"))
}

fn in_file(path: &Path, problem: &impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {problem}", path.display()))
}

/// Returns the memory of the machine, in bytes.
pub(super) fn machine_bytes(proc_root: &Path) -> io::Result<u64> {
    let path = proc_root.join("meminfo");
    let text = fs::read_to_string(&path).map_err(|error| in_file(&path, &error))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| in_file(&path, &"no valid MemTotal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn containers_are_found_by_their_names() {
        let id = "0a".repeat(32);
        for name in [
            id.clone(),
            format!("docker-{id}.scope"),
            format!("cri-containerd-{id}.scope"),
            format!("crio-{id}.scope"),
            format!("kubepods-besteffort-podx.slice:cri-containerd:{id}"),
        ] {
            assert_eq!(id_in(&name), Some(id.as_str()), "{name}");
        }
        for name in
            ["docker-0a.scope", "system.slice", "", &format!("{id}0"), &id.replace('a', "g")]
        {
            assert_eq!(id_in(name), None, "{name}");
        }
    }

    #[test]
    fn version_2_states_usage_and_the_lowest_limit() {
        let dir = tempfile::tempdir().unwrap();
        let (root, id) = (dir.path(), "1f".repeat(32));
        write(root.join("cgroup.controllers"), "cpu memory\n");
        let pod = root.join("kubepods.slice/kubepods-pod1.slice");
        let own = pod.join(format!("cri-containerd-{id}.scope"));
        write(pod.join("memory.max"), "4096\n");
        write(root.join("kubepods.slice/memory.max"), "max\n");
        write(own.join("memory.max"), "8192\n");
        write(own.join("cpu.stat"), "usage_usec 1500\nuser_usec 1000\n");
        write(own.join("memory.stat"), "anon 1000\nfile 500\ninactive_file 200\n");
        write(own.join("nested").join(&id).join("cpu.stat"), "");
        let (found, is_complete) = find(root).unwrap();
        assert!(is_complete);
        assert_eq!(found.len(), 1, "what is in a container belongs to it");
        assert_eq!(found[0].id, id);
        let usage = Usage { cpu_ns: 1_500_000, memory_bytes: 1300, memory_bytes_max: Some(4096) };
        assert_eq!(found[0].usage().unwrap(), usage);
        write(own.join("memory.stat"), "anon 1000\nfile 500\ninactive_file 200\nswapcached 7\n");
        write(own.join("memory.max"), "max\n");
        write(pod.join("memory.max"), "max\n");
        let usage = found[0].usage().unwrap();
        assert_eq!((usage.memory_bytes, usage.memory_bytes_max), (1307, None));
        fs::remove_file(own.join("memory.stat")).unwrap();
        assert!(found[0].usage().unwrap_err().to_string().contains("memory.stat"));
    }

    #[test]
    fn version_1_has_a_tree_for_each_controller() {
        let dir = tempfile::tempdir().unwrap();
        let (root, id) = (dir.path(), "2e".repeat(32));
        assert!(find(root).is_err());
        let (memory, cpu) = (root.join("memory/docker"), root.join("cpu,cpuacct/docker"));
        write(cpu.join(&id).join("cpuacct.usage"), "123456\n");
        let stat = "total_rss 100\ntotal_cache 50\ntotal_inactive_file 20\ntotal_swap 5\n\
                    hierarchical_memory_limit 9223372036854771712\n";
        write(memory.join(&id).join("memory.stat"), stat);
        let (found, is_complete) = find(root).unwrap();
        assert!(is_complete);
        let usage = found[0].usage().unwrap();
        let expected = Usage { cpu_ns: 123_456, memory_bytes: 135, memory_bytes_max: None };
        assert_eq!(usage, expected);
        let limited = stat.replace("9223372036854771712", "65536");
        write(memory.join(&id).join("memory.stat"), &limited);
        assert_eq!(found[0].usage().unwrap().memory_bytes_max, Some(65536));
    }
}
