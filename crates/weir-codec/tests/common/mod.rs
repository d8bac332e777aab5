//! Reads a file as a source does: block by block while it grows, sealing batches, and forgetting
//! everything but the state between batches if requested. Asserts what must hold after every call;
//! the tests compare the result.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;

use weir_codec::{Format, LineDecoder, Multiline, Stop};
use weir_model::limits::{READ_BLOCK_BYTES, STATE_BYTES_MAX};
use weir_model::{
    Batch, BatchBuilder, Position, RecordFlags, Seal, SourceBook, SourceId, StreamId,
};

/// The time at which weir "reads" in these tests, nanoseconds since 1970.
pub(crate) const OBSERVED_NS: i64 = 42;

/// A record as read from a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) offset: u64,
    pub(crate) time_ns: i64,
    pub(crate) severity: u8,
    pub(crate) flags: RecordFlags,
    pub(crate) body: Vec<u8>,
    pub(crate) attributes: Vec<u8>,
}

/// How the file is read.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// By how many bytes the file grows between reads, repeatedly.
    pub(crate) growth: Vec<usize>,
    /// Seal after this many reads, even if there is room.
    pub(crate) seal_after: usize,
    /// Continue with a decoder restored from the state after each batch.
    pub(crate) forget: bool,
}

impl Plan {
    /// The whole file is available at once.
    pub(crate) fn at_once() -> Self {
        Self { growth: vec![usize::MAX], seal_after: usize::MAX, forget: false }
    }
}

/// Result of reading a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Outcome {
    pub(crate) records: Vec<Record>,
    pub(crate) book: SourceBook,
}

