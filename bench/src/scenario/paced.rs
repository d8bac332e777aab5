//! Lines at a fixed rate: the cost in percent of one core.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Options;
use crate::data::{self, Shape};
use crate::process::Cpu;
use crate::report::{Measurement, Outcome, Target};
use crate::sink::{self, Sink};
use crate::weir::Weir;
use crate::{clock, writer};

/// Time between the start and the measurement.
pub(super) const SETTLE: Duration = Duration::from_secs(3);

/// The cost of a steady state.
struct Steady {
    percent: f64,
    memory_bytes_max: u64,
    cpu: Cpu,
}

/// `tail-paced`.
pub(crate) fn paced(options: &Options) -> Result<Outcome> {
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let certificate = dir.path().join("sink.pem");
    let settings = sink::Settings {
        certificate: Some(certificate.clone()),
        spool: Some(dir.path().join("bodies.gz")),
        ..sink::Settings::default()
    };
    let mut sink = Sink::start(&settings)?;
    let output = format!(
        "[output.bench]\ntype = \"splunk_hec\"\nendpoint = \"{}\"\ntoken = {{ env = \"HEC_TOKEN\" }}\n\
         compression = \"gzip\"\ntls = {{ ca_file = \"{}\" }}\n",
        sink.endpoint(),
        certificate.display()
    );
    let secs = options.scaled(30);
    let steady = steady(dir.path(), Shape::DockerJson, 1024, 10_000, secs, &output)?;
    let counts = sink.report()?;
    ensure!(counts.distinct() == counts.events, "some events arrived twice");
    ensure!(counts.reordered() == 0, "some events arrived out of order");
    let mut outcome = Outcome::new(format!(
        "10,000 docker-json lines of 1 KiB per second for {secs} s, each written separately, gzip \
         and TLS."
    ));
    outcome.set_cpu(&steady.cpu);
    outcome.measurements = vec![
        Measurement::new("percent of a core", steady.percent).target(Target::AtMost(6.0)),
        Measurement::new("highest memory, MiB", steady.memory_bytes_max as f64 / 1_048_576.0)
            .target(Target::AtMost(64.0)),
        Measurement::new("lines per request", counts.events as f64 / counts.requests as f64),
    ];
    outcome.reference = Some(
        "Fluent Bit 5.1 55 %, Vector 0.58 73 % (both without TLS); collectord 60 %, 400 MB."
            .to_owned(),
    );
    Ok(outcome)
}

/// `tail-slow`.
pub(crate) fn slow(options: &Options) -> Result<Outcome> {
    let secs = options.scaled(20);
    let mut outcome = Outcome::new(format!(
        "Raw lines at a rate for {secs} s, each written separately, to a blackhole output."
    ));
    let cases = [(1_000, 100, 0.3), (1_000, 1_000, 0.4), (50_000, 100, 2.0), (50_000, 1_000, 4.0)];
    for (rate, bytes, target) in cases {
        let dir = tempfile::tempdir_in(data::cache_dir()?)?;
        let output = "[output.bench]\ntype = \"blackhole\"\n";
        let steady = steady(dir.path(), Shape::Raw, bytes, rate, secs, output)?;
        let what = format!("percent of a core at {rate} lines/s of {bytes} bytes");
        outcome
            .measurements
            .push(Measurement::new(&what, steady.percent).target(Target::AtMost(target)));
        outcome.set_cpu(&steady.cpu);
    }
    outcome.reference = Some("Fluent Bit 5.1 4.1, 5.5, 16.6 and 38.0 %.".to_owned());
    Ok(outcome)
}

/// `tail-idle`.
pub(crate) fn idle(options: &Options) -> Result<Outcome> {
    let secs = options.scaled(60);
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    quiet_files(dir.path())?;
    let source = source(dir.path(), Shape::Raw);
    let weir = Weir::start(dir.path(), &format!("{source}[output.bench]\ntype = \"blackhole\"\n"))?;
    weir.wait_delivered("bench", 1000, Duration::from_secs(20))?;
    clock::wait(SETTLE);
    let before = weir.process().cpu()?;
    clock::wait(Duration::from_secs(secs));
    let cpu = weir.process().cpu()?.since(&before);
    let mut outcome = Outcome::new(format!("1,000 files, nothing written for {secs} s."));
    outcome.set_cpu(&cpu);
    let percent = cpu.total.as_secs_f64() / secs as f64 * 100.0;
    outcome.measurements = vec![
        Measurement::new("percent of a core", percent).target(Target::AtMost(0.1)),
        Measurement::new("highest memory, MiB", weir.process().memory()?.1 as f64 / 1_048_576.0),
    ];
    outcome.reference = Some("Fluent Bit 5.1 0.6 %, Vector 0.58 6.4 %.".to_owned());
    Ok(outcome)
}

/// Time after which quiet files are parked, and the memory that they had is back with the system.
const REST: Duration = Duration::from_secs(40);

