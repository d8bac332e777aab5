//! Shared by the targets for the journal's files: a journal on a disk in memory, whose files are
//! damaged as directed by the input.
//!
//! The journal is written once, with two destinations, one of which is behind, and with records
//! that can be read again and others that cannot. The input is a list of edits of its files.
//! Invariant: whatever they are, the journal opens, delivers what it finds, and its books balance,
//! also after it is opened again.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use weir_host::RealClock;
use weir_journal::{
    Cursor, CursorSpec, Journal, JournalConfig, JournalError, Outcome, StreamSpec, WhenFull,
    WritePolicy,
};
use weir_model::{
    Batch, BatchBuilder, NewRecord, Position, RecordFlags, Seal, Severity, SourceBook, SourceId,
    StreamId,
};
use weir_testkit::FaultyDisk;

const DIR: &str = "/data/journal";
/// Bytes of one record in its file.
const STEP: u64 = 16;
const DESTINATIONS: [&str; 2] = ["fast", "slow"];

fn config() -> JournalConfig {
    JournalConfig {
        dir: DIR.into(),
        ring_bytes: 8 << 20,
        bytes_max: 64 << 20,
        free_bytes_min: 0,
        segment_bytes: 3 << 10,
        taken_bytes_max: u64::MAX,
        commit_interval: Duration::from_millis(1),
        spill_after: Duration::from_millis(5),
    }
}

fn book(lines: u64) -> SourceBook {
    SourceBook { lines, records: lines, bytes_read: lines * STEP, ..SourceBook::default() }
}

fn batch(stream: u64, n: u64, repeatable: bool) -> Batch {
    let mut builder = BatchBuilder::new(Position::new(0, n * STEP));
    let text = format!("{stream}/{n};{}", ".".repeat(300));
    let body = builder.append(text.as_bytes()).expect("the body fits");
    let record = NewRecord {
        timestamp_ns: n as i64,
        end_offset: (n + 1) * STEP,
        body,
        severity: Severity::UNSPECIFIED,
        flags: RecordFlags::default(),
        ..NewRecord::default()
    };
    // The first resource of a frame has number 0, which the record refers to.
    builder.resource(n, b"{}").expect("one resource");
    builder.push(&record).expect("the record fits");
    builder.route_all(&[0, 1]);
    builder.seal(&Seal {
        repeatable,
        stream: StreamId(stream),
        group: 0,
        source: SourceId::of("app"),
        end: Position::new(0, (n + 1) * STEP),
        observed_ns: 1,
        rule_generation: 1,
        book: &book(n + 1),
        state: b"state",
    })
}

/// Opens the journal; `None` if it refuses the files.
fn open(disk: &FaultyDisk) -> Option<(Journal, Vec<Cursor>)> {
    let opened = Journal::open(config(), Arc::new(disk.clone()), Arc::new(RealClock::new()));
    let journal = match opened {
        Ok(journal) => journal,
        // An intact file or frame of another release.
        Err(JournalError::Version { .. } | JournalError::Unknown { .. }) => return None,
        Err(error) => panic!("the journal does not open: {error}"),
    };
    journal.register_source("app");
    let spec = |name: &str| CursorSpec {
        name: name.to_owned(),
        when_full: WhenFull::Block,
        buffer_bytes_max: 32 << 20,
        window_bytes: 16 << 20,
    };
    // Refused if every slot is taken according to the damaged positions.
    let cursor = |name: &&str| journal.cursor(spec(name)).ok();
    let cursors: Option<Vec<_>> = DESTINATIONS.iter().map(cursor).collect();
    Some((journal, cursors?))
}

fn open_stream(journal: &Journal, stream: u64, gone: bool) {
    let _ = journal.open_stream(&StreamSpec {
        stream: StreamId(stream),
        group: 0,
        source: SourceId::of("app"),
        start: Position::default(),
        state: b"",
        book: SourceBook::default(),
        gone,
    });
}

/// Delivers waiting batches, at most `batches`; with `is_exact`, asserts that each has the records
/// that it was counted with.
fn drain(cursor: &mut Cursor, batches: usize, is_exact: bool) {
    for _ in 0..batches {
        let Some(delivery) = cursor.take_blocking(|_| false) else { return };
        let count = delivery.records().count() as u64;
        assert!(!is_exact || count == delivery.record_count, "{count} records: {delivery:?}");
        cursor.ack(&delivery, Outcome::delivered(count));
    }
}

fn balance(journal: &Journal) {
    let ledger = journal.ledger();
    for cursor in &ledger.cursors {
        assert_eq!(cursor.unaccounted(), 0, "{cursor:?}");
        assert!(cursor.taken <= cursor.in_flight, "{cursor:?}");
    }
    for source in &ledger.sources {
        assert_eq!(source.book.unaccounted_lines(), 0, "{source:?}");
    }
}

