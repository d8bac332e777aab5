//! A real journal, filled by hand, with one output.
//!
//! Invariant: [`Rig::finish`] asserts that the ledger balances; every test ends with it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_codec::{SyslogDecoder, SyslogOrigin};
use weir_host::{Disk, RealClock, RealDisk, Secret};
use weir_journal::{
    Cursor, CursorLedger, CursorSpec, Journal, JournalConfig, StreamSpec, WhenFull, WritePolicy,
};
use weir_model::{
    BatchBuilder, Facility, NewRecord, Position, RecordFlags, Resource, Seal, Severity, SourceBook,
    SourceId, StreamId,
};
use weir_pipeline::config::{
    Compression, HecMode, OutputKind, OutputPlan, RequestSettings, TlsSettings,
};
use weir_pipeline::output::SplunkHec;
use weir_pipeline::output::{self, OutputContext, OutputHandle};
use weir_pipeline::stats::OutputStats;
use weir_testkit::{Collector, LineId, journal_config};

/// Everything that is waited for happens long before this, or the test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// One record to append.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) body: Vec<u8>,
    pub(crate) attributes: String,
    pub(crate) severity: Severity,
    pub(crate) flags: RecordFlags,
    pub(crate) facility: Facility,
    pub(crate) process_id: String,
    pub(crate) message_id: String,
}

impl Line {
    /// Creates a plain line.
    pub(crate) fn new(body: impl Into<Vec<u8>>) -> Self {
        Self {
            body: body.into(),
            attributes: String::new(),
            severity: Severity::UNSPECIFIED,
            flags: RecordFlags::STDOUT,
            facility: Facility::NONE,
            process_id: String::new(),
            message_id: String::new(),
        }
    }

    /// Creates a message as received by syslog: `<37>1 - HOST APP 4711 ID47 - BODY`.
    pub(crate) fn syslog(body: &str) -> Self {
        Self {
            severity: Severity::NOTICE,
            flags: RecordFlags::default(),
            facility: Facility::of_code(4),
            process_id: "4711".to_owned(),
            message_id: "ID47".to_owned(),
            ..Self::new(body)
        }
    }

    /// Creates line `seq` of the stream `name`, with an ID that the collector counts by.
    pub(crate) fn numbered(name: &str, seq: u64) -> Self {
        let mut body = Vec::new();
        LineId::write(name, 0, seq, b"some \"quoted\" text of a log line", &mut body);
        Self::new(body)
    }
}

/// A journal with one output.
pub(crate) struct Rig {
    pub(crate) journal: Journal,
    pub(crate) plan: OutputPlan,
    pub(crate) stats: Arc<OutputStats>,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) disk: Arc<dyn Disk>,
    /// When the following batches are received.
    pub(crate) observed_ns: i64,
    handle: Option<OutputHandle>,
    ends: std::collections::HashMap<u64, u64>,
}

