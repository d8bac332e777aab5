//! `weir load demo`: log files of a simulated web shop, as realistic data to explore: several
//! services on several hosts, traces that cross them, durations with queueing, bursts of errors
//! with stack traces, a slow host and a noisy service.
//!
//! Invariants: everything is derived from a seed and the time, so a run can be repeated; lines are
//! written in the order of their times; files are rotated, so the disk does not fill.

mod shop;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use weir_host::{Clock, RealClock};

use crate::load::{LogFile, RotateWhen, Rotation};
use shop::Shop;

/// Interval of writes.
const TICK: Duration = Duration::from_millis(100);

/// Length of the steps in which the past is written.
const BACKFILL_STEP: Duration = Duration::from_secs(10);

/// Size at which a file is rotated.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// Settings of the demo.
#[derive(Debug, Clone)]
pub struct DemoPlan {
    /// Directory of the files; created if missing.
    pub dir: PathBuf,
    /// Requests to the shop per second; each is several lines.
    pub requests_per_second: f64,
    /// Length of the past for which lines are written first.
    pub backfill: Duration,
    /// Duration of the run after that; `None` = unlimited.
    pub duration: Option<Duration>,
    /// Seed of the random generators.
    pub seed: u64,
}

/// Writes the files. `progress` receives the number of lines so far and may end the run.
///
/// # Errors
/// A file cannot be written.
pub fn run(plan: &DemoPlan, mut progress: impl FnMut(u64) -> ControlFlow<()>) -> io::Result<u64> {
    let clock = RealClock::new();
    let now_ns = clock.unix_ns();
    let backfill_ns = i64::try_from(plan.backfill.as_nanos()).unwrap_or(i64::MAX);
    let mut at_ns = now_ns.saturating_sub(backfill_ns);
    let mut writer = RequestWriter { plan, files: BTreeMap::new(), lines: 0 };
    let mut shop = Shop::new(plan.seed, plan.requests_per_second, at_ns);
    while at_ns < now_ns {
        at_ns = now_ns.min(at_ns + BACKFILL_STEP.as_nanos() as i64);
        writer.write(&mut shop, at_ns)?;
        if progress(writer.lines).is_break() {
            return Ok(writer.lines);
        }
    }
    let begun = clock.monotonic();
    loop {
        let elapsed = clock.monotonic().saturating_sub(begun);
        if plan.duration.is_some_and(|duration| elapsed >= duration) {
            return Ok(writer.lines);
        }
        writer.write(&mut shop, now_ns + elapsed.as_nanos() as i64)?;
        if progress(writer.lines).is_break() {
            return Ok(writer.lines);
        }
        std::thread::park_timeout(TICK);
    }
}

/// The files of the services.
struct RequestWriter<'p> {
    plan: &'p DemoPlan,
    files: BTreeMap<&'static str, LogFile>,
    lines: u64,
}

impl RequestWriter<'_> {
    /// Writes all lines logged before that time.
    fn write(&mut self, shop: &mut Shop, until_ns: i64) -> io::Result<()> {
        let mut blocks: BTreeMap<&'static str, Vec<u8>> = BTreeMap::new();
        shop.advance(until_ns, |service, line| {
            let block = blocks.entry(service).or_default();
            block.extend_from_slice(line);
            block.push(b'\n');
            self.lines += 1;
        });
        for (service, block) in blocks {
            let file = match self.files.entry(service) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let path = self.plan.dir.join(format!("{service}.log"));
                    let when = RotateWhen::Bytes(FILE_BYTES_MAX);
                    new.insert(LogFile::create(path, Some(Rotation::Rename { when, keep: 1 }))?)
                }
            };
            if file.is_due(Duration::ZERO, block.len()) {
                file.rotate(Duration::ZERO, until_ns)?;
            }
            file.append(&block)?;
        }
        Ok(())
    }
}
