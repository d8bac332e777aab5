//! Rows per minute, service and status: histograms over all records without reading a column.
//!
//! Encoding, all numbers as varints (seven bits per byte): services (count, then length and bytes
//! of each), statuses likewise, then the number of entries and for each, ordered by minute, service
//! and status: the minute minus that of the previous entry (for the first: as it is, signed),
//! service and status as their index among the texts + 1 (0 = none), and the number of rows.

use std::collections::HashMap;

use crate::embedded::columns::Texts;
use crate::embedded::hash::{FoldState, Interner};
use crate::embedded::segment::{Chunk, Values, VarintReader, varint, zigzag};

/// Maximum number of entries of a row group; with more the counts are left out, because they would
/// be large.
const ENTRIES_MAX: usize = 65_536;

const MINUTE_NS: i64 = 60_000_000_000;

/// Rows of one minute, service and status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinuteCount {
    /// Minutes since 1970.
    pub minute: i64,
    /// Index among the services; `None` = the rows have no service.
    pub service: Option<u32>,
    /// Index among the statuses; `None` = the rows have no status.
    pub status: Option<u32>,
    /// Number of rows.
    pub rows: u64,
}

/// All counts of a row group.
#[derive(Debug, Clone, Default)]
pub struct MinuteCounts {
    services: Texts,
    statuses: Texts,
    entries: Vec<MinuteCount>,
}

impl MinuteCounts {
    /// Returns the names of the services.
    pub fn services(&self) -> &Texts {
        &self.services
    }

    /// Returns the names of the statuses.
    pub fn statuses(&self) -> &Texts {
        &self.statuses
    }

    /// Returns the counts, ordered by minute, service and status.
    pub fn entries(&self) -> &[MinuteCount] {
        &self.entries
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = VarintReader::new(bytes);
        let services = take_texts(&mut reader)?;
        let statuses = take_texts(&mut reader)?;
        let count = usize::try_from(reader.varint()?).ok().filter(|count| *count <= ENTRIES_MAX)?;
        let mut entries = Vec::with_capacity(count);
        let mut minute = 0_i64;
        for _ in 0..count {
            minute = minute.checked_add(reader.zigzag()?)?;
            let service = take_code(&mut reader, services.len())?.checked_sub(1);
            let status = take_code(&mut reader, statuses.len())?.checked_sub(1);
            entries.push(MinuteCount { minute, service, status, rows: reader.varint()? });
        }
        reader.rest().is_empty().then_some(Self { services, statuses, entries })
    }
}

fn take_texts(reader: &mut VarintReader<'_>) -> Option<Texts> {
    let count = reader.varint()?;
    let mut texts = Texts::default();
    for _ in 0..count {
        let len = usize::try_from(reader.varint()?).ok()?;
        texts.push(reader.take(len)?);
    }
    Some(texts)
}

/// Reads an index among `count` texts + 1, or 0.
fn take_code(reader: &mut VarintReader<'_>, count: usize) -> Option<u32> {
    reader.varint().filter(|code| *code <= count as u64).map(|code| code as u32)
}

/// Counts the rows of a row group, column by column.
#[derive(Debug, Default)]
pub(super) struct Counter {
    minutes: Vec<i64>,
    services: Texts,
    service: Vec<u32>,
    statuses: Texts,
    status: Vec<u32>,
}

impl Counter {
    pub(super) fn times(&mut self, times_ns: &[i64]) {
        self.minutes = times_ns.iter().map(|time| time.div_euclid(MINUTE_NS)).collect();
    }

    pub(super) fn services(&mut self, chunk: &Chunk<'_>) {
        (self.services, self.service) = codes(chunk);
    }

    pub(super) fn statuses(&mut self, chunk: &Chunk<'_>) {
        (self.statuses, self.status) = codes(chunk);
    }

    /// Encodes the counts; empty when there would be too many entries.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut rows: HashMap<(i64, u32, u32), u64, FoldState> = HashMap::default();
        let codes = self.service.iter().zip(&self.status);
        for (minute, (service, status)) in self.minutes.iter().zip(codes) {
            *rows.entry((*minute, *service, *status)).or_default() += 1;
            if rows.len() > ENTRIES_MAX {
                return Vec::new();
            }
        }
        let mut entries: Vec<_> = rows.into_iter().collect();
        entries.sort_unstable();
        let mut out = Vec::new();
        put_texts(&self.services, &mut out);
        put_texts(&self.statuses, &mut out);
        varint(entries.len() as u64, &mut out);
        let mut before = 0;
        for ((minute, service, status), rows) in entries {
            zigzag(minute - before, &mut out);
            before = minute;
            varint(u64::from(service), &mut out);
            varint(u64::from(status), &mut out);
            varint(rows, &mut out);
        }
        out
    }
}

/// Returns the distinct texts of a column, and for each row the index of its text + 1, 0 = none.
fn codes(chunk: &Chunk<'_>) -> (Texts, Vec<u32>) {
    let (texts, codes) = match &chunk.values {
        Values::Coded(codes, texts) => texts.in_order_of_use(codes),
        values => {
            let mut interner = Interner::default();
            let texts = values.texts().unwrap_or_default();
            let codes = texts.iter().map(|text| interner.intern(text)).collect();
            (interner.into_texts(), codes)
        }
    };
    let mut codes = codes.into_iter().map(|code| code + 1);
    let by_row = match &chunk.present {
        Some(present) => {
            present.iter().map(|is| if *is { codes.next().unwrap_or(0) } else { 0 }).collect()
        }
        None => codes.collect(),
    };
    (texts, by_row)
}

fn put_texts(texts: &Texts, out: &mut Vec<u8>) {
    varint(texts.len() as u64, out);
    for text in texts.iter() {
        varint(text.len() as u64, out);
        out.extend_from_slice(text);
    }
}
