//! The externally visible state of a running pipeline: books, live statistics and phase.
//!
//! Invariant: reading it changes nothing and never waits for a component. What can be
//! changed through it is in [`crate::cursors`] and [`crate::drain`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_host::Clock;
use weir_journal::Journal;

use crate::config::{OutputPlan, OutputType, SourcePlan, SourceType};
use crate::drain::Drains;
use crate::health::Noticed;
use crate::live::Hub;
use crate::originals::OriginalEvents;
use crate::pipeline::Running;
use crate::rule::RuleSwitch;
use crate::source::SourceNames;
use crate::stats::{OutputStats, SourceStats};

/// The external view of a source.
#[derive(Debug)]
pub struct SourceView {
    /// Its name in the configuration.
    pub name: String,
    /// Its type.
    pub source_type: SourceType,
    /// Its live statistics.
    pub stats: Arc<SourceStats>,
}

/// The external view of an output.
#[derive(Debug)]
pub struct OutputView {
    /// Its name in the configuration.
    pub name: String,
    /// The value of `type`, or a name in its place if this is a destination other than an output.
    pub type_name: &'static str,
    /// Its type; `None` if this is a destination other than an output.
    pub output_type: Option<OutputType>,
    /// It accepts any certificate.
    pub is_insecure: bool,
    /// Its live statistics.
    pub stats: Arc<OutputStats>,
    /// The running destination, if this is a destination other than an output.
    pub running: Option<Arc<dyn Running>>,
}

/// Phase in the life of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// All components run.
    Running = 0,
    /// It was asked to stop: outputs deliver what they can.
    Stopping = 1,
}

/// The external view of a running pipeline.
#[derive(Debug)]
pub struct PipelineView {
    /// Books and buffer.
    pub journal: Journal,
    sources: Mutex<Arc<[Arc<SourceView>]>>,
    pub(crate) source_names: Arc<SourceNames>,
    outputs: Mutex<Outputs>,
    /// The rules in force.
    pub rules: Arc<RuleSwitch>,
    drains: Mutex<Option<Arc<Drains>>>,
    /// When it was started, nanoseconds since 1970.
    pub started_unix_ns: i64,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) noticed: Noticed,
    pub(crate) live: Arc<Hub>,
    pub(crate) original_events: OriginalEvents,
    service_problems: Mutex<BTreeMap<&'static str, String>>,
    phase: AtomicU8,
}

/// The outputs, by index and by name.
#[derive(Debug)]
struct Outputs {
    in_order: Arc<[Arc<OutputView>]>,
    by_name: BTreeMap<String, Arc<OutputView>>,
}

impl Outputs {
    fn of(outputs: Vec<Arc<OutputView>>) -> Self {
        let by_name = outputs.iter().map(|output| (output.name.clone(), output.clone())).collect();
        Self { in_order: outputs.into(), by_name }
    }
}

impl SourceView {
    /// Creates the view of a source.
    pub fn new(plan: &SourcePlan, stats: Arc<SourceStats>) -> Self {
        let source_type = plan.kind.source_type();
        Self { name: plan.name.clone(), source_type, stats }
    }
}

impl OutputView {
    /// Creates the view of an output. It continues the statistics of the one that it replaces, if
    /// that is of the same type.
    pub fn new(plan: &OutputPlan, before: Option<&Self>) -> Self {
        let output_type = plan.kind.output_type();
        let before = before.filter(|before| before.output_type == Some(output_type));
        Self {
            name: plan.name.clone(),
            type_name: output_type.name(),
            output_type: Some(output_type),
            is_insecure: plan.kind.is_insecure(),
            stats: before.map(|before| before.stats.clone()).unwrap_or_default(),
            running: None,
        }
    }

    /// Creates the view of a running destination other than an output.
    pub(crate) fn other(name: String, type_name: &'static str, running: Arc<dyn Running>) -> Self {
        Self {
            name,
            type_name,
            output_type: None,
            is_insecure: false,
            stats: Arc::default(),
            running: Some(running),
        }
    }
}

impl PipelineView {
    /// Creates the view of a pipeline that starts now.
    pub fn new(
        journal: Journal,
        sources: Vec<Arc<SourceView>>,
        outputs: Vec<Arc<OutputView>>,
        rules: Arc<RuleSwitch>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            journal,
            sources: Mutex::new(sources.into()),
            source_names: Arc::default(),
            outputs: Mutex::new(Outputs::of(outputs)),
            rules,
            drains: Mutex::default(),
            started_unix_ns: clock.unix_ns(),
            clock,
            noticed: Noticed::default(),
            live: Arc::default(),
            original_events: OriginalEvents::default(),
            service_problems: Mutex::default(),
            phase: AtomicU8::new(Phase::Running as u8),
        }
    }

    /// Reports a problem of the API or of the services for readers in health; `None`: there is none
    /// with this reason.
    pub fn set_service_problem(&self, reason: &'static str, text: Option<String>) {
        let mut problems = self.service_problems.lock().unwrap_or_else(PoisonError::into_inner);
        match text {
            Some(text) => problems.insert(reason, text),
            None => problems.remove(reason),
        };
    }

    /// The problems of the API and of the services for readers, by reason.
    pub(crate) fn service_problems(&self) -> BTreeMap<&'static str, String> {
        self.service_problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the names of sources.
    #[must_use]
    pub(crate) fn with_source_names(self, source_names: Arc<SourceNames>) -> Self {
        Self { source_names, ..self }
    }

    /// Returns the drains, if there are any.
    pub fn drains(&self) -> Option<Arc<Drains>> {
        self.drains.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the drains.
    pub(crate) fn set_drains(&self, drains: Option<Arc<Drains>>) {
        *self.drains.lock().unwrap_or_else(PoisonError::into_inner) = drains;
    }

    /// Returns the sources, in the order of the configuration.
    pub fn sources(&self) -> Arc<[Arc<SourceView>]> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the sources.
    pub(crate) fn set_sources(&self, sources: Vec<Arc<SourceView>>) {
        *self.sources.lock().unwrap_or_else(PoisonError::into_inner) = sources.into();
    }

    /// Returns the outputs, in the order of the configuration, and the other destinations.
    pub fn outputs(&self) -> Arc<[Arc<OutputView>]> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner).in_order.clone()
    }

    /// Returns the output of that name.
    pub fn output(&self, name: &str) -> Option<Arc<OutputView>> {
        let outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        outputs.by_name.get(name).cloned()
    }

    /// Replaces the outputs.
    pub(crate) fn set_outputs(&self, outputs: Vec<Arc<OutputView>>) {
        *self.outputs.lock().unwrap_or_else(PoisonError::into_inner) = Outputs::of(outputs);
    }

    /// Returns the current phase.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Running,
            _ => Phase::Stopping,
        }
    }

    /// Records that the pipeline was asked to stop.
    pub fn set_stopping(&self) {
        self.phase.store(Phase::Stopping as u8, Ordering::Relaxed);
    }

    /// Returns the wall-clock time, nanoseconds since 1970.
    pub fn now_unix_ns(&self) -> i64 {
        self.clock.unix_ns()
    }
}
