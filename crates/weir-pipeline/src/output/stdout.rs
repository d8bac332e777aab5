//! `type = "stdout"`: one line per record on standard output.
//!
//! Invariants: a full pipe blocks this thread and nothing else; when the reader is gone, the output
//! ends with a message, and undelivered records stay in the journal. On a terminal, control
//! characters of records are escaped; a file or pipe gets them unchanged.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use weir_host::terminal::printable;
use weir_journal::{Cursor, Outcome};

use super::Job;
use super::pending::PendingBatch;
use crate::config::Encoding;
use crate::stats::add;

/// Maximum age of lines before they are written: short for a user at a terminal, but long enough to
/// avoid one system call per line.
const AGE: Duration = Duration::from_millis(50);
const BYTES: u64 = 64 * 1024;

pub(super) async fn run(job: &Job, encoding: Encoding, cursor: Cursor) {
    let mut stdout = io::stdout();
    if stdout.is_terminal() {
        write_lines(job, encoding, cursor, &mut TerminalWriter(stdout)).await;
    } else {
        write_lines(job, encoding, cursor, &mut stdout).await;
    }
}

/// A terminal, which must not interpret control characters in records.
struct TerminalWriter<W>(W);

impl<W: Write> Write for TerminalWriter<W> {
    /// Writes complete lines.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let text = line.strip_suffix(b"\n");
            let shown = String::from_utf8_lossy(text.unwrap_or(line));
            self.0.write_all(printable(&shown).as_bytes())?;
            self.0.write_all(if text.is_some() { b"\n" } else { b"" })?;
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes to `target` until the journal closes, a stop is requested, or the reader is gone.
pub(super) async fn write_lines(
    job: &Job,
    encoding: Encoding,
    mut cursor: Cursor,
    target: &mut dyn Write,
) {
    let mut buffer = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = cursor.ready(BYTES, AGE) => {}
            _ = job.stop.requested() => return,
        }
        while let Some(delivery) = cursor.take(|_| false).await {
            let pending = PendingBatch::of_delivery(delivery);
            buffer.clear();
            encoding.lines(&pending.records, &mut buffer);
            let started = job.context.clock.monotonic();
            if let Err(error) = target.write_all(&buffer).and_then(|()| target.flush()) {
                give_up(job, &error);
                return;
            }
            let took = job.context.clock.monotonic().saturating_sub(started);
            add(&job.stats.service_ns, took.as_nanos() as u64);
            add(&job.stats.requests, 1);
            add(&job.stats.bytes_sent, buffer.len() as u64);
            add(&job.stats.bytes_encoded, buffer.len() as u64);
            if let Some(delivery) = &pending.delivery {
                cursor.ack(delivery, Outcome::delivered(pending.len() as u64));
            }
        }
        if cursor.is_closing() {
            return;
        }
    }
}