/// `tail-quiet`.
pub(crate) fn quiet(options: &Options) -> Result<Outcome> {
    let count = options.scaled(50_000);
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let logs = dir.path().join("logs");
    let warm = logs.join("warm");
    std::fs::create_dir_all(&warm)?;
    quiet_files(&warm)?;
    let source = source(&logs.join("*"), Shape::Raw);
    let outputs = "[output.a]\ntype = \"blackhole\"\n[output.b]\ntype = \"blackhole\"\n";
    let weir = Weir::start(dir.path(), &format!("{source}{outputs}"))?;
    weir.wait_delivered("b", 1000, Duration::from_secs(20))?;
    clock::wait(REST);
    let memory = || Ok::<_, anyhow::Error>(weir.process().memory()?.0 as f64);
    let before = memory()?;
    for number in 0..count.div_ceil(1000) {
        let dir = logs.join(number.to_string());
        std::fs::create_dir(&dir)?;
        quiet_files(&dir)?;
    }
    let count = count.div_ceil(1000) * 1000;
    weir.wait_delivered("b", 1000 + count, Duration::from_mins(5))?;
    clock::wait(REST);
    let per_file = (memory()? - before) / count as f64;
    let cpu_before = weir.process().cpu()?;
    for number in 0..count.div_ceil(1000) {
        std::fs::remove_dir_all(logs.join(number.to_string()))?;
    }
    weir.wait_asking_every(
        Duration::from_secs(1),
        "the files are forgotten",
        Duration::from_mins(5),
        || Ok(weir.metric("weir_source_open_files")? <= 1000.0),
    )?;
    let cpu = weir.process().cpu()?.since(&cpu_before);
    clock::wait(REST);
    let mut outcome =
        Outcome::new(format!("{count} files of one line, two outputs; then they are removed."));
    outcome.set_cpu(&cpu);
    let per_removal = cpu.total.as_secs_f64() * 1e6 / count as f64;
    outcome.measurements = vec![
        Measurement::new("bytes of memory per quiet file", per_file).target(Target::AtMost(1024.0)),
        Measurement::new("bytes that are kept of each after its removal", {
            (memory()? - before) / count as f64
        }),
        Measurement::new("CPU per removal, microseconds", per_removal).target(Target::AtMost(25.0)),
    ];
    Ok(outcome)
}

/// Creates 1,000 files of one line.
pub(super) fn quiet_files(dir: &Path) -> Result<()> {
    for number in 0..1000 {
        let path = dir.join(format!("idle-{number}.log"));
        std::fs::write(path, format!("one line of file {number}\n"))?;
    }
    Ok(())
}

/// Returns the percentage of a core at a rate, with a blackhole output.
pub(super) fn steady_to_blackhole(
    dir: &Path,
    shape: Shape,
    bytes: usize,
    rate: u64,
    secs: u64,
) -> Result<f64> {
    let output = "[output.bench]\ntype = \"blackhole\"\n";
    Ok(steady(dir, shape, bytes, rate, secs, output)?.percent)
}

/// Runs weir next to a writer and measures from a settled start to the writer's end.
fn steady(
    dir: &Path,
    shape: Shape,
    bytes: usize,
    rate: u64,
    secs: u64,
    output: &str,
) -> Result<Steady> {
    let settings = writer::Settings {
        dir: dir.to_path_buf(),
        shape,
        bytes,
        rate,
        quiet_files: 0,
        secs: secs + SETTLE.as_secs() + 1,
    };
    let weir = Weir::start(dir, &format!("{}{output}", source(dir, shape)))?;
    let writer = start_writer(&settings)?;
    clock::wait(SETTLE);
    let before = weir.process().cpu()?;
    clock::wait(Duration::from_secs(secs));
    let cpu = weir.process().cpu()?.since(&before);
    let written = finish(writer)?;
    weir.wait_delivered("bench", written, Duration::from_secs(20))?;
    let [delivered, discarded, in_flight] = weir.cursor("bench")?;
    ensure!(
        (delivered, discarded, in_flight) == (written, 0, 0),
        "{written} lines, but {delivered} delivered, {discarded} discarded, {in_flight} in flight"
    );
    let percent = cpu.total.as_secs_f64() / secs as f64 * 100.0;
    Ok(Steady { percent, memory_bytes_max: weir.process().memory()?.1, cpu })
}

/// Returns the source that tails the writer's files.
pub(super) fn source(dir: &Path, shape: Shape) -> String {
    let format = if shape == Shape::Raw { "raw" } else { "docker_json" };
    format!(
        "[source.bench]\ntype = \"file\"\ninclude = [\"{}/*.log\"]\nexclude = [\"**/weir.log\"]\n\
         format = \"{format}\"\nread_from = \"beginning\"\n",
        dir.display()
    )
}

/// Starts a writer in its own process.
pub(super) fn start_writer(settings: &writer::Settings) -> Result<Child> {
    let shape = if settings.shape == Shape::Raw { "raw" } else { "docker-json" };
    Command::new(std::env::current_exe()?)
        .arg("write")
        .arg("--dir")
        .arg(&settings.dir)
        .args(["--shape", shape])
        .arg(format!("--bytes={}", settings.bytes))
        .arg(format!("--rate={}", settings.rate))
        .arg(format!("--quiet-files={}", settings.quiet_files))
        .arg(format!("--secs={}", settings.secs))
        .stdout(Stdio::piped())
        .spawn()
        .context("failed to start the writer")
}

/// Waits for a writer; returns how many lines it wrote.
pub(super) fn finish(writer: Child) -> Result<u64> {
    let output = writer.wait_with_output()?;
    ensure!(output.status.success(), "the writer failed");
    String::from_utf8(output.stdout)?.trim().parse().context("the writer printed no count")
}
