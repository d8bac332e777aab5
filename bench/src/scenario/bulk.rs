//! A large existing file, read as fast as possible: the cost of a line.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Options;
use crate::data::Shape;
use crate::process::Cpu;
use crate::report::{Measurement, Outcome, Target};
use crate::sink::{self, Counts, Sink};
use crate::weir::Weir;
use crate::{bare, data};

/// Maximum duration of a run.
const RUN_MAX: Duration = Duration::from_mins(5);

/// One run: its cost and what arrived.
pub(super) struct Run {
    pub(super) cpu: Cpu,
    pub(super) wall: Duration,
    pub(super) memory_bytes_max: u64,
    pub(super) counts: Option<Counts>,
}

/// `tail-hec-gzip`.
pub(crate) fn hec_gzip(options: &Options) -> Result<Outcome> {
    let lines = options.scaled(1_000_000);
    let path = data::file(Shape::DockerJson, 1024, lines)?;
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let spool = dir.path().join("bodies.gz");
    let settings = sink::Settings { spool: Some(spool.clone()), ..sink::Settings::default() };
    let run = median_of(options, || hec(&path, "gzip", lines, &settings))?;
    let mut outcome = outcome("to an HTTP collector (HEC events, gzip)", lines, 1024, &run);
    let body_bytes = run.counts.as_ref().map_or(0, |c| c.body_bytes);
    let plain_bytes = run.counts.as_ref().map_or(0, |c| c.plain_bytes);
    let speed = lines as f64 / run.cpu.total.as_secs_f64();
    let alone = bare::gzip_1(&spool)?;
    let compressor = bare::compressor_alone(&spool)?;
    outcome.measurements.insert(
        0,
        Measurement::new("lines per CPU-second", speed)
            .target(Target::AtLeast(300_000.0))
            .limit("the compressor alone, same bytes", lines as f64 / compressor.as_secs_f64()),
    );
    outcome
        .measurements
        .push(Measurement::new("CPU-seconds of the compressor alone", compressor.as_secs_f64()));
    outcome
        .measurements
        .push(Measurement::new("CPU-seconds of `gzip -1` alone", alone.cpu.as_secs_f64()));
    let size = body_bytes as f64 / alone.bytes as f64;
    outcome.measurements.push(
        Measurement::new("size, as a multiple of `gzip -1`", size).target(Target::AtMost(1.1)),
    );
    outcome
        .measurements
        .push(Measurement::new("compression ratio", plain_bytes as f64 / body_bytes as f64));
    outcome.reference =
        Some("Fluent Bit 5.1 21,000, Vector 0.58 17,000 lines per CPU-second.".to_owned());
    Ok(outcome)
}

/// `tail-hec-plain`.
pub(crate) fn hec_plain(options: &Options) -> Result<Outcome> {
    let lines = options.scaled(1_000_000);
    let path = data::file(Shape::DockerJson, 1024, lines)?;
    let settings = sink::Settings::default();
    let run = median_of(options, || hec(&path, "none", lines, &settings))?;
    let mut outcome =
        outcome("to an HTTP collector (HEC events, not compressed)", lines, 1024, &run);
    let bare = bare::read_and_send(&path, Shape::DockerJson, &Sink::start(&settings)?)?;
    outcome.measurements.insert(
        0,
        Measurement::new("lines per CPU-second", lines as f64 / run.cpu.total.as_secs_f64())
            .target(Target::AtLeast(1_500_000.0))
            .limit("read, split, copy, send", bare),
    );
    outcome.reference =
        Some("Fluent Bit 5.1 101,000, Vector 0.58 38,000 lines per CPU-second.".to_owned());
    Ok(outcome)
}

/// `tail-blackhole-docker`.
pub(crate) fn blackhole_docker(options: &Options) -> Result<Outcome> {
    blackhole(options, Shape::DockerJson, "docker_json", 4_000_000.0)
}

/// `tail-blackhole-raw`.
pub(crate) fn blackhole_raw(options: &Options) -> Result<Outcome> {
    blackhole(options, Shape::Raw, "raw", 8_000_000.0)
}

fn blackhole(options: &Options, shape: Shape, format: &str, target: f64) -> Result<Outcome> {
    // Enough lines for the resolution of the process clock not to matter.
    let lines = options.scaled(8_000_000);
    let path = data::file(shape, 216, lines)?;
    let output = "[output.bench]\ntype = \"blackhole\"\n";
    let run = median_of(options, || one_run(&path, format, output, lines))?;
    let mut outcome = outcome("to a blackhole output", lines, 216, &run);
    outcome.measurements.insert(
        0,
        Measurement::new("lines per CPU-second", lines as f64 / run.cpu.total.as_secs_f64())
            .target(Target::AtLeast(target))
            .limit("read, split", bare::read_and_split(&path, shape)?),
    );
    Ok(outcome)
}

