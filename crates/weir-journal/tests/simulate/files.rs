//! What sources read: files whose rows are numbers, never stored, and a source that reads them like
//! a tail. It knows the position of an earlier run only from what the journal returns.

use weir_journal::{Journal, ResumePoint, StreamSpec, WritePolicy};
use weir_model::{
    Batch, BatchBuilder, DiscardReason, Position, Seal, SourceBook, SourceId, StreamId,
};

use crate::oracle::{Chain, LOST, Oracle, lost_rows_of, rows_of};
use crate::support::{STEP, book_of, destinations, push_record_of};

/// Names of the sources; the last two receive their rows over connections.
pub(crate) const SOURCES: [&str; 4] = ["app", "web", "lanes", "soon"];
/// Stream numbers of connections start here.
pub(crate) const LANES: u64 = 1000;
/// And those of connections whose rows are not acknowledged.
pub(crate) const SOON_LANES: u64 = 2000;

/// A file under one name; a new one with the same name is another file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) stream: u64,
    pub(crate) content: usize,
    /// Number of rows of that content.
    pub(crate) written: u64,
    pub(crate) state: FileState,
    /// `None` while no source has it open.
    pub(crate) reading: Option<Reading>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileState {
    There,
    /// Deleted while a source has it open: it reads the rest.
    Deleted,
    /// It can no longer be read.
    Gone,
}

/// The position of a source in a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) begin: usize,
    pub(crate) next: u64,
    /// The journal has accepted the start of the epoch.
    pub(crate) is_begun: bool,
}

pub(crate) fn source_of(stream: u64) -> SourceId {
    SourceId::of(match stream {
        ..LANES => SOURCES[(stream % 2) as usize],
        LANES..SOON_LANES => SOURCES[2],
        SOON_LANES.. => SOURCES[3],
    })
}

/// Returns the destinations that a row is for, one bit for each of their numbers.
pub(crate) fn wanted(stream: u64, row: u64) -> u64 {
    const MASKS: [u64; 8] =
        [u64::MAX, 0b0_0001, !0b1, u64::MAX, 0b1_0101, 0b0_1011, u64::MAX, 0b0_0010];
    // Runs of rows have the same destinations, as with rules.
    if stream.is_multiple_of(4) { u64::MAX } else { MASKS[((stream * 3 + row / 3) % 8) as usize] }
}

/// Returns the key of a row: connections have a noisy one and several quiet ones, some of which
/// files have too, alone or together.
pub(crate) fn key_of(stream: u64, row: u64) -> u64 {
    const NOISY: u64 = 1;
    let is_noisy = !(row * 7 + stream).is_multiple_of(4);
    match (stream, stream % 3) {
        (..LANES, 0) => 0,
        (..LANES, 1) => 2 + stream % 4,
        _ if is_noisy => NOISY,
        _ => 2 + row / 4 % 6,
    }
}

/// Encodes a position as the source's own state.
fn state_of(begin: usize, next: u64) -> [u8; 16] {
    let mut state = [0; 16];
    state[..8].copy_from_slice(&(begin as u64).to_le_bytes());
    state[8..].copy_from_slice(&next.to_le_bytes());
    state
}

/// Returns the position from the journal; `None` if it has no state for it.
pub(crate) fn place_of(resume: &ResumePoint) -> Option<(usize, u64)> {
    let (begin, next) = resume.state.split_at_checked(8)?;
    let number = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
    Some((number(begin)? as usize, number(next)?))
}

/// Parses a body: content and row.
pub(crate) fn parse(body: &[u8]) -> (usize, u64) {
    let number = |at: usize| {
        let bytes = body.get(at..at + 8).expect("two numbers");
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    };
    (number(0) as usize, number(8))
}

/// Returns rows of a content as a batch, each routed to the destinations that `route` returns.
pub(crate) fn batch(
    oracle: &Oracle,
    stream: u64,
    reading: &Reading,
    count: u64,
    padding: usize,
    route: impl Fn(u64) -> u64,
) -> Batch {
    let begin = &oracle.begins[reading.begin];
    let mut builder = BatchBuilder::new(Position::new(begin.epoch, reading.next * STEP));
    let end = reading.next + count;
    for row in reading.next..end {
        let mut body = [0; 16 + 256];
        body[..8].copy_from_slice(&(begin.content as u64).to_le_bytes());
        body[8..16].copy_from_slice(&row.to_le_bytes());
        let key = if oracle.has_keys { key_of(stream, row) } else { 0 };
        let resource = builder.resource(key, b"{}").expect("few resources");
        push_record_of(&mut builder, row, resource, &body[..16 + padding]);
    }
    builder.resource(0, b"{}").expect("room for one resource");
    for (index, row) in (reading.next..end).enumerate() {
        builder.route(index, &destinations(route(row))).expect("few routes");
    }
    builder.seal(&Seal {
        repeatable: stream < LANES,
        stream: StreamId(stream),
        group: 0,
        source: source_of(stream),
        end: Position::new(begin.epoch, end * STEP),
        observed_ns: 1,
        rule_generation: 1,
        book: &book_at(&oracle.chain(reading.begin, end)),
        state: &state_of(reading.begin, end),
    })
}

