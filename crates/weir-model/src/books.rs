//! The books: the lines and bytes read, the fate of each, and the reasons for discarding any.
//!
//! Book 1 (source): `lines = records + joined + discarded`.
//! Book 2 (cursor): `routed = delivered + discarded + dead_lettered + moved + unbound + in_flight`.
//! Book 3 (files):  `bytes = read + unread + abandoned`.
//! Every term is counted where it occurs; none is computed from the others, so a book can fail to
//! balance and tests can detect it.

use serde::Serialize;

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $id:literal => $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant = $id,)* }

        impl $name {
            /// All reasons, in order of their number on disk.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// Number of reasons.
            pub const COUNT: usize = Self::ALL.len();
            /// Returns the value of the `reason` label.
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

reasons! {
    /// Why a line or record was discarded.
    DiscardReason {
        /// Only NUL bytes, as left by a crash or a truncated file.
        NulBytes = 0 => "nul_bytes",
        /// Dropped by the source's rate limit.
        RateLimit = 1 => "rate_limit",
        /// The oldest records of the heaviest key, when a destination's buffer was full.
        BufferFull = 2 => "buffer_full",
        /// The destination rejected it and no dead-letter file was configured.
        Rejected = 3 => "rejected",
        /// The destination was removed from the configuration and its cursor dropped.
        CursorDropped = 4 => "cursor_dropped",
        /// It was in a damaged or missing part of the journal.
        Damaged = 5 => "damaged",
        /// Discarded by a rule.
        Rule = 6 => "rule",
        /// A part of it is missing: the first part of a joined line was lost with its file, or the
        /// connection ended within a message.
        PartialLost = 7 => "partial_lost",
        /// Not selected by a rule with `sample`.
        Sampled = 8 => "sampled",
        /// No rule routed it, and `default_to` names no output.
        Unrouted = 9 => "unrouted",
        /// Read for a destination that had not received it when its file was removed or truncated,
        /// and not in any segment of the journal.
        Vanished = 10 => "vanished",
        /// Received without acknowledgement, and not on disk when weir was killed.
        Crash = 11 => "crash",
        /// A datagram that the kernel dropped because the socket's receive buffer was full.
        ReceiveBuffer = 12 => "receive_buffer",
        /// It cannot be encoded in the protocol of its destination.
        NotSerializable = 13 => "not_serializable",
        /// The destination did not accept it within the time for retries.
        Expired = 14 => "expired",
        /// The drain that it waited for was removed.
        DrainRemoved = 15 => "drain_removed",
    }
}

impl DiscardReason {
    /// Returns whether the operator chose to discard such records; otherwise they are lost. The
    /// page has the same list.
    pub fn is_intentional(self) -> bool {
        match self {
            Self::RateLimit
            | Self::CursorDropped
            | Self::Rule
            | Self::Sampled
            | Self::Unrouted
            | Self::DrainRemoved => true,
            // A full buffer discards as configured, but it is not meant to be full.
            Self::BufferFull
            | Self::NulBytes
            | Self::Rejected
            | Self::Damaged
            | Self::PartialLost
            | Self::Vanished
            | Self::Crash
            | Self::ReceiveBuffer
            | Self::NotSerializable
            | Self::Expired => false,
        }
    }
}

reasons! {
    /// Why bytes of a file were abandoned unread.
    AbandonReason {
        /// The file shrank before they were read.
        Truncated = 0 => "truncated",
        /// The file was removed while weir was not running, or could not be opened again.
        Vanished = 1 => "vanished",
        /// Before the configured start position.
        SkippedAtStart = 2 => "skipped_at_start",
        /// The rest of a line that exceeded the limit.
        LineTooLong = 3 => "line_too_long",
        /// A deleted file was held open longer, or was larger, than the limits allow.
        DeletedTooLong = 4 => "deleted_too_long",
        /// The file could not be read.
        Unreadable = 5 => "unreadable",
    }
}

/// Cumulative counts of one stream, up to the end of a batch. Part of the frame, and persisted
/// together with the position that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceBook {
    /// Lines as the source format counts them (each partial is one).
    pub lines: u64,
    /// Records made from them.
    pub records: u64,
    /// Lines that became part of another line's record.
    pub joined: u64,
    /// Lines that became neither, by reason.
    pub discarded: [u64; DiscardReason::COUNT],
    /// Records whose line could not be parsed in the expected format (they are records
    /// nevertheless).
    pub malformed: u64,
    /// Records whose body was truncated at the line limit.
    pub truncated: u64,
    /// Bytes consumed.
    pub bytes_read: u64,
    /// Number of times that a file was found shorter than before. What was written and truncated
    /// between two scans was never seen, so from the first time on the byte counts are lower
    /// bounds.
    pub files_cut: u64,
    /// Files that were created and removed between two scans, or written to after they were deleted
    /// and closed: how much was written is unknown, so they also make the byte counts lower bounds.
    pub files_unseen: u64,
    /// Files that were removed while weir was not running: what was written to them after the last
    /// scan was never seen, so they also make the byte counts lower bounds.
    pub files_vanished: u64,
    /// Bytes abandoned, by reason.
    pub bytes_abandoned: [u64; AbandonReason::COUNT],
}

