//! Reloading the configuration of a running weir: on SIGHUP, and when its file or directory
//! changes.
//!
//! Invariants: a configuration is validated completely before anything changes, and an invalid one
//! changes nothing; if only sources, outputs, drains and rules have changed, each of them is added,
//! replaced or removed while everything else continues; for any other change sources and outputs
//! stop and restart at their positions, so nothing is lost or sent twice.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::config::{self, Plan};
use crate::term::Paint;

/// How often the files are checked. A change is applied when two consecutive checks see the same
/// state, so that half-written files are not loaded.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Identifies a state of the files: name, length and modification time of each.
type Fingerprint = Vec<(PathBuf, u64, Option<SystemTime>)>;

/// Detects changes of the configuration.
#[derive(Debug)]
pub(crate) struct Watch {
    path: PathBuf,
    taken: Fingerprint,
    seen: Fingerprint,
}

impl Watch {
    /// Starts with the current state of the files.
    pub(crate) fn new(path: &Path) -> Self {
        let now = fingerprint(path);
        Self { path: path.to_owned(), taken: now.clone(), seen: now }
    }

    /// Whether the files have changed and are no longer changing.
    pub(crate) fn has_changed(&mut self) -> bool {
        let now = fingerprint(&self.path);
        let is_at_rest = now == self.seen;
        self.seen = now;
        if !is_at_rest || self.seen == self.taken {
            return false;
        }
        self.taken.clone_from(&self.seen);
        true
    }

    /// Records that the files were loaded for another reason.
    pub(crate) fn take(&mut self) {
        self.seen = fingerprint(&self.path);
        self.taken.clone_from(&self.seen);
    }
}

fn fingerprint(path: &Path) -> Fingerprint {
    let mut files = vec![path.to_owned()];
    if let Ok(entries) = std::fs::read_dir(path) {
        let toml = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml");
        files.extend(entries.flatten().map(|entry| entry.path()).filter(toml));
    }
    files.sort();
    let look = |path: PathBuf| {
        // Follows links: editors and orchestrators often replace the target.
        let meta = std::fs::metadata(&path);
        let changed = meta.as_ref().ok().and_then(|meta| meta.modified().ok());
        (path, meta.map_or(0, |meta| meta.len()), changed)
    };
    files.into_iter().map(look).collect()
}

/// What a changed configuration requires.
#[derive(Debug)]
pub(crate) enum ConfigChange {
    /// It is invalid; the reasons are in the log.
    Refused,
    /// At most sources, outputs, drains and rules have changed.
    Components(Box<Plan>),
    /// The store or the journal have changed as well.
    Everything(Box<Plan>),
}

/// Reads the configuration again and determines what is needed to apply it.
pub(crate) fn read(path: &Path, running: &Plan) -> ConfigChange {
    let loaded = match config::load(Some(path)) {
        Ok(loaded) => loaded,
        Err(error) => {
            tracing::error!("the configuration was not reloaded: {error}");
            return ConfigChange::Refused;
        }
    };
    for diagnostic in &loaded.diagnostics.0 {
        let text = diagnostic.render(&loaded.texts, Paint::off());
        match diagnostic.level {
            config::Level::Error => tracing::error!("{}", text.trim_end()),
            config::Level::Warning => tracing::warn!("{}", text.trim_end()),
        }
    }
    let Some(plan) = loaded.plan else {
        tracing::error!(
            "the configuration is invalid and was not reloaded: keeping the previous one"
        );
        return ConfigChange::Refused;
    };
    if needs_start(&plan, running) {
        tracing::warn!("changes to [api], [loggregator] and [log] take effect at the next start");
    }
    if plan.pipeline.data_dir != running.pipeline.data_dir {
        tracing::error!("changing data_dir requires a restart: the configuration was not reloaded");
        return ConfigChange::Refused;
    }
    let plan = Box::new(plan);
    let is_rest_the_same = plan.pipeline.differs_only_in_components(&running.pipeline);
    if is_rest_the_same && plan.store == running.store {
        ConfigChange::Components(plan)
    } else {
        ConfigChange::Everything(plan)
    }
}

/// Whether something has changed that is only read at the start.
fn needs_start(plan: &Plan, running: &Plan) -> bool {
    let is_api_changed = plan.api != running.api;
    let is_service_changed = plan.reader_services != running.reader_services
        || plan.health != running.health
        || plan.stored_deadline != running.stored_deadline;
    is_api_changed || is_service_changed || plan.log != running.log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_need_a_start_are_recognized() {
        let plan = |text: &str| {
            let mut texts = config::Texts::default();
            let rest = "[source.a]\ntype = \"file\"\ninclude = [\"/x/*.log\"]\n\
                        [output.o]\ntype = \"blackhole\"\n";
            texts.add("weir.toml", format!("{rest}{text}"));
            let loaded = config::load_texts(texts);
            let shown = loaded.diagnostics.render(&loaded.texts, Paint::off());
            loaded.plan.unwrap_or_else(|| panic!("{shown}"))
        };
        let log_cache = |deadline: &str| {
            let tables =
                "[loggregator.access]\ntokens = { env = \"PATH\" }\n[loggregator.log_cache]\n";
            plan(&format!("{tables}listen = \"127.0.0.1:0\"\ndeadline = \"{deadline}\"\n"))
        };
        assert!(needs_start(&log_cache("2s"), &log_cache("3s")));
        assert!(!needs_start(&log_cache("2s"), &log_cache("2s")));
        assert!(!needs_start(&plan("[[rule]]\nname = \"r\"\nto = [\"o\"]\n"), &plan("")));
        assert!(needs_start(&plan("[log]\nlevel = \"debug\"\n"), &plan("")));
        let access = "[api.access]\nread_tokens = { env = \"PATH\" }\n";
        assert!(
            needs_start(&plan(access), &plan("")) && !needs_start(&plan(access), &plan(access))
        );
    }

    #[test]
    fn change_is_reported_once_when_stable() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        std::fs::write(&file, "a").unwrap();
        let mut watch = Watch::new(dir.path());
        assert!(!watch.has_changed());
        std::fs::write(&file, "ab").unwrap();
        assert!(!watch.has_changed(), "it may still be written");
        assert!(watch.has_changed());
        assert!(!watch.has_changed());
        std::fs::write(dir.path().join("b.toml"), "").unwrap();
        std::fs::write(dir.path().join("b.txt"), "").unwrap();
        assert!(!watch.has_changed() && watch.has_changed());
        std::fs::remove_file(&file).unwrap();
        watch.take();
        assert!(!watch.has_changed());
    }
}
