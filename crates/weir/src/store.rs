//! Weir's own store as a destination of the pipeline.
//!
//! Invariant: pipeline and store do not depend on each other; they are connected here.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weir_host::{Clock, Disk};
use weir_pipeline::health::Severity;
use weir_pipeline::{ActiveProblem, Destination, Running, STORE_TYPE_NAME};
use weir_store::embedded::{EmbeddedStore, StoreConfig};

use crate::config::STORE;

/// Buffer for the store in ring and segments: when it and the head are full, the sources stop.
const BUFFER_BYTES_MAX: u64 = 1 << 30;
/// The store keeps what it accepts at once, so one batch would be enough.
const WINDOW_BYTES: u64 = 4 << 20;

/// Where the store is available once the pipeline has started it.
pub(crate) type StoreSlot = Arc<OnceLock<Arc<EmbeddedStore>>>;

/// The store, as it is handed to a pipeline.
pub(crate) fn destination(
    config: StoreConfig,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    slot: StoreSlot,
) -> Destination {
    Destination {
        name: STORE.to_owned(),
        type_name: STORE_TYPE_NAME,
        buffer_bytes_max: BUFFER_BYTES_MAX,
        window_bytes: WINDOW_BYTES,
        start: Box::new(move |cursor| {
            let store = Arc::new(EmbeddedStore::open(config, disk, clock)?);
            store.start(cursor)?;
            // Each pipeline has its own slot.
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
        let metrics = self.0.metrics();
        ((metrics.intake_cpu_seconds + metrics.flush_cpu_seconds) * 1e9) as u64
    }

    fn problems(&self) -> Vec<ActiveProblem> {
        let metrics = self.0.metrics();
        let mut problems = Vec::new();
        if let Some(error) = metrics.error {
            let full =
                if metrics.is_full { ", and accepts no records: its head is full" } else { "" };
            let text = format!("cannot write{full}: {error}");
            problems.push(ActiveProblem { reason: "disk", severity: Severity::Failing, text });
        }
        if !metrics.damaged.is_empty() {
            let text = format!("damaged, cannot be searched: {}", metrics.damaged.join("; "));
            problems.push(ActiveProblem { reason: "damaged", severity: Severity::Degraded, text });
        }
        problems
    }
}
