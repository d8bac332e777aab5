//! Limits of the readers' services, with their reasons.

use std::time::Duration;

/// Maximum time of a TLS handshake, as in the original.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum wait for the head of a request over HTTP/1.1.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum length of the head of a request: the selectors of a hundred applications.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Maximum length of a request over gRPC: the selectors of some thousand applications.
pub(super) const REQUEST_BYTES_MAX: usize = 256 * 1024;

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
