//! The real binary as a process: started, watched, killed, started again.
//!
//! Invariants: everything that a process leaves behind (data, log) is in the directory that the
//! test gave it; ports are chosen by the operating system; a process never outlives its handle.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::books::Books;

/// How long anything that should take no time may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Pause between two looks at something that tells by itself nothing.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A weir process; killed when dropped.
#[derive(Debug)]
pub struct Weir {
    child: Child,
    dir: PathBuf,
    /// Where this process's words begin in the log file.
    log_start: u64,
    api: Option<SocketAddr>,
}

/// The binary under test: `WEIR_BIN`, or the one in the target directory that this test is in.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("WEIR_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a process knows its path");
    let profile = test.parent().and_then(Path::parent).expect("tests are in PROFILE/deps");
    let beside = profile.join("weir");
    let checked = profile.with_file_name("checked").join("weir");
    let found = [beside, checked].into_iter().find(|path| path.is_file());
    found.expect("set WEIR_BIN, or `cargo build --profile checked --package weir` first")
}

/// Looks again and again until `look` finds something; `None` when that took too long.
pub fn wait_for<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if start.elapsed() > deadline {
            return None;
        }
        // Nobody unparks: this is the interval between two looks.
        std::thread::park_timeout(LOOK_INTERVAL);
    }
}

/// The configuration with what every test has in common. Keys before the first table stay there.
fn whole(dir: &Path, config: &str) -> String {
    let first = if config.starts_with('[') { Some(0) } else { config.find("\n[").map(|at| at + 1) };
    let tables = first.unwrap_or(0);
    let (top, tables) = config.split_at(tables);
    let data = dir.join("data");
    let has_store = config.lines().any(|line| line == "[store]");
    let store = if has_store { "" } else { "[store]\nenabled = false\n" };
    format!(
        "data_dir = \"{}\"\n{top}[api]\nlisten = \"127.0.0.1:0\"\n[log]\nformat = \"json\"\n{store}{tables}",
        data.display()
    )
}

impl Weir {
    /// Starts weir with this configuration (without `data_dir` and `[api]`, which are added, and
    /// without the store, unless it has a table `[store]`) and
    /// waits until it serves its books. Data and log are in `dir` and stay there.
    pub fn start(dir: &Path, config: &str) -> Self {
        let mut weir = Self::spawn(dir, config, &[]);
        weir.wait_ready();
        weir
    }

