//! Determines which readers receive an envelope, by source and kind.
//!
//! Equal selectors of different readers are one node. At a node, every reader without a shard
//! receives an envelope; of those with the same shard one does, chosen at random, or by the name of
//! a counter or gauge if one of them has requested that.
//!
//! Invariant: readers that share all nodes an envelope matches share it as if it matched one.

use std::collections::HashMap;
use std::sync::Arc;

use weir_codec::{LoggregatorRequest, LoggregatorSelector, LoggregatorWanted};
use weir_model::RecordKind;

use super::Reader;

/// A reader with its request.
#[derive(Debug)]
pub(in super::super) struct Reading {
    pub(in super::super) reader: Arc<Reader>,
    pub(in super::super) request: LoggregatorRequest,
}

/// All readers, by selector.
#[derive(Debug, Default)]
pub(in super::super) struct Index {
    pub(super) readers: Vec<Arc<Reader>>,
    nodes: Vec<Node>,
    by_source: HashMap<String, Targets>,
    of_all: Targets,
}

/// Numbers of nodes, for each kind.
pub(super) type Targets = [Vec<usize>; RecordKind::ALL.len()];

/// A selector.
#[derive(Debug)]
struct Node {
    wanted: LoggregatorWanted,
    groups: Vec<Group>,
}

/// Readers with the same shard.
#[derive(Debug)]
struct Group {
    shard_id: String,
    /// Names and numbers of readers, in the order in which they joined, or of their names.
    members: Vec<(String, usize)>,
    is_deterministic: bool,
}

/// The properties of an envelope that determine its readers.
pub(super) struct Candidate<'c> {
    /// A random number.
    pub(super) random: u64,
    /// The name of a counter, or the names of a gauge.
    pub(super) names: &'c [String],
}

impl Index {
    pub(in super::super) fn new(readings: &[Reading]) -> Self {
        let mut index = Self::default();
        let mut known: HashMap<LoggregatorSelector, usize> = HashMap::new();
        for (number, reading) in readings.iter().enumerate() {
            index.readers.push(reading.reader.clone());
            for selector in &reading.request.selectors {
                let Some(wanted) = &selector.message else { continue };
                let node = *known.entry(selector.clone()).or_insert_with(|| {
                    index.nodes.push(Node { wanted: wanted.clone(), groups: Vec::new() });
                    let targets = match selector.source_id.as_str() {
                        "" => &mut index.of_all,
                        source_id => index.by_source.entry(source_id.to_owned()).or_default(),
                    };
                    targets[kind_of(wanted) as usize].push(index.nodes.len() - 1);
                    index.nodes.len() - 1
                });
                index.nodes[node].join(number, &reading.request);
            }
        }
        for group in index.nodes.iter_mut().flat_map(|node| &mut node.groups) {
            if group.is_deterministic {
                group.members.sort();
            }
        }
        index
    }

    /// Returns the nodes that records of a source can match.
    pub(super) fn targets(&self, source_id: &str) -> Targets {
        let mut targets = self.of_all.clone();
        if let Some(of_source) = self.by_source.get(source_id) {
            for (all, nodes) in targets.iter_mut().zip(of_source) {
                all.extend(nodes);
            }
        }
        targets
    }

    /// Returns whether names determine the reader of an envelope at any of these nodes.
    pub(super) fn needs_names(&self, nodes: &[usize]) -> bool {
        nodes.iter().any(|node| {
            let Node { wanted, groups } = &self.nodes[*node];
            let has_names = match wanted {
                LoggregatorWanted::Counter(name) => !name.is_empty(),
                LoggregatorWanted::Gauge(names) => !names.is_empty(),
                LoggregatorWanted::Log | LoggregatorWanted::Timer | LoggregatorWanted::Event => {
                    return false;
                }
            };
            has_names || groups.iter().any(|group| group.is_deterministic)
        })
    }

    /// Determines which readers receive an envelope, each once.
    pub(super) fn choose(
        &self,
        nodes: &[usize],
        candidate: &Candidate<'_>,
        chosen: &mut Vec<usize>,
    ) {
        chosen.clear();
        for node in nodes.iter().map(|node| &self.nodes[*node]) {
            if !node.is_match(candidate) {
                continue;
            }
            for group in &node.groups {
                if group.shard_id.is_empty() {
                    for (_, reader) in &group.members {
                        choose(*reader, chosen);
                    }
                } else if let Some(reader) = group.one(candidate) {
                    choose(reader, chosen);
                }
            }
        }
    }
}

fn choose(reader: usize, chosen: &mut Vec<usize>) {
    if !chosen.contains(&reader) {
        chosen.push(reader);
    }
}

fn kind_of(wanted: &LoggregatorWanted) -> RecordKind {
    match wanted {
        LoggregatorWanted::Log => RecordKind::Log,
        LoggregatorWanted::Counter(_) => RecordKind::Counter,
        LoggregatorWanted::Gauge(_) => RecordKind::Gauge,
        LoggregatorWanted::Timer => RecordKind::Timer,
        LoggregatorWanted::Event => RecordKind::Event,
    }
}

impl Node {
    fn join(&mut self, reader: usize, request: &LoggregatorRequest) {
        let found = self.groups.iter().position(|group| group.shard_id == request.shard_id);
        let group = found.unwrap_or_else(|| {
            let shard_id = request.shard_id.clone();
            self.groups.push(Group { shard_id, members: Vec::new(), is_deterministic: false });
            self.groups.len() - 1
        });
        let group = &mut self.groups[group];
        // A selector may occur twice in a request.
        if group.members.last().is_none_or(|(_, last)| *last != reader) {
            group.members.push((request.deterministic_name.clone(), reader));
            group.is_deterministic |= !request.deterministic_name.is_empty();
        }
    }

    fn is_match(&self, candidate: &Candidate<'_>) -> bool {
        match &self.wanted {
            LoggregatorWanted::Log | LoggregatorWanted::Timer | LoggregatorWanted::Event => true,
            LoggregatorWanted::Counter(name) => {
                name.is_empty() || candidate.names.first() == Some(name)
            }
            LoggregatorWanted::Gauge(names) => names.is_empty() || candidate.names == names,
        }
    }
}

impl Group {
    /// Returns the reader that receives an envelope.
    fn one(&self, candidate: &Candidate<'_>) -> Option<usize> {
        let number = if self.is_deterministic && !candidate.names.is_empty() {
            candidate.names.iter().fold(0_u64, |sum, name| sum.wrapping_add(crc64(name.as_bytes())))
        } else {
            candidate.random
        };
        let at = number.checked_rem(self.members.len() as u64)?;
        self.members.get(at as usize).map(|(_, reader)| *reader)
    }
}

/// CRC-64 with the polynomial of ECMA-182, reflected, as in the original, so that a name is
/// assigned to the same reader.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;
    let mut crc = u64::MAX;
    for byte in bytes {
        crc ^= u64::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hash_as_in_the_original() {
        // The check value of CRC-64/XZ.
        assert_eq!(crc64(b"123456789"), 0x995d_c9bb_df19_39fa);
    }
}
