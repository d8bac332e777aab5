//! Cache of the newest metrics of each container.
//!
//! Invariants: it is filled only if the service that returns them is configured; metrics older than
//! [`CONTAINER_TTL`] are not returned; its memory is limited, and the oldest are removed first.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::time::Instant;
use weir_codec::{DropsondeContainer, DropsondeEnvelope, DropsondeMessage, LoggregatorBatch};
use weir_pipeline::live::{EnvelopeChunk, EnvelopeStream};

use super::ServiceState;
use super::limits::{CONTAINER_BYTES_MAX, CONTAINER_TTL, CONTAINERS_BYTES_MAX};

/// Memory of an entry besides its envelope.
const ENTRY_BYTES: usize = 96;

/// The newest envelope of one container.
#[derive(Debug)]
struct NewestMetrics {
    instance_index: i32,
    timestamp_ns: i64,
    received_at: Instant,
    /// Increases with each envelope; those of one collection have the same time.
    arrival: u64,
    envelope: Bytes,
}

/// All containers, by application.
#[derive(Debug, Default)]
pub(super) struct Containers {
    by_app: HashMap<Vec<u8>, Vec<NewestMetrics>>,
    bytes: usize,
    /// Number of envelopes that were added.
    arrivals: u64,
}

impl NewestMetrics {
    fn is_expired(&self, now: Instant) -> bool {
        now.duration_since(self.received_at) > CONTAINER_TTL
    }

    fn bytes(&self, app_id: &[u8]) -> usize {
        self.envelope.len() + app_id.len() + ENTRY_BYTES
    }
}

impl Containers {
    /// Adds the envelopes of a batch.
    fn take(&mut self, chunk: &EnvelopeChunk, now: Instant) {
        for bytes in LoggregatorBatch::new(chunk.batch()).flatten() {
            let Ok(envelope) = DropsondeEnvelope::parse(bytes) else { continue };
            if let DropsondeMessage::ContainerMetric(metric) = envelope.message {
                self.put(&metric, &envelope, now);
            }
        }
    }

    fn put(
        &mut self,
        metric: &DropsondeContainer<'_>,
        envelope: &DropsondeEnvelope<'_>,
        now: Instant,
    ) {
        if envelope.bytes.len() > CONTAINER_BYTES_MAX {
            return;
        }
        self.arrivals += 1;
        let newest = NewestMetrics {
            instance_index: metric.instance_index,
            timestamp_ns: envelope.timestamp_ns,
            received_at: now,
            arrival: self.arrivals,
            envelope: Bytes::copy_from_slice(envelope.bytes),
        };
        let app_id = metric.application_id;
        let added = newest.bytes(app_id);
        let instances = self.by_app.entry(app_id.to_vec()).or_default();
        let known =
            instances.iter_mut().find(|known| known.instance_index == newest.instance_index);
        match known {
            Some(known) if known.timestamp_ns > newest.timestamp_ns && !known.is_expired(now) => {}
            Some(known) => {
                self.bytes = self.bytes + added - known.bytes(app_id);
                *known = newest;
            }
            None => {
                self.bytes += added;
                instances.push(newest);
            }
        }
        if self.bytes > CONTAINERS_BYTES_MAX {
            self.forget(now);
        }
    }

    /// Removes expired entries, and the older half if that is not enough.
    fn forget(&mut self, now: Instant) {
        self.retain(|newest| !newest.is_expired(now));
        if self.bytes > CONTAINERS_BYTES_MAX / 2 {
            let all = self.by_app.values().flatten();
            let mut arrivals: Vec<u64> = all.map(|newest| newest.arrival).collect();
            arrivals.sort_unstable();
            if let Some(half) = arrivals.get(arrivals.len() / 2).copied() {
                self.retain(|newest| newest.arrival > half);
            }
        }
    }

    fn retain(&mut self, is_kept: impl Fn(&NewestMetrics) -> bool) {
        let mut bytes = 0;
        self.by_app.retain(|app_id, instances| {
            instances.retain(&is_kept);
            bytes += instances.iter().map(|newest| newest.bytes(app_id)).sum::<usize>();
            !instances.is_empty()
        });
        self.bytes = bytes;
    }

    /// Returns the number of containers.
    pub(super) fn count(&self, now: Instant) -> u64 {
        let all = self.by_app.values().flatten();
        all.filter(|newest| !newest.is_expired(now)).count() as u64
    }

