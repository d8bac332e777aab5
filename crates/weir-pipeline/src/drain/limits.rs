//! Limits of drains that are not configurable, with the reason for each.

use std::time::Duration;

/// A drain whose oldest record has waited for this long is relocated. Unsettled batches are sent
/// again after a crash, to every drain that has records in them.
pub(super) const RELOCATE_AFTER: Duration = Duration::from_secs(2);

/// The same while more than three quarters of the common window are used, so that a slow drain
/// gives way before others have to wait.
pub(super) const RELOCATE_EARLY_AFTER: Duration = Duration::from_millis(200);

/// Maximum number of records of one drain in the window. A drain with more is slower than its
/// application; it is relocated before it uses up the window of others.
pub(super) const QUEUE_RECORDS_MAX: usize = 16 * 1024;

/// Maximum time that records of a lagging drain are gathered before they are appended to its
/// stream: a frame and its place in the journal cost about as much as 500 bytes.
pub(super) const GATHER_INTERVAL: Duration = Duration::from_secs(1);

/// Size at which the gathered records are appended without waiting any longer.
pub(super) const GATHER_BYTES: usize = 128 * 1024;

/// Maximum size of the records that are appended at once: the ring takes all of them or none. On a
/// full disk, as many of the oldest are discarded at once.
pub(super) const APPEND_BYTES: usize = 1024 * 1024;

/// Pause after the journal had no room.
pub(super) const APPEND_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// How long the journal may have no room for a lagging drain before records are discarded, if they
/// hold up others. A full ring is written to disk within that time; a full disk stays full.
pub(super) const REFUSED_MAX: Duration = Duration::from_secs(2);

/// Records of a lagging drain that are in memory at once: enough to fill several requests.
pub(super) const CATCH_UP_RECORDS: usize = 1024;

/// Maximum number of records in one request or write, and so of those that are sent twice after a
/// connection failed.
pub(super) const SEND_RECORDS_MAX: usize = 256;

/// Size at which a request or write ends.
pub(super) const SEND_BYTES: usize = 128 * 1024;

/// First and longest pause after a failure. The longest is that of the original.
pub(super) const RETRY_MIN: Duration = Duration::from_millis(10);
/// See [`RETRY_MIN`].
pub(super) const RETRY_MAX: Duration = Duration::from_secs(15);

/// Batches taken from the sources between two of lagging drains, so that those always get a tenth.
pub(super) const TURNS: usize = 9;

/// Interval between checks of timeouts.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// Number of resources whose drains are cached.
pub(super) const RESOURCES_MAX: usize = 64 * 1024;

/// Interval at which an idle worker checks whether to close its connection.
pub(super) const IDLE_CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Maximum number of queued commands. They come from users.
pub(super) const COMMANDS_MAX: usize = 64;

/// Interval at which the state of all drains is published.
pub(super) const PUBLISH_INTERVAL: Duration = Duration::from_millis(500);

/// Publishing takes at most one part in this many of the time: with ten thousand drains it is done
/// less often.
pub(super) const PUBLISH_SHARE: u32 = 50;

/// How much of the sources' records must wait before they are taken at once, and how long they may
/// wait otherwise.
pub(super) const READY_BYTES: u64 = 64 * 1024;
/// See [`READY_BYTES`].
pub(super) const READY_AFTER: Duration = Duration::from_millis(2);

/// Maximum number of queued messages for the owners of applications. If the journal has no room for
/// them, the newest are kept, which are the most useful.
pub(super) const MESSAGES_MAX: usize = 1000;

/// How long a drain must fail before its owner is told: shorter failures lose nothing.
pub(super) const TELL_FAILURE_AFTER: Duration = Duration::from_secs(2);

/// How often the owner is told that a drain still fails, has lost more, or still cannot be used.
pub(super) const REPEAT_FAILURE_AFTER: Duration = Duration::from_mins(5);
/// See [`REPEAT_FAILURE_AFTER`].
pub(super) const REPEAT_LOSS_AFTER: Duration = Duration::from_mins(1);
/// See [`REPEAT_FAILURE_AFTER`].
pub(super) const REPEAT_REJECTION_AFTER: Duration = Duration::from_hours(1);

/// Maximum number of drains. Each takes about a kilobyte.
pub(super) const DRAINS_MAX: usize = 100_000;

/// Maximum number of paused drains, including those that no list has now. Only a user pauses one.
pub(super) const PAUSED_MAX: usize = DRAINS_MAX;

/// Maximum size of the file of drains: 10,000 drains with certificates are a tenth of it.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 30;

/// Maximum number of damaged files of drains that are kept: none of them is overwritten.
pub(super) const ASIDE_MAX: usize = 100;

/// Number of saved drains that cannot be used whose error is reported in health.
pub(super) const UNUSABLE_REPORTED_MAX: usize = 3;
