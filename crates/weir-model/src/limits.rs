//! Every bound of the data model, with its reason. Related bounds are asserted against each other.

use crate::{resources, routes};

/// Largest frame, header included. Half of the default message limit of the message bus that a
/// clustered journal stands on, and small enough that a batch stays in the second-level cache
/// between reading, decoding and sending.
pub const FRAME_BYTES_MAX: usize = 512 * 1024;

/// How much of a file is read into one batch at a time. The rest of the frame is room for joined
/// lines and for the columns.
pub const READ_BLOCK_BYTES: usize = 192 * 1024;

/// Default length at which a line is cut (in bytes as they stand in the source, so escaped for
/// docker json-file). A 16 KiB chunk of binary output is 98,391 bytes in such a file.
pub const LINE_BYTES_DEFAULT: usize = 192 * 1024;

/// Hard upper bound of the configured line length: a line, the block it was read in and the
/// columns must fit in one frame.
pub const LINE_BYTES_MAX: usize = 256 * 1024;

/// Largest encoded resource (attributes of a container, file or application).
pub const RESOURCE_BYTES_MAX: usize = 16 * 1024;

/// Largest resource table of a frame: an eighth of it, which the resources of 480 applications fit
/// in. Room for one resource is always kept free; more is taken as it is needed.
pub const RESOURCE_TABLE_BYTES_MAX: usize = 64 * 1024;

/// Room for resources that is always kept free in a frame: the largest one, and its entry.
pub const RESOURCE_BYTES_RESERVED: usize = RESOURCE_BYTES_MAX + resources::ENTRY_BYTES;

/// Room for routes that is always kept free in a frame; see [`ROUTED_RECORDS_MIN`].
pub const ROUTE_BYTES_RESERVED: usize = 8 * 1024;

/// Largest route table of a frame, where it has the room: 300 sets of 48 destinations each. What
/// has more is cut into smaller frames.
pub const ROUTE_BYTES_MAX: usize = 32 * 1024;

/// Room kept free at the end of a frame for routes, one resource and the book.
pub const TAIL_BYTES_RESERVED: usize = RESOURCE_BYTES_RESERVED + ROUTE_BYTES_RESERVED + 2 * 1024;

/// Largest attributes that rules may give a record, as JSON.
pub const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;

/// Largest resume state that a source may attach to a batch: both partial lines of a container
/// together are at most one line at the hard limit, plus the identity of the file.
pub const STATE_BYTES_MAX: usize = LINE_BYTES_MAX + 8 * 1024;

/// Destinations (journal cursors) over the life of a data directory.
pub const CURSORS_MAX: usize = 4096;

/// Memory kept in the pool of frame buffers when they are not in use: a quarter of the default
/// ring, which is what a full ring frees before it wakes the sources. With less, every second
/// buffer was given back and cleared anew: a tenth of the CPU time at full speed.
pub const POOL_BYTES_MAX: usize = 16 * 1024 * 1024;

/// So many records can go to as many different sets of destinations in one frame, however many
/// destinations there are; one more set is where most records go.
pub const ROUTED_RECORDS_MIN: usize =
    ROUTE_BYTES_RESERVED / (routes::ENTRY_BYTES + routes::SET_BYTES_MAX) - 1;

const _: () = assert!(
    ROUTED_RECORDS_MIN >= 8,
    "a line, the records that it ends, and the open ones of both streams of a container can be no \
     more than eight records; these must fit in a frame, since they cannot be read apart"
);
const _: () = assert!(
    READ_BLOCK_BYTES + STATE_BYTES_MAX + TAIL_BYTES_RESERVED + 16 * 1024 < FRAME_BYTES_MAX,
    "a block and the lines joined over its edges (either open in the state, or joined in the \
     arena, never both) must fit in a frame with the columns of at least one record"
);
const _: () = assert!(
    STATE_BYTES_MAX + ATTRIBUTES_BYTES_MAX + TAIL_BYTES_RESERVED + 16 * 1024 < FRAME_BYTES_MAX,
    "a line, the state and the attributes that rules may add must fit in a frame"
);
const _: () = assert!(LINE_BYTES_DEFAULT <= LINE_BYTES_MAX, "default line length within the bound");
const _: () = assert!(
    RESOURCE_TABLE_BYTES_MAX / resources::ENTRY_BYTES < u16::MAX as usize,
    "rows name resources by numbers of 16 bits"
);
const _: () = assert!(
    ROUTE_BYTES_MAX / routes::ENTRY_BYTES < u16::MAX as usize,
    "rows name routes by numbers of 16 bits"
);
const _: () = assert!(CURSORS_MAX <= u16::MAX as usize + 1, "destinations have 16 bits in a route");