/// A file being read.
pub(crate) struct Reader<'a> {
    file: &'a [u8],
    limit: usize,
    pub(crate) decoder: LineDecoder,
    builder: BatchBuilder,
    pub(crate) out: Outcome,
    /// Bytes consumed in this file since the last batch.
    since_seal: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a [u8], format: Format, limit: usize) -> Self {
        Self {
            file,
            limit,
            decoder: LineDecoder::new(format, limit, 0),
            builder: BatchBuilder::new(Position::default()),
            out: Outcome::default(),
            since_seal: 0,
        }
    }

    /// Joins lines by a rule.
    pub(crate) fn joining(mut self, rule: &Arc<Multiline>) -> Self {
        self.decoder.set_multiline(Some(Arc::clone(rule)));
        self
    }

    /// Continues with the same file after more bytes were appended.
    pub(crate) fn grown(self, file: &[u8]) -> Reader<'_> {
        assert!(file.starts_with(self.file));
        Reader { file, ..self }
    }

    /// Reads once what is visible; `is_last` if the file will not grow any more.
    fn read(&mut self, visible: usize, is_last: bool) -> Stop {
        let at = self.decoder.file_offset() as usize;
        let space = self.builder.read_space(READ_BLOCK_BYTES);
        let count = space.len().min(visible - at);
        space[..count].copy_from_slice(&self.file[at..at + count]);
        let region = self.builder.advance(count);
        let reaches_end = is_last && at + count == self.file.len();
        let (decoder, builder) = (&mut self.decoder, &mut self.builder);
        let consumed = if reaches_end {
            decoder.finish(builder, region, OBSERVED_NS, &mut self.out.book)
        } else {
            decoder.decode(builder, region, OBSERVED_NS, &mut self.out.book)
        };
        assert!(consumed.bytes <= count);
        assert_eq!(self.decoder.file_offset() as usize, at + consumed.bytes);
        if reaches_end && consumed.why == Stop::NeedMore {
            assert_eq!(consumed.bytes, count, "the end of the file is left");
        }
        self.since_seal += consumed.bytes as u64;
        self.assert_balanced();
        consumed.why
    }

    fn assert_balanced(&self) {
        let book = &self.out.book;
        assert_eq!(book.unaccounted_lines(), 0, "{book:?}");
        assert_eq!(book.bytes_read + book.abandoned_total(), self.decoder.file_offset());
        assert!(self.decoder.position() >= self.decoder.file_offset());
    }

    fn seal(&mut self) -> Batch {
        let mut state = Vec::new();
        self.decoder.state(&mut state);
        // A source adds the identity of the file.
        state.resize((state.len() + 4096).min(STATE_BYTES_MAX), 0);
        let used = state.len() - 4096;
        // Only a full frame needs the largest resource to prove that it fits.
        let resource_len =
            if self.builder.arena().len() > READ_BLOCK_BYTES { 16 * 1024 } else { 8 };
        self.builder.resource(1, &vec![b'r'; resource_len]).unwrap();
        let batch = self.builder.seal(&Seal {
            repeatable: true,
            stream: StreamId(1),
            group: 1,
            source: SourceId(1),
            end: Position::new(0, self.decoder.position()),
            observed_ns: OBSERVED_NS,
            rule_generation: 0,
            book: &self.out.book,
            state: &state,
        });
        self.since_seal = 0;
        self.collect(&batch);
        state.truncate(used);
        let position = batch.header().end().offset;
        let restored = LineDecoder::restore(&state, self.limit, position).unwrap();
        assert_eq!(restored.file_offset(), self.decoder.file_offset());
        assert_eq!(restored.partials(), self.decoder.partials());
        batch
    }

    /// Continues with nothing but what the batch contains.
    fn forget(&mut self, batch: &Batch) {
        let state = &batch.state()[..batch.state().len() - 4096];
        let position = batch.header().end().offset;
        let rule = self.decoder.multiline().cloned();
        self.decoder = LineDecoder::restore(state, self.limit, position).unwrap();
        self.decoder.set_multiline(rule);
    }

    fn collect(&mut self, batch: &Batch) {
        for view in batch.records() {
            let record = Record {
                offset: view.position.offset,
                time_ns: view.timestamp_ns,
                severity: view.severity.0,
                flags: view.flags,
                body: view.body.to_vec(),
                attributes: view.attributes.to_vec(),
            };
            check(&record);
            if let Some(last) = self.out.records.last() {
                assert!(record.offset > last.offset, "positions must grow");
            }
            assert!(record.offset <= batch.header().end().offset);
            self.out.records.push(record);
        }
        assert_eq!(self.out.records.len() as u64, self.out.book.records);
    }

    /// Reads the file to its final end.
    pub(crate) fn read_to_end(&mut self, plan: &Plan) {
        let mut visible = 0_usize;
        let mut reads = 0;
        for growth in plan.growth.iter().cycle() {
            visible = visible.saturating_add((*growth).max(1)).min(self.file.len());
            loop {
                let is_last = visible == self.file.len();
                let at = self.decoder.file_offset();
                let why = self.read(visible, is_last);
                reads += 1;
                if why == Stop::BatchFull || reads % plan.seal_after == 0 {
                    let has_some = self.since_seal > 0 || self.builder.record_count() > 0;
                    assert!(why != Stop::BatchFull || has_some, "a fresh batch is full");
                    let batch = self.seal();
                    if plan.forget {
                        self.forget(&batch);
                    }
                }
                let now = self.decoder.file_offset();
                if why == Stop::NeedMore && (now == at || now as usize == visible) {
                    break;
                }
            }
            if self.decoder.file_offset() as usize == self.file.len() {
                break;
            }
        }
        self.seal();
    }

    /// Flushes what is open, over several batches if necessary.
    pub(crate) fn flush(&mut self) {
        while self.decoder.flush_partials(&mut self.builder, &mut self.out.book).is_err() {
            self.seal();
        }
        assert!(self.decoder.partials().is_empty());
        self.assert_balanced();
        self.seal();
    }

    /// Flushes the records that wait for further lines.
    pub(crate) fn flush_records(&mut self) {
        while self.decoder.flush_records(&mut self.builder, &mut self.out.book).is_err() {
            self.seal();
        }
        assert!(!self.decoder.partials().has_records());
        self.assert_balanced();
        self.seal();
    }

    /// Adopts the open lines of another file's decoder.
    pub(crate) fn adopt(&mut self, other: &mut LineDecoder) {
        self.decoder.adopt_partials(other.take_partials(), &mut self.out.book);
    }
}

/// Checks what every record guarantees.
fn check(record: &Record) {
    if record.flags.contains(RecordFlags::JSON_ESCAPED) {
        let text = format!("\"{}\"", String::from_utf8_lossy(&record.body));
        serde_json::from_str::<String>(&text).expect("an escaped body is valid between quotes");
    }
    if !record.attributes.is_empty() {
        let text = String::from_utf8_lossy(&record.attributes);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(value.is_object());
    }
}

/// Reads the whole `file`, and flushes at the end.
pub(crate) fn read_file(file: &[u8], format: Format, limit: usize, plan: &Plan) -> Outcome {
    let mut reader = Reader::new(file, format, limit);
    reader.read_to_end(plan);
    reader.flush();
    reader.out
}

/// Returns the bodies without JSON escapes, as text.
pub(crate) fn bodies(outcome: &Outcome) -> Vec<String> {
    let plain = |r: &Record| {
        if r.flags.contains(RecordFlags::JSON_ESCAPED) {
            weir_model::unescape_json(&r.body).into_owned()
        } else {
            r.body.clone()
        }
    };
    outcome.records.iter().map(|r| String::from_utf8_lossy(&plain(r)).into_owned()).collect()
}
