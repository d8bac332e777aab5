//! The router: envelopes that arrive over gRPC and UDP go to two nozzles, and to a reader of each
//! application.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::super::Options;
use super::load::{APPLICATIONS, Load, send_metrics};
use super::pki::Pki;
use super::readers::{Care, Readers};
use super::relay;
use crate::data;
use crate::grpc::Server;
use crate::http;
use crate::process::Cpu;
use crate::report::{Measurement, Outcome, Target, quantile};
use crate::weir::Weir;

/// Length of a log in most runs, bytes.
const LOG_BYTES: usize = 1000;
/// Envelopes per second that are tried, one after the other, until some are lost.
const RATES: [u64; 6] = [50_000, 100_000, 150_000, 200_000, 250_000, 300_000];
/// Duration of each run, seconds.
const SECONDS: u64 = 10;
/// Envelopes per second of the latency run.
const LATENCY_RATE: f64 = 10_000.0;
/// Rates of the handbook in envelopes per second, and the share that its router lost, in percent.
const HANDBOOK_RATES: [(u64, f64); 4] =
    [(16_162, 0.54), (16_650, 1.03), (18_602, 3.6), (30_000, f64::NAN)];
/// Lengths of logs of the handbook in bytes, and the share lost at 1,000 logs/s, in percent.
const HANDBOOK_SIZES: [(usize, f64); 3] = [(100, 23.5), (1000, 6.0), (3000, 1.2)];

/// How long `router-hour` runs the first row of the handbook.
const HOUR_SECONDS: u64 = 3600;

/// Weir as a router, with its readers.
struct Router {
    weir: Weir,
    ingress: Server,
    metrics: u16,
    readers: Readers,
}

impl Router {
    fn start(dir: &Path, with_tls: bool, care: Care) -> Result<Self> {
        let pki = if with_tls { Some(Pki::new(dir)?) } else { None };
        let tls = pki.as_ref().map_or("", |pki| &pki.served);
        let (ingress, egress) = (http::free_port()?, http::free_port()?);
        let metrics = http::free_port()?;
        let config = format!(
            "[source.cf]\ntype = \"loggregator\"\nlisten = \"127.0.0.1:{ingress}\"\n{tls}\n\
             [source.v1]\ntype = \"dropsonde\"\nlisten = \"127.0.0.1:{metrics}\"\n\
             [loggregator]\nbuffer_max = \"256MiB\"\n\
             [loggregator.egress]\nlisten = \"127.0.0.1:{egress}\"\n{tls}\n\
             [output.none]\ntype = \"blackhole\"\n"
        );
        let weir = Weir::start(dir, &config)?;
        let client = pki.map(|pki| pki.client);
        let server = |port| Server { port, tls: client.clone() };
        let readers = Readers::open(&server(egress), care)?;
        Ok(Self { weir, ingress: server(ingress), metrics, readers })
    }

    /// Sends the load. Returns the CPU time of weir, the duration in seconds, and how many
    /// envelopes are missing at nozzles and at followers.
    fn run(&self, load: Load) -> Result<(Cpu, f64, [u64; 2])> {
        let before = self.weir.process().cpu()?;
        let begun = Instant::now();
        load.send(&self.ingress)?;
        let seconds = begun.elapsed().as_secs_f64();
        let missing = self.readers.missing(load.count, load.count);
        let cpu = self.weir.process().cpu()?.since(&before);
        self.check(missing)?;
        Ok((cpu, seconds, missing))
    }

    /// Sends a row of the handbook: logs over gRPC, and as many metrics over UDP, `rate` of each
    /// per second. Returns how many envelopes are missing at nozzles and at followers.
    fn run_row(&self, rate: u64, log_bytes: usize, seconds: u64) -> Result<[u64; 2]> {
        let count = seconds * rate;
        let load = Load {
            rate: Some(rate as f64),
            with_counters: false,
            batch: 10,
            ..Load::new(count, log_bytes)
        };
        std::thread::scope(|scope| {
            let metrics = scope.spawn(|| send_metrics(self.metrics, count, rate as f64));
            load.send(&self.ingress)?;
            metrics.join().map_err(|_| anyhow::anyhow!("the sender panicked"))?
        })?;
        Ok(self.readers.missing(2 * count, count))
    }

