//! The process under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::clock;
use crate::http;
use crate::process::{Process, Program};

/// A running weir; it is stopped when this is dropped.
#[derive(Debug)]
pub(crate) struct Weir {
    program: Program,
    port: u16,
    dir: PathBuf,
    log: PathBuf,
}

impl Weir {
    /// Starts weir with this configuration (without `data_dir` and `[api]`, which are added), in a
    /// fresh data directory inside `dir`.
    pub(crate) fn start(dir: &Path, config: &str) -> Result<Self> {
        let binary = std::env::var_os("WEIR_BIN").context("WEIR_BIN is not set")?;
        let port = http::free_port()?;
        let file = write_config(dir, port, config)?;
        let log = dir.join("weir.log");
        let mut command = Command::new(binary);
        command.arg("run").arg("-c").arg(&file);
        command.env("HEC_TOKEN", "00000000-0000-0000-0000-000000000000");
        let program = Program::start(&mut command, &log)?;
        let weir = Self { program, port, dir: dir.to_owned(), log };
        weir.wait_for("the ledger is served", Duration::from_secs(20), || {
            Ok(weir.ledger().is_ok())
        })?;
        Ok(weir)
    }

    /// Replaces the configuration of the running weir, and waits until it is in force.
    pub(crate) fn reload(&self, config: &str) -> Result<()> {
        let applied = || self.metric("weir_config_reloads_total{result=\"applied\"}");
        let before = applied()?;
        write_config(&self.dir, self.port, config)?;
        self.process().hang_up()?;
        self.wait_asking_every(
            Duration::from_millis(5),
            "the configuration is in force",
            Duration::from_mins(1),
            || Ok(applied()? > before),
        )
    }

    /// Returns its process.
    pub(crate) fn process(&self) -> Process {
        self.program.process()
    }

    /// Returns the current ledger.
    pub(crate) fn ledger(&self) -> Result<Value> {
        serde_json::from_str(&self.get("/weir/v1/ledger")?).context("the ledger is not JSON")
    }

    /// Returns the records that an output has settled: (delivered, discarded, in flight).
    pub(crate) fn cursor(&self, output: &str) -> Result<[u64; 3]> {
        let ledger = self.ledger()?;
        let cursors = ledger["cursors"].as_array().context("no cursors in the ledger")?;
        let cursor = cursors.iter().find(|c| c["name"] == output).context("no such output")?;
        let discarded = cursor["book"]["discarded"].as_object();
        let discarded = discarded.map_or(0, |d| d.values().filter_map(Value::as_u64).sum());
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        Ok([number(&cursor["book"]["delivered"]), discarded, number(&cursor["in_flight"])])
    }

    /// Waits until an output has delivered this many records; checks rarely, because checks have a
    /// cost.
    pub(crate) fn wait_delivered(&self, output: &str, count: u64, limit: Duration) -> Result<()> {
        self.wait_for("everything is delivered", limit, || Ok(self.cursor(output)?[0] >= count))
    }

    /// Waits for a condition, checking it every 50 ms.
    pub(crate) fn wait_for(
        &self,
        what: &str,
        limit: Duration,
        is_so: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        self.wait_asking_every(Duration::from_millis(50), what, limit, is_so)
    }

    /// Waits for a condition, checking it after each pause: the cost of a check counts as weir's.
    pub(crate) fn wait_asking_every(
        &self,
        pause: Duration,
        what: &str,
        limit: Duration,
        is_so: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        if !clock::wait_for(pause, limit, is_so)? {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let end: Vec<&str> = log.lines().rev().take(15).collect();
            bail!("waited {limit:?} until {what}; end of weir's log:\n{}", end.join("\n"));
        }
        Ok(())
    }

    /// Returns the sum of a metric over all its labels.
    pub(crate) fn metric(&self, name: &str) -> Result<f64> {
        let metrics = self.get("/metrics")?;
        let is_it =
            |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
        Ok(metrics.lines().filter(is_it).filter_map(value).sum())
    }

    fn get(&self, path: &str) -> Result<String> {
        self.exchange("GET", path, "")
    }

    /// Returns the document at a path.
    pub(crate) fn get_json(&self, path: &str) -> Result<Value> {
        serde_json::from_str(&self.get(path)?).context("the answer is not JSON")
    }

    /// Posts a document and returns the response.
    pub(crate) fn post_json(&self, path: &str, body: &Value) -> Result<Value> {
        let answer = self.exchange("POST", path, &body.to_string())?;
        serde_json::from_str(&answer).context("the answer is not JSON")
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> Result<String> {
        http::exchange(self.port, method, path, body.as_bytes())
    }
}

/// Writes a configuration with the keys that are the same in all scenarios.
fn write_config(dir: &Path, port: u16, config: &str) -> Result<PathBuf> {
    let file = dir.join("weir.toml");
    // The store is disabled in scenarios that do not configure it, so that they do not measure it.
    let has_store = config.lines().any(|line| line == "[store]");
    let store = if has_store { "" } else { "[store]\nenabled = false\n" };
    let head = format!(
        "data_dir = \"{}\"\n[api]\nlisten = \"127.0.0.1:{port}\"\n{store}",
        dir.join("data").display()
    );
    // Keys before the first table must stay there.
    let first = config.find("\n[").map_or(config.len(), |at| at + 1);
    let (top, tables) = config.split_at(if config.starts_with('[') { 0 } else { first });
    fs::write(&file, format!("{top}{head}\n{tables}"))?;
    Ok(file)
}
