//! Limits of connections to drains, with the reason for each.

use std::time::Duration;

/// Maximum time to resolve a name, connect, and shake hands, as in the original.
pub(super) const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time to connect to one of the addresses of a name, so that a dead one leaves time for
/// another.
pub(super) const ADDRESS_TIMEOUT: Duration = Duration::from_secs(4);

/// How long a message may take to be accepted by a connection, as in the original. What counts is
/// the whole message: a peer that takes a byte from time to time holds up nothing for longer.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request may take until all of its answer is there, as in the original.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Silence after which a peer is asked whether it is there, as in the original.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Time without a message after which a connection is closed, as in the original.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(10);

/// Age at which a connection of HTTP is replaced, so that changed names, certificates and load
/// balancers take effect even if the destination is never down. The original does so after 30 s for
/// `https-batch`.
pub(super) const CONNECTION_AGE_MAX: Duration = Duration::from_secs(30);

/// Silence after which a connection of HTTP is not used again, since servers close it at some time:
/// half of what the strictest common servers allow.
pub(super) const HTTP_IDLE_MAX: Duration = Duration::from_secs(30);

/// Maximum length of a request with many messages, as in the original. A longer message is sent
/// alone.
pub(super) const BATCH_BYTES_MAX: usize = 512 * 1024;

/// How much is written at once, so that what counts as accepted follows what the kernel takes.
pub(super) const WRITE_BYTES_MAX: usize = 64 * 1024;

/// Maximum length of an answer that is read so that its connection can be used again.
pub(super) const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// How long after its first messages a new connection has to stay open for them to count as
/// accepted. With TLS 1.3 a server refuses the certificate of a client after that has begun to
/// send, and proxies accept connections for servers that are down: everything would be lost,
/// connection by connection.
pub(super) const PROOF_TIME: Duration = Duration::from_millis(100);