    /// Returns how many envelopes weir has received.
    fn received(&self) -> Result<u64> {
        let ledger = self.weir.ledger()?;
        let sources = ledger["sources"].as_array().context("no sources in the ledger")?;
        Ok(sources.iter().filter_map(|source| source["book"]["lines"].as_u64()).sum())
    }

    /// Checks that the ledger counts the missing envelopes as lost.
    fn check(&self, missing: [u64; 2]) -> Result<()> {
        let ledger = self.weir.ledger()?;
        let readers = ledger["readers"].as_array().context("no readers in the ledger")?;
        let lost: u64 = readers.iter().filter_map(|reader| reader["lost"].as_u64()).sum();
        let total = missing[0] + missing[1];
        // A reader that has lost some gets a counter in addition.
        let is_counted = total <= lost && (total == 0) == (lost == 0);
        ensure!(is_counted, "{total} envelopes are missing, {lost} are counted as lost");
        Ok(())
    }
}

/// `router`.
pub(crate) fn router_scenario(options: &Options) -> Result<Outcome> {
    let mut outcome = Outcome::new(format!(
        "Logs of {LOG_BYTES} bytes and as many counters over gRPC (v2, messages of 100), to two \
         nozzles and a reader for each of 10 applications. Rates from {} envelopes/s, {SECONDS} s \
         each, until one is lost or the sender is held back; weir, sender and readers share the \
         machine. Handbook: 16,000/s with 0.5 % lost.",
        RATES[0]
    ));
    let bare = relay::envelopes_per_cpu_second(Load::new(1, LOG_BYTES))?;
    for (with_tls, target) in [(false, 500_000.0), (true, 250_000.0)] {
        let mut best: Option<(u64, f64, Cpu)> = None;
        for rate in RATES {
            let dir = tempfile::tempdir_in(data::cache_dir()?)?;
            let router = Router::start(dir.path(), with_tls, Care::Count)?;
            let count = options.scaled(SECONDS) * rate;
            let load = Load { rate: Some(rate as f64), ..Load::new(count, LOG_BYTES) };
            let (cpu, seconds, missing) = router.run(load)?;
            eprintln!(
                "{rate}/s: {seconds:.1} s, {:.2} CPU-seconds, {missing:?} missing",
                cpu.total.as_secs_f64()
            );
            if missing != [0, 0] {
                break;
            }
            best = Some((count, seconds, cpu));
            // A sender that is slowed down sends no more at the next rate.
            if count as f64 / seconds < rate as f64 * 0.97 {
                break;
            }
        }
        let (count, seconds, cpu) = best.context("envelopes are lost at the lowest rate")?;
        let name = if with_tls { "with mutual TLS" } else { "without TLS" };
        let rate = count as f64 / seconds;
        outcome
            .measurements
            .push(Measurement::new(&format!("envelopes/s received, none lost, {name}"), rate));
        let per_second = count as f64 / cpu.total.as_secs_f64();
        let what = format!("envelopes received per CPU-second at that rate, {name}");
        let measured = Measurement::new(&what, per_second).target(Target::AtLeast(target));
        outcome.measurements.push(if with_tls {
            measured
        } else {
            measured.limit("a thread that reads these bytes once and writes them three times", bare)
        });
        outcome.set_cpu(&cpu);
    }
    Ok(outcome)
}

/// `router-handbook`.
pub(crate) fn handbook_scenario(options: &Options) -> Result<Outcome> {
    let mut outcome = Outcome::new(format!(
        "The handbook's two tables: logs over gRPC, as many metrics over UDP, two nozzles, a \
         reader for each application; {SECONDS} s each. In brackets: what the handbook lost."
    ));
    let rows = HANDBOOK_RATES
        .map(|(rate, lost)| (rate / 2, LOG_BYTES, lost, format!("{rate} envelopes/s")))
        .into_iter()
        .chain(
            HANDBOOK_SIZES
                .map(|(bytes, lost)| (1000, bytes, lost, format!("1,000 logs/s of {bytes} bytes"))),
        );
    for (rate, bytes, handbook, what) in rows {
        let dir = tempfile::tempdir_in(data::cache_dir()?)?;
        let router = Router::start(dir.path(), false, Care::Count)?;
        let seconds = options.scaled(SECONDS);
        let [nozzles, followers] = router.run_row(rate, bytes, seconds)?;
        let all = 5 * seconds * rate;
        let lost = (nozzles + followers) as f64 / all as f64 * 100.0;
        let known =
            if handbook.is_nan() { String::new() } else { format!(" (handbook: {handbook} %)") };
        outcome.measurements.push(
            Measurement::new(&format!("{what}: % lost{known}"), lost).target(Target::AtMost(0.0)),
        );
    }
    Ok(outcome)
}

