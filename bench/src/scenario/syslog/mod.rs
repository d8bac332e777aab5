//! Weir as a syslog server, next to syslog-ng and rsyslog on the same bytes in the same run.
//!
//! A hundred rules on ten connections: ninety regular expressions that never match, and ten on the
//! program; each message is in one of eleven files, which are flushed every second. The limit of
//! the run is a loop that receives the same bytes, splits them into lines, and writes them to one
//! file.

mod connections;
mod load;
mod outputs;
mod servers;

use std::io::{BufWriter, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Options;
use crate::clock;
use crate::data;
use crate::process::Cpu;
use crate::report::{Measurement, Outcome, Target};
pub(crate) use connections::connections_scenario;
use load::Load;
pub(crate) use outputs::outputs_scenario;
use servers::Server;

/// Programs, each with a rule and a file; the eleventh file is for what the regular expressions
/// match.
const PROGRAMS: usize = 10;
/// Regular expressions that never match.
const PATTERNS: usize = 90;
/// Number of messages of a run at full speed.
const MESSAGES: u64 = 1_000_000;
/// Rate of the paced scenario, messages per second.
const PACED_RATE: u64 = 60_000;
/// Rates over UDP, messages per second: one that must be received, and one that is too much.
const UDP_RATES: [u64; 2] = [100_000, 500_000];

/// Whether the rules that match most messages come first or last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    BusiestLast,
    BusiestFirst,
}

/// The rules: what they match, and the number of their file.
fn rules(order: Order) -> Vec<(Condition, usize)> {
    let patterns = (0..PATTERNS).map(|index| {
        let word = ["password", "certificate", "lease", "session", "quota"][index % 5];
        (
            Condition::Pattern(format!("{word} {index} (refused|expired) for .*[0-9]+ times")),
            PROGRAMS,
        )
    });
    let programs = (0..PROGRAMS).map(|index| (Condition::Program(format!("app{index}")), index));
    match order {
        Order::BusiestLast => patterns.chain(programs).collect(),
        Order::BusiestFirst => programs.chain(patterns).collect(),
    }
}

enum Condition {
    Pattern(String),
    Program(String),
}

/// `syslog-rules`.
pub(crate) fn rules_scenario(options: &Options) -> Result<Outcome> {
    let count = options.scaled(MESSAGES);
    let mut outcome = Outcome::new(format!(
        "{count} messages of {} bytes (RFC 3164) over {} TCP connections, {PATTERNS} regular \
         expressions that never match, {PROGRAMS} rules by program, 11 files, fsync each second.",
        load::MESSAGE_BYTES,
        load::CONNECTIONS
    ));
    let bare = bare(count)?;
    let mut weir = Vec::new();
    for order in [Order::BusiestLast, Order::BusiestFirst] {
        let runs = (0..options.runs.max(1)).map(|_| bulk("weir", order, count));
        let mut runs: Vec<Cpu> = runs.collect::<Result<_>>()?;
        runs.sort_by_key(|cpu| cpu.total);
        weir.push(runs.swap_remove(runs.len() / 2));
    }
    let rate = |cpu: &Cpu| count as f64 / cpu.total.as_secs_f64();
    let mut rates = Vec::new();
    for peer in ["syslog-ng", "rsyslog"] {
        for order in [Order::BusiestLast, Order::BusiestFirst] {
            if let Some(cpu) = peer_cpu(peer, order, count)? {
                rates.push((peer, order, rate(&cpu)));
            }
        }
    }
    let peer_rate = |order: Order| {
        let of = |(peer, o, _): &&(&str, Order, f64)| *peer == "syslog-ng" && *o == order;
        rates.iter().find(of).map(|(_, _, rate)| *rate)
    };
    outcome.set_cpu(&weir[0]);
    outcome.measurements.push(
        Measurement::new("messages per CPU-second, busiest rules last", rate(&weir[0]))
            .target(Target::AtLeast(670_000.0))
            .limit("receive, split, write", bare),
    );
    let mut first =
        Measurement::new("messages per CPU-second, busiest rules first", rate(&weir[1]))
            .limit("receive, split, write", bare);
    if let Some(peer) = peer_rate(Order::BusiestFirst) {
        first = first.target(Target::AtLeast(10.0 * peer));
    }
    outcome.measurements.push(first);
    for (peer, order, rate) in rates {
        let order = if order == Order::BusiestLast { "last" } else { "first" };
        outcome.measurements.push(Measurement::new(
            &format!("{peer}: messages per CPU-second, busiest rules {order}"),
            rate,
        ));
    }
    Ok(outcome)
}

