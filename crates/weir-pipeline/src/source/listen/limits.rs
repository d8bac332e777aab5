//! Limits of every source that listens, with their reasons.

use std::time::Duration;

use weir_host::DATAGRAM_BYTES_MAX;
use weir_model::limits::{FRAME_BYTES_MAX, LINE_BYTES_MAX};

/// Streams of a listener. An output never sends two requests with records of one stream at once,
/// and no stream may hold more than a quarter of ring or buffer while others wait: with a single
/// stream, a listener could not use them.
pub(in crate::source) const LANES: usize = 4;

/// Maximum number of threads of a listener.
pub const LISTENER_THREADS_MAX: usize = 16;

/// How long a record without acknowledgement waits for others to fill a batch: the flush that
/// follows takes as long, and readers of a live tail do not notice it.
pub(in crate::source) const GATHER_TIME: Duration = Duration::from_millis(4);

/// The same for Loggregator envelopes, whose readers follow them live: within 5 ms.
pub(super) const GATHER_TIME_OF_ENVELOPES: Duration = Duration::from_millis(1);

/// Bytes read from a connection at a time. The buffer is shared by all connections of a listener.
pub(super) const READ_BYTES: usize = 64 * 1024;

/// How long a message may take from its first byte to its last. A connection that sends a message
/// byte by byte is closed; what it sent is kept.
pub(super) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection is still read when the source is told to stop, so that data that has
/// already arrived is not lost.
pub(super) const DRAIN_TIME: Duration = Duration::from_millis(500);

/// Maximum time to send responses: a client that exceeds it has left those of a whole window
/// unread.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which the kernel's count of drops is read.
pub(super) const DROPS_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of producers (host and program of a sender) that a listener caches in encoded
/// form: those of a large network, in 2 MiB.
pub(in crate::source) const PRODUCERS_MAX: usize = 8192;

/// Maximum size of the head of a request: 8 KiB of query for tags, and the headers of proxies.
pub(super) const HEAD_BYTES_MAX: usize = 32 * 1024;

/// Maximum time to receive the head of a request, also between two requests of a connection. A
/// client that sends it byte by byte holds a connection no longer than this.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time for a TLS handshake.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time to wait for the next bytes of a body.
pub(super) const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time to receive a body, plus a second for each [`BODY_BYTES_PER_SECOND_MIN`] bytes
/// received: a slow line gets the time it needs, a client that sends byte by byte does not.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum rate at which a body must arrive: that of a line of 128 kbit/s.
pub(super) const BODY_BYTES_PER_SECOND_MIN: usize = 16 * 1024;

/// How long the rest of an unwanted body is read after the response. Many clients send all of it
/// before they read the response.
pub(super) const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// Age at which a connection is asked to end after its current request, so that clients are
/// redistributed over several listeners.
pub(super) const CONNECTION_AGE_MAX: Duration = Duration::from_mins(30);

/// How long ending connections may still take to finish their request and send the response.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// How long a request waits for room in the journal, including its turn in the lane, before the
/// client is told to retry: the ring drains within milliseconds, a full buffer does not, and
/// clients give up after seconds. Once there has been no room for that long, requests do not wait.
pub(super) const ROOM_WAIT: Duration = Duration::from_secs(2);

/// How long a request waits for the disk. After this time, clients have given up.
pub(super) const DURABLE_WAIT: Duration = Duration::from_secs(30);

/// When a client should retry after it met a full buffer.
pub(in crate::source) const RETRY_AFTER_BUSY: Duration = Duration::from_secs(1);

/// When a client should retry after the disk failed, which an operator must fix.
pub(in crate::source) const RETRY_AFTER_DISK: Duration = Duration::from_secs(5);

/// Maximum time after which a client is told to retry when its quota is used up: clients that wait
/// for longer give up or run out of memory.
pub(in crate::source) const RETRY_AFTER_LIMIT_MAX: Duration = Duration::from_mins(1);

/// Size at which a batch is sealed. The rest of the frame is for the record that exceeds this size,
/// and for what rules add.
pub(super) const BATCH_BYTES: usize = 192 * 1024;

/// Pause after the system refused a connection: others must close first.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of keys (hosts, programs or senders) with a quota of their own: those of a large
/// network. Further keys share one.
pub(super) const QUOTA_KEYS_MAX: usize = 65_536;

/// Bytes per key of a quota, at most: its bucket, its entry in the table, and the same once more
/// while the table grows.
const QUOTA_KEY_BYTES: usize = 32 + 2 * 17 + 32;

/// Maximum time until the wait of a connection is counted, and until it ends when it should.
pub(super) const WAIT_SLICE: Duration = Duration::from_secs(1);

/// Minimum interval between updates of the statistics.
pub(super) const PUBLISH_PAUSE: Duration = Duration::from_millis(200);

/// Maximum number of concurrent requests of an HTTP/2 connection: they take turns in the lane of
/// their connection.
pub(super) const HTTP2_REQUESTS_MAX: u32 = 64;

