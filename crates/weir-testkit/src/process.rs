//! The real binary under test: operations succeed, or the test fails with weir's log.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use weir_measure::{Books, PATIENCE, Process, wait_for};

/// A weir process; killed when dropped.
#[derive(Debug)]
pub struct Weir(Process);

impl Deref for Weir {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.0
    }
}

impl DerefMut for Weir {
    fn deref_mut(&mut self) -> &mut Process {
        &mut self.0
    }
}

/// Returns the binary under test: `WEIR_BIN`, or the one in the target directory of this test.
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

impl Weir {
    /// [Starts](Process::launch) weir and waits until it serves its ledger.
    pub fn start(dir: &Path, config: &str) -> Self {
        let mut weir = Self::spawn(dir, config, &[]);
        weir.wait_ready();
        weir
    }

    /// [Starts](Process::launch) a weir whose API requires a token, and waits until it serves its
    /// ledger.
    pub fn start_with_token(dir: &Path, config: &str, token: &str) -> Self {
        let mut weir = Self::spawn(dir, config, &[]);
        weir.set_token(token);
        weir.wait_ready();
        weir
    }

    /// [Starts](Process::launch) a weir whose API has this certificate, and waits until it serves
    /// its ledger.
    pub fn start_with_tls(dir: &Path, config: &str, certificate: &Path) -> Self {
        let mut weir = Self::spawn(dir, config, &[]);
        weir.set_certificate(certificate).expect("the certificate can be read");
        weir.wait_ready();
        weir
    }

    /// [Starts](Process::launch) weir without waiting.
    pub fn spawn(dir: &Path, config: &str, wrapper: &[&str]) -> Self {
        Self(Process::launch(&binary(), dir, config, wrapper).expect("weir can be started"))
    }

    /// See [`Process::reload`].
    pub fn reload(&self, config: &str) {
        self.0.reload(config).expect("the configuration can be written");
    }

    /// See [`Process::try_ready`].
    pub fn wait_ready(&mut self) {
        let ready = self.try_ready(PATIENCE);
        assert!(ready, "weir did not become ready; log:\n{}", self.log());
    }

    fn get_json(&self, path: &str) -> Value {
        let (status, body) = self.get(path).unwrap_or_else(|error| {
            panic!("GET {path}: {error}; weir's log:\n{}", self.log());
        });
        serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path} ({status}): {e}: {body}"))
    }

    /// Returns the current ledger.
    pub fn books(&self) -> Books {
        Books::new(self.get_json("/weir/v1/ledger"))
    }

    /// Returns the report of `/health`.
    pub fn health(&self) -> Value {
        self.get_json("/health")
    }

    /// Returns the page `/metrics`.
    pub fn metrics(&self) -> String {
        self.get("/metrics").map(|(_, body)| body).unwrap_or_default()
    }

    /// Returns the address that a source listens on.
    pub fn source_address(&self, name: &str) -> SocketAddr {
        let status = self.get_json("/weir/v1/status");
        let sources = status["sources"].as_array().map_or(&[][..], Vec::as_slice);
        let source = sources.iter().find(|source| source["book"]["name"] == name);
        let address = source.and_then(|source| source["address"].as_str()?.parse().ok());
        address.unwrap_or_else(|| panic!("the source {name} does not listen: {status}"))
    }

    /// Waits until the ledger satisfies `done`; panics with ledger and log if that took too long.
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

    /// Waits until weir's log contains this text.
    pub fn wait_log(&self, text: &str) -> String {
        let found = wait_for(PATIENCE, || Some(self.log()).filter(|log| log.contains(text)));
        found.unwrap_or_else(|| panic!("the log never contained {text:?}:\n{}", self.log()))
    }

    /// Sends SIGTERM; panics if weir does not end successfully and in time.
    pub fn stop(&mut self) {
        let asked = self.signal(Signal::TERM);
        let status = self.wait_end(PATIENCE);
        let well = asked && status.is_some_and(|status| status.success());
        assert!(well, "weir failed at shutdown ({status:?}); log:\n{}", self.log());
    }

    /// Returns the signal that ended it, if one did.
    pub fn ending_signal(status: ExitStatus) -> Option<i32> {
        status.signal()
    }
}
