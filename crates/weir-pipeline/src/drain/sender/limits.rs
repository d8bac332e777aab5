//! Limits of connections to drains, with the reason for each.

use std::time::Duration;

/// Maximum time to resolve a name, connect, and shake hands, as in the original.
pub(super) const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time to connect to one of the addresses of a name, so that a dead one leaves time for
/// another.
pub(super) const ADDRESS_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum time for the kernel to accept a message, as in the original. It applies to the whole
/// message, so that a peer that reads slowly cannot extend it.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time from a request to its complete response, as in the original.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Idle time after which TCP keep-alive probes are sent, as in the original.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Time without a message after which a connection is closed, as in the original.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(10);

/// Age at which an HTTP connection is replaced, so that changes of DNS, certificates and load
/// balancers take effect even if the destination is never down. The original does so after 30 s for
/// `https-batch`.
pub(super) const CONNECTION_AGE_MAX: Duration = Duration::from_secs(30);

/// Idle time after which an HTTP connection is not reused, since servers close idle connections:
/// half of the shortest timeout of common servers.
pub(super) const HTTP_IDLE_MAX: Duration = Duration::from_secs(30);

/// Maximum length of a request with many messages, as in the original. A longer message is sent
/// alone.
pub(super) const BATCH_BYTES_MAX: usize = 512 * 1024;

/// Number of waiting messages for which another request of an `https` drain is in flight, if that
/// is allowed: with few messages one connection is enough.
pub(super) const MESSAGES_PER_LANE_MIN: usize = 4;

/// Maximum number of connections of all `https` drains beyond one for each.
pub(super) const MORE_CONNECTIONS_MAX: usize = 1024;

/// Maximum size of a write, so that the count of accepted messages follows the kernel closely.
pub(super) const WRITE_BYTES_MAX: usize = 64 * 1024;

/// Maximum length of a response that is read so that its connection can be reused.
pub(super) const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// How long after its first messages a new connection has to stay open for them to count as
/// accepted. With TLS 1.3 a server rejects the certificate of a client only after that has begun to
/// send, and proxies accept connections for servers that are down: without this, every connection
/// would lose messages.
pub(super) const PROOF_TIME: Duration = Duration::from_millis(100);
