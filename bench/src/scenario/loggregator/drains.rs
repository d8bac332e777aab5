//! Ten thousand drains over TLS: what they cost when all are healthy, when a tenth is dead, and
//! when nothing is sent.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::super::Options;
use super::load::{Load, source_id};
use super::pki::Pki;
use super::readers::{Care, start};
use super::syslog_sink::SyslogSink;
use crate::clock;
use crate::data;
use crate::grpc::Server;
use crate::http;
use crate::report::{Measurement, Outcome, Target, quantile};
use crate::weir::Weir;

/// Drains, each of an application of its own.
const DRAINS: u64 = 10_000;
/// One in this many drains leads to the server that dies.
const DYING_SHARE: u64 = 10;
/// Envelopes per second over all drains.
const RATE: f64 = 20_000.0;
/// Length of a log, bytes.
const LOG_BYTES: usize = 200;
/// Duration of a phase, seconds.
const SECONDS: u64 = 20;
/// Followers of applications while nothing is sent.
const FOLLOWERS: u64 = 500;

/// Weir with drains, and the servers that they lead to.
struct Drains {
    weir: Weir,
    ingress: Server,
    egress: Server,
    healthy: Arc<SyslogSink>,
    dying: Arc<SyslogSink>,
    count: u64,
}

impl Drains {
    fn start(dir: &Path, count: u64) -> Result<Self> {
        let pki = Pki::new(dir)?;
        let (healthy, port) = SyslogSink::start(pki.server.clone())?;
        let (dying, dying_port) = SyslogSink::start(pki.server.clone())?;
        let (ingress, egress) = (http::free_port()?, http::free_port()?);
        let mut config = format!(
            "[source.cf]\ntype = \"loggregator\"\nlisten = \"127.0.0.1:{ingress}\"\n\
             [loggregator.egress]\nlisten = \"127.0.0.1:{egress}\"\nstreams_max = 1000\n\
             connections_max = 1000\n\
             [drains]\nwindow = \"96MiB\"\nsize_max = \"1GiB\"\n{}\n",
            pki.trusted
        );
        for drain in 0..count {
            let port = if drain % DYING_SHARE == 0 { dying_port } else { port };
            let app = source_id(drain);
            let _infallible = writeln!(
                config,
                "[[drain]]\napp = \"{app}\"\nurl = \"syslog-tls://localhost:{port}\""
            );
        }
        let weir = Weir::start(dir, &config)?;
        let (ingress, egress) = (Server::plain(ingress), Server::plain(egress));
        Ok(Self { weir, ingress, egress, healthy, dying, count })
    }

    fn load(&self, seconds: u64) -> Load {
        Load {
            rate: Some(RATE),
            with_counters: false,
            applications: self.count,
            ..Load::new(seconds * RATE as u64, LOG_BYTES)
        }
    }

    fn arrived(&self) -> u64 {
        let of = |sink: &SyslogSink| sink.messages.load(Ordering::Relaxed);
        of(&self.healthy) + of(&self.dying)
    }

    /// Waits until so many messages have arrived altogether.
    fn wait_arrived(&self, count: u64) -> Result<()> {
        let patience = Duration::from_mins(2);
        self.weir.wait_for("the messages have arrived", patience, || Ok(self.arrived() >= count))
    }

    /// Returns how many records the drains have discarded.
    fn discarded(&self) -> Result<u64> {
        Ok(self.weir.cursor("drains")?[1] + self.weir.cursor("drains/lagging")?[1])
    }
}

/// The 99th percentile, milliseconds.
fn p99_ms(sink: &SyslogSink) -> Result<f64> {
    let ages = sink.take_ages_ns();
    Ok(quantile(&ages, 0.99).context("nothing has arrived")? as f64 / 1e6)
}

/// `drains`.
pub(crate) fn drains_scenario(options: &Options) -> Result<Outcome> {
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let drains = Drains::start(dir.path(), options.scaled(DRAINS))?;
    let seconds = options.scaled(SECONDS);
    let mut outcome = Outcome::new(format!(
        "{} drains over TLS (syslog-tls), {RATE} logs/s of {LOG_BYTES} bytes over them for \
         {seconds} s; then the server of a tenth of them is dead for {seconds} s, and comes back.",
        drains.count
    ));
    // The handshakes are not measured.
    let warm = drains.load(seconds.div_ceil(2));
    warm.send(&drains.ingress)?;
    drains.wait_arrived(warm.count)?;
    drains.healthy.take_ages_ns();
    let load = drains.load(seconds);
    let (before, begun) = (drains.weir.process().cpu()?, Instant::now());
    load.send(&drains.ingress)?;
    drains.wait_arrived(warm.count + load.count)?;
    let cpu = drains.weir.process().cpu()?.since(&before);
    let share = cpu.total.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
    let healthy_ms = p99_ms(&drains.healthy)?;
    drains.dying.kill();
    load.send(&drains.ingress)?;
    let beside_dead_ms = p99_ms(&drains.healthy)?;
    drains.dying.revive();
    load.send(&drains.ingress)?;
    let beside_returning_ms = p99_ms(&drains.healthy)?;
    let sent = warm.count + 3 * load.count;
    drains.wait_arrived(sent)?;
    let memory = drains.weir.process().memory()?.1 as f64 / 1_048_576.0;
    let discarded = drains.discarded()?;
    let repeated = drains.arrived() - sent;
    ensure!(discarded == 0, "{discarded} records were discarded");
    outcome.set_cpu(&cpu);
    let most = Target::AtMost(healthy_ms.mul_add(1.1, 1.0));
    outcome.measurements.extend([
        Measurement::new("% of a core, all drains healthy", share).target(Target::AtMost(100.0)),
        Measurement::new("highest memory, MiB", memory).target(Target::AtMost(1024.0)),
        Measurement::new("99 % of the delays, all healthy, ms", healthy_ms),
        Measurement::new("of the others while a tenth is dead, ms", beside_dead_ms).target(most),
        Measurement::new("of the others while it comes back, ms", beside_returning_ms).target(most),
        Measurement::new("messages that arrived twice", repeated as f64),
    ]);
    Ok(outcome)
}

/// `drains-idle`.
pub(crate) fn idle_scenario(options: &Options) -> Result<Outcome> {
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let drains = Drains::start(dir.path(), options.scaled(DRAINS))?;
    let warm = drains.load(1);
    warm.send(&drains.ingress)?;
    drains.wait_arrived(warm.count)?;
    let followers: Vec<_> = (0..options.scaled(FOLLOWERS))
        .map(|number| start(&drains.egress, &source_id(number), Care::Count))
        .collect::<Result<_>>()?;
    let seconds = options.scaled(SECONDS);
    clock::wait(Duration::from_secs(3));
    let before = drains.weir.process().cpu()?;
    clock::wait(Duration::from_secs(seconds));
    let cpu = drains.weir.process().cpu()?.since(&before);
    let mut outcome = Outcome::new(format!(
        "{} drains with open TLS connections and {} readers of applications; nothing is sent.",
        drains.healthy.connections.load(Ordering::Relaxed)
            + drains.dying.connections.load(Ordering::Relaxed),
        followers.len()
    ));
    let share = cpu.total.as_secs_f64() / seconds as f64 * 100.0;
    outcome.measurements.push(Measurement::new("% of a core", share).target(Target::AtMost(0.5)));
    outcome.set_cpu(&cpu);
    Ok(outcome)
}
