//! A real HTTP event collector that counts exactly what it stored and misbehaves on command.
//!
//! Invariants: an event is counted before its request is answered with success, and at no other
//! time except where an [`Answer`] says so; it has its own thread and runtime, so it is as
//! independent of the program under test as another machine; its parser shares nothing with weir's
//! encoder.

mod hec;
mod server;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use tokio::sync::oneshot;

pub use hec::Record;
pub use tally::{StreamTally, Tally};

/// How a data request is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Stores the events and reports success.
    Accept,
    /// Stores the events after a delay.
    AcceptAfter(Duration),
    /// Reads this many bytes of the body per second, then stores the events.
    AcceptSlowly(u64),
    /// Stores the events, then closes the connection: a lost acknowledgement.
    AcceptThenClose,
    /// Stores the events and answers 200 with a body that is not HEC's.
    AcceptWithGarbage,
    /// Stores nothing, and answers with this status and HEC code.
    Refuse {
        /// HTTP status.
        status: u16,
        /// HEC's code in the body.
        code: u16,
        /// Value of the header `Retry-After`.
        retry_after: Option<String>,
    },
    /// Like Splunk with a bad event: stores the events before the first one whose text contains
    /// this, and answers 400 with its number. If there is no such event, all are stored.
    RefuseContaining(String),
    /// Answers 413 (with an HTML body) if the body as sent is larger than this many bytes.
    RefuseLargerThan(u64),
    /// Answers with bytes that are not HTTP.
    NotHttp,
    /// Reads the body, but never answers.
    Hang,
    /// Never reads the body.
    HangBeforeReading,
    /// Closes the connection without having read the body.
    CloseBeforeReading,
    /// Reads the body and closes the connection.
    CloseAfterReading,
    /// Reads the body and resets the connection.
    Reset,
}

impl Answer {
    /// Returns a refusal with the code that Splunk sends with this status.
    pub fn status(status: u16) -> Self {
        let code = match status {
            401 => 2,
            403 => 4,
            429 => 26,
            500 => 8,
            503 => 9,
            _ => 6,
        };
        Self::Refuse { status, code, retry_after: None }
    }

    /// Returns a refusal with a `Retry-After` header.
    pub fn status_retry_after(status: u16, retry_after: &str) -> Self {
        match Self::status(status) {
            Self::Refuse { status, code, .. } => {
                Self::Refuse { status, code, retry_after: Some(retry_after.to_owned()) }
            }
            other => other,
        }
    }
}

/// How indexer acknowledgement works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// Disabled.
    Off,
    /// A batch is acknowledged at the nth poll for it (1 = the first).
    AtPoll(u64),
    /// Batches are stored but never acknowledged.
    Never,
    /// The first batches, this many, get an ID but are lost; the others are acknowledged at once.
    FirstLost(u64),
}

/// Settings of a collector.
#[derive(Debug, Clone)]
pub struct CollectorConfig {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// The required token; `None` = any.
    pub token: Option<String>,
    /// Indexer acknowledgement.
    pub acks: Acks,
    /// Keep every event, in addition to counting it.
    pub keep_records: bool,
    /// Use TLS.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Default for CollectorConfig {
    /// Plain HTTP on a free loopback port, token "token", counting only.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            token: Some("token".to_owned()),
            acks: Acks::Off,
            keep_records: false,
            tls: None,
        }
    }
}

type Script = Box<dyn FnMut(u64) -> Answer + Send>;

/// The state shared by the server and the test.
struct CollectorState {
    config: CollectorConfig,
    state: Mutex<Received>,
    changed: Condvar,
}

struct Received {
    tally: Tally,
    records: Vec<Record>,
    script: Script,
    channels: BTreeMap<String, Channel>,
    batches: u64,
}

/// Acknowledgements of one channel.
#[derive(Debug, Default)]
struct Channel {
    next_id: u64,
    lost: BTreeSet<u64>,
    /// Waiting IDs, with the number of polls for each.
    polls: BTreeMap<u64, u64>,
}

