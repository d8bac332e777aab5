//! The store: the cost of storing lines, the space they take, how soon they are found and how long
//! queries take over HTTP.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use weir_host::{Disk, OpenMode, RealDisk};
use weir_store::embedded::segment::{Fixed, PageBuffer, PageValues, Role, Segment};

use super::Options;
use crate::data;
use crate::process::Cpu;
use crate::report::{Measurement, Outcome, Target};
use crate::weir::Weir;

/// Number of lines of the whole scenario: 951 MB.
pub(super) const LINES: u64 = 3_000_000;
/// How often each query is run; the median counts.
pub(super) const TIMES: usize = 20;
/// How long a store must write and merge nothing to count as idle.
const QUIET: Duration = Duration::from_secs(5);
/// File for lines that arrive while queries run.
const LIVE_FILE: &str = "live.log";
/// Pause between checks of progress: a check costs a millisecond, which counts.
const PAUSE: Duration = Duration::from_millis(500);
/// Long enough for the lines, whose times are fixed, whenever this runs.
const RETENTION: &str = "36500d";

/// Lines in a store that is idle.
pub(super) struct Stored {
    pub(super) weir: Weir,
    pub(super) cpu: Cpu,
    pub(super) memory_bytes: u64,
    pub(super) disk_bytes: f64,
    segments: f64,
}

impl Stored {
    /// Makes weir follow both files and waits until it has stored and merged this many lines.
    pub(super) fn fill(dir: &Path, lines: &Path, count: u64) -> Result<Self> {
        fs::write(dir.join(LIVE_FILE), "")?;
        let config = format!(
            "[source.bench]\ntype = \"file\"\ninclude = [\"{}\", \"{}\"]\nformat = \"json\"\n\
             read_from = \"beginning\"\n[store]\nretention = \"{RETENTION}\"\n",
            lines.display(),
            dir.join(LIVE_FILE).display(),
        );
        let weir = Weir::start(dir, &config)?;
        weir.wait_asking_every(PAUSE, "everything is stored", Duration::from_mins(10), || {
            Ok(weir.cursor("store")?[0] >= count)
        })?;
        wait_until_quiet(&weir)?;
        let cpu = weir.process().cpu()?;
        let memory_bytes = weir.process().memory()?.1;
        let report = report(&weir)?;
        ensure!(report["rows"] == count, "{count} lines, but {} are stored", report["rows"]);
        let disk_bytes = number(&report["segment_bytes"]) + number(&report["sidecar_bytes"]);
        Ok(Self { weir, cpu, memory_bytes, disk_bytes, segments: number(&report["segments"]) })
    }
}

