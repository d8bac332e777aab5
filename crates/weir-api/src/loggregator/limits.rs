//! Limits of the readers' services, with their reasons.

use std::time::Duration;

use crate::explore::QueryLimits;

/// Maximum time of a TLS handshake, as in the original.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request for health may take to arrive, as in the original, and its answer to be taken.
pub(super) const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections to a port for health: those of a few probes.
pub(super) const HEALTH_CONNECTIONS_MAX: usize = 64;

/// Maximum wait for the head of a request over HTTP/1.1.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of the head of a request: the selectors of a hundred applications.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Maximum length of the form that sets a cookie, as in the original.
pub(super) const FORM_BYTES_MAX: usize = 4096;

/// How long a client of a websocket may take to answer a ping, as in the original.
pub(super) const PONG_TIMEOUT: Duration = Duration::from_secs(30);

/// How long after that it is asked again, as in the original.
pub(super) const PING_PAUSE: Duration = Duration::from_secs(15);

/// How long an envelope may wait for the client of a websocket before its stream ends, as in the
/// original.
pub(super) const SLOW_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may take to read why its stream ends.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes that are written to a websocket together: a client that takes 3 KiB per second is not slow.
pub(super) const SOCKET_WRITE_BYTES: usize = 16 * 1024;

/// Bytes that are read from a websocket together: clients send nothing but answers to pings.
pub(super) const SOCKET_READ_BYTES: usize = 1024;

/// Maximum length of what a client of a websocket sends.
pub(super) const CLIENT_MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// Characters of what a client says about itself that are stated when its stream is ended: paths
/// with the ids of applications and a few proxies.
pub(super) const CLIENT_TEXT_CHARS_MAX: usize = 1024;

/// How long the metrics of a container are answered, as in the original.
pub(super) const CONTAINER_TTL: Duration = Duration::from_mins(2);

/// Memory for the metrics of containers: those of 50,000, each with a few tags.
pub(super) const CONTAINERS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum size of the metrics of one container; those with more tags are not kept.
pub(super) const CONTAINER_BYTES_MAX: usize = 8 * 1024;

/// Maximum length of a request over gRPC: the selectors of some thousand applications.
pub(super) const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// Selectors of a stream: an index of all of them is built anew whenever a reader comes or leaves.
pub(super) const SELECTORS_MAX: usize = 1000;

/// Maximum time for such a request to arrive completely.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Wait before a call is refused. Client libraries try again without a pause; this is theirs.
pub(super) const REFUSAL_PAUSE: Duration = Duration::from_millis(200);

/// How often a connection with HTTP/2 is checked: less often than clients do it themselves.
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// How long a client may take to answer that: only machines that are gone take so long, not slow
/// readers.
pub(super) const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes of a stream that are on their way besides what its client allows: one batch.
pub(super) const SEND_BYTES_MAX: usize = 256 * 1024;

/// Maximum silence of the gateway, as in the original.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long a client may accept nothing over HTTP/1.1 before it is considered gone.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_mins(5);

/// How long streams may take to end when weir stops.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause after a connection could not be accepted: out of descriptors, others must close first.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Default number of envelopes of a read, as in the original.
pub(super) const READ_LIMIT: usize = 100;

/// Maximum number of envelopes of a read, as in the original.
pub(super) const READ_LIMIT_MAX: usize = 1000;

/// Maximum number of envelopes with the time of the last one that a read returns in addition: in the
/// original at most so many have the same time.
pub(super) const SAME_TIME_MAX: usize = 4000;

/// Maximum size of the envelopes of a read. As JSON they are at most a third longer: clients of the
/// original accept 50 MiB.
pub(super) const READ_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Maximum number of recent logs, as many as from the original's store.
pub(super) const RECENT_LOGS_MAX: usize = 1000;

/// Maximum age of what is known about sources, as in the original.
pub(super) const META_AGE_MAX: Duration = Duration::from_secs(1);

/// Maximum number of sources in an answer: what `READ_BYTES_MAX` has room for.
pub(super) const SOURCES_MAX: usize = 100_000;

/// Maximum time for finding all sources: the first time after a start, all segments are read.
pub(super) const META_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a compiled filter by name, which only knows names of metrics.
pub(super) const NAME_FILTER_BYTES_MAX: usize = 1024 * 1024;

/// Maximum length of a request for stored envelopes: its source and a filter.
pub(super) const STORED_REQUEST_BYTES_MAX: usize = 16 * 1024;

/// Limits of queries for stored envelopes: fewer threads than for the search, since most answers
/// take a few milliseconds, and a longer queue, since programs ask and not persons.
pub(super) fn stored_limits() -> QueryLimits {
    let limits = QueryLimits::default();
    QueryLimits {
        workers: (limits.workers / 2).max(1),
        waiting_max: 512,
        query_bytes_max: 2 * READ_BYTES_MAX,
        ..limits
    }
}

/// Maximum length of a query over metrics: more than anyone writes.
pub(super) const PROMQL_BYTES_MAX: usize = 8 * 1024;

/// How deeply it may be nested: its parser and evaluation call themselves for each level.
pub(super) const PROMQL_DEPTH_MAX: usize = 100;

/// Maximum number of sources of a selector.
pub(super) const PROMQL_SOURCES_MAX: usize = 100;

/// Maximum number of envelopes that a query reads of one source: as many as the original keeps.
pub(super) const PROMQL_ENVELOPES_MAX: usize = 100_000;

/// Maximum number of series of a selector.
pub(super) const PROMQL_SERIES_MAX: usize = 10_000;

/// Maximum number of steps of a query over a range of time, as in Prometheus.
pub(super) const PROMQL_STEPS_MAX: i64 = 11_000;

/// Maximum time of a query over metrics, as in the original.
pub(super) const PROMQL_TIMEOUT: Duration = Duration::from_secs(10);
