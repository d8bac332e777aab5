//! Limits of access control and sessions, with their reasons.

use std::time::Duration;

/// Time after which an unused session ends: a working day with a break.
pub(super) const SESSION_IDLE_MAX: Duration = Duration::from_hours(12);

/// Time after which a session ends even if the page polls all the time: a person signs in once a
/// week.
pub(super) const SESSION_AGE_MAX: Duration = Duration::from_hours(7 * 24);

/// Maximum number of sessions: those of a large team, in at most 16 MiB.
pub(super) const SESSIONS_MAX: usize = 1000;

/// Maximum number of sessions of one token, so that its owner cannot end those of all others.
pub(super) const SESSIONS_PER_TOKEN_MAX: usize = 100;

/// Maximum length of the path of a cookie: longer than the prefix of any page.
pub(super) const COOKIE_PATH_BYTES_MAX: usize = 512;

/// Pause before a request with an invalid token is answered. It slows down those who guess, each of
/// whose connections waits; valid tokens are not affected.
pub(super) const FAILURE_PAUSE: Duration = Duration::from_millis(250);

/// Minimum time between two log messages about invalid tokens: enough to notice an attack, and not
/// enough to fill a disk.
pub(super) const FAILURE_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Time after which a stream of events of a user of UAA is interrupted, so that access is checked
/// again when its client reconnects.
pub(super) const RECHECK_INTERVAL: Duration = Duration::from_mins(15);
