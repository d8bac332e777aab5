//! The running sources of a pipeline, which are added, changed and removed one by one while the
//! rest keeps running.
//!
//! Invariants: a source of a name runs at most once, since its streams and its port have one owner;
//! one that is changed stops and continues where it was; if one of the new settings cannot be used,
//! all sources are as before; nothing is received with new settings before the rules that belong to
//! them are in force.

use std::sync::Arc;

use weir_model::SourceId;

use super::ChangedComponents;
use crate::config::SourcePlan;
use crate::source::{PreparedSource, Progress, SourceContext, SourceError, SourceHandle};
use crate::view::SourceView;

/// The sources.
#[derive(Debug)]
pub(super) struct Sources {
    context: SourceContext,
    running: Vec<RunningSource>,
}

#[derive(Debug)]
struct RunningSource {
    plan: SourcePlan,
    handle: SourceHandle,
    view: Arc<SourceView>,
}

/// A source that can be started, with the view that it will have.
struct Ready {
    plan: SourcePlan,
    prepared: PreparedSource,
    view: Arc<SourceView>,
}

/// A change of the sources that is prepared: those that it affects are stopped, the others run.
pub(super) struct SourceChange {
    ready: Vec<Ready>,
    /// The settings of those that were stopped.
    stopped: Vec<SourcePlan>,
    /// Their names, in the order of the configuration.
    order: Vec<String>,
}

impl Sources {
    /// Starts without sources. Every source gets a copy of `context`, with statistics of its own.
    pub(super) fn new(context: SourceContext) -> Self {
        Self { context, running: Vec::new() }
    }

    /// Stops the sources that these settings change or no longer contain, and prepares those that
    /// they change or add. After an error, all sources run as before.
    pub(super) fn prepare(&mut self, plans: &[SourcePlan]) -> Result<SourceChange, SourceError> {
        let is_kept = |source: &RunningSource| plans.contains(&source.plan);
        let stopped = self.running.extract_if(.., |source| !is_kept(source)).collect();
        let stopped = self.end(stopped);
        let is_running = |plan: &SourcePlan| self.running.iter().any(|other| other.plan == *plan);
        let new = plans.iter().filter(|plan| !is_running(plan));
        match new.map(|plan| self.ready(plan)).collect() {
            Ok(ready) => {
                let order = plans.iter().map(|plan| plan.name.clone()).collect();
                Ok(SourceChange { ready, stopped, order })
            }
            Err(error) => {
                self.restore(stopped);
                Err(error)
            }
        }
    }

    fn ready(&self, plan: &SourcePlan) -> Result<Ready, SourceError> {
        let context = SourceContext { stats: Arc::default(), ..self.context.clone() };
        let view = Arc::new(SourceView::new(plan, context.stats.clone()));
        let prepared = PreparedSource::new(plan, context)?;
        Ok(Ready { plan: plan.clone(), prepared, view })
    }

    /// Starts the sources that were stopped again, instead of those of the change.
    pub(super) fn give_up(&mut self, change: SourceChange) {
        let SourceChange { ready, stopped, .. } = change;
        // Their sockets are closed first.
        drop(ready);
        self.restore(stopped);
    }

    /// One that cannot be started is missing until the next change.
    fn restore(&mut self, stopped: Vec<SourcePlan>) {
        for plan in stopped {
            let restored = self.ready(&plan).and_then(|ready| self.start(ready));
            if let Err(error) = restored {
                tracing::error!(source = plan.name, %error, "the source cannot be started again");
            }
        }
    }

    /// Starts what was prepared, and notes in `done` what has changed. One that cannot be started
    /// is missing until the next change.
    pub(super) fn begin(
        &mut self,
        change: SourceChange,
        done: &mut ChangedComponents,
    ) -> Result<(), SourceError> {
        let SourceChange { ready, stopped, order } = change;
        let mut result = Ok(());
        for source in ready {
            let is_changed = stopped.iter().any(|plan| plan.name == source.plan.name);
            let names = if is_changed { &mut done.changed } else { &mut done.added };
            names.push(source.plan.name.clone());
            result = result.and(self.start(source));
        }
        for plan in stopped.into_iter().filter(|plan| !order.contains(&plan.name)) {
            // What only its files still had is kept: it will not read them again.
            self.context.journal.persist_source(SourceId::of(&plan.name));
            done.removed.push(plan.name);
        }
        self.running.sort_by_key(|source| order.iter().position(|name| *name == source.plan.name));
        result
    }

    fn start(&mut self, ready: Ready) -> Result<(), SourceError> {
        let Ready { plan, prepared, view } = ready;
        let handle = prepared.start()?;
        self.running.push(RunningSource { plan, handle, view });
        Ok(())
    }

    /// Stops all of them.
    pub(super) fn stop(&mut self) {
        let all = self.running.drain(..).collect();
        self.end(all);
    }

    /// Stops these sources at the same time, and waits for them. Returns their settings.
    fn end(&self, sources: Vec<RunningSource>) -> Vec<SourcePlan> {
        for source in &sources {
            source.handle.stop();
        }
        let mut plans = Vec::new();
        for RunningSource { plan, handle, .. } in sources {
            if !handle.join(&self.context.journal) {
                tracing::error!(source = plan.name, "source thread panicked");
            }
            plans.push(plan);
        }
        plans
    }

    /// How far they have come.
    pub(super) fn progress(&self) -> Vec<Progress> {
        self.running.iter().map(|source| source.handle.progress()).collect()
    }

    /// Their views, in order.
    pub(super) fn views(&self) -> Vec<Arc<SourceView>> {
        self.running.iter().map(|source| source.view.clone()).collect()
    }
}
