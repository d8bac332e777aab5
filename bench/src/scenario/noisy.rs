//! One application floods a slow output that drops the oldest: the quiet ones must lose nothing.

use std::time::Duration;

use anyhow::Result;

use super::Options;
use super::isolation::output;
use super::paced::{finish, source, start_writer};
use crate::data::{self, Shape};
use crate::report::{Measurement, Outcome, Target};
use crate::sink::{self, Sink};
use crate::weir::Weir;
use crate::writer;

const QUIET: usize = 99;

/// What the slow output accepts per second: half of what the noisy application writes, as events.
const BYTES_PER_SECOND: u64 = 28_000_000;

/// `noisy`.
pub(crate) fn noisy(options: &Options) -> Result<Outcome> {
    let secs = options.scaled(30);
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let settings =
        sink::Settings { bytes_per_second: BYTES_PER_SECOND, ..sink::Settings::default() };
    let mut sink = Sink::start(&settings)?;
    let config = format!(
        "{}{}",
        source(dir.path(), Shape::Raw),
        output("bench", &sink, "drop_oldest", "64MiB")
    );
    let weir = Weir::start(dir.path(), &config)?;
    let writer = start_writer(&writer::Settings {
        dir: dir.path().to_path_buf(),
        shape: Shape::Raw,
        bytes: 400,
        rate: 100_000,
        quiet_files: QUIET,
        secs,
    })?;
    let written = finish(writer)?;
    weir.wait_for("the output has settled", Duration::from_mins(5), || {
        let [delivered, discarded, in_flight] = weir.cursor("bench")?;
        Ok(delivered + discarded >= written && in_flight == 0)
    })?;
    let [delivered, discarded, _] = weir.cursor("bench")?;
    let counts = sink.report()?;
    let wanted = 2 * secs;
    let quiet_lost: u64 = (1..=QUIET)
        .map(|app| wanted - counts.applications.get(app).map_or(0, |a| a.distinct))
        .sum();
    let mut outcome = Outcome::new(format!(
        "One application writes 100,000 lines of 400 bytes per second for {secs} s, {QUIET} write 2/s; \
         the collector accepts {} MB/s; buffer 64 MiB, drop_oldest.",
        BYTES_PER_SECOND / 1_000_000
    ));
    outcome.measurements = vec![
        Measurement::new("lines lost by the 99", quiet_lost as f64).target(Target::AtMost(0.0)),
        Measurement::new("lines not in the book", written.abs_diff(delivered + discarded) as f64)
            .target(Target::AtMost(0.0)),
        Measurement::new(
            "lines delivered and not arrived",
            delivered.abs_diff(counts.distinct()) as f64,
        )
        .target(Target::AtMost(0.0)),
        Measurement::new("lines discarded of the noisy one", discarded as f64),
        Measurement::new("highest memory, MiB", weir.process().memory()?.1 as f64 / 1_048_576.0),
    ];
    outcome.set_cpu(&weir.process().cpu()?);
    Ok(outcome)
}