impl Rig {
    /// Starts the output with a fresh data directory.
    pub(crate) fn start(kind: OutputKind) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), Arc::new(RealDisk), kind)
    }

    /// Starts the output with the given directory and disk.
    pub(crate) fn start_in(dir: tempfile::TempDir, disk: Arc<dyn Disk>, kind: OutputKind) -> Self {
        let mut rig = Self::prepare(dir, disk, kind);
        rig.run();
        rig
    }

    /// Prepares the rig without starting the output.
    pub(crate) fn prepare(dir: tempfile::TempDir, disk: Arc<dyn Disk>, kind: OutputKind) -> Self {
        let journal = open(dir.path());
        let plan = OutputPlan {
            name: "out".to_owned(),
            when_full: WhenFull::Block,
            buffer_bytes_max: 1 << 30,
            window_bytes: 16 << 20,
            dead_letter: true,
            kind,
        };
        journal.register_source("test");
        Self {
            journal,
            plan,
            stats: Arc::default(),
            dir,
            disk,
            observed_ns: 1_700_000_001_000_000_000,
            handle: None,
            ends: std::collections::HashMap::new(),
        }
    }

    /// Starts the output on its cursor.
    pub(crate) fn run(&mut self) {
        let cursor = self.cursor();
        let context = self.context();
        let handle = output::spawn(self.plan.clone(), cursor, context, self.stats.clone());
        self.handle = Some(handle.unwrap());
    }

    /// Returns the output's cursor.
    pub(crate) fn cursor(&self) -> Cursor {
        let spec = CursorSpec {
            name: self.plan.name.clone(),
            when_full: self.plan.when_full,
            buffer_bytes_max: self.plan.buffer_bytes_max,
            window_bytes: self.plan.window_bytes,
        };
        self.journal.cursor(spec).unwrap()
    }

    pub(crate) fn context(&self) -> OutputContext {
        let clock = Arc::new(RealClock::new());
        OutputContext::new(self.dir.path().to_owned(), clock, self.disk.clone())
    }

    pub(crate) fn handle(&self) -> &OutputHandle {
        self.handle.as_ref().unwrap()
    }

    /// Appends one batch to a stream, routed to the output.
    pub(crate) fn append(&mut self, stream: u64, lines: &[Line]) {
        let resource = Resource::new()
            .with("host.name", "vm")
            .with("log.file.path", format!("/log/{stream}.log"))
            .with("container.id", "abc");
        self.append_with(stream, &resource, lines);
    }

    /// Appends one batch with the given resource.
    pub(crate) fn append_with(&mut self, stream: u64, resource: &Resource, lines: &[Line]) {
        let lines: Vec<_> = lines.iter().map(|line| (resource, line.clone())).collect();
        self.append_from(stream, &lines);
    }

    /// Appends one batch in which each line has a resource of its own.
    pub(crate) fn append_from(&mut self, stream: u64, lines: &[(&Resource, Line)]) {
        self.append_filled(stream, |builder, end| {
            for (resource, line) in lines {
                let body = builder.append(&line.body).unwrap();
                let attributes = builder.append(line.attributes.as_bytes()).unwrap();
                let process_id = builder.append(line.process_id.as_bytes()).unwrap();
                let message_id = builder.append(line.message_id.as_bytes()).unwrap();
                *end += 1;
                let record = NewRecord {
                    timestamp_ns: 1_700_000_000_000_000_000 + *end as i64,
                    end_offset: *end,
                    body,
                    attributes,
                    severity: line.severity,
                    flags: line.flags,
                    process_id,
                    message_id,
                    facility: line.facility,
                    resource: builder.resource(0, &resource.encode()).unwrap(),
                    ..NewRecord::default()
                };
                builder.push(&record).unwrap();
            }
        });
    }

    /// Appends one batch of messages as the source `syslog` receives them.
    pub(crate) fn append_syslog(&mut self, stream: u64, messages: &[&[u8]]) {
        let observed_ns = self.observed_ns;
        let resource = Resource::new().with("host.name", "vm").with("service.name", "su");
        self.append_filled(stream, |builder, end| {
            let (mut decoder, mut book) = (SyslogDecoder::new(), SourceBook::default());
            builder.resource(0, &resource.encode()).unwrap();
            for message in messages {
                *end += 1;
                let origin =
                    SyslogOrigin { observed_ns, end_offset: *end, ..SyslogOrigin::default() };
                let message = decoder.parse(message, observed_ns);
                decoder.push(builder, &message, &origin, &mut book).unwrap();
            }
        });
    }

    /// Appends one batch whose records, and the end of the last, are given by `fill`.
    fn append_filled(&mut self, stream: u64, fill: impl FnOnce(&mut BatchBuilder, &mut u64)) {
        let source = SourceId::of("test");
        let end = self.ends.entry(stream).or_insert_with(|| {
            let spec = StreamSpec {
                stream: StreamId(stream),
                group: 0,
                source,
                start: Position::default(),
                state: &[],
                book: SourceBook::default(),
                gone: false,
            };
            self.journal.open_stream(&spec);
            0
        });
        let mut builder = BatchBuilder::new(Position::new(0, *end));
        fill(&mut builder, end);
        builder.route_all(&[0]);
        let book = SourceBook { lines: *end, records: *end, ..SourceBook::default() };
        let batch = builder.seal(&Seal {
            repeatable: true,
            stream: StreamId(stream),
            group: 0,
            source,
            end: Position::new(0, *end),
            observed_ns: self.observed_ns,
            rule_generation: 0,
            book: &book,
            state: &[],
        });
        self.journal.append(batch, WritePolicy::OnLag).expect("there is room");
    }

    /// Appends `count` numbered lines to the stream in batches of `per_batch`.
    pub(crate) fn append_numbered(&mut self, stream: u64, count: u64, per_batch: u64) {
        let name = format!("s{stream}");
        let first = self.ends.get(&stream).copied().unwrap_or(0);
        let all: Vec<Line> = (first..first + count).map(|seq| Line::numbered(&name, seq)).collect();
        for batch in all.chunks(per_batch as usize) {
            self.append(stream, batch);
        }
    }

    /// Returns the output's book.
    pub(crate) fn book(&self) -> CursorLedger {
        self.journal.ledger().cursors.remove(0)
    }

    /// Waits until nothing is in flight.
    pub(crate) fn drain(&self) {
        self.wait("everything is settled", |rig| rig.book().in_flight == 0);
    }

    /// Waits for a state of the rig.
    pub(crate) fn wait(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed() < DEADLINE, "{what}: {:#?} {:#?}", self.book(), self.stats);
            std::thread::yield_now();
        }
    }

    /// Returns the text of the active error.
    pub(crate) fn last_error(&self) -> String {
        self.stats.errors.last().unwrap_or_default()
    }

    /// Returns how often an error of that kind was counted.
    pub(crate) fn errors(&self, kind: &str) -> u64 {
        self.stats.errors.by_kind().into_iter().find(|(k, _)| *k == kind).map_or(0, |(_, n)| n)
    }

    /// Stops the output without closing the journal.
    pub(crate) fn stop(&mut self, grace: Duration) {
        let handle = self.handle.take().unwrap();
        handle.stop(grace);
        assert!(handle.join(), "output thread panicked");
    }

    /// Closes the journal, waits for the output and asserts that its book balances.
    pub(crate) fn finish(mut self) -> (CursorLedger, tempfile::TempDir) {
        self.journal.close();
        if let Some(handle) = self.handle.take() {
            assert!(handle.join(), "output thread panicked");
        }
        let book = self.book();
        assert_eq!(book.unaccounted(), 0, "the book does not balance: {book:#?}");
        self.journal.shutdown();
        (book, self.dir)
    }
}

