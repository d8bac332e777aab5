//! A server of syslog for drains: thousands of TLS connections on one thread, each message counted
//! and timed.
//!
//! Invariant: while the server is dead, every connection is closed, and so is every new one.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::load::now_ns;
use crate::sink::lock;

/// Size of the read buffer of a connection.
const BUFFER_BYTES: usize = 4096;

/// The server.
#[derive(Debug, Default)]
pub(super) struct SyslogSink {
    /// Messages that have arrived.
    pub(super) messages: AtomicU64,
    /// Connections that are open.
    pub(super) connections: AtomicU64,
    is_dead: AtomicBool,
    dies: Notify,
    ages_ns: Mutex<Vec<u64>>,
}

impl SyslogSink {
    /// Starts it. Returns its port.
    pub(super) fn start(tls: Arc<ServerConfig>) -> Result<(Arc<Self>, u16)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        listener.set_nonblocking(true)?;
        let sink = Arc::new(Self::default());
        let here = sink.clone();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn(move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let acceptor = TlsAcceptor::from(tls);
                loop {
                    let (stream, _) = listener.accept().await?;
                    let (acceptor, sink) = (acceptor.clone(), here.clone());
                    tokio::spawn(async move {
                        if sink.is_dead.load(Ordering::Relaxed) {
                            return;
                        }
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        sink.connections.fetch_add(1, Ordering::Relaxed);
                        tokio::select! {
                            () = sink.read(stream) => {}
                            () = sink.dies.notified() => {}
                        }
                        sink.connections.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                #[expect(unreachable_code, reason = "states the type of errors")]
                anyhow::Ok(())
            })
        });
        Ok((sink, port))
    }

    /// Closes all connections, and every new one until [`SyslogSink::revive`].
    pub(super) fn kill(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
        self.dies.notify_waiters();
    }

    /// Accepts connections again.
    pub(super) fn revive(&self) {
        self.is_dead.store(false, Ordering::Relaxed);
    }

    /// Returns the times from writing a message to its arrival since the last call, sorted, in
    /// nanoseconds.
    pub(super) fn take_ages_ns(&self) -> Vec<u64> {
        let mut ages = std::mem::take(&mut *lock(&self.ages_ns));
        ages.sort_unstable();
        ages
    }

    /// Reads messages, each with a length prefix.
    async fn read(&self, mut stream: impl AsyncRead + Unpin) {
        let mut bytes = Vec::with_capacity(BUFFER_BYTES);
        loop {
            match stream.read_buf(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let mut rest = &bytes[..];
            while let Some((message, after)) = split(rest) {
                self.note(message);
                rest = after;
            }
            let taken = bytes.len() - rest.len();
            bytes.drain(..taken);
        }
    }

    /// The text of each message begins with the time at which it was written.
    fn note(&self, message: &[u8]) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        let marker = memchr::memmem::find(message, b" t=").map(|at| at + 3);
        let digits = marker.and_then(|at| message.get(at..at + 19));
        let time = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
        if let Some(time) = time {
            lock(&self.ages_ns).push(now_ns().saturating_sub(time));
        }
    }
}

/// Splits off a message.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', bytes)?;
    let length: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
    bytes[space + 1..].split_at_checked(length)
}
