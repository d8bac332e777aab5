//! `type = "stdout"`: one line per record on standard output.
//!
//! Invariants: a full pipe blocks this thread and nothing else; when the reader is gone the
//! output ends with a message, and what is not delivered stays in the journal.

use std::io::{self, Write};
use std::time::Duration;

use weir_journal::{Cursor, Outcome};

use super::parcel::Parcel;
use super::{Job, lines};
use crate::config::Encoding;
use crate::stats::{self, add};

/// Somebody may be looking: lines appear at once, but not one system call per line.
const AGE: Duration = Duration::from_millis(50);
const BYTES: u64 = 64 * 1024;

pub(super) async fn run(job: &Job, encoding: Encoding, cursor: Cursor) {
    write_lines(job, encoding, cursor, &mut io::stdout()).await;
}

/// Writes to `target` until the journal closes, a stop is requested, or the reader is gone.
pub(super) async fn write_lines(
    job: &Job,
    encoding: Encoding,
    mut cursor: Cursor,
    target: &mut dyn Write,
) {
    let mut buffer = Vec::new();
    loop {
        tokio::select! {
            _ = job.stop.requested() => return,
            () = cursor.ready(BYTES, AGE) => {}
        }
        while let Some(delivery) = cursor.take(|_| false) {
            let parcel = Parcel::of_delivery(delivery, cursor.index());
            buffer.clear();
            lines::encode(&parcel, encoding, &mut buffer);
            let started = job.context.clock.monotonic();
            if let Err(error) = target.write_all(&buffer).and_then(|()| target.flush()) {
                give_up(job, &error);
                return;
            }
            let took = job.context.clock.monotonic().saturating_sub(started);
            add(&job.stats.service_ns, took.as_nanos() as u64);
            add(&job.stats.requests, 1);
            add(&job.stats.bytes_sent, buffer.len() as u64);
            add(&job.stats.bytes_encoded, buffer.len() as u64);
            if let Some(delivery) = &parcel.delivery {
                cursor.ack(delivery, Outcome::delivered(parcel.len() as u64));
            }
        }
        stats::publish_cpu(&job.stats.cpu_ns);
        if cursor.is_closing() {
            return;
        }
    }
}

fn give_up(job: &Job, error: &io::Error) {
    let text = if error.kind() == io::ErrorKind::BrokenPipe {
        "standard output was closed by its reader; the output has stopped, and what is not \
         delivered waits in the journal for the next start"
            .to_owned()
    } else {
        format!("standard output failed: {error}; the output has stopped")
    };
    tracing::error!(output = %job.plan.name, "{text}");
    job.stats.failing.store(true, std::sync::atomic::Ordering::Relaxed);
    job.stats.errors.count("closed", &text);
}
