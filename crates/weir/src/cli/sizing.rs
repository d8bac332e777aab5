//! Bounds of the load for which `weir config check` calculates how long the buffers last.
//!
//! Invariant: no product of these numbers overflows.

use weir_host::units::{format_size, parse_size};

/// Maximum messages per second: more than any machine receives.
pub(crate) const RATE_MAX: u64 = 1_000_000_000;

/// Maximum size of a message: more than any source accepts.
pub(crate) const MESSAGE_BYTES_MAX: u64 = 16 << 20;

/// Maximum `log_fetch_limit`: a thousand times the default of syslog-ng.
pub(crate) const FETCH_LIMIT_MAX: u64 = 100_000;

/// The size of a message.
pub(super) fn message_size(text: &str) -> Result<u64, String> {
    match parse_size(text) {
        Ok(bytes) if bytes <= MESSAGE_BYTES_MAX => Ok(bytes),
        Ok(_) => Err(format!("exceeds the maximum of {}", format_size(MESSAGE_BYTES_MAX))),
        Err(error) => Err(error.to_string()),
    }
}
