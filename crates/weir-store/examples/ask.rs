//! What asking costs: the time of each question on segments that are warm, by itself and beside
//! reading the same pages.
//!
//! `cargo run --release -p weir-store --example ask [lines [only]]`: with `only`, the questions
//! whose name has this in it.
#![expect(clippy::print_stdout, reason = "a program that prints figures")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_expr::{Field, Reserved, parse};
use weir_host::{Disk, DiskFile, OpenMode, RealClock, RealDisk};
use weir_store::embedded::columns::{Full, Intake, Rows};
use weir_store::embedded::scan;
use weir_store::embedded::segment::{Fixed, PageBuffer, Role, Segment};
use weir_store::embedded::sidecar::{Sidecar, write_segment_with_sidecar};
use weir_store::embedded::snapshot::{OpenSegment, Snapshot};
use weir_store::query::{
    Access, AggregateRequest, Aggregation, Budget, Compute, Filter, GroupBy, Order, SearchRequest,
};

mod lines;

/// Memory of the rows that become a segment.
const CHUNK_BYTES: usize = 64 * 1024 * 1024;
/// How often each question is asked.
const TIMES: usize = 20;

fn open(path: &Path) -> Arc<dyn DiskFile> {
    Arc::from(RealDisk.open(path, OpenMode::Create).expect("a file"))
}

/// Writes the lines as segments; returns them open, with a request id that is among them.
fn store(dir: &Path, lines: u64) -> (Snapshot, String) {
    let (batches, bytes) = lines::batches(lines);
    let mut segments = Vec::new();
    let mut intake = Intake::new();
    let mut rows = Rows::new();
    let mut sequence = 0;
    let mut write = |rows: &mut Rows| {
        let name = format!("{}", segments.len());
        let data = open(&dir.join(format!("{name}.parquet")));
        let filters = open(&dir.join(format!("{name}.widx")));
        let rows = std::mem::take(rows);
        write_segment_with_sidecar(&rows, 1, None, &*data, &*filters).expect("a segment");
        let segment = Segment::open(data).expect("a segment");
        let sidecar = Some(Sidecar::open(filters, &segment).expect("a sidecar"));
        segments.push(Arc::new(OpenSegment { name, segment, sidecar }));
    };
    let mut needle = String::new();
    for batch in &batches {
        intake.begin_batch("app", batch.header().stream, batch.resource());
        for view in batch.records() {
            if sequence == lines / 2 {
                let text = String::from_utf8_lossy(view.body);
                let at = text.find("request_id\":\"").expect("an id") + 13;
                text[at..at + 16].clone_into(&mut needle);
            }
            if let Err(Full) = intake.push(&mut rows, sequence, &view) {
                panic!("the rows are written before they are full");
            }
            sequence += 1;
        }
        if rows.memory_bytes() >= CHUNK_BYTES {
            write(&mut rows);
        }
    }
    write(&mut rows);
    println!("{sequence} lines, {:.0} MB, {} segments", bytes as f64 / 1e6, segments.len());
    (Snapshot { segments, ..Snapshot::default() }, needle)
}

/// The median of some runs.
fn median(mut run: impl FnMut() -> String) -> (Duration, String) {
    let mut shown = String::new();
    let mut times: Vec<Duration> = (0..TIMES)
        .map(|_| {
            let start = Instant::now();
            shown = run();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[TIMES / 2], shown)
}

fn budget() -> Budget {
    Budget::new(Arc::new(RealClock::new()), None, 1 << 30)
}

fn filter(query: &str) -> Filter {
    Filter { query: parse(query).expect("a query"), ..Filter::all(Access::all()) }
}

fn compute(aggregation: Aggregation, field: Option<&str>) -> Compute {
    let field = field.map(|path| Field::Attribute(path.to_owned()));
    Compute { aggregation, field, interval_ns: None }
}

struct Asked<'a> {
    snapshot: &'a Snapshot,
    only: Option<String>,
}

