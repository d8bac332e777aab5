//! A collector for benchmarks, in its own process: reads requests, responds with 200 at once,
//! counts.
//!
//! It implements just enough HTTP to accept what an output sends; compressed bodies are stored and
//! counted after the timed run. Commands are read from stdin, one word per line; replies go to
//! stdout.

mod client;
mod count;
mod http;

use std::fs::File;
use std::io::{BufRead, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};

pub(crate) use client::Sink;
pub(crate) use count::Counts;

/// How the collector behaves.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Settings {
    /// Use TLS with a fresh certificate, written to this file.
    #[arg(long)]
    pub(crate) certificate: Option<PathBuf>,
    /// Store compressed bodies in this file, to be counted later.
    #[arg(long)]
    pub(crate) spool: Option<PathBuf>,
    /// Accept at most this many body bytes per second; 0 = unlimited.
    #[arg(long, default_value_t = 0)]
    pub(crate) bytes_per_second: u64,
}

/// State shared by all connections.
struct SinkState {
    settings: Settings,
    counts: Mutex<Counts>,
    spool: Option<Mutex<File>>,
    hung: Mutex<bool>,
    resumed: Condvar,
    /// Requests proceed one at a time if the rate is limited.
    turn: Mutex<()>,
}

impl SinkState {
    /// Accepts a request's body; returns when it may be answered.
    fn take(&self, body: &[u8], is_gzip: bool) -> Result<()> {
        let nanos = body.len() as u64 * 1_000_000_000;
        if let Some(nanos) = nanos.checked_div(self.settings.bytes_per_second) {
            let _one_at_a_time = lock(&self.turn);
            crate::clock::wait(Duration::from_nanos(nanos));
        }
        let mut hung = lock(&self.hung);
        while *hung {
            hung = self.resumed.wait(hung).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        drop(hung);
        let mut counts = lock(&self.counts);
        counts.requests += 1;
        counts.body_bytes += body.len() as u64;
        match (&self.spool, is_gzip) {
            (Some(spool), true) => lock(spool).write_all(body)?,
            (None, true) => counts.unread_requests += 1,
            (_, false) => counts.scan(body),
        }
        Ok(())
    }
}

/// Locks, also after a panic of another thread.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Serves until stdin ends. The first line of stdout is the port.
pub(crate) fn serve(settings: &Settings) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let tls = settings.certificate.as_deref().map(http::server_config).transpose()?;
    let spool = settings.spool.as_ref().map(File::create).transpose()?.map(Mutex::new);
    let shared = Arc::new(SinkState {
        settings: settings.clone(),
        counts: Mutex::default(),
        spool,
        hung: Mutex::new(false),
        resumed: Condvar::new(),
        turn: Mutex::new(()),
    });
    println!("{}", listener.local_addr()?.port());
    let accepting = Arc::clone(&shared);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&accepting);
            let tls = tls.clone();
            std::thread::spawn(move || connection(stream, tls, &shared));
        }
    });
    for command in std::io::stdin().lock().lines() {
        let answer = obey(&command?, &shared)?;
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn connection(stream: TcpStream, tls: Option<Arc<rustls::ServerConfig>>, shared: &SinkState) {
    let served = match tls {
        None => http::serve(stream, shared),
        Some(config) => {
            rustls::ServerConnection::new(config).map_err(Into::into).and_then(|connection| {
                http::serve(rustls::StreamOwned::new(connection, stream), shared)
            })
        }
    };
    // A client may disconnect without the closing message of TLS.
    let left = |e: &anyhow::Error| {
        let io = e.downcast_ref::<std::io::Error>();
        io.is_some_and(|e| e.kind() == std::io::ErrorKind::UnexpectedEof)
    };
    if let Err(error) = served
        && !left(&error)
    {
        eprintln!("sink: {error:#}");
    }
}

fn obey(command: &str, shared: &SinkState) -> Result<String> {
    match command {
        "hang" | "resume" => {
            *lock(&shared.hung) = command == "hang";
            shared.resumed.notify_all();
            Ok("ok".to_owned())
        }
        "peek" => {
            let counts = lock(&shared.counts);
            Ok(format!("{} {} {}", counts.requests, counts.body_bytes, counts.events))
        }
        "report" => {
            let mut counts = lock(&shared.counts).clone();
            if let Some(path) = &shared.settings.spool {
                count::scan_gzip(path, &mut counts).context("failed to count spooled bodies")?;
            }
            Ok(serde_json::to_string(&counts)?)
        }
        other => Ok(format!("unknown command {other}")),
    }
}
