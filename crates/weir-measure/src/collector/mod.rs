//! A real HTTP event collector that counts exactly what it stored and misbehaves on command.
//!
//! Invariants: an event is counted before its request is answered with success, and at no other
//! time except where an [`Answer`] says so; it has its own thread and runtime, so it is as
//! foreign to the program under test as another machine; its parser shares nothing with weir's
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

/// What a request for data is answered with.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Stores the events and says so.
    Accept,
    /// Stores after so long.
    AcceptAfter(Duration),
    /// Reads so many bytes of the body per second, then stores.
    AcceptSlowly(u64),
    /// Stores the events, then the connection breaks: a lost acknowledgement.
    AcceptThenClose,
    /// Stores the events and answers 200 with a body that is not HEC's.
    AcceptWithGarbage,
    /// Stores nothing, answers with this status and HEC code.
    Refuse {
        /// HTTP status.
        status: u16,
        /// HEC's code in the body.
        code: u16,
        /// Value of the header `Retry-After`.
        retry_after: Option<String>,
    },
    /// As Splunk does with a bad event: stores those before the first event whose text contains
    /// this, and answers 400 with its number. Without such an event all are stored.
    RefuseContaining(String),
    /// 413 (with an HTML body) when the body as sent is larger than so many bytes.
    RefuseLargerThan(u64),
    /// Answers with bytes that are not HTTP.
    NotHttp,
    /// Reads the body, never answers.
    Hang,
    /// Never reads the body.
    HangBeforeReading,
    /// Closes without having read the body.
    CloseBeforeReading,
    /// Reads the body and closes.
    CloseAfterReading,
    /// Reads the body and resets the connection.
    Reset,
}

impl Answer {
    /// A refusal with the code that Splunk sends with this status.
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

    /// A refusal that says when to come again.
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
    /// Switched off.
    Off,
    /// A batch is acknowledged at the nth poll that asks for it (1 = the first).
    AtPoll(u64),
    /// Batches are stored and never acknowledged.
    Never,
    /// The first so many batches get an id but are lost; the others are acknowledged at once.
    FirstLost(u64),
}

/// How a collector is set up.
#[derive(Debug, Clone)]
pub struct CollectorConfig {
    /// Address to listen at.
    pub listen: SocketAddr,
    /// The token to insist on; `None` = any.
    pub token: Option<String>,
    /// Indexer acknowledgement.
    pub acks: Acks,
    /// Keeps every event whole, beside counting it.
    pub keep_records: bool,
    /// Speaks TLS.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Default for CollectorConfig {
    /// Plain HTTP on a free port of the loopback interface, token "token", counting only.
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

/// State that the server and the test share.
struct Shared {
    config: CollectorConfig,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
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
    /// Ids that wait, with the polls that asked for them.
    polls: BTreeMap<u64, u64>,
}

/// A running collector; stops when dropped.
pub struct Collector {
    shared: Arc<Shared>,
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
    /// A collector with the default set-up.
    pub fn start() -> Self {
        Self::with(CollectorConfig::default())
    }

    /// A collector with this set-up; it accepts everything until told otherwise.
    pub fn with(config: CollectorConfig) -> Self {
        let state = State {
            tally: Tally::default(),
            records: Vec::new(),
            script: Box::new(|_| Answer::Accept),
            channels: BTreeMap::new(),
            batches: 0,
        };
        Self::run(Arc::new(Shared { config, state: Mutex::new(state), changed: Condvar::new() }))
    }

    fn run(shared: Arc<Shared>) -> Self {
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

    /// `http://127.0.0.1:PORT` or `https://localhost:PORT`.
    pub fn url(&self) -> String {
        match self.shared.config.tls {
            None => format!("http://{}", self.address),
            Some(_) => format!("https://localhost:{}", self.address.port()),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening and breaks all connections. [`Self::resume`] listens again at the same
    /// port, with the same counts.
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
        let taken = State {
            tally: std::mem::take(&mut state.tally),
            records: std::mem::take(&mut state.records),
            script: std::mem::replace(&mut state.script, Box::new(|_| Answer::Accept)),
            channels: std::mem::take(&mut state.channels),
            batches: state.batches,
        };
        drop(state);
        let shared = Shared { config, state: Mutex::new(taken), changed: Condvar::new() };
        *self = Self::run(Arc::new(shared));
    }

    /// From now on every request for data is answered by this; it gets the number of the request
    /// since the start (from 0).
    pub fn answer_with(&self, script: impl FnMut(u64) -> Answer + Send + 'static) {
        self.shared.lock().script = Box::new(script);
    }

    /// From now on every request for data is answered like this.
    pub fn answer(&self, answer: Answer) {
        self.answer_with(move |_| answer.clone());
    }

    /// The counts of this moment.
    pub fn tally(&self) -> Tally {
        self.shared.lock().tally.clone()
    }

    /// Looks at the counts without copying them.
    pub fn look<T>(&self, look: impl FnOnce(&Tally) -> T) -> T {
        look(&self.shared.lock().tally)
    }

    /// See [`Tally::settle`].
    pub fn settle(&self, ends: &BTreeMap<String, u64>) {
        self.shared.lock().tally.settle(ends);
    }

    /// Every event so far, with `keep_records`.
    pub fn records(&self) -> Vec<Record> {
        self.shared.lock().records.clone()
    }

    /// Waits until the counts satisfy `done`. Says false when that did not happen in time.
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }
}

#[cfg(test)]
mod tests;