fn open(dir: &Path) -> Journal {
    let config = JournalConfig {
        ring_bytes: 64 << 20,
        segment_bytes: 16 << 20,
        ..journal_config(dir.join("journal"))
    };
    Journal::open(config, Arc::new(RealDisk), Arc::new(RealClock::new())).unwrap()
}

/// Returns settings for uncompressed requests, with pauses short enough for tests.
pub(crate) fn quick_requests() -> RequestSettings {
    RequestSettings {
        compression: Compression::None,
        batch_bytes: 64 * 1024,
        batch_age: Duration::from_millis(20),
        connections_max: 4,
        request_timeout: Duration::from_secs(5),
        retry_min: Duration::from_millis(2),
        retry_max: Duration::from_millis(50),
        tls: TlsSettings::default(),
    }
}

/// Returns settings of an output to that endpoint.
pub(crate) fn hec(endpoint: &str) -> SplunkHec {
    SplunkHec {
        endpoint: endpoint.to_owned(),
        token: Secret::new("token".to_owned()),
        mode: HecMode::Event,
        indexer_ack: false,
        ack_timeout: Duration::from_secs(5),
        index: None,
        sourcetype: None,
        source: None,
        host: None,
        requests: quick_requests(),
    }
}

/// Starts a rig that sends to the collector.
pub(crate) fn to_collector(collector: &Collector, change: impl FnOnce(&mut SplunkHec)) -> Rig {
    let mut hec = hec(&collector.url());
    change(&mut hec);
    Rig::start(OutputKind::SplunkHec(Box::new(hec)))
}
