//! Five hundred file outputs in a running weir, and a hundred that are added and removed under
//! load.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::load::Load;
use super::servers::{output, source};
use super::{Options, lines_in, lines_of};
use crate::clock;
use crate::data;
use crate::http;
use crate::report::{Measurement, Outcome, Target};
use crate::weir::Weir;

/// File outputs, apart from the one that gets everything.
const OUTPUTS: usize = 500;
/// Hosts in the messages; each has its share of the outputs.
const HOSTS: usize = 20;
/// Outputs that are added, and removed again.
const CHANGES: u64 = 100;
/// Messages per second.
const RATE: u64 = 2000;
const SECONDS: u64 = 30;
/// Interval at which the size of the file that gets everything is read.
const TICK: Duration = Duration::from_millis(2);

/// `outputs`.
pub(crate) fn outputs_scenario(options: &Options) -> Result<Outcome> {
    let (changes, count) = (options.scaled(CHANGES), RATE * options.scaled(SECONDS));
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    std::fs::create_dir_all(dir.path().join("out"))?;
    let port = http::free_port()?;
    let base = config(dir.path(), port, None);
    let weir = Weir::start(dir.path(), &base)?;
    let before = weir.process().cpu()?;
    let is_over = AtomicBool::new(false);
    let all = dir.path().join("out/all.log");
    let (pause, longest_change) = std::thread::scope(|scope| {
        let pause = scope.spawn(|| longest_pause(&all, &is_over));
        let sending = scope.spawn(move || Load::new(count).paced(RATE).send_tcp(port));
        let mut longest = Duration::ZERO;
        for number in 0..changes {
            for config in [config(dir.path(), port, Some(number)), base.clone()] {
                let begun = Instant::now();
                weir.reload(&config)?;
                longest = longest.max(begun.elapsed());
            }
        }
        sending.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
        is_over.store(true, Ordering::Relaxed);
        let pause = pause.join().map_err(|_| anyhow::anyhow!("the observer panicked"))?;
        anyhow::Ok((pause, longest))
    })?;
    weir.wait_delivered("all", count, Duration::from_mins(1))?;
    let of_host = (OUTPUTS / HOSTS) as u64;
    let is_written = || Ok(lines_in(&dir.path().join("out"))? >= count * (1 + of_host));
    weir.wait_for("every file is written", Duration::from_mins(1), is_written)?;
    let mut outcome = Outcome::new(format!(
        "{} file outputs, {RATE} messages/s, each to {} files, fsync each second; meanwhile {changes} \
         outputs are added and removed.",
        OUTPUTS + 1,
        1 + of_host,
    ));
    let cpu = weir.process().cpu()?.since(&before);
    let seconds = count as f64 / RATE as f64;
    outcome.set_cpu(&cpu);
    let (_, memory) = weir.process().memory()?;
    let mib = memory as f64 / 1_048_576.0;
    outcome
        .measurements
        .push(Measurement::new("resident memory, maximum, MiB", mib).target(Target::AtMost(512.0)));
    outcome.measurements.push(
        Measurement::new("lost messages", lost(&weir, dir.path(), count, changes)? as f64)
            .target(Target::AtMost(0.0)),
    );
    outcome
        .measurements
        .push(Measurement::new("longest pause of another output, ms", pause.as_secs_f64() * 1e3));
    outcome
        .measurements
        .push(Measurement::new("longest time of a change, ms", longest_change.as_secs_f64() * 1e3));
    outcome
        .measurements
        .push(Measurement::new("% of a core", cpu.total.as_secs_f64() / seconds * 100.0));
    Ok(outcome)
}

/// The configuration, with one more output if a number is given.
fn config(dir: &Path, port: u16, added: Option<u64>) -> String {
    let mut config = String::from("default_to = []\n");
    config += &source(port, "protocol = \"tcp\"\n");
    config += &output("all", &dir.join("out/all.log"));
    let mut to = vec![String::from("\"all\""); HOSTS];
    for number in 0..OUTPUTS {
        config += &output(&format!("f{number}"), &dir.join(format!("out/f{number}.log")));
        // Writing to a string cannot fail.
        let _ = write!(to[number % HOSTS], ", \"f{number}\"");
    }
    if let Some(number) = added {
        config += &output("added", &dir.join(format!("added-{number}.log")));
        for to in &mut to {
            *to += ", \"added\"";
        }
    }
    for (host, to) in to.iter().enumerate() {
        let _ = write!(
            config,
            "[[rule]]\nname = \"h{host}\"\nwhen = \"host:web{host:04}\"\nto = [{to}]\nfinal = true\n"
        );
    }
    config
}

/// Returns the longest time during which a file did not grow.
fn longest_pause(file: &Path, is_over: &AtomicBool) -> Duration {
    let len = || std::fs::metadata(file).map_or(0, |meta| meta.len());
    let (mut longest, mut before, mut grown) = (Duration::ZERO, 0, Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        clock::wait(TICK);
        let now = len();
        if now > before {
            if before > 0 {
                longest = longest.max(grown.elapsed());
            }
            (before, grown) = (now, Instant::now());
        }
    }
    longest
}

/// Returns the number of messages that are missing in a file, by the books of its output.
fn lost(weir: &Weir, dir: &Path, count: u64, changes: u64) -> Result<u64> {
    let lines = lines_of(&dir.join("out/all.log"))?;
    ensure!(lines <= count, "{lines} lines of {count} messages");
    let mut added = 0;
    for number in 0..changes {
        let text = std::fs::read(dir.join(format!("added-{number}.log"))).unwrap_or_default();
        added += memchr::memchr_iter(b'\n', &text).count() as u64;
    }
    let [delivered, discarded, in_flight] = weir.cursor("added")?;
    ensure!(discarded + in_flight == 0, "{discarded} discarded, {in_flight} in flight");
    Ok(count - lines + delivered.abs_diff(added))
}
