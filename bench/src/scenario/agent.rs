//! Tailing compared to `Fluent Bit`: the same lines to the same collector, in turns.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::bulk::{self, Run};
use super::{Options, paced};
use crate::agent::{Agent, To};
use crate::data::{self, Shape};
use crate::report::{Measurement, Outcome};
use crate::sink::{self, Sink};
use crate::{clock, writer};

/// Name of the peer's column.
const PEER: &str = "Fluent Bit";
/// Lines of the bulk runs.
const LINES: u64 = 1_000_000;
/// Maximum duration of a bulk run.
const RUN_MAX: Duration = Duration::from_mins(5);

/// `tail-peer`.
pub(crate) fn tail_peer(options: &Options) -> Result<Outcome> {
    let mut outcome = Outcome::new(format!(
        "docker-json lines of 1 KiB to a HEC collector, and lines at a rate, with weir and with \
         {PEER}."
    ));
    let Some(binary) = &options.agent else {
        outcome.reference =
            Some("not measured: no binary of the peer (--agent, WEIR_BENCH_AGENT)".to_owned());
        return Ok(outcome);
    };
    for is_gzip in [true, false] {
        bulk(binary, is_gzip, options, &mut outcome)?;
    }
    paced_hec(binary, options, &mut outcome)?;
    slow(binary, options, &mut outcome)?;
    idle(binary, options, &mut outcome)?;
    Ok(outcome)
}

/// A large existing file.
fn bulk(binary: &Path, is_gzip: bool, options: &Options, outcome: &mut Outcome) -> Result<()> {
    let lines = options.scaled(LINES);
    let what = if is_gzip { "gzip" } else { "not compressed" };
    let compression = if is_gzip { "gzip" } else { "none" };
    // Read again before each run: the system may have dropped it from memory meanwhile.
    let lines_file = || data::file(Shape::DockerJson, 1024, lines);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..options.runs.max(1) {
        let dir = tempfile::tempdir_in(data::cache_dir()?)?;
        let settings = sink::Settings {
            spool: is_gzip.then(|| dir.path().join("bodies.gz")),
            ..sink::Settings::default()
        };
        ours.push(bulk::hec(&lines_file()?, compression, lines, &settings)?);
        theirs.push(run(binary, dir.path(), &lines_file()?, is_gzip, lines, &settings)?);
    }
    let (ours, theirs) = (bulk::median(ours), bulk::median(theirs));
    if is_gzip {
        outcome.set_cpu(&ours.cpu);
    }
    let row = |of: &str, value: fn(&Run, f64) -> f64| {
        Measurement::new(&format!("{what}: {of}"), value(&ours, lines as f64))
            .limit(PEER, value(&theirs, lines as f64))
    };
    outcome.measurements.extend([
        row("lines per CPU-second", |run, lines| lines / run.cpu.total.as_secs_f64()),
        row("seconds", |run, _| run.wall.as_secs_f64()),
        row("highest memory, MiB", |run, _| run.memory_bytes_max as f64 / 1_048_576.0),
    ]);
    Ok(())
}

/// Runs the peer on one file until everything has arrived.
fn run(
    binary: &Path,
    dir: &Path,
    path: &Path,
    is_gzip: bool,
    lines: u64,
    settings: &sink::Settings,
) -> Result<Run> {
    let mut sink = Sink::start(settings)?;
    let to = To::Hec { sink: &sink, is_gzip, certificate: None };
    let start = Instant::now();
    let agent = Agent::start(binary, dir, &path.display().to_string(), Shape::DockerJson, &to)?;
    let (cpu, end) = agent.finish(&mut sink, RUN_MAX)?;
    let counts = sink.report()?;
    ensure!(counts.distinct() == lines, "{} of {lines} lines arrived", counts.distinct());
    let memory_bytes_max = agent.process().memory()?.1;
    Ok(Run { cpu, wall: end - start, memory_bytes_max, counts: Some(counts) })
}

