//! The running outputs of a pipeline, which are added, changed and removed one by one while the
//! rest keeps running.
//!
//! Invariants: an output reads with the cursor of its name, so one that is changed continues where
//! it was; every step that can fail is done before anything changes; an output that is removed
//! receives no further records, may deliver its waiting records for [`LEAVE_GRACE`], and leaves the
//! rest on disk under its name.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_host::units::group_digits;
use weir_journal::{Cursor, CursorSpec, Journal};

use super::{ChangedComponents, StartError};
use crate::config::OutputPlan;
use crate::output::{OutputContext, OutputHandle, Prepared};
use crate::view::OutputView;

/// How long a changed output may take to complete its requests before its successor sends them
/// again.
const CHANGE_GRACE: Duration = Duration::from_secs(5);
/// How long a removed output may take to deliver its waiting records.
const LEAVE_GRACE: Duration = Duration::from_secs(10);

/// The outputs.
#[derive(Debug)]
pub(super) struct Outputs {
    journal: Journal,
    context: OutputContext,
    running: Vec<RunningOutput>,
    leaving: Vec<Leaving>,
}

#[derive(Debug)]
struct RunningOutput {
    plan: OutputPlan,
    handle: OutputHandle,
    view: Arc<OutputView>,
    cursor: usize,
}

/// An output that was removed and still delivers.
#[derive(Debug)]
struct Leaving {
    name: String,
    thread: JoinHandle<()>,
}

/// An output that can be started, with the view that it will have.
#[derive(Debug)]
struct PreparedOutput {
    plan: OutputPlan,
    prepared: Prepared,
    view: Arc<OutputView>,
}

/// An output that can be started with its cursor.
#[derive(Debug)]
struct Added {
    output: PreparedOutput,
    cursor: Cursor,
    /// The cursor was made for it, so nothing waits for it.
    is_new: bool,
}

/// A change of the outputs that is prepared: the remaining steps cannot fail.
#[derive(Debug)]
pub(super) struct Change {
    added: Vec<Added>,
    changed: Vec<PreparedOutput>,
    /// Names and cursor indexes afterwards, in the order of the configuration.
    pub(super) names: Vec<(String, usize)>,
}

impl Outputs {
    /// Starts without outputs.
    pub(super) fn new(journal: Journal, context: OutputContext) -> Self {
        Self { journal, context, running: Vec::new(), leaving: Vec::new() }
    }

    /// Returns whether this change needs a restart: an output of an earlier run returns, and its
    /// kept records are only assigned at a start.
    pub(super) fn needs_restart(&self, plans: &[OutputPlan]) -> bool {
        plans.iter().any(|plan| self.journal.is_absent(&plan.name))
    }

    /// Does the steps of a change to these outputs that can fail.
    pub(super) fn prepare(&mut self, plans: &[OutputPlan]) -> Result<Change, StartError> {
        self.await_leaving(plans);
        let mut changed = Vec::new();
        let mut new = Vec::new();
        for plan in plans {
            match self.running.iter().find(|output| output.plan.name == plan.name) {
                Some(output) if output.plan == *plan => {}
                Some(output) => changed.push(self.ready(plan, Some(&output.view))?),
                None => new.push(self.ready(plan, None)?),
            }
        }
        let mut added: Vec<Added> = Vec::new();
        for output in new {
            let is_new = !self.journal.has_cursor(&output.plan.name);
            match self.journal.cursor(spec(&output.plan)) {
                Ok(cursor) => added.push(Added { output, cursor, is_new }),
                Err(error) => {
                    self.give_up(Change { added, changed: Vec::new(), names: Vec::new() });
                    return Err(error.into());
                }
            }
        }
        let index_of = |plan: &OutputPlan| {
            let of_running = |output: &&RunningOutput| output.plan.name == plan.name;
            let running = self.running.iter().find(of_running).map(|output| output.cursor);
            let of_added = |added: &&Added| added.output.plan.name == plan.name;
            running.or_else(|| added.iter().find(of_added).map(|added| added.cursor.index()))
        };
        let names = plans.iter().filter_map(|plan| Some((plan.name.clone(), index_of(plan)?)));
        let names = names.collect();
        Ok(Change { added, changed, names })
    }

