//! Ten thousand TLS connections: the cost of idle ones, and the effect on another when all of them
//! connect again at once.

use std::io::{BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::Options;
use super::load::{answer, message, open_relp};
use crate::clock;
use crate::data;
use crate::http;
use crate::report::{Measurement, Outcome, Target};
use crate::weir::Weir;

/// Connections that send nothing.
const CONNECTIONS: u64 = 10_000;
/// Threads that open them. They share the machine with weir: with more threads than processors, the
/// scheduler and not weir would determine how long others wait.
const THREADS: u64 = 2;
/// How often the other sender sends a message.
const TICK: Duration = Duration::from_millis(2);

type Connection = StreamOwned<ClientConnection, TcpStream>;

/// `syslog-connections`.
pub(crate) fn connections_scenario(options: &Options) -> Result<Outcome> {
    let count = options.scaled(CONNECTIONS);
    let dir = tempfile::tempdir_in(data::cache_dir()?)?;
    let (config, clients) = settings(dir.path())?;
    let port = http::free_port()?;
    let weir = Weir::start(dir.path(), &config.replace("PORT", &port.to_string()))?;
    let (before, _) = weir.process().memory()?;
    let idle = open(port, count, &clients)?;
    let (memory, _) = weir.process().memory()?;
    let mut outcome = Outcome::new(format!(
        "{count} TLS connections (ECDSA P-256) that send nothing; then all are closed and opened \
         again at once, while another connection sends a message every {TICK:?} over RELP."
    ));
    outcome.measurements.push(
        Measurement::new("resident memory with idle connections, MiB", memory as f64 / 1_048_576.0)
            .target(Target::AtMost(600.0)),
    );
    outcome.measurements.push(Measurement::new(
        "bytes per idle connection",
        memory.saturating_sub(before) as f64 / count as f64,
    ));
    drop(idle);
    weir.wait_for("the connections are closed", Duration::from_secs(30), || {
        Ok(weir.metric("weir_source_connections")? < 1.0)
    })?;
    let cpu = weir.process().cpu()?;
    let is_over = AtomicBool::new(false);
    let (opened, mut latencies) = std::thread::scope(|scope| {
        let other = scope.spawn(|| send_until(port, &clients, &is_over));
        let begun = Instant::now();
        let opened = open(port, count, &clients).map(|open| (open.len(), begun.elapsed()));
        is_over.store(true, Ordering::Relaxed);
        let latencies = other.join().map_err(|_| anyhow::anyhow!("the sender panicked"))?;
        anyhow::Ok((opened?, latencies?))
    })?;
    latencies.sort();
    let p99 = latencies.get(latencies.len() * 99 / 100).context("nothing was acknowledged")?;
    outcome.set_cpu(&weir.process().cpu()?.since(&cpu));
    outcome.measurements.push(
        Measurement::new("connections refused", (count - opened.0 as u64) as f64)
            .target(Target::AtMost(0.0)),
    );
    outcome
        .measurements
        .push(Measurement::new("seconds until all are open again", opened.1.as_secs_f64()));
    outcome.measurements.push(
        Measurement::new("acknowledgement p99 of the other meanwhile, ms", p99.as_secs_f64() * 1e3)
            .target(Target::AtMost(100.0)),
    );
    Ok(outcome)
}

/// Makes a certificate; returns weir's configuration, and that of its clients.
fn settings(dir: &Path) -> Result<(String, Arc<ClientConfig>)> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (certificate, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem())?;
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone())?;
    let clients =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
    let config = format!(
        "[source.syslog]\ntype = \"syslog\"\nlisten = \"127.0.0.1:PORT\"\nprotocol = \"relp\"\n\
         connections_max = 12000\nconnections_per_address_max = 12000\n\
         [source.syslog.tls]\ncert_file = \"{}\"\nkey_file = \"{}\"\n\
         [output.none]\ntype = \"blackhole\"\n",
        certificate.display(),
        key.display(),
    );
    Ok((config, Arc::new(clients)))
}

/// Opens this many connections at once; returns those that were accepted.
fn open(port: u16, count: u64, clients: &Arc<ClientConfig>) -> Result<Vec<Connection>> {
    let share = |number: u64| count * (number + 1) / THREADS - count * number / THREADS;
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| scope.spawn(move || open_some(port, share(number), clients)))
            .collect();
        for thread in threads {
            all.extend(thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))??);
        }
        Ok(all)
    })
}

/// Begins all handshakes before it completes the first one.
fn open_some(port: u16, count: u64, clients: &Arc<ClientConfig>) -> Result<Vec<Connection>> {
    let begin = |_| -> Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        let name = ServerName::try_from("localhost")?;
        let client = ClientConnection::new(clients.clone(), name)?;
        let mut connection = StreamOwned::new(client, stream);
        while connection.conn.wants_write() {
            connection.conn.write_tls(&mut connection.sock)?;
        }
        Ok(connection)
    };
    let begun: Vec<Connection> = (0..count).map(begin).collect::<Result<_>>()?;
    let complete = |mut connection: Connection| {
        while connection.conn.is_handshaking() {
            connection.conn.complete_io(&mut connection.sock).ok()?;
        }
        Some(connection)
    };
    Ok(begun.into_iter().filter_map(complete).collect())
}

/// Sends messages over RELP, one after the other; returns the time to each acknowledgement.
fn send_until(
    port: u16,
    clients: &Arc<ClientConfig>,
    is_over: &AtomicBool,
) -> Result<Vec<Duration>> {
    let connection = open_some(port, 1, clients)?.pop().context("not accepted")?;
    let mut connection = BufReader::new(connection);
    open_relp(connection.get_mut())?;
    answer(&mut connection)?;
    let mut latencies = Vec::new();
    let (mut frame, mut tick) = (Vec::new(), Instant::now());
    for number in 2_u64.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        tick += TICK;
        clock::wait_until(tick);
        frame.clear();
        message(number, &mut frame);
        let begun = Instant::now();
        let stream = connection.get_mut();
        write!(stream, "{number} syslog {} ", frame.len())?;
        stream.write_all(&frame)?;
        stream.write_all(b"\n")?;
        answer(&mut connection)?;
        latencies.push(begun.elapsed());
    }
    Ok(latencies)
}