/// Cumulative counts of one destination for one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CursorBook {
    /// Records that the rules routed to the destination.
    pub routed: u64,
    /// Records that the destination acknowledged.
    pub delivered: u64,
    /// Records discarded, by reason.
    pub discarded: [u64; DiscardReason::COUNT],
    /// Records written to the dead-letter file.
    pub dead_lettered: u64,
    /// Records sent more than once, counting every repetition.
    pub resent: u64,
    /// Records moved to another destination of the journal, whose book they are in.
    pub moved: u64,
    /// Records that no drain of the destination matched.
    pub unbound: u64,
}

/// Encodes a book as (number, value) pairs, leaving out zeros. [`decode_counts`] ignores an unknown
/// number; the frame version determines which numbers exist.
fn encode_counts(values: impl Iterator<Item = (u8, u64)>, out: &mut Vec<u8>) {
    for (number, value) in values.filter(|(_, value)| *value != 0) {
        out.push(number);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

fn decode_counts(bytes: &[u8], mut set: impl FnMut(u8, u64)) {
    for pair in bytes.as_chunks::<9>().0 {
        let [number, value @ ..] = *pair;
        set(number, u64::from_le_bytes(value));
    }
}

const DISCARDED_AT: u8 = 64;
const ABANDONED_AT: u8 = 128;

impl SourceBook {
    /// Returns the number of lines discarded for any reason.
    pub fn discarded_total(&self) -> u64 {
        self.discarded.iter().sum()
    }

    /// Returns the number of bytes abandoned for any reason.
    pub fn abandoned_total(&self) -> u64 {
        self.bytes_abandoned.iter().sum()
    }

    /// Returns whether bytes may have appeared and vanished unseen: then the byte counts are lower
    /// bounds.
    pub fn is_at_least(&self) -> bool {
        self.files_cut > 0
            || self.files_unseen > 0
            || self.files_vanished > 0
            || self.bytes_abandoned[AbandonReason::Vanished as usize] > 0
    }

    /// Counts discarded lines.
    pub fn discard(&mut self, reason: DiscardReason, lines: u64) {
        self.discarded[reason as usize] += lines;
    }

    /// Counts abandoned bytes.
    pub fn abandon(&mut self, reason: AbandonReason, bytes: u64) {
        self.bytes_abandoned[reason as usize] += bytes;
    }

    /// Returns the number of lines that neither became a record nor were counted otherwise: 0 if
    /// the book balances.
    pub fn unaccounted_lines(&self) -> i64 {
        self.lines as i64 - (self.records + self.joined + self.discarded_total()) as i64
    }

    /// Adds another stream's counts.
    pub fn add(&mut self, other: &Self) {
        self.lines += other.lines;
        self.records += other.records;
        self.joined += other.joined;
        self.malformed += other.malformed;
        self.truncated += other.truncated;
        self.bytes_read += other.bytes_read;
        self.files_cut += other.files_cut;
        self.files_unseen += other.files_unseen;
        self.files_vanished += other.files_vanished;
        for (sum, n) in self.discarded.iter_mut().zip(other.discarded) {
            *sum += n;
        }
        for (sum, n) in self.bytes_abandoned.iter_mut().zip(other.bytes_abandoned) {
            *sum += n;
        }
    }

    /// Appends the encoding that is used in frames and in the cursor log.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let plain = [
            self.lines,
            self.records,
            self.joined,
            self.malformed,
            self.truncated,
            self.bytes_read,
            self.files_cut,
            self.files_unseen,
            self.files_vanished,
        ];
        encode_counts((0..).zip(plain), out);
        encode_counts((DISCARDED_AT..).zip(self.discarded), out);
        encode_counts((ABANDONED_AT..).zip(self.bytes_abandoned), out);
    }

    /// Decodes what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut book = Self::default();
        decode_counts(bytes, |number, value| match number {
            0 => book.lines = value,
            1 => book.records = value,
            2 => book.joined = value,
            3 => book.malformed = value,
            4 => book.truncated = value,
            5 => book.bytes_read = value,
            6 => book.files_cut = value,
            7 => book.files_unseen = value,
            8 => book.files_vanished = value,
            n if n >= ABANDONED_AT => {
                if let Some(slot) = book.bytes_abandoned.get_mut(usize::from(n - ABANDONED_AT)) {
                    *slot = value;
                }
            }
            n if n >= DISCARDED_AT => {
                if let Some(slot) = book.discarded.get_mut(usize::from(n - DISCARDED_AT)) {
                    *slot = value;
                }
            }
            _ => {}
        });
        book
    }
}