/// `store`.
pub(crate) fn store(options: &Options) -> Result<Outcome> {
    let count = options.scaled(LINES);
    let lines = data::events(count)?;
    let bytes = fs::metadata(&lines.path)?.len();
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let stored = Stored::fill(dir.path(), &lines.path, count)?;
    let Stored { weir, cpu, .. } = &stored;
    let mut outcome = Outcome::new(format!(
        "{count} JSON lines, {:.0} MB, from a file to the store; then queries over HTTP, warm, \
         median of {TIMES}.",
        bytes as f64 / 1e6
    ));
    outcome.set_cpu(cpu);
    let share = count as f64 / LINES as f64;
    outcome.measurements = vec![
        Measurement::new(
            "MB of lines per CPU-second",
            bytes as f64 / 1e6 / cpu.total.as_secs_f64(),
        )
        .target(Target::AtLeast(110.0))
        .limit(
            "compressing the messages, once",
            bytes as f64 / 1e6 / compress_messages(&dir.path().join("data/store"))?.as_secs_f64(),
        ),
        Measurement::new("MB on disk, segments and sidecars", stored.disk_bytes / 1e6)
            .target(Target::AtMost(185.0 * share)),
        Measurement::new("highest memory, MiB", stored.memory_bytes as f64 / 1_048_576.0)
            .target(Target::AtMost(400.0)),
        Measurement::new("segments", stored.segments),
    ];
    ask_all(weir, dir.path(), &lines, &mut outcome)?;
    let found_ms = searchable(weir, &dir.path().join(LIVE_FILE))?;
    outcome.measurements.push(
        Measurement::new("ms until a line is found after it was written", found_ms)
            .target(Target::AtMost(250.0)),
    );
    outcome.reference = Some(
        "VictoriaLogs 1.26, on other data and in another run: 43 MB per CPU-second, 201 MB, 409 MB of memory; 17, 29, 25, 294, 508, 522, 157 and 34 ms; 1 s until found."
            .to_owned(),
    );
    Ok(outcome)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn report(weir: &Weir) -> Result<Value> {
    weir.get_json("/weir/v1/store")
}

/// Waits until nothing is written or merged any more.
fn wait_until_quiet(weir: &Weir) -> Result<()> {
    let mut last = (Value::Null, Instant::now());
    let (what, limit) = ("the store has merged everything", Duration::from_mins(5));
    weir.wait_asking_every(PAUSE, what, limit, || {
        let now = report(weir)?["segments"].clone();
        if now != last.0 {
            last = (now, Instant::now());
        }
        Ok(last.1.elapsed() > QUIET)
    })
}

/// A query with its target, in milliseconds.
pub(super) struct Question {
    pub(super) what: &'static str,
    path: &'static str,
    body: Value,
    /// The same query in the language of `VictoriaLogs`.
    pub(super) logsql: String,
    /// `None` = it reads all messages, which sets its limit.
    target: Option<f64>,
}

/// The day of the lines.
pub(super) const DAY: [&str; 2] = ["2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"];
/// Lines that arrive while this runs, whenever that is.
const LIVE: [&str; 2] = ["now-1h", "2100-01-01T00:00:00Z"];

fn aggregate(query: &str, [from, to]: [&str; 2], compute: &Value, group_by: &Value) -> Value {
    json!({
        "filter": { "query": query, "from": from, "to": to },
        // A busy machine increases times, but must not make answers partial.
        "weir": { "timeout": "20s" },
        "compute": compute,
        "group_by": group_by,
    })
}

/// Returns a query for the number of matching records.
fn counted(what: &'static str, query: &str, logsql: &str, target: Option<f64>) -> Question {
    let count = json!([{ "aggregation": "count" }]);
    Question {
        what,
        path: "/api/v2/logs/analytics/aggregate",
        body: aggregate(query, DAY, &count, &json!([])),
        logsql: format!("{logsql} | count()"),
        target,
    }
}

/// Returns all queries.
pub(super) fn questions(needle: &str) -> Vec<Question> {
    let (own, theirs) = (format!("@request_id:{needle}"), format!("request_id:={needle}"));
    let (status, their_status) = ("@http.status_code:500", "\"http.status_code\":=500");
    let (slow, their_slow) = ("@duration_ms:>1990", "duration_ms:>1990");
    let phrase = "\"checkout timeout\"";
    vec![
        counted("ms, needle", &own, &theirs, Some(5.0)),
        counted("ms, count where @http.status_code:500", status, their_status, Some(10.0)),
        counted("ms, count where @duration_ms:>1990", slow, their_slow, Some(10.0)),
        grouped_by_status(),
        counted(
            "ms, count where checkout AND timeout",
            "checkout AND timeout",
            "checkout timeout",
            Some(220.0),
        ),
        counted("ms, regexp without a match", "/zqx[0-9]+/", "~\"zqx[0-9]+\"", Some(280.0)),
        counted("ms, two words next to each other", phrase, phrase, None),
        counted(
            "ms, regexp that has no literal, without a match",
            "/[0-9]{9}/",
            "~\"[0-9]{9}\"",
            None,
        ),
        newest_errors(),
        histogram(),
    ]
}

fn grouped_by_status() -> Question {
    let aggregates = json!([
        { "aggregation": "count" },
        { "aggregation": "avg", "metric": "@duration_ms" },
        { "aggregation": "pc99", "metric": "@duration_ms" },
    ]);
    let by_status = json!([{ "facet": "@http.status_code", "limit": 10 }]);
    Question {
        body: aggregate("*", DAY, &aggregates, &by_status),
        logsql: "* | stats by (\"http.status_code\") count() n, avg(duration_ms) a, \
                 quantile(0.99, duration_ms) p"
            .to_owned(),
        ..counted("ms, count, avg, p99 by @http.status_code", "*", "*", Some(80.0))
    }
}

fn newest_errors() -> Question {
    Question {
        what: "ms, newest 10 errors with a word",
        path: "/api/v2/logs/events/search",
        body: json!({
            "filter": { "query": "status:error checkout", "from": DAY[0], "to": DAY[1] },
            "sort": "-timestamp",
            "page": { "limit": 10 },
        }),
        logsql: "level:=error checkout | sort by (_time desc) limit 10".to_owned(),
        target: Some(10.0),
    }
}

fn histogram() -> Question {
    let by_minute = json!([{ "aggregation": "count", "type": "timeseries", "interval": "1m" }]);
    Question {
        body: aggregate("*", DAY, &by_minute, &json!([])),
        logsql: "* | stats by (_time:1m) count()".to_owned(),
        ..counted("ms, histogram of everything", "*", "*", Some(10.0))
    }
}

fn ask_all(weir: &Weir, dir: &Path, lines: &data::Events, outcome: &mut Outcome) -> Result<()> {
    let decoding = median(|| decode_messages(&dir.join("data/store")))?;
    for question in questions(&lines.needle) {
        let taken = median(|| ask(weir, &question))?;
        let measurement = Measurement::new(question.what, taken);
        outcome.measurements.push(match question.target {
            Some(target) => measurement.target(Target::AtMost(target)),
            None => measurement.limit("reading the same pages on two threads", decoding),
        });
    }
    Ok(())
}

/// Returns the median of some runs, in milliseconds.
pub(super) fn median(mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[TIMES / 2].as_secs_f64() * 1e3)
}