    /// Returns the newest envelope of each instance of an application, in order.
    pub(super) fn of(&self, app_id: &str, now: Instant) -> Vec<Bytes> {
        let instances = self.by_app.get(app_id.as_bytes()).map_or(&[][..], Vec::as_slice);
        let mut found: Vec<&NewestMetrics> =
            instances.iter().filter(|newest| !newest.is_expired(now)).collect();
        found.sort_unstable_by_key(|newest| newest.instance_index);
        found.into_iter().map(|newest| newest.envelope.clone()).collect()
    }
}

impl ServiceState {
    /// The metrics of containers.
    pub(super) fn containers(&self) -> MutexGuard<'_, Containers> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Caches the metrics of containers until weir stops, also over restarts of the pipeline.
pub(super) async fn follow(state: Arc<ServiceState>) {
    let mut views = state.view.subscribe();
    let mut stopped = state.stopped.clone();
    loop {
        let view = views.borrow_and_update().clone();
        match view.map(|view| EnvelopeStream::of_containers(&view)) {
            None => {}
            Some(Err(error)) => tracing::warn!(%error, "no metrics of containers are kept"),
            Some(Ok(mut envelopes)) => loop {
                let chunk = tokio::select! {
                    chunk = envelopes.next() => chunk,
                    _ = stopped.wait_for(|stopped| *stopped) => return,
                };
                let Some(chunk) = chunk else { break };
                state.containers().take(&chunk, Instant::now());
            },
        }
        tokio::select! {
            changed = views.changed() => if changed.is_err() { return },
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn put(all: &mut Containers, app: &str, instance: i32, time: i64, now: Instant) {
        let metric = DropsondeContainer {
            application_id: app.as_bytes(),
            instance_index: instance,
            ..DropsondeContainer::default()
        };
        let message = DropsondeMessage::ContainerMetric(metric);
        let envelope = DropsondeEnvelope { timestamp_ns: time, message, ..Default::default() };
        let mut bytes = Vec::new();
        envelope.encode([].into_iter(), &mut bytes);
        all.put(&metric, &DropsondeEnvelope { bytes: &bytes, ..envelope }, now);
    }

    fn times(all: &Containers, app: &str, now: Instant) -> Vec<i64> {
        let parse = |bytes: &Bytes| DropsondeEnvelope::parse(bytes).unwrap().timestamp_ns;
        all.of(app, now).iter().map(parse).collect()
    }

    #[test]
    fn the_newest_of_each_instance_is_kept_for_its_time() {
        let (mut all, start) = (Containers::default(), Instant::now());
        put(&mut all, "a", 1, 5, start);
        put(&mut all, "a", 0, 7, start);
        put(&mut all, "a", 1, 4, start);
        put(&mut all, "b", 0, 9, start);
        assert_eq!(times(&all, "a", start), [7, 5]);
        let later = start + CONTAINER_TTL;
        put(&mut all, "a", 1, 6, later);
        assert_eq!(times(&all, "a", later), [7, 6]);
        let expired = later + Duration::from_secs(1);
        assert_eq!(times(&all, "a", expired), [6]);
        assert!(times(&all, "b", expired).is_empty() && times(&all, "c", expired).is_empty());
        put(&mut all, "b", 0, 1, expired);
        assert_eq!(times(&all, "b", expired), [1], "an expired one is replaced by any");
    }

    #[test]
    fn memory_is_limited_and_the_oldest_go_first() {
        let (mut all, start) = (Containers::default(), Instant::now());
        for number in 0..200_000_u32 {
            let now = start + Duration::from_micros(number.into());
            put(&mut all, &format!("app{number}"), 0, 1, now);
            assert!(all.bytes <= CONTAINERS_BYTES_MAX);
        }
        let now = start + Duration::from_millis(200);
        assert_eq!(times(&all, "app199999", now), [1]);
        assert!(times(&all, "app0", now).is_empty());
        let held: usize =
            all.by_app.iter().flat_map(|(app, all)| all.iter().map(|n| n.bytes(app))).sum();
        assert_eq!(held, all.bytes);
    }

    #[test]
    fn of_one_collection_the_last_ones_are_kept() {
        let (mut all, now) = (Containers::default(), Instant::now());
        for number in 0..200_000_u32 {
            put(&mut all, &format!("app{number}"), 0, 1, now);
        }
        assert!(all.bytes > CONTAINERS_BYTES_MAX / 4, "{} bytes", all.bytes);
        assert_eq!(times(&all, "app199999", now), [1]);
        assert!(times(&all, "app0", now).is_empty());
    }
}