/// A running collector; stops when dropped.
pub struct Collector {
    shared: Arc<CollectorState>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Collector {
    /// Starts a collector with the default settings.
    pub fn start() -> Self {
        Self::with(CollectorConfig::default())
    }

    /// Starts a collector with these settings; it accepts everything until told otherwise.
    pub fn with(config: CollectorConfig) -> Self {
        let state = Received {
            tally: Tally::default(),
            records: Vec::new(),
            script: Box::new(|_| Answer::Accept),
            channels: BTreeMap::new(),
            batches: 0,
        };
        Self::run(Arc::new(CollectorState {
            config,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }))
    }

    fn run(shared: Arc<CollectorState>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let listener = std::net::TcpListener::bind(shared.config.listen).expect("the port is free");
        listener.set_nonblocking(true).expect("a socket can be made non-blocking");
        let address = listener.local_addr().expect("a bound socket has an address");
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("collector".to_owned())
            .spawn(move || server::run(listener, for_thread, stopped))
            .expect("a thread can be started");
        Self { shared, address, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns `http://127.0.0.1:PORT` or `https://localhost:PORT`.
    pub fn url(&self) -> String {
        match self.shared.config.tls {
            None => format!("http://{}", self.address),
            Some(_) => format!("https://localhost:{}", self.address.port()),
        }
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening and drops all connections. [`Self::resume`] listens again on the same port,
    /// with the same counts.
    pub fn pause(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the collector's thread ends well");
        }
    }

    /// Listens again after [`Self::pause`].
    pub fn resume(&mut self) {
        let mut config = self.shared.config.clone();
        config.listen = self.address;
        let mut state = self.shared.lock();
        let taken = Received {
            tally: std::mem::take(&mut state.tally),
            records: std::mem::take(&mut state.records),
            script: std::mem::replace(&mut state.script, Box::new(|_| Answer::Accept)),
            channels: std::mem::take(&mut state.channels),
            batches: state.batches,
        };
        drop(state);
        let shared = CollectorState { config, state: Mutex::new(taken), changed: Condvar::new() };
        *self = Self::run(Arc::new(shared));
    }

    /// Answers every data request from now on by this script; it gets the number of the request
    /// since the start (from 0).
    pub fn answer_with(&self, script: impl FnMut(u64) -> Answer + Send + 'static) {
        self.shared.lock().script = Box::new(script);
    }

    /// Answers every data request from now on like this.
    pub fn answer(&self, answer: Answer) {
        self.answer_with(move |_| answer.clone());
    }

    /// Returns the current counts.
    pub fn tally(&self) -> Tally {
        self.shared.lock().tally.clone()
    }

    /// Reads the counts without copying them.
    pub fn look<T>(&self, look: impl FnOnce(&Tally) -> T) -> T {
        look(&self.shared.lock().tally)
    }

    /// See [`Tally::settle`].
    pub fn settle(&self, ends: &BTreeMap<String, u64>) {
        self.shared.lock().tally.settle(ends);
    }

    /// Returns every event so far, with `keep_records`.
    pub fn records(&self) -> Vec<Record> {
        self.shared.lock().records.clone()
    }

    /// Waits until the counts satisfy `done`. Returns false if that did not happen in time.
    #[must_use]
    pub fn wait(&self, deadline: Duration, mut done: impl FnMut(&Tally) -> bool) -> bool {
        let start = Instant::now();
        let mut state = self.shared.lock();
        while !done(&state.tally) {
            let Some(left) = deadline.checked_sub(start.elapsed()) else { return false };
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; a second one here would abort.
            let _panicked = thread.join();
        }
    }
}

impl CollectorState {
    fn lock(&self) -> MutexGuard<'_, Received> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Received) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }
}

#[cfg(test)]
mod tests;
