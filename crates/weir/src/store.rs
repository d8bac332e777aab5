//! Weir's own store as a destination of the pipeline.
//!
//! Invariant: pipeline and store do not know each other; here they are put together.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weir_host::{Clock, Disk};
use weir_pipeline::health::Severity;
use weir_pipeline::{Destination, Running, Trouble};
use weir_store::embedded::{EmbeddedStore, StoreConfig};

use crate::config::STORE;

/// What waits for the store in ring and segments: with a full head it stops its sources then.
const BUFFER_LIMIT_BYTES: u64 = 1 << 30;
/// It holds what it takes at once, so one batch would do.
const WINDOW_BYTES: u64 = 4 << 20;

/// Where the store is found once the pipeline has started it.
pub(crate) type StoreSlot = Arc<OnceLock<Arc<EmbeddedStore>>>;

/// The store, to be brought along to a pipeline.
pub(crate) fn destination(
    config: StoreConfig,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    slot: StoreSlot,
) -> Destination {
    Destination {
        name: STORE.to_owned(),
        type_name: "store",
        buffer_limit_bytes: BUFFER_LIMIT_BYTES,
        window_bytes: WINDOW_BYTES,
        start: Box::new(move |cursor| {
            let store = Arc::new(EmbeddedStore::open(config, disk, clock)?);
            store.start(cursor)?;
            // Each pipeline has a slot of its own.
            let _is_empty = slot.set(store.clone());
            Ok(Arc::new(RunningStore(store)))
        }),
    }
}

#[derive(Debug)]
struct RunningStore(Arc<EmbeddedStore>);

impl Running for RunningStore {
    fn stop(&self, deadline: Duration) {
        self.0.stop(deadline);
    }

    fn join(&self) -> bool {
        self.0.join()
    }

    fn cpu_ns(&self) -> u64 {
        let figures = self.0.figures();
        ((figures.intake_cpu_seconds + figures.flush_cpu_seconds) * 1e9) as u64
    }

    fn troubles(&self) -> Vec<Trouble> {
        let figures = self.0.figures();
        let mut troubles = Vec::new();
        if let Some(error) = figures.error {
            let full =
                if figures.is_full { ", and takes nothing in: its head is full" } else { "" };
            let text = format!("cannot write{full}: {error}");
            troubles.push(Trouble { reason: "disk", severity: Severity::Failing, text });
        }
        if !figures.damaged.is_empty() {
            let text = format!("what cannot be searched: {}", figures.damaged.join("; "));
            troubles.push(Trouble { reason: "damaged", severity: Severity::Degraded, text });
        }
        troubles
    }
}