/// `syslog-60k`.
pub(crate) fn paced_scenario(options: &Options) -> Result<Outcome> {
    let seconds = options.scaled(20);
    let count = PACED_RATE * seconds;
    let mut outcome = Outcome::new(format!(
        "{PACED_RATE} messages/s for {seconds} s, rules and files as in syslog-rules."
    ));
    for (name, what) in [("weir", "% of a core"), ("syslog-ng", "syslog-ng: % of a core")] {
        let dir = tempfile::tempdir_in(data::cache_dir()?)?;
        let Some(server) = Server::start(name, dir.path(), Order::BusiestLast)? else { continue };
        let before = server.process().cpu()?;
        let begun = Instant::now();
        Load::new(count).paced(PACED_RATE).send_tcp(server.port())?;
        wait_written(&server, dir.path(), count)?;
        let cpu = server.process().cpu()?.since(&before);
        let share = cpu.total.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
        let mut measurement = Measurement::new(what, share);
        if name == "weir" {
            measurement = measurement.target(Target::AtMost(12.0));
            outcome.set_cpu(&cpu);
        }
        outcome.measurements.push(measurement);
    }
    Ok(outcome)
}

/// `syslog-udp`.
pub(crate) fn udp_scenario(options: &Options) -> Result<Outcome> {
    let seconds = options.scaled(5);
    let mut outcome = Outcome::new(format!(
        "Messages of {} bytes over UDP for {seconds} s, receive buffer 8 MiB, one file.",
        load::MESSAGE_BYTES
    ));
    for rate in UDP_RATES {
        let dir = tempfile::tempdir_in(data::cache_dir()?)?;
        let server = Server::start_udp(dir.path())?;
        let count = rate * seconds;
        let begun = Instant::now();
        Load::new(count).paced(rate).send_udp(server.port())?;
        let sent_per_second = count as f64 / begun.elapsed().as_secs_f64();
        let (mut received, mut lost) = (0, 0);
        server.weir()?.wait_for("all is received or counted", Duration::from_mins(1), || {
            (received, lost) = server.received()?;
            Ok(received + lost >= count)
        })?;
        let what = format!("lost at {rate}/s");
        let mut measurement = Measurement::new(&what, lost as f64);
        if rate == UDP_RATES[0] {
            measurement = measurement.target(Target::AtMost(0.0));
        }
        outcome.measurements.push(measurement);
        outcome.measurements.push(
            Measurement::new(
                &format!("neither received nor counted at {rate}/s"),
                (count - received - lost) as f64,
            )
            .target(Target::AtMost(0.0)),
        );
        outcome
            .measurements
            .push(Measurement::new(&format!("sent per second, wanted {rate}"), sent_per_second));
    }
    Ok(outcome)
}

/// `relp`.
pub(crate) fn relp_scenario(options: &Options) -> Result<Outcome> {
    let count = options.scaled(500_000);
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let server = Server::start_relp(dir.path())?;
    let before = server.process().cpu()?;
    let latency = Load::new(count).send_relp(server.port())?;
    let cpu = server.process().cpu()?.since(&before);
    let disk = flush_alone(dir.path())?;
    let mut outcome = Outcome::new(format!(
        "{count} messages of {} bytes over {} RELP connections, each acknowledged, window 128.",
        load::MESSAGE_BYTES,
        load::CONNECTIONS
    ));
    outcome.measurements.push(
        Measurement::new("messages per CPU-second", count as f64 / cpu.total.as_secs_f64())
            .target(Target::AtLeast(300_000.0)),
    );
    outcome.measurements.push(
        Measurement::new("acknowledgement p99, ms", latency.as_secs_f64() * 1e3)
            .target(Target::AtMost(25.0_f64.max(2.0 * disk.as_secs_f64() * 1e3)))
            .limit("p99 of write and fdatasync alone", disk.as_secs_f64() * 1e3),
    );
    outcome.set_cpu(&cpu);
    Ok(outcome)
}

