//! Runs the real binary in a directory of its own.

#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything takes on a machine that runs other tests at the same time.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The binary, without environment variables that would change its behavior.
pub(crate) fn weir(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    for variable in
        ["NO_COLOR", "CLICOLOR_FORCE", "WEIR_LOG", "WEIR_CONFIG", "WEIR_API", "RUST_BACKTRACE"]
    {
        command.env_remove(variable);
    }
    command.current_dir(dir).stdin(Stdio::null());
    command
}

/// Runs it and waits for its end.
pub(crate) fn run(dir: &Path, arguments: &[&str]) -> Output {
    weir(dir).args(arguments).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Writes a file in the directory.
pub(crate) fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Polls until `look` returns a value; panics on timeout.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "timed out waiting: {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// A running weir; killed when dropped.
pub(crate) struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
    pub(crate) api: SocketAddr,
    /// Its output so far.
    pub(crate) said: String,
}

impl Running {
    /// Starts it and waits until it runs.
    pub(crate) fn start(dir: &Path, config: &Path) -> Self {
        let mut child = weir(dir)
            .args(["run", "-c"])
            .arg(config)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let api = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut running = Self { child, log, api, said: String::new() };
        let line = running.wait_line("api listens");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        running.api = line["address"].as_str().unwrap().parse().unwrap();
        running.wait_line("weir runs");
        running
    }

    /// Waits until the output contains a text.
    pub(crate) fn wait_line(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.log.read_line(&mut line).unwrap();
            self.said.push_str(&line);
            assert!(read > 0, "it ended without saying {text:?}:\n{}", self.said);
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.api).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub(crate) fn json(&self, path: &str) -> serde_json::Value {
        serde_json::from_str(&self.get(path).1).unwrap()
    }

    /// Waits until an output has delivered this many records.
    pub(crate) fn wait_delivered(&self, output: &str, count: u64) {
        wait_for(&format!("{output} delivers {count}"), || {
            let ledger = self.json("/weir/v1/ledger");
            let cursors = ledger["cursors"].as_array()?.clone();
            let cursor = cursors.iter().find(|cursor| cursor["name"] == output)?;
            (cursor["book"]["delivered"] == count).then_some(())
        });
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        self.said.push_str(&rest);
        (self.child.wait().unwrap(), std::mem::take(&mut self.said))
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn stop(self) -> (ExitStatus, String) {
        self.signal(rustix::process::Signal::TERM);
        self.end()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited already.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
