//! Lines that a container wrote in parts and that are not complete yet, one per output stream.
//!
//! Invariant: both open lines together never hold more than
//! [`LINE_BYTES_MAX`](weir_model::limits::LINE_BYTES_MAX) bytes; what does not fit is given up,
//! counted, and the line marked as truncated.

use std::ops::Range;

use weir_model::limits::LINE_BYTES_MAX;
use weir_model::{DiscardReason, RecordFlags, SourceBook};

use crate::Format;
use crate::json::{cut_content, cut_utf8};

/// One line of a source file that is a message or a part of one. Spans lie in the arena.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) body: Range<usize>,
    pub(crate) attributes: Range<usize>,
    pub(crate) is_last: bool,
    pub(crate) timestamp_ns: i64,
    /// Stream and escaping; TRUNCATED when the line itself was cut.
    pub(crate) flags: RecordFlags,
    /// Offset in the stream after the line.
    pub(crate) end_offset: u64,
}

/// The beginning of a message whose end has not been read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct OpenLine {
    /// Lines that it consists of so far; 0 = nothing is open.
    pub(crate) parts: u64,
    /// Time of the first part.
    pub(crate) timestamp_ns: i64,
    pub(crate) flags: RecordFlags,
    pub(crate) body: Vec<u8>,
    /// Attributes of the first part, for a line that never completes.
    pub(crate) attributes: Vec<u8>,
}

impl OpenLine {
    pub(crate) fn is_open(&self) -> bool {
        self.parts > 0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + self.attributes.len()
    }

    fn is_truncated(&self) -> bool {
        self.flags.contains(RecordFlags::TRUNCATED)
    }
}

/// Open partial lines of a container. They belong to the container, not to the file: when its
/// log is rotated, hand them to the decoder of the next file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partials {
    pub(crate) format: Format,
    pub(crate) open: [OpenLine; 2],
}

impl Partials {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, open: Default::default() }
    }

    /// Nothing is open.
    pub fn is_empty(&self) -> bool {
        !self.open.iter().any(OpenLine::is_open)
    }

    /// Lines read from the source that are part of an open line; none of them is in a book yet.
    pub fn lines(&self) -> u64 {
        self.open.iter().map(|line| line.parts).sum()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.open.iter().map(OpenLine::bytes).sum()
    }

    /// Gives the open lines up, for a container whose next file never came: the books count them
    /// as lost.
    pub fn discard(self, book: &mut SourceBook) {
        book.lines += self.lines();
        book.discard(DiscardReason::PartialLost, self.lines());
    }

    /// The slot of a stream. Docker names no other stream than these two; a line that names none
    /// shares the slot of stdout.
    pub(crate) fn slot_of(flags: RecordFlags) -> usize {
        usize::from(flags.contains(RecordFlags::STDERR))
    }

    pub(crate) fn slot(&self, slot: usize) -> &OpenLine {
        let [stdout, stderr] = &self.open;
        if slot == 0 { stdout } else { stderr }
    }

    pub(crate) fn slot_mut(&mut self, slot: usize) -> &mut OpenLine {
        let [stdout, stderr] = &mut self.open;
        if slot == 0 { stdout } else { stderr }
    }

    /// How much of `content` can be added to the body in `slot` so that it stays within
    /// `line_bytes_max` and both lines within their common bound.
    pub(crate) fn budget(&self, slot: usize, content: &[u8], line_bytes_max: usize) -> usize {
        let line = self.slot(slot);
        if line.is_truncated() {
            return 0;
        }
        let own = line_bytes_max.saturating_sub(line.body.len());
        cut(self.format, content, own.min(LINE_BYTES_MAX.saturating_sub(self.bytes())))
    }

    /// Puts older partial lines in front of what is open.
    pub(crate) fn prepend(&mut self, older: Self, line_bytes_max: usize) {
        let newer = std::mem::replace(self, older);
        for (slot, line) in newer.open.into_iter().enumerate().filter(|(_, l)| l.is_open()) {
            let keep = self.budget(slot, &line.body, line_bytes_max);
            let spare = LINE_BYTES_MAX.saturating_sub(self.bytes() + keep);
            let open = self.slot_mut(slot);
            if !open.is_open() {
                open.timestamp_ns = line.timestamp_ns;
                if line.attributes.len() <= spare {
                    open.attributes = line.attributes;
                }
            }
            open.parts += line.parts;
            open.flags = open.flags.with(line.flags);
            open.body.extend_from_slice(line.body.get(..keep).unwrap_or_default());
            if keep < line.body.len() {
                open.flags = open.flags.with(RecordFlags::TRUNCATED);
            }
        }
    }
}

/// How much of a body can be kept within `max` bytes without splitting what must stay whole.
pub(crate) fn cut(format: Format, content: &[u8], max: usize) -> usize {
    match format {
        Format::DockerJson => cut_content(content, max),
        Format::Raw | Format::Cri | Format::Json | Format::Logfmt => cut_utf8(content, max),
    }
}