/// Waits for the result of another thread.
fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

/// The disk that every input damages.
fn written() -> &'static FaultyDisk {
    static DISK: OnceLock<FaultyDisk> = OnceLock::new();
    DISK.get_or_init(|| {
        let disk = FaultyDisk::new();
        let (journal, mut cursors) = open(&disk).expect("an empty directory is a journal");
        for stream in 1..=3 {
            open_stream(&journal, stream, false);
            for n in 0..8 {
                let ticket = journal.append(batch(stream, n, stream == 3), WritePolicy::OnAppend);
                wait(ticket.expect("there is room").durable()).expect("the disk takes it");
                drain(&mut cursors[0], 1, true);
                journal.flush();
            }
        }
        drain(&mut cursors[1], 3, true);
        journal.flush();
        disk.kill()
    })
}

fn files(disk: &FaultyDisk, ending: &str) -> Vec<PathBuf> {
    let mut files = disk.names();
    files.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    files.sort();
    files
}

/// Applies one edit, which is encoded in five bytes (file, kind, offset (2), length) and the bytes
/// to write.
fn edit(disk: &FaultyDisk, path: &Path, way: u8, at: u16, bytes: &[u8]) {
    let Some(mut content) = disk.content(path) else { return };
    let at = usize::from(at).min(content.len());
    let end = (at + bytes.len()).min(content.len());
    match way % 5 {
        0 => content[at..end].copy_from_slice(&bytes[..end - at]),
        1 => content.truncate(at),
        2 => drop(content.splice(at..at, bytes.iter().copied())),
        3 => content[at..end].fill(0),
        _ => content.drain(at..end).for_each(drop),
    }
    disk.put(path, &content);
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
}

/// Corrects the checksums of records (`WREC`) and of an index (`WIDX`).
fn seal(disk: &FaultyDisk, path: &Path) {
    let Some(mut content) = disk.content(path) else { return };
    let mut at = 16;
    while let Some(len) = number(&content, at + 4) {
        let start = at + 12;
        let Some(payload) = content.get(start..start.saturating_add(len)) else { break };
        if content[at..at + 4] != *b"WREC" {
            break;
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&content[8..16]), payload);
        content[at + 8..at + 12].copy_from_slice(&crc.to_le_bytes());
        at = start + len;
    }
    if content.ends_with(b"WIDX") && content.len() > 40 {
        let end = content.len();
        let len = number(&content, end - 8).unwrap_or(0);
        if (12..end - 24).contains(&len) {
            let index = &content[end - len..end - 12];
            let crc = crc32c::crc32c_append(crc32c::crc32c(&content[16..24]), index);
            content[end - 12..end - 8].copy_from_slice(&crc.to_le_bytes());
        }
    }
    disk.put(path, &content);
}

/// Applies the edits to files with this ending, and opens the journal. With `is_sealed` the
/// checksums are corrected, so that the edited bytes are read: data that no damage of a disk causes
/// must not make weir panic either, but the books need not balance then.
pub fn damaged(input: &[u8], ending: &str, is_sealed: bool) {
    let disk = written().kill();
    let paths = files(&disk, ending);
    let mut rest = input;
    for _ in 0..8 {
        let Some(([file, way, low, high, len], tail)) = rest.split_first_chunk() else { break };
        let len = usize::from(*len).min(tail.len());
        let (bytes, tail) = tail.split_at(len);
        rest = tail;
        let path = &paths[usize::from(*file) % paths.len()];
        edit(&disk, path, *way, u16::from_le_bytes([*low, *high]), bytes);
        if is_sealed {
            seal(&disk, path);
        }
    }
    let is_gone = input.first().is_some_and(|byte| byte & 0x80 != 0);
    live(&disk, is_gone, is_sealed);
}

/// Adds a file with this content, and opens the journal.
pub fn foreign(content: &[u8], name: &str) {
    let disk = written().kill();
    disk.put(&Path::new(DIR).join(name), content);
    live(&disk, content.len() % 2 == 0, false);
}

/// Opens the journal, delivers everything, and does both once more.
fn live(disk: &FaultyDisk, is_gone: bool, is_sealed: bool) {
    for _ in 0..2 {
        let Some((journal, mut cursors)) = open(disk) else { return };
        for stream in 1..=2 {
            open_stream(&journal, stream, is_gone);
        }
        journal.release_unclaimed();
        if !is_sealed {
            balance(&journal);
        }
        for key in 0..8 {
            let frames = journal.frames_with_key(key);
            let _ = frames.iter().filter_map(|frame| frame.read()).count();
        }
        for cursor in &mut cursors {
            drain(cursor, 1000, !is_sealed);
        }
        if !is_sealed {
            balance(&journal);
        }
        journal.shutdown();
    }
}
