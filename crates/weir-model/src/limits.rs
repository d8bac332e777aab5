//! All limits of the data model, with the reason for each. Related limits are asserted against each
//! other.

use crate::{resources, routes};

/// Maximum size of a frame, header included. Half of the default message limit of the message bus
/// that a clustered journal would use, and small enough that a batch stays in the second-level
/// cache between reading, decoding and sending.
pub const FRAME_BYTES_MAX: usize = 512 * 1024;

/// How much of a file is read into one batch at a time. The rest of the frame is for joined lines
/// and for the columns.
pub const READ_BLOCK_BYTES: usize = 192 * 1024;

/// Default length at which a line is truncated (in bytes of the source, so including escapes for
/// docker json-file). A 16 KiB chunk of binary output is 98,391 bytes in such a file.
pub const LINE_BYTES_DEFAULT: usize = 192 * 1024;

/// Upper bound of the configured line length: a line, the block it was read in and the columns must
/// fit in one frame.
pub const LINE_BYTES_MAX: usize = 256 * 1024;

/// Maximum size of an encoded resource (attributes of a container, file or application).
pub const RESOURCE_BYTES_MAX: usize = 16 * 1024;

/// Maximum size of the resource table of a frame: an eighth of the frame, enough for the resources
/// of 480 applications. Room for one resource is always reserved; more is taken as needed.
pub const RESOURCE_TABLE_BYTES_MAX: usize = 64 * 1024;

/// Room that is always reserved for resources in a frame: the largest one, and its entry.
pub const RESOURCE_BYTES_RESERVED: usize = RESOURCE_BYTES_MAX + resources::ENTRY_BYTES;

/// Room that is always reserved for routes in a frame; see [`ROUTED_RECORDS_MIN`].
pub const ROUTE_BYTES_RESERVED: usize = 8 * 1024;

/// Maximum size of the route table of a frame, if there is room: 300 sets of 48 destinations each.
/// Batches that need more are divided into smaller frames.
pub const ROUTE_BYTES_MAX: usize = 32 * 1024;

/// Room reserved at the end of a frame for routes, one resource and the book.
pub const TAIL_BYTES_RESERVED: usize = RESOURCE_BYTES_RESERVED + ROUTE_BYTES_RESERVED + 2 * 1024;

/// Maximum size of the attributes that rules may give a record, as JSON.
pub const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;

/// Maximum size of the resume state that a source may attach to a batch: both partial lines of a
/// container together are at most one line of the maximum length, plus the identity of the file.
pub const STATE_BYTES_MAX: usize = LINE_BYTES_MAX + 8 * 1024;

/// Maximum number of destinations (journal cursors) over the lifetime of a data directory.
pub const CURSORS_MAX: usize = 4096;

/// Maximum size of the unused frame buffers kept in the pool: a quarter of the default ring, which
/// is what a full ring frees before it wakes the sources. With less, every second buffer was freed
/// and had to be cleared again, costing a tenth of the CPU time at full speed.
pub const POOL_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Number of records that can go to as many different sets of destinations in one frame, however
/// many destinations there are; there is one additional set for where most records go.
pub const ROUTED_RECORDS_MIN: usize =
    ROUTE_BYTES_RESERVED / (routes::ENTRY_BYTES + routes::SET_BYTES_MAX) - 1;

const _: () = assert!(
    ROUTED_RECORDS_MIN >= 8,
    "a line, the records that it completes, and the open ones of both streams of a container are \
     at most eight records; they must fit in a frame, because they cannot be read separately"
);
const _: () = assert!(
    READ_BLOCK_BYTES + STATE_BYTES_MAX + TAIL_BYTES_RESERVED + 16 * 1024 < FRAME_BYTES_MAX,
    "a block and the lines joined across its edges (either open in the state, or joined in the \
     arena, never both) must fit in a frame with the columns of at least one record"
);
const _: () = assert!(
    STATE_BYTES_MAX + ATTRIBUTES_BYTES_MAX + TAIL_BYTES_RESERVED + 16 * 1024 < FRAME_BYTES_MAX,
    "a line, the state and the attributes that rules may add must fit in a frame"
);
const _: () = assert!(LINE_BYTES_DEFAULT <= LINE_BYTES_MAX, "default line length within the limit");
const _: () = assert!(
    RESOURCE_TABLE_BYTES_MAX / resources::ENTRY_BYTES < u16::MAX as usize,
    "rows refer to resources by 16-bit numbers"
);
const _: () = assert!(
    ROUTE_BYTES_MAX / routes::ENTRY_BYTES < u16::MAX as usize,
    "rows refer to routes by 16-bit numbers"
);
const _: () = assert!(CURSORS_MAX <= u16::MAX as usize + 1, "destinations have 16 bits in a route");