/// `router-hour`.
pub(crate) fn hour_scenario(options: &Options) -> Result<Outcome> {
    let ((rate, handbook), seconds) = (HANDBOOK_RATES[0], options.scaled(HOUR_SECONDS));
    let mut outcome = Outcome::new(format!(
        "A row of the handbook for {seconds} s: logs of {LOG_BYTES} bytes over gRPC, as many \
         metrics over UDP, {rate} envelopes/s together; two nozzles, a reader for each of \
         {APPLICATIONS} applications. In brackets: what the handbook lost."
    ));
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let router = Router::start(dir.path(), false, Care::Count)?;
    let before = router.weir.process().cpu()?;
    let missing = router.run_row(rate / 2, LOG_BYTES, seconds)?;
    let cpu = router.weir.process().cpu()?.since(&before);
    let sent = rate / 2 * 2 * seconds;
    let lost: u64 = missing.iter().sum();
    let [nozzles, followers] = router.readers.got();
    let fewest = |counts: &[u64]| counts.iter().min().copied().unwrap_or_default() as f64;
    outcome.measurements = vec![
        Measurement::new("envelopes sent", sent as f64),
        Measurement::new("envelopes received, according to the ledger", router.received()? as f64),
        Measurement::new("read by the nozzle that got the fewest", fewest(&nozzles)),
        Measurement::new(
            "logs read by the reader of an application that got the fewest",
            fewest(&followers),
        ),
        Measurement::new(&format!("lost (handbook: {handbook} %)"), lost as f64)
            .target(Target::AtMost(0.0)),
        Measurement::new(
            "maximum memory, MiB",
            router.weir.process().memory()?.1 as f64 / f64::from(1 << 20),
        ),
        Measurement::new("% of a core", cpu.total.as_secs_f64() / seconds as f64 * 100.0),
    ];
    outcome.set_cpu(&cpu);
    Ok(outcome)
}

/// `router-latency`.
pub(crate) fn latency_scenario(options: &Options) -> Result<Outcome> {
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let router = Router::start(dir.path(), false, Care::Time)?;
    let count = options.scaled(20) * LATENCY_RATE as u64;
    let load = Load {
        rate: Some(LATENCY_RATE),
        with_counters: false,
        batch: 10,
        ..Load::new(count, LOG_BYTES)
    };
    let (cpu, seconds, missing) = router.run(load)?;
    ensure!(missing == [0, 0], "{missing:?} envelopes are missing");
    let mut outcome = Outcome::new(format!(
        "{LATENCY_RATE} logs/s of {LOG_BYTES} bytes; time from writing a log to reading it, at two \
         nozzles and a reader for each of 10 applications. The original: p99 of 393 to 464 ms."
    ));
    let names = ["at nozzles", "at readers of an application"];
    for (ages, name) in router.readers.ages_ns()?.into_iter().zip(names) {
        let at = |share| quantile(&ages, share).unwrap_or_default() as f64 / 1e6;
        outcome.measurements.extend([
            Measurement::new(&format!("median {name}, ms"), at(0.5)),
            Measurement::new(&format!("99 % {name}, ms"), at(0.99)).target(Target::AtMost(5.0)),
            Measurement::new(&format!("maximum {name}, ms"), at(1.0)),
        ]);
    }
    let share = cpu.total.as_secs_f64() / seconds * 100.0;
    outcome.measurements.push(Measurement::new("% of a core", share));
    outcome.set_cpu(&cpu);
    Ok(outcome)
}