/// Returns the source's counts at the end of a chain.
fn book_at(chain: &Chain) -> SourceBook {
    let lost = lost_rows_of(chain);
    let mut book = book_of(rows_of(chain));
    book.records -= lost;
    book.discard(DiscardReason::Crash, lost);
    book
}

fn open_stream(journal: &Journal, stream: u64, begin: usize, gone: bool) -> ResumePoint {
    journal.open_stream(&StreamSpec {
        stream: StreamId(stream),
        group: 0,
        source: source_of(stream),
        start: Position::default(),
        state: &state_of(begin, 0),
        book: SourceBook::default(),
        gone,
    })
}

/// Returns the chain up to the position from the journal; the counts that it returns with the
/// position must be those that belong there.
pub(crate) fn chain_at(oracle: &Oracle, resume: &ResumePoint) -> Chain {
    if resume.position == Position::default() && resume.book == SourceBook::default() {
        return Chain::new();
    }
    let Some((begin, next)) = place_of(resume) else {
        assert!(oracle.has_forgotten, "no state at position: {resume:?}");
        return Chain::new();
    };
    let chain = oracle.chain(begin, next);
    let epoch = oracle.begins[begin].epoch;
    assert_eq!(resume.position, Position::new(epoch, next * STEP), "the state of another position");
    assert_eq!(resume.book, book_at(&chain), "the book of another position");
    chain
}

impl File {
    pub(crate) fn new(oracle: &mut Oracle, stream: u64, written: u64) -> Self {
        let content = oracle.new_content(stream);
        Self { stream, content, written, state: FileState::There, reading: None }
    }

    /// Replaces its content.
    pub(crate) fn cut(&mut self, oracle: &mut Oracle, written: u64) {
        self.content = oracle.new_content(self.stream);
        self.written = written;
    }

    /// The source opens it: continues where it was, or starts again if what was read is not there
    /// any more.
    pub(crate) fn open(&mut self, journal: &Journal, oracle: &mut Oracle) {
        let known = journal.known_streams(source_of(self.stream));
        let known = known.iter().find(|known| known.stream.0 == self.stream);
        let furthest = known.and_then(|known| place_of(&known.furthest));
        let is_other = |begin: usize| oracle.begins[begin].content != self.content;
        let is_gone = furthest.is_some_and(|(begin, _)| is_other(begin));
        let begin = oracle.begin(self.content, 0, Chain::new());
        let resume = open_stream(journal, self.stream, begin, is_gone);
        let chain = chain_at(oracle, &resume);
        oracle.set_chain(self.stream, source_of(self.stream), chain.clone());
        let place = place_of(&resume).unwrap_or_else(|| {
            let epoch = resume.position.epoch;
            (if epoch == 0 { begin } else { oracle.begin(self.content, epoch, chain.clone()) }, 0)
        });
        let is_here = oracle.begins[place.0].content == self.content;
        // After damage to the log, nothing may be known at all.
        assert!(!is_here || !is_gone || oracle.has_forgotten, "the position is in other content");
        if is_here && !is_gone {
            assert!(place.1 <= self.written, "the journal knows more than was ever read");
            self.reading = Some(Reading { begin: place.0, next: place.1, is_begun: true });
            return;
        }
        // Only frames on disk contained what had been read.
        let further = (!is_gone).then(|| journal.skip_to_furthest(StreamId(self.stream))).flatten();
        let chain = further.as_ref().map_or(chain, |resume| chain_at(oracle, resume));
        let epoch = further.map_or(resume.last_epoch, |further| further.position.epoch) + 1;
        self.begin(oracle, epoch, chain);
    }

    fn begin(&mut self, oracle: &mut Oracle, epoch: u32, chain: Chain) {
        oracle.set_chain(self.stream, source_of(self.stream), chain.clone());
        let begin = oracle.begin(self.content, epoch, chain);
        self.reading = Some(Reading { begin, next: 0, is_begun: false });
    }

