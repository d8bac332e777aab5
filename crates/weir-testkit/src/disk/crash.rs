//! The disk after a power cut: a choice, by seed, over every unflushed change.

use fastrand::Rng;

use super::memory::{Content, DiskChange, Memory, NameChange, Node};

/// How a crash treats changes that were not flushed.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// All are lost.
    LoseAll,
    /// All are kept.
    KeepAll,
    /// Everything up to some moment is kept, with the change at that moment torn.
    Prefix,
    /// Each change separately: kept, lost or torn. Later ones may survive earlier ones.
    Each,
}

impl Fate {
    fn pick(rng: &mut Rng) -> Self {
        match rng.u8(..8) {
            0 => Self::LoseAll,
            1 => Self::KeepAll,
            2..=4 => Self::Prefix,
            _ => Self::Each,
        }
    }
}

/// Returns the disk as the next boot finds it.
pub(crate) fn survivors(memory: &Memory, seed: u64) -> Memory {
    let mut rng = Rng::with_seed(seed);
    let mut names = memory.durable_names.clone();
    let fate = Fate::pick(&mut rng);
    for change in keep_names(&memory.pending_names, fate, &mut rng) {
        change.apply(&mut names);
    }
    let nodes = names
        .values()
        .filter_map(|inode| Some((*inode, survive(memory.nodes.get(inode)?, &mut rng))))
        .collect();
    Memory {
        nodes,
        durable_names: names.clone(),
        names,
        pending_names: Vec::new(),
        dirs: memory.dirs.clone(),
        next_inode: memory.next_inode,
        next_handle: 0,
        capacity_bytes: memory.capacity_bytes,
        read_only: memory.read_only,
        flushes_after_failure: 0,
    }
}

/// Returns the disk as the next process finds it after this one was killed: nothing is lost.
pub(crate) fn reopened(memory: &Memory) -> Memory {
    let mut next = memory.clone();
    for node in next.nodes.values_mut() {
        node.handles = 0;
        node.lock = None;
    }
    next
}

fn keep_names<'a>(changes: &'a [NameChange], fate: Fate, rng: &mut Rng) -> Vec<&'a NameChange> {
    let cut = rng.usize(..=changes.len());
    changes
        .iter()
        .enumerate()
        .filter(|(i, _)| match fate {
            Fate::LoseAll => false,
            Fate::KeepAll => true,
            Fate::Prefix => *i < cut,
            Fate::Each => rng.bool(),
        })
        .map(|(_, change)| change)
        .collect()
}

fn survive(node: &Node, rng: &mut Rng) -> Node {
    let mut content = node.durable.clone();
    let changes: Vec<&DiskChange> = node.doubtful.iter().chain(&node.pending).collect();
    let fate = Fate::pick(rng);
    let cut = rng.usize(..=changes.len());
    for (i, change) in changes.into_iter().enumerate() {
        match fate {
            Fate::KeepAll => content.apply(change),
            Fate::Prefix if i < cut => content.apply(change),
            Fate::Prefix if i == cut => tear(&mut content, change, rng),
            Fate::LoseAll | Fate::Prefix => {}
            Fate::Each => match rng.u8(..3) {
                0 => {}
                1 => content.apply(change),
                _ => tear(&mut content, change, rng),
            },
        }
    }
    Node { current: content.clone(), durable: content, ..Node::default() }
}

/// Applies half a change: of a write, some sectors (512 B) or pages (4 KiB), either a prefix (the
/// file may or may not have grown to the full length) or any of them; other changes happen or do
/// not.
fn tear(content: &mut Content, change: &DiskChange, rng: &mut Rng) {
    let DiskChange::Write { offset, bytes } = change else {
        if rng.bool() {
            content.apply(change);
        }
        return;
    };
    let unit = if rng.bool() { 512 } else { 4096 };
    let end = offset + bytes.len() as u64;
    if rng.bool() && (content.bytes.len() as u64) < end {
        content.set_len(end);
    }
    let prefix = rng.bool();
    let cut = rng.u64(*offset..=end) / unit * unit;
    let mut at = *offset;
    while at < end {
        let next = ((at / unit + 1) * unit).min(end);
        let keep = if prefix { next <= cut } else { rng.bool() };
        if keep {
            content.write(at, &bytes[(at - offset) as usize..(next - offset) as usize]);
        }
        at = next;
    }
}
