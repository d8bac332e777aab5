//! The client side of a sink, used by scenarios: starts the process and sends commands.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};

use super::{Counts, Settings};

/// A running sink; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Sink {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    port: u16,
    is_tls: bool,
}

impl Sink {
    /// Starts a sink.
    pub(crate) fn start(settings: &Settings) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("sink");
        if let Some(path) = &settings.certificate {
            command.arg("--certificate").arg(path);
        }
        if let Some(path) = &settings.spool {
            command.arg("--spool").arg(path);
        }
        command.arg(format!("--bytes-per-second={}", settings.bytes_per_second));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("sink has no stdout")?);
        let is_tls = settings.certificate.is_some();
        let mut sink = Self { child, stdin, stdout, port: 0, is_tls };
        sink.port = sink.line()?.parse().context("sink printed no port")?;
        Ok(sink)
    }

    /// Returns the URL it listens on.
    pub(crate) fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.is_tls { "https" } else { "http" }, self.port)
    }

    /// Returns the address for a socket.
    pub(crate) fn address(&self) -> (&'static str, u16) {
        ("127.0.0.1", self.port)
    }

    /// Stops or resumes responding.
    pub(crate) fn hang(&mut self, hung: bool) -> Result<()> {
        self.ask(if hung { "hang" } else { "resume" }).map(drop)
    }

    /// Returns requests, body bytes and events so far (events of compressed bodies are not counted
    /// yet).
    pub(crate) fn peek(&mut self) -> Result<[u64; 3]> {
        let answer = self.ask("peek")?;
        let mut numbers = answer.split(' ').map(str::parse);
        let mut next = || numbers.next().context("short answer")?.context("no number");
        Ok([next()?, next()?, next()?])
    }

    /// Returns all counts.
    pub(crate) fn report(&mut self) -> Result<Counts> {
        Ok(serde_json::from_str(&self.ask("report")?)?)
    }

    fn ask(&mut self, command: &str) -> Result<String> {
        writeln!(self.stdin.as_mut().context("sink has no stdin")?, "{command}")?;
        self.line()
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // A hung sink does not notice the end of stdin.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