    /// Starts weir and waits for nothing. `wrapper` is a program and its arguments that become
    /// weir (`strace -D ...`, `prlimit ...`).
    pub fn spawn(dir: &Path, config: &str, wrapper: &[&str]) -> Self {
        let file = dir.join("weir.toml");
        std::fs::write(&file, whole(dir, config)).expect("the configuration can be written");
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.join("weir.log"))
            .expect("the log can be opened");
        let log_start = log.metadata().map_or(0, |meta| meta.len());
        let binary = binary();
        let mut command = match wrapper {
            [] => Command::new(binary),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(binary);
                command
            }
        };
        let child = command
            .args(["run", "-c"])
            .arg(&file)
            .env("HEC_TOKEN", "token")
            .stdin(Stdio::null())
            .stdout(File::create(dir.join("stdout")).expect("a file can be created"))
            .stderr(log)
            .spawn()
            .expect("weir can be started");
        Self { child, dir: dir.to_owned(), log_start, api: None }
    }

    /// Exchanges the configuration and asks weir to read it again; see [`Self::start`].
    pub fn reload(&self, config: &str) {
        let (file, temporary) = (self.dir.join("weir.toml"), self.dir.join("weir.toml.new"));
        std::fs::write(&temporary, whole(&self.dir, config)).expect("a file can be written");
        std::fs::rename(temporary, file).expect("a file can be renamed");
        self.signal(Signal::HUP);
    }

    /// Waits until it serves its books and they have all of what an earlier run left: the journal is
    /// recovered, outputs run, sources have opened what they read. (It may be unhealthy all the same,
    /// when an output fails.)
    pub fn wait_ready(&mut self) {
        let ready = self.try_ready(PATIENCE);
        assert!(ready, "weir did not become ready; its log:\n{}", self.log());
    }

    /// As [`Self::wait_ready`]; false when it ended instead, or took too long.
    #[must_use]
    pub fn try_ready(&mut self, deadline: Duration) -> bool {
        let ready = wait_for(deadline, || {
            if self.has_ended() {
                return Some(false);
            }
            self.find_api()?;
            let books = self.get("/weir/v1/ledger").ok().filter(|(status, _)| *status == 200)?;
            let books: Value = serde_json::from_str(&books.1).ok()?;
            (books["opening"] == false).then_some(true)
        });
        ready == Some(true)
    }

    /// True once the API answers, ready or not.
    pub fn try_api(&mut self) -> bool {
        self.find_api().is_some() && self.get("/health").is_ok()
    }

    /// Where its API listens; `None` until that is known.
    pub fn api(&self) -> Option<SocketAddr> {
        self.api
    }

    /// Takes the address of the API from weir's log.
    fn find_api(&mut self) -> Option<SocketAddr> {
        if self.api.is_none() {
            let log = self.log();
            let line =
                log.lines().find(|line| line.contains("api") && line.contains("127.0.0.1:"))?;
            let after = &line[line.find("127.0.0.1:")? + "127.0.0.1:".len()..];
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let port = after[..digits].parse().ok().filter(|port| *port != 0)?;
            self.api = Some(SocketAddr::from(([127, 0, 0, 1], port)));
        }
        self.api
    }

    /// Status and body of a GET.
    pub fn get(&self, path: &str) -> io::Result<(u16, String)> {
        let api = self.api.ok_or(io::ErrorKind::NotConnected)?;
        let mut stream = TcpStream::connect_timeout(&api, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { unchunked(body) } else { body.to_owned() };
        Ok((status.ok_or(io::ErrorKind::InvalidData)?, body))
    }

    fn get_json(&self, path: &str) -> Value {
        let (status, body) = self.get(path).unwrap_or_else(|error| {
            panic!("GET {path}: {error}; weir's log:\n{}", self.log());
        });
        serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path} ({status}): {e}: {body}"))
    }

    /// The books of this moment.
    pub fn books(&self) -> Books {
        Books::new(self.get_json("/weir/v1/ledger"))
    }

    /// The report of `/health`.
    pub fn health(&self) -> Value {
        self.get_json("/health")
    }

    /// The page `/metrics`.
    pub fn metrics(&self) -> String {
        self.get("/metrics").map(|(_, body)| body).unwrap_or_default()
    }

    /// Where a source listens.
    pub fn source_address(&self, name: &str) -> SocketAddr {
        let status = self.get_json("/weir/v1/status");
        let sources = status["sources"].as_array().map_or(&[][..], Vec::as_slice);
        let source = sources.iter().find(|source| source["book"]["name"] == name);
        let address = source.and_then(|source| source["address"].as_str()?.parse().ok());
        address.unwrap_or_else(|| panic!("the source {name} does not listen: {status}"))
    }

    /// Waits until the books satisfy `done`; panics with books and log when that took too long.
    pub fn wait_books(
        &self,
        what: &str,
        deadline: Duration,
        done: impl Fn(&Books) -> bool,
    ) -> Books {
        let found = wait_for(deadline, || Some(self.books()).filter(&done));
        found.unwrap_or_else(|| {
            panic!("waited until {what}; books:\n{}\nlog:\n{}", self.books(), self.log())
        })
    }

    /// Waits until weir's log says this.
    pub fn wait_log(&self, text: &str) -> String {
        let found = wait_for(PATIENCE, || Some(self.log()).filter(|log| log.contains(text)));
        found.unwrap_or_else(|| panic!("the log never said {text:?}:\n{}", self.log()))
    }

    /// What this process has said so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.dir.join("weir.log")).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(self.log_start as usize..).unwrap_or_default())
            .into_owned()
    }

    /// True once the process ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the process to end by itself.
    pub fn wait_end(&mut self, deadline: Duration) -> Option<ExitStatus> {
        wait_for(deadline, || self.child.try_wait().ok().flatten())
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended already, which is fine.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }

    /// SIGTERM; panics when it does not end well and in time.
    pub fn stop(&mut self) {
        let asked = self.signal(Signal::TERM);
        let status = self.wait_end(PATIENCE);
        let well = asked && status.is_some_and(|status| status.success());
        assert!(well, "weir did not end well ({status:?}); its log:\n{}", self.log());
    }

    /// Sends a signal; false when the process is gone.
    pub fn signal(&self, signal: Signal) -> bool {
        kill_process(self.pid(), signal).is_ok()
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The signal that ended it, when one did.
    pub fn ending_signal(status: ExitStatus) -> Option<i32> {
        status.signal()
    }

    /// Largest resident memory so far, bytes.
    pub fn memory_max_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok());
        kib.map_or(0, |kib: u64| kib * 1024)
    }

    /// Where its standard output goes.
    pub fn stdout(&self) -> PathBuf {
        self.dir.join("stdout")
    }

    /// Its data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The body of a chunked answer.
fn unchunked(body: &str) -> String {
    let mut whole = String::new();
    let mut rest = body;
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some(chunk) = tail.get(..size).filter(|chunk| !chunk.is_empty()) else { break };
        whole.push_str(chunk);
        rest = tail.get(size + 2..).unwrap_or_default();
    }
    whole
}
