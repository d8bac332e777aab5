//! One output hangs: the others must not be affected, and a full buffer must be handled as
//! configured, with exact counts.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Options;
use super::paced::{finish, source, start_writer};
use crate::data::{self, Shape};
use crate::report::{Measurement, Outcome, Target};
use crate::sink::{self, Sink};
use crate::weir::Weir;
use crate::{clock, writer};

const RATE: u64 = 20_000;
const LINE_BYTES: usize = 1024;

/// How the hung output is configured.
struct Case {
    when_full: &'static str,
    buffer_max: &'static str,
}

/// The measurements of one case.
struct Measured {
    memory_bytes_max: u64,
    /// Share of the written lines that the healthy output had received when the minute ended.
    healthy_share: f64,
    written: u64,
    /// Records that the hung output delivered.
    delivered: u64,
    discarded: u64,
    arrived: u64,
    healthy_arrived: u64,
    seconds_to_recover: f64,
}

/// `isolation`.
pub(crate) fn isolation(options: &Options) -> Result<Outcome> {
    let secs = options.scaled(60);
    let mut outcome = Outcome::new(format!(
        "{RATE} docker-json lines of 1 KiB per second to two collectors, one of them hung for {secs} s."
    ));
    let roomy = measure(secs, &Case { when_full: "block", buffer_max: "4GiB" })?;
    ensure!(roomy.arrived == roomy.written, "the hung output lost lines");
    outcome.measurements = vec![
        Measurement::new("highest memory, MiB", roomy.memory_bytes_max as f64 / 1_048_576.0)
            .target(Target::AtMost(128.0)),
        Measurement::new("healthy output, share of the rate", roomy.healthy_share)
            .target(Target::AtLeast(0.95)),
        Measurement::new("seconds until the hung output had caught up", roomy.seconds_to_recover),
    ];
    let block = measure(secs, &Case { when_full: "block", buffer_max: "64MiB" })?;
    outcome.measurements.push(lost(
        "64 MiB, block: lines lost, hung output",
        &block,
        block.arrived,
    ));
    outcome.measurements.push(lost(
        "64 MiB, block: lines lost, other output",
        &block,
        block.healthy_arrived,
    ));
    let drop = measure(secs, &Case { when_full: "drop_oldest", buffer_max: "64MiB" })?;
    let counted = drop.delivered + drop.discarded;
    outcome.measurements.push(
        Measurement::new(
            "64 MiB, drop_oldest: lines not in the book",
            drop.written.abs_diff(counted) as f64,
        )
        .target(Target::AtMost(0.0)),
    );
    outcome.measurements.push(
        Measurement::new(
            "64 MiB, drop_oldest: delivered and not arrived",
            drop.delivered.abs_diff(drop.arrived) as f64,
        )
        .target(Target::AtMost(0.0)),
    );
    outcome
        .measurements
        .push(Measurement::new("64 MiB, drop_oldest: discarded", drop.discarded as f64));
    outcome.measurements.push(
        Measurement::new(
            "64 MiB, drop_oldest: healthy output, share of the rate",
            drop.healthy_share,
        )
        .target(Target::AtLeast(0.95)),
    );
    let alone = backlog_mb_per_s(options, false)?;
    outcome.measurements.push(
        Measurement::new("backlog next to a hung output, MB/s", backlog_mb_per_s(options, true)?)
            .limit("the same output alone, nothing written to the journal", alone),
    );
    Ok(outcome)
}

/// Returns how fast a healthy output is sent 1,000,000 waiting lines, alone or next to an output
/// that has been hung from the start, whose lines go to disk.
fn backlog_mb_per_s(options: &Options, is_next_to_hung: bool) -> Result<f64> {
    let lines = options.scaled(1_000_000);
    let path = data::file(Shape::DockerJson, LINE_BYTES, lines)?;
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let mut hung = Sink::start(&sink::Settings::default())?;
    let healthy = Sink::start(&sink::Settings::default())?;
    hung.hang(true)?;
    let mut config = format!(
        "[source.bench]\ntype = \"file\"\ninclude = [\"{}\"]\nformat = \"docker_json\"\n\
         read_from = \"beginning\"\n\n{}",
        path.display(),
        output("healthy", &healthy, "block", "4GiB"),
    );
    if is_next_to_hung {
        config.push_str(&output("hung", &hung, "block", "4GiB"));
    }
    let began = Instant::now();
    let weir = Weir::start(dir.path(), &config)?;
    weir.wait_for("the healthy output has all lines", Duration::from_mins(2), || {
        Ok(weir.cursor("healthy")?[0] >= lines)
    })?;
    Ok((lines * LINE_BYTES as u64) as f64 / 1e6 / began.elapsed().as_secs_f64())
}

fn lost(what: &str, measured: &Measured, arrived: u64) -> Measurement {
    Measurement::new(what, measured.written.abs_diff(arrived) as f64).target(Target::AtMost(0.0))
}

fn measure(secs: u64, case: &Case) -> Result<Measured> {
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let mut hung = Sink::start(&sink::Settings::default())?;
    let mut healthy = Sink::start(&sink::Settings::default())?;
    let config = format!(
        "{}{}{}",
        source(dir.path(), Shape::DockerJson),
        output("healthy", &healthy, "block", "4GiB"),
        output("hung", &hung, case.when_full, case.buffer_max),
    );
    let weir = Weir::start(dir.path(), &config)?;
    let writer = start_writer(&settings(dir.path(), secs + 6))?;
    clock::wait(Duration::from_secs(3));
    hung.hang(true)?;
    let [_, _, before] = healthy.peek()?;
    let began = Instant::now();
    clock::wait(Duration::from_secs(secs));
    let [_, _, after] = healthy.peek()?;
    let healthy_share = (after - before) as f64 / (RATE as f64 * began.elapsed().as_secs_f64());
    hung.hang(false)?;
    let resumed = Instant::now();
    let written = finish(writer)?;
    let settled = |name: &str| -> Result<bool> {
        let [delivered, discarded, in_flight] = weir.cursor(name)?;
        Ok(delivered + discarded >= written && in_flight == 0)
    };
    weir.wait_for("both outputs have settled", Duration::from_mins(2), || {
        Ok(settled("hung")? && settled("healthy")?)
    })?;
    let seconds_to_recover = resumed.elapsed().as_secs_f64();
    let [delivered, discarded, _] = weir.cursor("hung")?;
    Ok(Measured {
        memory_bytes_max: weir.process().memory()?.1,
        healthy_share,
        written,
        delivered,
        discarded,
        arrived: hung.report()?.distinct(),
        healthy_arrived: healthy.report()?.distinct(),
        seconds_to_recover,
    })
}

fn settings(dir: &Path, secs: u64) -> writer::Settings {
    writer::Settings {
        dir: dir.to_path_buf(),
        shape: Shape::DockerJson,
        bytes: LINE_BYTES,
        rate: RATE,
        quiet_files: 0,
        secs,
    }
}

/// Returns an output to a sink.
pub(super) fn output(name: &str, sink: &Sink, when_full: &str, buffer_max: &str) -> String {
    format!(
        "[output.{name}]\ntype = \"splunk_hec\"\nendpoint = \"{}\"\ntoken = {{ env = \"HEC_TOKEN\" }}\n\
         compression = \"none\"\nwhen_full = \"{when_full}\"\nbuffer_max = \"{buffer_max}\"\n",
        sink.endpoint()
    )
}
