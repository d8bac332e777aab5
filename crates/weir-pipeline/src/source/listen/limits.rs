//! Bounds of every source that listens for HTTP requests, with their reasons.

use std::time::Duration;

use weir_model::limits::{FRAME_BYTES_MAX, LINE_BYTES_MAX};

/// Streams of a listener. An output never sends two requests with records of one stream at once,
/// and no stream may hold more than a quarter of ring or buffer while others wait: with one stream
/// a listener could use neither.
pub(in crate::source) const LANES: usize = 4;

/// Longest head of a request: 8 KiB of query for tags, and the headers of proxies.
pub(super) const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Longest wait for the head of a request, also between two requests of a connection. Who sends
/// it byte by byte holds a connection for no longer.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest wait for a TLS handshake.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for the next bytes of a body.
pub(super) const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a body may take whatever its size, and time for each [`BODY_BYTES_PER_SECOND_MIN`]
/// bytes that have come: a slow line gets its time, a client that drips does not.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Slowest rate at which a body is taken: a line of 128 kbit/s.
pub(super) const BODY_BYTES_PER_SECOND_MIN: usize = 16 * 1024;

/// How long the rest of a body that is not wanted is taken after its request was answered. Many
/// clients send all of it before they look at the answer.
pub(super) const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// Age at which a connection is asked to end after its present request, so that clients spread
/// anew over several listeners.
pub(super) const CONNECTION_AGE_MAX: Duration = Duration::from_mins(30);

/// How long ending connections may still take to finish their request and send the answer.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// How long a request waits for room in the journal, its turn in the lane included, before its
/// client is told to come again: the ring drains within milliseconds, a full buffer does not, and
/// clients give up after seconds. Once there has been no room for that long, nobody waits.
pub(super) const ROOM_WAIT: Duration = Duration::from_secs(2);

/// How long a request waits for the disk. What takes longer than this, clients have given up.
pub(super) const DURABLE_WAIT: Duration = Duration::from_secs(30);

/// When a client may come again that met a full buffer.
pub(in crate::source) const RETRY_AFTER_BUSY: Duration = Duration::from_secs(1);

/// When a client may come again that met a disk that does not write, which takes a person.
pub(in crate::source) const RETRY_AFTER_DISK: Duration = Duration::from_secs(5);

/// A batch is sealed with this much in it. The rest of the frame is for the record that crosses
/// the line, and for what rules add.
pub(super) const BATCH_BYTES: usize = 192 * 1024;

/// Pause after the system refused a connection: others must close first.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Figures are published at most this often.
pub(super) const PUBLISH_PAUSE: Duration = Duration::from_millis(200);

/// Largest body of a request, also once it is decompressed: that of every protocol that is spoken.
pub(in crate::source) const BODY_BYTES_MAX: usize = 5 << 20;

/// Memory of a listener beside the bodies that it is reading: one body decompressed, the batches of
/// one request in each lane, and a thousand idle connections.
pub const LISTENER_BYTES: u64 = (BODY_BYTES_MAX * (2 + LANES) + (8 << 20)) as u64;

const _: () = assert!(
    BATCH_BYTES + LINE_BYTES_MAX + 48 * 1024 < FRAME_BYTES_MAX,
    "the record that crosses the line fits in the frame, with the columns"
);
const _: () = assert!(ROOM_WAIT.as_secs() < GRACE.as_secs(), "a stop waits for those who wait");