fn give_up(job: &Job, error: &io::Error) {
    let text = if error.kind() == io::ErrorKind::BrokenPipe {
        "standard output was closed by its reader; the output has stopped, and undelivered \
         records stay in the journal until the next start"
            .to_owned()
    } else {
        format!("standard output failed: {error}; the output has stopped")
    };
    tracing::error!(output = %job.plan.name, "{text}");
    job.stats.failing.store(true, std::sync::atomic::Ordering::Relaxed);
    job.stats.errors.count("closed", &text);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use weir_testkit::journal_config;

    use weir_host::{RealClock, RealDisk};
    use weir_journal::{CursorSpec, Journal, JournalConfig, StreamSpec, WhenFull, WritePolicy};
    use weir_model::{
        BatchBuilder, NewRecord, Position, RecordFlags, Seal, Severity, SourceBook, SourceId,
        StreamId,
    };

    use super::*;
    use crate::config::{OutputKind, OutputPlan};
    use crate::output::{OutputContext, Stop};

    /// Returns a closed journal that holds one batch of `bodies`, and an output on it.
    fn closed_journal(dir: &std::path::Path, bodies: &[&str]) -> (Journal, Cursor, Job) {
        let clock = Arc::new(RealClock::new());
        let config = JournalConfig { bytes_max: 1 << 20, ..journal_config(dir) };
        let journal = Journal::open(config, Arc::new(RealDisk), clock.clone()).unwrap();
        let plan = OutputPlan {
            name: "out".to_owned(),
            when_full: WhenFull::Block,
            buffer_bytes_max: 1 << 20,
            window_bytes: 1 << 20,
            dead_letter: false,
            kind: OutputKind::Stdout(Encoding::Raw),
        };
        let (name, when_full) = (plan.name.clone(), plan.when_full);
        let (buffer_bytes_max, window_bytes) = (plan.buffer_bytes_max, plan.window_bytes);
        let spec = CursorSpec { name, when_full, buffer_bytes_max, window_bytes };
        let cursor = journal.cursor(spec).unwrap();
        append(&journal, bodies);
        journal.close();
        let disk = Arc::new(RealDisk);
        let context = OutputContext::new(dir.to_owned(), clock, disk);
        let (stop, reopen) = (Stop::new(), Stop::new());
        (journal, cursor, Job { plan, context, stats: Arc::default(), stop, reopen })
    }

    fn append(journal: &Journal, bodies: &[&str]) {
        let (stream, source, start) = (StreamId(1), SourceId(1), Position::default());
        let book = SourceBook::default();
        journal.open_stream(&StreamSpec {
            stream,
            group: 0,
            source,
            start,
            state: &[],
            book,
            gone: false,
        });
        let mut builder = BatchBuilder::new(start);
        for (end, body) in (1..).zip(bodies) {
            let record = NewRecord {
                timestamp_ns: 0,
                end_offset: end,
                body: builder.append(body.as_bytes()).unwrap(),
                severity: Severity::UNSPECIFIED,
                flags: RecordFlags::default(),
                ..NewRecord::default()
            };
            builder.push(&record).unwrap();
        }
        builder.resource(0, b"{}").unwrap();
        builder.route_all(&[0]);
        let batch = builder.seal(&Seal {
            repeatable: true,
            stream,
            group: 0,
            source,
            end: Position::new(0, bodies.len() as u64),
            observed_ns: 0,
            rule_generation: 0,
            book: &book,
            state: &[],
        });
        journal.append(batch, WritePolicy::OnLag).unwrap();
    }

    #[tokio::test]
    async fn every_record_is_a_line_and_counts_as_delivered() {
        let dir = tempfile::tempdir().unwrap();
        let (journal, cursor, job) = closed_journal(dir.path(), &["one", "t\nwo", "th\u{e9}"]);
        let mut out = Vec::new();
        write_lines(&job, Encoding::Raw, cursor, &mut out).await;
        assert_eq!(String::from_utf8(out).unwrap(), "one\nt\\nwo\nth\u{e9}\n");
        let book = &journal.ledger().cursors[0];
        assert_eq!((book.book.delivered, book.unaccounted()), (3, 0));
    }

    #[tokio::test]
    async fn control_characters_of_records_are_escaped_on_terminals() {
        let dir = tempfile::tempdir().unwrap();
        let bodies = ["\u{1b}[31mred", "t\twice \u{e9}", "\u{202e}"];
        let (_journal, cursor, job) = closed_journal(dir.path(), &bodies);
        let mut out = TerminalWriter(Vec::new());
        write_lines(&job, Encoding::Raw, cursor, &mut out).await;
        let shown = String::from_utf8(out.0).unwrap();
        assert_eq!(shown, "\\u{1b}[31mred\nt\twice \u{e9}\n\\u{202e}\n");
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_ends_the_output_and_keeps_the_records() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let (journal, cursor, job) = closed_journal(dir.path(), &["one"]);
        write_lines(&job, Encoding::Raw, cursor, &mut Gone).await;
        assert!(job.stats.errors.last().unwrap().contains("closed by its reader"));
        let book = &journal.ledger().cursors[0];
        assert_eq!((book.in_flight, book.unaccounted()), (1, 0));
    }
}
