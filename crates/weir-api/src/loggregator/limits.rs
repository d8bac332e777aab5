//! Limits of the readers' services, with their reasons.

use std::time::Duration;

use crate::explore::QueryLimits;

/// Maximum time of a TLS handshake, as in the original.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a health request, as in the original, and of its response.
pub(super) const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of connections to a health port: those of a few probes.
pub(super) const HEALTH_CONNECTIONS_MAX: usize = 64;

/// Maximum wait for the head of a request over HTTP/1.1.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of the head of a request: the selectors of a hundred applications.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Maximum length of the form that sets a cookie, as in the original.
pub(super) const FORM_BYTES_MAX: usize = 4096;

/// How long a WebSocket client may take to answer a ping, as in the original.
pub(super) const PONG_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause before the next ping, as in the original.
pub(super) const PING_PAUSE: Duration = Duration::from_secs(15);

/// How long an envelope may wait for a WebSocket client before its stream is ended, as in the
/// original.
pub(super) const SLOW_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may take to accept the close frame.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Size of writes to a WebSocket: a client that accepts 3 KiB per second is not too slow.
pub(super) const SOCKET_WRITE_BYTES: usize = 16 * 1024;

/// Size of reads from a WebSocket: clients send only pongs.
pub(super) const SOCKET_READ_BYTES: usize = 1024;

/// Maximum length of a message from a WebSocket client.
pub(super) const CLIENT_MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of characters of a client's URL and headers in the event about its ended stream:
/// paths with the ids of applications, and a few proxies.
pub(super) const CLIENT_TEXT_CHARS_MAX: usize = 1024;

/// Maximum age of the metrics of a container, as in the original.
pub(super) const CONTAINER_TTL: Duration = Duration::from_mins(2);

/// Memory for the metrics of containers: those of 50,000, each with a few tags.
pub(super) const CONTAINERS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum size of the metrics of one container; those with more tags are not kept.
pub(super) const CONTAINER_BYTES_MAX: usize = 8 * 1024;

/// Maximum length of a request over gRPC: the selectors of some thousand applications.
pub(super) const REQUEST_BYTES_MAX: usize = 256 * 1024;

/// Maximum number of selectors of a stream: the index of all selectors is rebuilt whenever a reader
/// connects or disconnects.
pub(super) const SELECTORS_MAX: usize = 1000;

/// Maximum time for receiving such a request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Delay before a call is refused, since client libraries retry without a pause.
pub(super) const REFUSAL_PAUSE: Duration = Duration::from_millis(200);

/// Interval of HTTP/2 keep-alive pings: less often than clients send them.
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// Timeout of a keep-alive ping: longer than any slow reader takes to answer.
pub(super) const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_mins(1);

/// Bytes of a stream in flight in addition to its HTTP/2 window: one batch.
pub(super) const SEND_BYTES_MAX: usize = 256 * 1024;

/// Maximum silence of the gateway, as in the original.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long a client may accept nothing over HTTP/1.1 before it is considered gone.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_mins(5);

/// How long streams may take to end when weir stops.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause after a connection could not be accepted: if descriptors are exhausted, others must close
/// first.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Default number of envelopes of a read, as in the original.
pub(super) const READ_LIMIT: usize = 100;

/// Maximum number of envelopes of a read, as in the original.
pub(super) const READ_LIMIT_MAX: usize = 1000;

/// Maximum number of additional envelopes with the time of the last one that a read returns: in the
/// original at most this many have the same time.
pub(super) const SAME_TIME_MAX: usize = 4000;

/// Maximum size of the envelopes of a read. As JSON they are at most a third longer: clients of the
/// original accept 50 MiB.
pub(super) const READ_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Maximum number of recent logs, as many as from the original's store.
pub(super) const RECENT_LOGS_MAX: usize = 1000;

/// Maximum age of the cached list of sources, as in the original.
pub(super) const META_AGE_MAX: Duration = Duration::from_secs(1);

/// Maximum number of sources in a response: as many as fit in `READ_BYTES_MAX`.
pub(super) const SOURCES_MAX: usize = 100_000;

/// Maximum time for finding all sources: the first time after a start, all segments are read.
pub(super) const META_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a compiled filter by metric name.
pub(super) const NAME_FILTER_BYTES_MAX: usize = 1024 * 1024;

/// Maximum length of a request for stored envelopes: a source and a filter.
pub(super) const STORED_REQUEST_BYTES_MAX: usize = 16 * 1024;

/// Limits of queries for stored envelopes: fewer threads than for the search, since most answers
/// take a few milliseconds, and a longer queue, since clients are programs rather than people.
pub(super) fn stored_limits() -> QueryLimits {
    let limits = QueryLimits::default();
    QueryLimits {
        workers: (limits.workers / 2).max(1),
        waiting_max: 512,
        query_bytes_max: 2 * READ_BYTES_MAX,
        ..limits
    }
}

/// Maximum length of a query over metrics: longer than any written by hand.
pub(super) const PROMQL_BYTES_MAX: usize = 8 * 1024;

/// Maximum nesting depth: parser and evaluation are recursive.
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