    /// The source notices that it was truncated.
    pub(crate) fn begin_again(&mut self, journal: &Journal, oracle: &mut Oracle) {
        let Some(reading) = self.reading else { return };
        let further = journal.skip_to_furthest(StreamId(self.stream));
        let epoch = oracle.begins[reading.begin].epoch;
        let chain = match &further {
            Some(resume) => chain_at(oracle, resume),
            // An epoch that the journal does not know never existed.
            None if !reading.is_begun => oracle.begins[reading.begin].before.clone(),
            None => oracle.chain(reading.begin, reading.next),
        };
        let epoch = further.map_or(epoch, |resume| resume.position.epoch.max(epoch)) + 1;
        self.begin(oracle, epoch, chain);
    }

    /// The source is notified that the file is gone, or finds nothing at its start.
    pub(crate) fn end_unread(&self, journal: &Journal, oracle: &mut Oracle, is_opened: bool) {
        if is_opened {
            let begin = oracle.begin(self.content, 0, Chain::new());
            open_stream(journal, self.stream, begin, true);
        }
        journal.close_stream(StreamId(self.stream));
    }
}

/// Opens a connection's stream: each start begins a new epoch.
pub(crate) fn open_lane(journal: &Journal, oracle: &mut Oracle, stream: u64) -> Reading {
    let content = oracle.new_content(stream);
    let begin = oracle.begin(content, 0, Chain::new());
    let resume = open_stream(journal, stream, begin, false);
    let chain = if resume.known { chain_at(oracle, &resume) } else { Chain::new() };
    oracle.set_chain(stream, source_of(stream), chain.clone());
    let begin = oracle.begin(content, resume.last_epoch + 1, chain);
    Reading { begin, next: 0, is_begun: true }
}

/// What a source stores about rows that it does not acknowledge, after every read; it survives a
/// crash, unlike the rows themselves.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    /// All rows that were ever received.
    pub(crate) lines: u64,
    /// The latest epoch that the journal knew at the start of the process.
    known_epoch: u32,
    /// The epoch of the process.
    epoch: u32,
}

/// Opens the stream of a connection whose rows are not acknowledged: what was received and did not
/// survive is counted in the book with which the new epoch begins.
pub(crate) fn open_soon_lane(
    journal: &Journal,
    oracle: &mut Oracle,
    stream: u64,
    count: &mut Count,
    may_fail: bool,
) -> Reading {
    let content = oracle.new_content(stream);
    let begin = oracle.begin(content, 0, Chain::new());
    let known = journal.known_streams(source_of(stream));
    let known = known.into_iter().find(|known| known.stream.0 == stream);
    let resume = open_stream(journal, stream, begin, false);
    let survivor = known.map_or(resume.clone(), |known| known.furthest);
    let survivor = if resume.position >= survivor.position { resume.clone() } else { survivor };
    let furthest = (resume.furthest.position, resume.furthest.book);
    assert_eq!(furthest, (survivor.position, survivor.book), "the furthest position");
    let mut chain = if survivor.known { chain_at(oracle, &survivor) } else { Chain::new() };
    let rows = rows_of(&chain);
    let is_unknown = resume.last_epoch == 0 && count.known_epoch > 0;
    let is_same = resume.last_epoch <= count.epoch && !is_unknown;
    if !oracle.has_forgotten {
        assert_eq!(survivor.position, resume.position, "nothing is read again");
        // An epoch may never have been flushed, or be damaged before it was stated.
        let may_be_lost = may_fail || oracle.may_lose_again;
        assert!(is_same || may_be_lost && is_unknown, "{count:?} for epoch {}", resume.last_epoch);
        assert!(rows <= count.lines, "the journal knows more than was ever received");
    }
    oracle.set_chain(stream, source_of(stream), chain.clone());
    let lost = if is_same { count.lines.saturating_sub(rows) } else { 0 };
    if lost > 0 {
        chain.push((LOST, lost));
    }
    let epoch = resume.last_epoch + 1;
    *count = Count { lines: rows + lost, known_epoch: resume.last_epoch, epoch };
    let begin = oracle.begin(content, epoch, chain);
    Reading { begin, next: 0, is_begun: false }
}

/// Returns how rows of a stream are written to the journal.
pub(crate) fn policy(is_deleted: bool) -> WritePolicy {
    if is_deleted { WritePolicy::OnAppend } else { WritePolicy::OnLag }
}
