//! The running drains of a pipeline, whose settings can change while the rest keeps running.
//!
//! Invariants: what all drains have in common (network, providers, limits) changes by handing over:
//! the running drains finish what they have taken, and others continue with the rest; a drain that
//! is added or removed affects no other.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_host::{Clock, Disk};
use weir_journal::Journal;

use super::Running as _;
use crate::config::DrainsPlan;
use crate::drain::{self, Drains, DrainsError, PreparedDrains};
use crate::source::SourceNames;
use crate::view::OutputView;

/// How long drains may take to finish what they have taken before it is sent again.
const CHANGE_GRACE: Duration = Duration::from_secs(5);

/// What drains need from the process.
#[derive(Debug, Clone)]
pub(super) struct DrainsContext {
    pub(super) journal: Journal,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) data_dir: PathBuf,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) sources: Arc<SourceNames>,
}

/// Running drains with their settings.
#[derive(Debug)]
pub(super) struct RunningDrains {
    plan: DrainsPlan,
    pub(super) drains: Arc<Drains>,
    pub(super) view: Arc<OutputView>,
}

/// A change of the settings that can be applied.
pub(super) enum DrainsChange {
    /// Nothing has changed.
    None,
    /// The running drains continue with these.
    Follow(DrainsPlan),
    /// Others continue with these.
    Replace(Box<PreparedDrains>),
}

impl RunningDrains {
    pub(super) fn start(
        prepared: PreparedDrains,
        context: &DrainsContext,
    ) -> Result<Self, DrainsError> {
        let DrainsContext { journal, disk, data_dir, clock, sources } = context.clone();
        let plan = prepared.plan().clone();
        let place = (disk, data_dir.as_path());
        let drains = Arc::new(Drains::start(prepared, &journal, place, clock, sources)?);
        let view = OutputView::other(drain::NAME.to_owned(), drain::TYPE_NAME, drains.clone());
        Ok(Self { plan, drains, view: Arc::new(view) })
    }

    /// Does the steps of a change that can fail because of the settings.
    pub(super) fn prepare(&self, plan: &DrainsPlan) -> Result<DrainsChange, DrainsError> {
        if *plan == self.plan {
            Ok(DrainsChange::None)
        } else if plan.continues(&self.plan) {
            Ok(DrainsChange::Follow(plan.clone()))
        } else {
            PreparedDrains::new(plan).map(Box::new).map(DrainsChange::Replace)
        }
    }

    /// Makes a change. After an error there are no drains until the next start; their records wait.
    pub(super) fn change(
        mut self,
        change: DrainsChange,
        context: &DrainsContext,
    ) -> Result<Self, DrainsError> {
        match change {
            DrainsChange::None => Ok(self),
            DrainsChange::Follow(plan) => {
                // They follow unless they are stopping.
                if let Err(error) = self.drains.follow(&plan) {
                    tracing::error!(%error, "the drains were not changed");
                }
                self.plan = plan;
                Ok(self)
            }
            DrainsChange::Replace(prepared) => {
                self.drains.hand_over(CHANGE_GRACE);
                if !self.drains.join() {
                    tracing::error!("the drains panicked");
                }
                let (cursor, lagging) = (self.drains.cursor, self.drains.lagging_cursor);
                Self::start(*prepared, context).inspect_err(|_| {
                    // Without a reader, its full buffer would block sources.
                    context.journal.detach(cursor);
                    context.journal.detach(lagging);
                })
            }
        }
    }
}