/// Bytes that a client may send of a request before they are read: enough for 5 MB/s at a distance
/// of 50 ms.
pub(super) const HTTP2_WINDOW_BYTES: u32 = 256 * 1024;

/// Bytes that a client may send of all requests of a connection before they are read.
pub(super) const HTTP2_CONNECTION_BYTES: u32 = 4 * HTTP2_WINDOW_BYTES;

/// Maximum size of a gRPC message, as in Loggregator's servers.
pub(super) const GRPC_MESSAGE_BYTES_MAX: usize = 10 << 20;

/// Bytes that a client may send in a stream before they are read: the default of HTTP/2, enough for
/// 100 MB/s at a distance of half a millisecond.
pub(super) const GRPC_WINDOW_BYTES: u32 = 64 * 1024;

/// Maximum number of concurrent streams of a connection. Clients open one, and another for each
/// event.
pub(super) const GRPC_STREAMS_MAX: u32 = 32;

/// Bytes that a client may send in all streams of a connection before they are read. Each stream
/// can use its whole window, so that those that wait cannot stop others.
pub(super) const GRPC_CONNECTION_BYTES: u32 = GRPC_STREAMS_MAX * GRPC_WINDOW_BYTES;

/// The same for a connection that has sent [`GRPC_WIDE_AFTER`] in a stream: enough for 100 MB/s if
/// an answer takes 2.5 ms, because of the distance or because the machine is busy.
pub(super) const GRPC_WIDE_WINDOW_BYTES: u32 = 256 * 1024;
/// See [`GRPC_WIDE_WINDOW_BYTES`].
pub(super) const GRPC_WIDE_CONNECTION_BYTES: u32 = GRPC_STREAMS_MAX * GRPC_WIDE_WINDOW_BYTES;

/// Number of bytes in a stream after which its connection gets wide windows: reached soon only by a
/// client that sends much.
pub(super) const GRPC_WIDE_AFTER: u64 = 1 << 20;

/// Maximum number of connections of a listener with such windows: these carry most of the load.
pub(super) const GRPC_WIDE_MAX: usize = 16;

/// Maximum length of a frame: large, so that clients can send a batch in few frames.
pub(super) const GRPC_FRAME_BYTES_MAX: u32 = GRPC_WINDOW_BYTES;

/// Maximum size of the metadata of a call.
pub(super) const METADATA_BYTES_MAX: u32 = 16 * 1024;

/// Memory for unread frames of a connection, besides their content: a full window of the smallest
/// envelopes. The connection of a client that exceeds it is closed.
pub(super) const SMALL_FRAMES_BYTES_MAX: usize = 4 << 20;

/// Maximum number of unused buffers that are kept for messages: as many as are usually read at the
/// same time.
pub(super) const GRPC_SPARES_MAX: usize = 8;

/// Maximum size of such a buffer: a batch of a thousand lines.
pub(super) const GRPC_SPARE_BYTES_MAX: usize = 1 << 20;

/// Interval of keep-alive pings: well above the minimum that clients tolerate.
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_mins(1);

/// How long the answer to a ping may take, as in Loggregator's servers.
pub(super) const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum size of a request body, also after decompression, for all protocols.
pub(in crate::source) const BODY_BYTES_MAX: usize = 5 << 20;

/// Memory of a listener in addition to the bodies being received: one decompressed body, the
/// batches of one request in each lane, and a thousand idle connections.
pub const LISTENER_BYTES: u64 = (BODY_BYTES_MAX * (2 + LANES) + (8 << 20)) as u64;

/// Memory of a listener without acknowledgement: its batches (one per lane, and two to divide one),
/// the buffers for datagrams or connections, and the cached producers.
pub const SYSLOG_LISTENER_BYTES: u64 =
    ((LANES + 2) * FRAME_BYTES_MAX + 64 * DATAGRAM_BYTES_MAX + (4 << 20)) as u64;

/// Memory of a gRPC listener, in addition to incomplete messages: as above, buffers, and the
/// windows of 256 unread streams, of which a wide one counts as four.
pub const LOGGREGATOR_LISTENER_BYTES: u64 = SYSLOG_LISTENER_BYTES
    + (GRPC_SPARES_MAX * GRPC_SPARE_BYTES_MAX + 256 * GRPC_WINDOW_BYTES as usize) as u64;

/// Memory of a rate limit by key: all keys, and 2 MiB for the names and counts of those that exceed
/// it, and for reports.
pub const QUOTA_BYTES: u64 = (QUOTA_KEYS_MAX * QUOTA_KEY_BYTES + (2 << 20)) as u64;

const _: () = assert!(
    BATCH_BYTES + LINE_BYTES_MAX + 48 * 1024 < FRAME_BYTES_MAX,
    "the record that exceeds the size fits in the frame, with the columns"
);
const _: () =
    assert!(ROOM_WAIT.as_secs() < GRACE.as_secs(), "a stop takes longer than a wait for room");
