//! Weir as a separate process: started, queried, killed, started again.
//!
//! Invariants: everything that a process leaves behind (data, log) is in the directory that it was
//! given; ports are chosen by the operating system; a process never outlives its handle.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weir_host::{BlockingTls, ConnectError, ServerTrust};

use crate::books::Books;

/// Maximum time of anything that should take no time, on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Pause between two checks of something that does not notify.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A weir process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    dir: PathBuf,
    /// Where the output of this process begins in the log file.
    log_start: u64,
    api: Option<SocketAddr>,
    /// Token for its API.
    token: Option<String>,
    /// The certificate of its API.
    tls: Option<BlockingTls>,
}

/// Checks repeatedly until `look` finds something; `None` if that took too long.
pub fn wait_for<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if start.elapsed() > deadline {
            return None;
        }
        // Nothing unparks the thread: this is the interval between two checks.
        std::thread::park_timeout(LOOK_INTERVAL);
    }
}

/// Returns the configuration with the settings shared by all tests. Keys before the first table
/// stay there.
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

impl Process {
    /// Starts the binary with `weir run` and this configuration (without `data_dir` and `[api]`,
    /// which are added, and without the store, unless it has a table `[store]`), and does not wait.
    /// Data and log are in `dir` and stay there. `wrapper` is a program with arguments that runs
    /// weir (`strace -D ...`, `prlimit ...`).
    pub fn launch(binary: &Path, dir: &Path, config: &str, wrapper: &[&str]) -> io::Result<Self> {
        let file = dir.join("weir.toml");
        std::fs::write(&file, whole(dir, config))?;
        let log = OpenOptions::new().create(true).append(true).open(dir.join("weir.log"))?;
        let log_start = log.metadata().map_or(0, |meta| meta.len());
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
            .stdout(File::create(dir.join("stdout"))?)
            .stderr(log)
            .spawn()?;
        Ok(Self { child, dir: dir.to_owned(), log_start, api: None, token: None, tls: None })
    }

    /// Replaces the configuration and asks weir to reload it; see [`Self::launch`].
    pub fn reload(&self, config: &str) -> io::Result<()> {
        let (file, temporary) = (self.dir.join("weir.toml"), self.dir.join("weir.toml.new"));
        std::fs::write(&temporary, whole(&self.dir, config))?;
        std::fs::rename(temporary, file)?;
        self.signal(Signal::HUP);
        Ok(())
    }

    /// Waits until it serves its ledger and this includes everything that an earlier run left: the
    /// journal is recovered, outputs are running, sources have opened their files. (It may still be
    /// unhealthy, if an output fails.) Returns false if it ended instead, or took too long.
    #[must_use]
    pub fn try_ready(&mut self, deadline: Duration) -> bool {
        let ready = wait_for(deadline, || {
            if self.has_ended() {
                return Some(false);
            }
            self.find_api()?;
            (self.ledger()?.json()["opening"] == false).then_some(true)
        });
        ready == Some(true)
    }

    /// Returns true once the API responds, ready or not.
    pub fn try_api(&mut self) -> bool {
        self.find_api().is_some() && self.get("/health").is_ok()
    }

    /// Sends this token with requests from now on.
    pub fn set_token(&mut self, token: &str) {
        self.token = Some(token.to_owned());
    }

    /// Uses TLS for requests from now on; the API has this certificate.
    pub fn set_certificate(&mut self, certificate: &Path) -> Result<(), ConnectError> {
        let trust = ServerTrust::Certificate(certificate.to_owned());
        self.tls = Some(BlockingTls::new(&trust, "localhost")?);
        Ok(())
    }

    /// Returns the address of its API; `None` until it is known.
    pub fn api(&self) -> Option<SocketAddr> {
        self.api
    }

    /// Reads the address of the API from weir's log.
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

    /// Returns status and body of a GET request.
    pub fn get(&self, path: &str) -> io::Result<(u16, String)> {
        let api = self.api.ok_or(io::ErrorKind::NotConnected)?;
        let stream = TcpStream::connect_timeout(&api, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        match &self.tls {
            None => self.ask(stream, path),
            Some(tls) => self.ask(tls.connect(stream).map_err(io::Error::other)?, path),
        }
    }

    fn ask(&self, mut stream: impl Read + Write, path: &str) -> io::Result<(u16, String)> {
        let token = self.token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n"));
        let headers = format!("connection: close\r\n{}", token.unwrap_or_default());
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")?;
        stream.flush()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if chunked { unchunked(body) } else { body.to_owned() };
        Ok((status.ok_or(io::ErrorKind::InvalidData)?, body))
    }

    /// Returns the current ledger; `None` if it is not served.
    pub fn ledger(&self) -> Option<Books> {
        let (_, body) = self.get("/weir/v1/ledger").ok().filter(|(status, _)| *status == 200)?;
        Books::read(serde_json::from_str(&body).ok()?)
    }

    /// Returns the log output of this process so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.dir.join("weir.log")).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(self.log_start as usize..).unwrap_or_default())
            .into_owned()
    }

    /// Waits until the process handles SIGTERM, or has ended. Between its creation and its first
    /// instructions, the signal would end it as any other program.
    pub fn wait_signal_handlers(&mut self) {
        let status = format!("/proc/{}/status", self.child.id());
        let term = 1_u64 << (Signal::TERM.as_raw() - 1);
        wait_for(PATIENCE, || {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            (caught.unwrap_or(0) & term != 0 || self.has_ended()).then_some(())
        });
    }

    /// Returns true once the process has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the process to end by itself.
    pub fn wait_end(&mut self, deadline: Duration) -> Option<ExitStatus> {
        wait_for(deadline, || self.child.try_wait().ok().flatten())
    }

    /// Sends SIGKILL, and waits until the process is gone.
    pub fn kill(&mut self) {
        // It may have already ended, which is fine.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }

    /// Sends a signal; returns false if the process is gone.
    pub fn signal(&self, signal: Signal) -> bool {
        kill_process(self.pid(), signal).is_ok()
    }

    /// Returns its process ID.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns the largest resident memory so far, bytes.
    pub fn memory_max_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok());
        kib.map_or(0, |kib: u64| kib * 1024)
    }

    /// Returns the file of its standard output.
    pub fn stdout(&self) -> PathBuf {
        self.dir.join("stdout")
    }

    /// Returns its data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Decodes the body of a chunked response.
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