/// Runs weir on one file to a HEC collector; everything arrives once and in order.
pub(super) fn hec(
    path: &Path,
    compression: &str,
    lines: u64,
    settings: &sink::Settings,
) -> Result<Run> {
    let mut sink = Sink::start(settings)?;
    let output = format!(
        "[output.bench]\ntype = \"splunk_hec\"\nendpoint = \"{}\"\ntoken = {{ env = \"HEC_TOKEN\" }}\n\
         compression = \"{compression}\"\n",
        sink.endpoint()
    );
    let mut run = one_run(path, "docker_json", &output, lines)?;
    let counts = sink.report()?;
    ensure!(counts.distinct() == lines, "{} of {lines} lines arrived", counts.distinct());
    ensure!(counts.events == lines, "{} events for {lines} lines", counts.events);
    ensure!(counts.reordered() == 0, "{} events out of order", counts.reordered());
    run.counts = Some(counts);
    Ok(run)
}

/// Runs weir on one file until everything is acknowledged.
pub(super) fn one_run(path: &Path, format: &str, output: &str, lines: u64) -> Result<Run> {
    Running::start(path, format, output)?.finish(lines)
}

/// A running weir that reads one file.
pub(super) struct Running {
    pub(super) weir: Weir,
    start: Instant,
    /// Deleted after weir has ended.
    _dir: tempfile::TempDir,
}

impl Running {
    pub(super) fn start(path: &Path, format: &str, output: &str) -> Result<Self> {
        let dir = tempfile::tempdir_in(data::cache_dir()?)?;
        let source = format!(
            "[source.bench]\ntype = \"file\"\ninclude = [\"{}\"]\nformat = \"{format}\"\n\
             read_from = \"beginning\"\n",
            path.display()
        );
        let start = Instant::now();
        let weir = Weir::start(dir.path(), &format!("{source}{output}"))?;
        Ok(Self { weir, start, _dir: dir })
    }

    /// Waits until everything is acknowledged, and checks the ledger.
    pub(super) fn finish(&self, lines: u64) -> Result<Run> {
        let Self { weir, start, .. } = self;
        weir.wait_delivered("bench", lines, RUN_MAX)?;
        let wall = start.elapsed();
        // The whole life of the process counts, including its start.
        let cpu = weir.process().cpu()?;
        let [delivered, discarded, in_flight] = weir.cursor("bench")?;
        ensure!(
            (delivered, discarded, in_flight) == (lines, 0, 0),
            "{lines} lines, but {delivered} delivered, {discarded} discarded, {in_flight} in flight"
        );
        let (_, memory_bytes_max) = weir.process().memory()?;
        Ok(Run { cpu, wall, memory_bytes_max, counts: None })
    }
}

/// Repeats a run; returns the one with the median CPU time.
fn median_of(options: &Options, mut run: impl FnMut() -> Result<Run>) -> Result<Run> {
    let mut runs = Vec::new();
    for _ in 0..options.runs.max(1) {
        let run = run()?;
        eprintln!("  {:.3} CPU-s, {:.3} s", run.cpu.total.as_secs_f64(), run.wall.as_secs_f64());
        runs.push(run);
    }
    Ok(median(runs))
}

/// Returns the run with the median CPU time.
pub(super) fn median(mut runs: Vec<Run>) -> Run {
    runs.sort_by_key(|run| run.cpu.total);
    runs.swap_remove(runs.len() / 2)
}

fn outcome(where_to: &str, lines: u64, bytes: usize, run: &Run) -> Outcome {
    let mut outcome =
        Outcome::new(format!("{lines} lines of {bytes} bytes in one file, {where_to}."));
    outcome.set_cpu(&run.cpu);
    outcome.measurements = vec![
        Measurement::new("CPU-seconds", run.cpu.total.as_secs_f64()),
        Measurement::new("seconds", run.wall.as_secs_f64()),
        Measurement::new(
            "MB/s of input",
            lines as f64 * bytes as f64 / 1e6 / run.wall.as_secs_f64(),
        ),
        Measurement::new("highest memory, MiB", run.memory_bytes_max as f64 / 1_048_576.0),
    ];
    outcome
}