/// 10,000 lines per second to a HEC collector.
fn paced_hec(binary: &Path, options: &Options, outcome: &mut Outcome) -> Result<()> {
    let ours = paced::paced(options)?;
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let certificate = dir.path().join("sink.pem");
    let mut sink = Sink::start(&sink::Settings {
        certificate: Some(certificate.clone()),
        spool: Some(dir.path().join("bodies.gz")),
        ..sink::Settings::default()
    })?;
    let to = To::Hec { sink: &sink, is_gzip: true, certificate: Some(&certificate) };
    let load = Load { shape: Shape::DockerJson, bytes: 1024, rate: 10_000 };
    let steady = steady(binary, dir.path(), &load, options.scaled(30), &to)?;
    steady.agent.finish(&mut sink, RUN_MAX)?;
    let arrived = sink.report()?.distinct();
    ensure!(arrived == steady.written, "{arrived} of {} lines arrived", steady.written);
    let memory = steady.agent.process().memory()?.1 as f64 / 1_048_576.0;
    compare(outcome, "10,000 lines/s of 1 KiB, gzip and TLS: % of a core", &ours, steady.percent)?;
    let our_memory = value(&ours, "highest memory, MiB")?;
    let what = "10,000 lines/s of 1 KiB, gzip and TLS: highest memory, MiB";
    outcome.measurements.push(Measurement::new(what, our_memory).limit(PEER, memory));
    Ok(())
}

/// 1,000 short lines per second, discarded.
fn slow(binary: &Path, options: &Options, outcome: &mut Outcome) -> Result<()> {
    let secs = options.scaled(20);
    let load = Load { shape: Shape::Raw, bytes: 100, rate: 1_000 };
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let ours = paced::steady_to_blackhole(dir.path(), load.shape, load.bytes, load.rate, secs)?;
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let theirs = steady(binary, dir.path(), &load, secs, &To::Null)?.percent;
    let what = "1,000 lines/s of 100 B, discarded: % of a core";
    outcome.measurements.push(Measurement::new(what, ours).limit(PEER, theirs));
    Ok(())
}

/// 1,000 files, nothing written.
fn idle(binary: &Path, options: &Options, outcome: &mut Outcome) -> Result<()> {
    let ours = paced::idle(options)?;
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    paced::quiet_files(dir.path())?;
    let agent = Agent::start(binary, dir.path(), &pattern(dir.path()), Shape::Raw, &To::Null)?;
    clock::wait(paced::SETTLE);
    let theirs = percent(&agent, options.scaled(60))?;
    compare(outcome, "1,000 files, nothing written: % of a core", &ours, theirs)
}

/// Lines of one length at a fixed rate.
struct Load {
    shape: Shape,
    bytes: usize,
    rate: u64,
}

/// A peer after a time of steady work.
struct Steady {
    agent: Agent,
    /// CPU time, percent of a core.
    percent: f64,
    /// Lines written from its start on.
    written: u64,
}

/// Runs the peer next to a writer, and measures from a settled start on.
fn steady(binary: &Path, dir: &Path, load: &Load, secs: u64, to: &To<'_>) -> Result<Steady> {
    let agent = Agent::start(binary, dir, &pattern(dir), load.shape, to)?;
    let writer = paced::start_writer(&writer::Settings {
        dir: dir.to_path_buf(),
        shape: load.shape,
        bytes: load.bytes,
        rate: load.rate,
        quiet_files: 0,
        secs: secs + paced::SETTLE.as_secs() + 1,
    })?;
    clock::wait(paced::SETTLE);
    let percent = percent(&agent, secs)?;
    let written = paced::finish(writer)?;
    Ok(Steady { agent, percent, written })
}

/// Measures CPU time for a while.
fn percent(agent: &Agent, secs: u64) -> Result<f64> {
    let before = agent.process().cpu()?;
    clock::wait(Duration::from_secs(secs));
    let cpu = agent.process().cpu()?.since(&before);
    Ok(cpu.total.as_secs_f64() / secs as f64 * 100.0)
}

fn pattern(dir: &Path) -> String {
    format!("{}/*.log", dir.display())
}

/// Adds the percentage of a core of both.
fn compare(outcome: &mut Outcome, what: &str, ours: &Outcome, theirs: f64) -> Result<()> {
    let percent = value(ours, "percent of a core")?;
    outcome.measurements.push(Measurement::new(what, percent).limit(PEER, theirs));
    Ok(())
}

fn value(outcome: &Outcome, what: &str) -> Result<f64> {
    let found = outcome.measurements.iter().find(|measurement| measurement.what == what);
    Ok(found.with_context(|| format!("no measurement of {what}"))?.value)
}