pub(super) fn ask(weir: &Weir, question: &Question) -> Result<()> {
    let answer = weir.post_json(question.path, &question.body)?;
    ensure!(answer["meta"]["status"] == "done", "{} is incomplete: {answer}", question.what);
    Ok(())
}

/// Reads all pages of messages without using them.
fn decode_messages(dir: &Path) -> Result<()> {
    let segments = segments(dir)?;
    let half = |offset: usize| -> Result<usize> {
        let mut buffer = PageBuffer::new()?;
        let mut values = 0;
        for segment in segments.iter().skip(offset).step_by(2) {
            let column = segment.column(&Role::Fixed(Fixed::Message)).context("no messages")?;
            for group in 0..segment.group_count() {
                for page in 0..segment.page_count(group) {
                    segment.read_page(group, column, page, &mut buffer)?;
                    values += buffer.values().len();
                }
            }
        }
        Ok(values)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        let values = half(0)?;
        let others = other.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        ensure!(values + others > 0, "the segments have no message");
        Ok(())
    })
}

/// Returns the CPU time of this thread to compress all pages of messages as the store does.
fn compress_messages(dir: &Path) -> Result<Duration> {
    let mut compressor = zstd::bulk::Compressor::new(1)?;
    let (mut buffer, mut packed) = (PageBuffer::new()?, Vec::new());
    let mut spent = Duration::ZERO;
    for segment in segments(dir)? {
        let column = segment.column(&Role::Fixed(Fixed::Message)).context("no messages")?;
        for group in 0..segment.group_count() {
            for page in 0..segment.page_count(group) {
                segment.read_page(group, column, page, &mut buffer)?;
                let PageValues::Texts(texts) = buffer.values() else { continue };
                packed.resize(zstd::zstd_safe::compress_bound(texts.bytes.len()), 0);
                let start = thread_cpu();
                compressor.compress_to_buffer(texts.bytes, packed.as_mut_slice())?;
                spent += thread_cpu().saturating_sub(start);
            }
        }
    }
    Ok(spent)
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Opens the segments below a directory.
fn segments(dir: &Path) -> Result<Vec<Segment>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(segments(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "parquet") {
            found.push(Segment::open(Arc::from(RealDisk.open(&path, OpenMode::Read)?))?);
        }
    }
    Ok(found)
}

/// Returns the milliseconds from writing a line until a search finds it, the median of some runs.
fn searchable(weir: &Weir, live: &Path) -> Result<f64> {
    let mut number = 0;
    median(|| {
        number += 1;
        let marker = format!("liveline{number}");
        let mut file = fs::OpenOptions::new().append(true).open(live)?;
        writeln!(file, "{{\"message\":\"{marker}\"}}")?;
        let count = json!([{ "aggregation": "count" }]);
        let body = aggregate(&marker, LIVE, &count, &json!([]));
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let answer = weir.post_json("/api/v2/logs/analytics/aggregate", &body)?;
            if answer["data"]["buckets"][0]["computes"]["c0"] == 1 {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "a line is not found after 10 s");
        }
    })
}