    fn ready(
        &self,
        plan: &OutputPlan,
        before: Option<&Arc<OutputView>>,
    ) -> Result<PreparedOutput, StartError> {
        let view = Arc::new(OutputView::new(plan, before.map(|view| &**view)));
        let prepared = Prepared::new(plan.clone(), self.context.clone(), view.stats.clone())?;
        Ok(PreparedOutput { plan: plan.clone(), prepared, view })
    }

    /// Undoes what was prepared. What is kept for an output that would have returned stays.
    pub(super) fn give_up(&self, change: Change) {
        for Added { output, cursor, is_new } in change.added {
            self.journal.detach(cursor.index());
            if is_new && let Err(error) = self.journal.drop_cursor(&output.plan.name) {
                tracing::debug!(output = output.plan.name, %error, "its cursor was not dropped");
            }
        }
    }

    /// Starts new outputs, and replaces changed ones.
    pub(super) fn begin(&mut self, change: Change) -> Result<ChangedComponents, StartError> {
        let mut done = ChangedComponents::default();
        for Added { output, cursor, .. } in change.added {
            done.added.push(output.plan.name.clone());
            self.start(output, cursor)?;
        }
        let is_changed = |output: &mut RunningOutput| {
            change.changed.iter().any(|ready| ready.plan.name == output.plan.name)
        };
        let replaced: Vec<_> = self.running.extract_if(.., is_changed).collect();
        for output in &replaced {
            output.handle.stop(CHANGE_GRACE);
        }
        for output in replaced {
            join(output.handle);
        }
        for ready in change.changed {
            done.changed.push(ready.plan.name.clone());
            let cursor = self.journal.cursor(spec(&ready.plan))?;
            self.start(ready, cursor)?;
        }
        Ok(done)
    }

    fn start(&mut self, ready: PreparedOutput, cursor: Cursor) -> Result<(), StartError> {
        let PreparedOutput { plan, prepared, view } = ready;
        let index = cursor.index();
        // Without a reader, its full buffer would block sources.
        let handle = prepared.start(cursor).inspect_err(|_| self.journal.detach(index))?;
        self.running.push(RunningOutput { plan, handle, view, cursor: index });
        Ok(())
    }

    /// Stops the outputs that are no longer configured; nothing may be routed to them any more.
    /// Orders the others as configured. Returns the names of those that were removed.
    pub(super) fn end_others(&mut self, names: &[(String, usize)]) -> Vec<String> {
        let place =
            |output: &RunningOutput| names.iter().position(|(name, _)| *name == output.plan.name);
        let removed: Vec<_> =
            self.running.extract_if(.., |output| place(output).is_none()).collect();
        self.running.sort_by_key(place);
        let removed_names = removed.iter().map(|output| output.plan.name.clone()).collect();
        for output in removed {
            self.leave(output);
        }
        removed_names
    }

    fn leave(&mut self, output: RunningOutput) {
        let RunningOutput { plan, handle, cursor, .. } = output;
        let (name, journal) = (plan.name, self.journal.clone());
        journal.close_destination(cursor);
        handle.stop(LEAVE_GRACE);
        let own_name = name.clone();
        let wait = move || {
            join(handle);
            journal.detach(cursor);
            report_removed(&journal, &own_name);
        };
        let thread = std::thread::Builder::new().name("removed-output".to_owned()).spawn(wait);
        match thread {
            Ok(thread) => self.leaving.push(Leaving { name, thread }),
            Err(error) => {
                tracing::error!(output = name, %error, "cannot wait for the output to stop");
            }
        }
    }