/// Returns the CPU time of a server for all messages.
fn bulk(name: &str, order: Order, count: u64) -> Result<Cpu> {
    peer_cpu(name, order, count)?.with_context(|| format!("{name} is not installed"))
}

/// Like [`bulk`]; `None` if the server is not installed.
fn peer_cpu(name: &str, order: Order, count: u64) -> Result<Option<Cpu>> {
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let Some(server) = Server::start(name, dir.path(), order)? else { return Ok(None) };
    let before = server.process().cpu()?;
    Load::new(count).send_tcp(server.port())?;
    wait_written(&server, dir.path(), count)?;
    let cpu = server.process().cpu()?.since(&before);
    let rate = count as f64 / cpu.total.as_secs_f64();
    eprintln!("  {name}, {order:?}: {rate:.0} messages per CPU-second");
    Ok(Some(cpu))
}

/// Waits until every message is a line of a file.
fn wait_written(server: &Server, dir: &Path, count: u64) -> Result<()> {
    let mut lines = 0;
    let done = clock::wait_for(Duration::from_millis(100), Duration::from_mins(5), || {
        if !server.is_settled(count)? {
            return Ok(false);
        }
        lines = lines_in(&dir.join("out"))?;
        Ok(lines >= count)
    })?;
    ensure!(done && lines == count, "{lines} of {count} lines were written");
    Ok(())
}

/// Returns the number of lines of all files.
fn lines_in(dir: &Path) -> Result<u64> {
    let mut lines = 0;
    for entry in std::fs::read_dir(dir)? {
        lines += lines_of(&entry?.path())?;
    }
    Ok(lines)
}

/// Returns the number of lines of a file.
fn lines_of(file: &Path) -> Result<u64> {
    let text = std::fs::read(file).with_context(|| format!("no {}", file.display()))?;
    Ok(memchr::memchr_iter(b'\n', &text).count() as u64)
}

/// Returns the messages per CPU-second of a loop that receives, splits and writes the same bytes.
fn bare(count: u64) -> Result<f64> {
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let sending = std::thread::spawn(move || Load::new(count).over(1).send_tcp(port));
    let (mut stream, _) = listener.accept()?;
    let mut file =
        BufWriter::with_capacity(1 << 16, std::fs::File::create(dir.path().join("out"))?);
    let before = clock::thread_cpu();
    let (mut buffer, mut kept, mut lines) = (vec![0; 1 << 17], 0, 0_u64);
    loop {
        let read = stream.read(&mut buffer[kept..])?;
        if read == 0 {
            break;
        }
        let (mut at, end) = (0, kept + read);
        while let Some(len) = memchr::memchr(b'\n', &buffer[at..end]) {
            file.write_all(&buffer[at..=at + len])?;
            lines += 1;
            at += len + 1;
        }
        buffer.copy_within(at..end, 0);
        kept = end - at;
    }
    file.flush()?;
    let cpu = clock::thread_cpu().saturating_sub(before);
    sending.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
    ensure!(lines == count, "{lines} of {count} lines were received");
    Ok(count as f64 / cpu.as_secs_f64())
}

/// Returns the 99th percentile of writing 64 KiB and flushing it.
fn flush_alone(dir: &Path) -> Result<Duration> {
    let file = std::fs::File::create(dir.join("flush"))?;
    let mut times = Vec::new();
    let block = vec![0; 1 << 16];
    for _ in 0..200 {
        let begun = Instant::now();
        (&file).write_all(&block)?;
        file.sync_data()?;
        times.push(begun.elapsed());
    }
    times.sort();
    Ok(times[times.len() * 99 / 100])
}