impl CursorBook {
    /// Returns the number of records discarded for any reason.
    pub fn discarded_total(&self) -> u64 {
        self.discarded.iter().sum()
    }

    /// Returns the number of settled records: what the persisted counts add up to.
    pub fn settled(&self) -> u64 {
        self.delivered + self.dead_lettered + self.moved + self.unbound + self.discarded_total()
    }

    /// Appends the encoding that is used in the cursor log.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let plain = [
            self.routed,
            self.delivered,
            self.dead_lettered,
            self.resent,
            self.moved,
            self.unbound,
        ];
        encode_counts((0..).zip(plain), out);
        encode_counts((DISCARDED_AT..).zip(self.discarded), out);
    }

    /// Decodes what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut book = Self::default();
        decode_counts(bytes, |number, value| match number {
            0 => book.routed = value,
            1 => book.delivered = value,
            2 => book.dead_lettered = value,
            3 => book.resent = value,
            4 => book.moved = value,
            5 => book.unbound = value,
            n => {
                if let Some(slot) =
                    n.checked_sub(DISCARDED_AT).and_then(|i| book.discarded.get_mut(usize::from(i)))
                {
                    *slot = value;
                }
            }
        });
        book
    }
}

fn by_reason<const N: usize>(
    counts: &[u64; N],
    text: impl Fn(usize) -> &'static str,
) -> impl Iterator<Item = (&'static str, u64)> {
    counts.iter().enumerate().filter(|(_, n)| **n != 0).map(move |(i, n)| (text(i), *n))
}

impl Serialize for SourceBook {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let discarded: std::collections::BTreeMap<_, _> =
            by_reason(&self.discarded, |i| DiscardReason::ALL[i].text()).collect();
        let abandoned: std::collections::BTreeMap<_, _> =
            by_reason(&self.bytes_abandoned, |i| AbandonReason::ALL[i].text()).collect();
        let mut out = serializer.serialize_struct("SourceBook", 11)?;
        out.serialize_field("lines", &self.lines)?;
        out.serialize_field("records", &self.records)?;
        out.serialize_field("joined", &self.joined)?;
        out.serialize_field("discarded", &discarded)?;
        out.serialize_field("malformed", &self.malformed)?;
        out.serialize_field("truncated", &self.truncated)?;
        out.serialize_field("bytes_read", &self.bytes_read)?;
        out.serialize_field("files_cut", &self.files_cut)?;
        out.serialize_field("files_unseen", &self.files_unseen)?;
        out.serialize_field("files_vanished", &self.files_vanished)?;
        out.serialize_field("bytes_abandoned", &abandoned)?;
        out.end()
    }
}

impl Serialize for CursorBook {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let discarded: std::collections::BTreeMap<_, _> =
            by_reason(&self.discarded, |i| DiscardReason::ALL[i].text()).collect();
        let mut out = serializer.serialize_struct("CursorBook", 7)?;
        out.serialize_field("routed", &self.routed)?;
        out.serialize_field("delivered", &self.delivered)?;
        out.serialize_field("discarded", &discarded)?;
        out.serialize_field("dead_lettered", &self.dead_lettered)?;
        out.serialize_field("resent", &self.resent)?;
        out.serialize_field("moved", &self.moved)?;
        out.serialize_field("unbound", &self.unbound)?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_survive_encoding() {
        let mut book = SourceBook {
            lines: 10,
            records: 7,
            joined: 1,
            files_cut: 3,
            files_unseen: 4,
            ..SourceBook::default()
        };
        book.discard(DiscardReason::RateLimit, 2);
        book.abandon(AbandonReason::Unreadable, 5);
        let mut bytes = Vec::new();
        book.encode(&mut bytes);
        assert_eq!(SourceBook::decode(&bytes), book);
        assert_eq!(book.unaccounted_lines(), 0);

        let mut book =
            CursorBook { routed: 9, delivered: 4, dead_lettered: 2, ..CursorBook::default() };
        book.discarded[DiscardReason::BufferFull as usize] = 3;
        let mut bytes = Vec::new();
        book.encode(&mut bytes);
        assert_eq!(CursorBook::decode(&bytes), book);
        assert_eq!(book.settled(), book.routed);
    }
}
