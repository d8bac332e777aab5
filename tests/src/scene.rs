//! Shared by most tests: a directory with logs, a configuration, a collector, and the verdict.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use weir_measure::load::{LoadPlan, LoadReport};
use weir_testkit::{Books, Collector, Oracle, PATIENCE, Weir, wait_for};

/// A directory in which weir runs.
#[derive(Debug)]
pub(crate) struct Scene {
    dir: TempDir,
    /// Appended to every configuration.
    pub(crate) extra: String,
}

/// Name of the output in [`Scene::hec`].
pub(crate) const OUTPUT: &str = "hec";

impl Scene {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory can be made");
        std::fs::create_dir(dir.path().join("logs")).expect("a directory can be made");
        Self { dir, extra: String::new() }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.dir.path().join("logs")
    }

    /// Writes docker lines of 100 to 600 bytes into `logs/app.log`, as fast as possible.
    pub(crate) fn plan(&self) -> LoadPlan {
        let mut plan = LoadPlan::new(self.logs());
        plan.body_bytes = (100, 600);
        plan
    }

    /// Returns a source of everything in `logs`, including rotated files.
    pub(crate) fn source(&self, format: &str) -> String {
        format!(
            "[source.logs]\ntype = \"file\"\ninclude = [\"{}/**/*.log*\"]\nformat = \"{format}\"\n\
             rotated_grace = \"1s\"\nrescan_interval = \"500ms\"\n",
            self.logs().display()
        )
    }

    /// Returns a configuration for docker lines to this collector, with additional keys of the
    /// output.
    pub(crate) fn config(&self, collector: &Collector, keys: &str) -> String {
        self.source("docker_json") + &hec(OUTPUT, collector, keys) + &self.extra
    }

    pub(crate) fn start(&self, config: &str) -> Weir {
        Weir::start(self.dir(), config)
    }
}

/// Returns an output to a collector, with quick retries.
pub(crate) fn hec(name: &str, collector: &Collector, keys: &str) -> String {
    format!(
        "[output.{name}]\ntype = \"splunk_hec\"\nendpoint = \"{}\"\ntoken = {{ env = \"HEC_TOKEN\" }}\n\
         batch_age = \"50ms\"\nretry_min = \"10ms\"\nretry_max = \"200ms\"\n{keys}\n",
        collector.url()
    )
}

/// Waits until a condition is met.
pub(crate) fn wait(weir: &Weir, what: &str, mut is_so: impl FnMut() -> bool) {
    let found = wait_for(PATIENCE, || is_so().then_some(()));
    assert!(found.is_some(), "{what}: {}\n{}", weir.metrics(), weir.log());
}

/// Returns the value of a metric, given with its labels; 0 if it is missing.
pub(crate) fn metric(weir: &Weir, name: &str) -> u64 {
    let metrics = weir.metrics();
    let line = metrics.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Replaces the configuration of a running weir, and waits until it is in force.
pub(crate) fn apply(weir: &Weir, config: &str) {
    let applied = || metric(weir, "weir_config_reloads_total{result=\"applied\"}");
    let before = applied();
    weir.reload(config);
    let is_in_force = wait_for(PATIENCE, || (applied() > before).then_some(()));
    assert!(is_in_force.is_some(), "{}", weir.log());
}

/// Waits until every line was read and has a final outcome, and judges the run.
pub(crate) fn judge(
    oracle: &Oracle,
    written: &[LoadReport],
    collector: &Collector,
    weir: &Weir,
) -> Books {
    let lines = total_lines(written);
    let output = oracle.output.as_str();
    let is_settled = |books: &Books| {
        let all_read = books.records() >= lines || collector.look(|t| t.unique() >= lines);
        all_read && books.in_flight(output) == 0
    };
    let found = wait_for(PATIENCE, || Some(weir.books()).filter(is_settled));
    // If it never settles, the oracle reports what is missing.
    let books = found.unwrap_or_else(|| weir.books());
    oracle.check(written, &collector.tally(), &books);
    assert_eq!(books.in_flight(output), 0, "{books}\n{}", weir.log());
    at_rest(weir, output)
}

/// Waits until nothing is in flight to the output, and all three books balance.
pub(crate) fn at_rest(weir: &Weir, output: &str) -> Books {
    let is_at_rest = |books: &Books| books.in_flight(output) == 0 && books.files_balance();
    let books = weir.wait_books("the books balance at rest", PATIENCE, is_at_rest);
    books.assert_balanced();
    books
}

/// Returns the number of lines over all reports. A run that continued a stream counts only its own
/// lines.
pub(crate) fn total_lines(written: &[LoadReport]) -> u64 {
    written.iter().map(|report| report.lines).sum()
}

/// Lets a random or given time pass: the timing itself is tested.
pub(crate) fn moment(duration: Duration) {
    let _nothing: Option<()> = wait_for(duration, || None);
}