    /// Waits for outputs that are being removed and will be added again.
    fn await_leaving(&mut self, plans: &[OutputPlan]) {
        let returns = |leaving: &mut Leaving| plans.iter().any(|plan| plan.name == leaving.name);
        let returning: Vec<_> = self.leaving.extract_if(.., returns).collect();
        returning.into_iter().for_each(Leaving::join);
        self.leaving.retain(|leaving| !leaving.thread.is_finished());
    }

    /// Their settings.
    pub(super) fn plans(&self) -> impl Iterator<Item = &OutputPlan> {
        self.running.iter().map(|output| &output.plan)
    }

    /// Their views, in order.
    pub(super) fn views(&self) -> Vec<Arc<OutputView>> {
        self.running.iter().map(|output| output.view.clone()).collect()
    }

    /// Tells all of them to deliver what they can within `grace` and then stop.
    pub(super) fn stop(&self, grace: Duration) {
        self.running.iter().for_each(|output| output.handle.stop(grace));
    }

    /// Waits until all have ended.
    pub(super) fn join(&mut self) {
        self.running.drain(..).for_each(|output| join(output.handle));
        self.leaving.drain(..).for_each(Leaving::join);
    }
}

impl Leaving {
    fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!(output = self.name, "internal error while removing the output");
        }
    }
}

fn join(handle: OutputHandle) {
    let name = handle.name().to_owned();
    if !handle.join() {
        tracing::error!(output = name, "output panicked");
    }
}

fn report_removed(journal: &Journal, name: &str) {
    let ledger = journal.ledger();
    let kept = ledger.cursors.iter().find(|cursor| cursor.name == name).map_or(0, |c| c.in_flight);
    if kept == 0 {
        tracing::info!(output = name, "output {name} was removed");
    } else {
        tracing::warn!(
            output = name,
            records = kept,
            "output {name} was removed before it could deliver {} records; they are kept until it \
             is configured again, or discarded with `weir cursor drop {name}`",
            group_digits(kept),
        );
    }
}

/// The cursor of an output.
fn spec(plan: &OutputPlan) -> CursorSpec {
    CursorSpec {
        name: plan.name.clone(),
        when_full: plan.when_full,
        buffer_bytes_max: plan.buffer_bytes_max,
        window_bytes: plan.window_bytes,
    }
}

#[cfg(test)]
mod tests {
    use weir_host::{Clock, Disk, RealClock, RealDisk};
    use weir_journal::{JournalConfig, WhenFull};
    use weir_testkit::journal_config;

    use super::*;
    use crate::config::OutputKind;

    fn output(name: &str) -> OutputPlan {
        OutputPlan {
            name: name.to_owned(),
            when_full: WhenFull::Block,
            buffer_bytes_max: 1 << 20,
            window_bytes: 1 << 20,
            dead_letter: false,
            kind: OutputKind::Blackhole,
        }
    }

    #[test]
    fn a_change_that_is_given_up_keeps_the_cursor_of_an_output_that_would_have_returned() {
        let dir = tempfile::tempdir().unwrap();
        let (clock, disk): (Arc<dyn Clock>, Arc<dyn Disk>) =
            (Arc::new(RealClock::new()), Arc::new(RealDisk));
        let config =
            JournalConfig { bytes_max: 1 << 24, ..journal_config(dir.path().join("journal")) };
        let journal = Journal::open(config, disk.clone(), clock.clone()).unwrap();
        let context = OutputContext::new(dir.path().to_owned(), clock, disk);
        let mut outputs = Outputs::new(journal.clone(), context);
        let change = outputs.prepare(&[output("returns")]).unwrap();
        outputs.begin(change).unwrap();
        assert_eq!(outputs.end_others(&[]), ["returns"]);
        let change = outputs.prepare(&[output("returns"), output("new")]).unwrap();
        outputs.give_up(change);
        assert!(journal.has_cursor("returns") && !journal.has_cursor("new"));
        assert!(journal.ledger().cursors.iter().all(|cursor| !cursor.active));
        outputs.join();
        journal.shutdown();
    }
}
