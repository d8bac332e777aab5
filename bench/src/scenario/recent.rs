//! Recent logs and reads of the log-cache among many applications.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use weir_codec::{
    LoggregatorEnvelope, LoggregatorMessage, add_to_loggregator_batch, encode_loggregator_envelope,
};

use super::Options;
use crate::grpc;
use crate::http;
use crate::report::{Measurement, Outcome, Target, quantile};
use crate::weir::Weir;

const APPLICATIONS: u64 = 10_000;

/// One in this many applications writes five times as much as the others.
const BUSY_SHARE: u64 = 100;

/// Lines of a busy application, and of another one.
const LINES: [u64; 2] = [1000, 200];

/// Number of requests of each kind.
const REQUESTS: u64 = 200;

/// Target for the time of an answer, and the deadline in the handbook.
const TARGET_MS: f64 = 20.0;

fn id(application: u64) -> String {
    let mixed = application.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:08x}-{:04x}-4000-8000-{mixed:012x}", mixed >> 32, application)[..36].to_owned()
}

/// Calls `send` with batches of envelopes; lines of all applications are mixed.
fn fill(lines: [u64; 2], mut send: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
    let mut sent = 0;
    let mut batch = Vec::new();
    let mut envelope = Vec::new();
    for round in 0..lines[0].max(lines[1]) {
        for application in 0..APPLICATIONS {
            let is_busy = application % BUSY_SHARE == 0;
            if round >= lines[usize::from(!is_busy)] {
                continue;
            }
            envelope.clear();
            write_log(application, sent, &mut envelope);
            add_to_loggregator_batch(&envelope, &mut batch);
            sent += 1;
            if batch.len() > 60_000 {
                send(&batch)?;
                batch.clear();
            }
        }
    }
    send(&batch)?;
    Ok(sent)
}

fn write_log(application: u64, number: u64, out: &mut Vec<u8>) {
    let word = |at: u64| {
        const WORDS: [&str; 16] = [
            "request",
            "finished",
            "status",
            "user",
            "cart",
            "checkout",
            "payment",
            "timeout",
            "retry",
            "error",
            "connected",
            "session",
            "token",
            "shipping",
            "order",
            "created",
        ];
        WORDS[(number.wrapping_mul(2_654_435_761 + at) >> 16) as usize % WORDS.len()]
    };
    let line = (0..14).map(word).collect::<Vec<_>>().join(" ");
    let payload = format!("{number} {line} {}", number.wrapping_mul(31) % 100_000);
    let (app, id) = (format!("app-{application}"), id(application));
    let (space, organization) =
        (format!("s-{}", application % 300), format!("o-{}", application % 40));
    let (ip, index) = (format!("10.0.0.{}", application % 50), (application % 50).to_string());
    let tags = [
        ("app_id", id.as_str()),
        ("app_name", &app),
        ("deployment", "cf"),
        ("index", &index),
        ("ip", &ip),
        ("job", "diego-cell"),
        ("organization_name", &organization),
        ("origin", "rep"),
        ("process_type", "web"),
        ("source_type", "APP/PROC/WEB"),
        ("space_name", &space),
    ];
    let envelope = LoggregatorEnvelope {
        timestamp_ns: 1_795_288_351_000_000_000 + number as i64 * 900_000,
        source_id: id.as_bytes(),
        instance_id: b"0",
        message: LoggregatorMessage::Log { payload: payload.as_bytes(), is_error: false },
        ..LoggregatorEnvelope::default()
    };
    encode_loggregator_envelope(&envelope, &tags, out);
}

/// Median, 95th percentile and maximum of the times of requests, in milliseconds, and the least
/// number of envelopes of an answer.
fn times(port: u16, path: impl Fn(u64) -> String) -> Result<([f64; 3], usize)> {
    let mut all = Vec::new();
    let mut least = usize::MAX;
    for number in 0..REQUESTS {
        let path = path(number);
        let started = Instant::now();
        let answer = http::exchange(port, "GET", &path, b"")?;
        all.push(started.elapsed().as_secs_f64() * 1000.0);
        least = least.min(answer.matches("\"timestamp\":").count());
    }
    all.sort_by(f64::total_cmp);
    let at = |share| quantile(&all, share).unwrap_or_default();
    Ok(([at(0.5), at(0.95), at(1.0)], least))
}

/// A kind of request: what it is, its path by number, and the least number of envelopes expected.
type Kind<'a> = (&'a str, &'a dyn Fn(u64) -> String, usize);

/// `recent`.
pub(crate) fn recent(options: &Options) -> Result<Outcome> {
    let dir = tempfile::tempdir_in(crate::data::cache_dir()?)?;
    let (ingress, port) = (http::free_port()?, http::free_port()?);
    let config = format!(
        "[store]\nenabled = true\n[source.cf]\ntype = \"loggregator\"\n\
         listen = \"127.0.0.1:{ingress}\"\n[loggregator.log_cache]\nlisten = \"127.0.0.1:{port}\"\n"
    );
    let weir = Weir::start(dir.path(), &config)?;
    let lines = LINES.map(|lines| options.scaled(lines));
    let mut client = grpc::Client::connect(&grpc::Server::plain(ingress))?;
    let sent = fill(lines, |batch| client.send(batch))?;
    client.finish().context("the envelopes were not accepted")?;
    weir.wait_for("everything is stored", Duration::from_mins(5), || {
        Ok(weir.cursor("store")?[0] >= sent)
    })?;
    let read = |application: u64, query: &str| format!("/api/v1/read/{}?{query}", id(application));
    let newest = "descending=true&limit=1000&envelope_types=LOG";
    let busy = |number: u64| number % (APPLICATIONS / BUSY_SHARE) * BUSY_SHARE;
    let quiet = |number: u64| (number * 7919 + 1) % APPLICATIONS;
    let kinds: [Kind<'_>; 4] = [
        (
            "newest 1,000 of a busy application",
            &|n| read(busy(n), newest),
            lines[0].min(1000) as usize,
        ),
        ("all of another application", &|n| read(quiet(n), newest), lines[1] as usize),
        ("the newest one", &|n| read(quiet(n), "descending=true&limit=1"), 1),
        ("the oldest 100", &|n| read(quiet(n), "limit=100"), lines[1].min(100) as usize),
    ];
    let mut outcome = Outcome::new(format!(
        "{sent} logs of {APPLICATIONS} applications are stored; {REQUESTS} requests to the \
         log-cache over HTTP, one at a time, each for another application. Handbook: an answer \
         within 1,500 ms."
    ));
    for (what, path, expected) in kinds {
        // The first requests find out which applications each segment has.
        times(port, path)?;
        let (all, least) = times(port, path)?;
        ensure!(least >= expected, "{what}: {least} envelopes");
        let [median, p95, most] = all;
        outcome.measurements.extend([
            Measurement::new(&format!("{what}, median, ms"), median),
            Measurement::new(&format!("{what}, 95 %, ms"), p95).target(Target::AtMost(TARGET_MS)),
            Measurement::new(&format!("{what}, maximum, ms"), most),
        ]);
    }
    let memory = weir.process().memory()?.1 as f64 / 1_048_576.0;
    outcome.measurements.push(Measurement::new("highest memory, MiB", memory));
    outcome.set_cpu(&weir.process().cpu()?);
    Ok(outcome)
}