impl Asked<'_> {
    fn ask(&self, name: &str, run: impl FnMut() -> String) {
        if self.only.as_deref().is_none_or(|only| name.contains(only)) {
            let (time, shown) = median(run);
            println!("{name:<56} {:>8.2} ms  {shown}", time.as_secs_f64() * 1e3);
        }
    }

    fn count(&self, name: &str, query: &str) {
        self.figures(name, query, vec![compute(Aggregation::Count, None)], Vec::new());
    }

    fn figures(&self, name: &str, query: &str, computes: Vec<Compute>, group_by: Vec<GroupBy>) {
        let request = AggregateRequest { filter: filter(query), computes, group_by };
        self.ask(name, || {
            let found = scan::aggregate(self.snapshot, &request, &budget()).expect("an answer");
            let scanned = found.coverage.scanned;
            format!("{} of {} rows, {} pages", found.matched, scanned.rows, scanned.pages)
        });
    }

    fn search(&self, name: &str, query: &str, limit: usize) {
        let request =
            SearchRequest { filter: filter(query), order: Order::NewestFirst, limit, after: None };
        self.ask(name, || {
            let found = scan::search(self.snapshot, &request, &budget()).expect("an answer");
            let scanned = found.coverage.scanned;
            format!("{} of {} rows, {} pages", found.records.len(), scanned.rows, scanned.pages)
        });
    }

    /// Reads the pages of a column and does nothing with them, on two threads.
    fn pages(&self, name: &str, role: &Role) {
        self.ask(name, || {
            let half = |offset: usize| {
                let mut buffer = PageBuffer::new().expect("a buffer");
                let mut bytes = 0;
                for segment in self.snapshot.segments.iter().skip(offset).step_by(2) {
                    let segment = &segment.segment;
                    let column = segment.column(role).expect("a column");
                    for page in 0..segment.page_count(0) {
                        segment.read_page(0, column, page, &mut buffer).expect("a page");
                        bytes += buffer.values().len();
                    }
                }
                bytes
            };
            let values = std::thread::scope(|scope| {
                let other = scope.spawn(|| half(1));
                half(0) + other.join().expect("a thread")
            });
            format!("{values} values")
        });
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let lines = arguments.next().and_then(|lines| lines.parse().ok()).unwrap_or(3_000_000);
    let dir = tempfile::tempdir().expect("a directory");
    let (snapshot, needle) = store(dir.path(), lines);
    let asked = Asked { snapshot: &snapshot, only: arguments.next() };
    asked.count("count of everything", "*");
    asked.count("needle", &format!("@request_id:{needle}"));
    asked.count("count @http.status_code:500", "@http.status_code:500");
    asked.count("count @duration_ms:>1990", "@duration_ms:>1990");
    let duration = Some("duration_ms");
    let figures = vec![
        compute(Aggregation::Count, None),
        compute(Aggregation::Average, duration),
        compute(Aggregation::Percentile(99.0), duration),
    ];
    let by_status = GroupBy::top(Field::Attribute("http.status_code".to_owned()), 10);
    asked.figures("count, avg, p99 by @http.status_code", "*", figures, vec![by_status]);
    asked.pages("pages of messages", &Role::Fixed(Fixed::Message));
    asked.count("checkout AND timeout", "checkout AND timeout");
    asked.count("regexp without a match", "/zqx[0-9]+/");
    asked.count("regexp without a literal", "/[xq][zj][0-9]/");
    asked.search("newest 10 errors with a word", "status:error checkout", 10);
    let mut by_minute = compute(Aggregation::Count, None);
    by_minute.interval_ns = Some(60_000_000_000);
    asked.figures("histogram of everything by minute", "*", vec![by_minute.clone()], Vec::new());
    by_minute.interval_ns = Some(7_000_000_000);
    asked.figures("histogram of everything by 7 s", "*", vec![by_minute], Vec::new());
    let top = GroupBy::top(Field::Reserved(Reserved::Status), 10);
    asked.figures("count by status", "*", vec![compute(Aggregation::Count, None)], vec![top]);
}
