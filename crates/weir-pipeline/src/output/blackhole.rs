//! `type = "blackhole"`: counts and discards.

use std::time::Duration;

use weir_journal::{Cursor, Outcome};

use super::Job;
use crate::stats::add;

/// Maximum age of records before they are taken: nothing waits for this output.
const AGE: Duration = Duration::from_millis(500);
const BYTES: u64 = 1024 * 1024;

pub(super) async fn run(job: &Job, mut cursor: Cursor) {
    loop {
        tokio::select! {
            biased;
            () = cursor.ready(BYTES, AGE) => {}
            _ = job.stop.requested() => return,
        }
        let mut bytes = 0;
        while let Some(delivery) = cursor.take(|_| false).await {
            bytes += delivery.batch.arena().len() as u64;
            if bytes >= BYTES {
                // The others of this thread have their turn, with the same batches.
                tokio::task::yield_now().await;
                bytes = 0;
            }
            // Before the acknowledgement, so that this metric is never behind a settled ledger.
            add(&job.stats.bytes_encoded, delivery.batch.arena().len() as u64);
            cursor.ack(&delivery, Outcome::delivered(delivery.record_count));
        }
        add(&job.stats.requests, 1);
        if cursor.is_closing() {
            return;
        }
    }
}
