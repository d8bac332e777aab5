//! Every bound of the store, with its reason. Related bounds are asserted against each other.

/// Rows of one page, in every column alike. A page of messages is then 2 MiB of text, where zstd
/// has 99 % of the ratio that larger pages give it.
pub const PAGE_ROWS: usize = 16_384;

/// Pages of a row group: one bit each in a `u64`, which is how pages are chosen.
pub const ROW_GROUP_PAGES_MAX: usize = 64;

/// Rows of a row group.
pub const ROW_GROUP_ROWS_MAX: usize = PAGE_ROWS * ROW_GROUP_PAGES_MAX;

/// Bytes of texts in a row group, in memory: what a merge has to hold.
pub const ROW_GROUP_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Row groups of a file: the footer is read whole.
pub const ROW_GROUPS_MAX: usize = 1024;

/// Attribute paths of a segment that have a column of their own. A column costs about 425 bytes
/// of footer and index per row group, whatever is in it.
pub const ATTRIBUTE_COLUMNS_MAX: usize = 256;

/// Columns of a file: the fixed ones, and for each attribute at most itself, its numbers and its
/// kinds.
pub const COLUMNS_MAX: usize = 32 + 3 * ATTRIBUTE_COLUMNS_MAX;

/// Distinct values of a dictionary: codes of two bytes.
pub const DICTIONARY_VALUES_MAX: usize = 65_536;

/// Bytes of a dictionary: it is read whole before the first row is looked at.
pub const DICTIONARY_BYTES_MAX: usize = 1024 * 1024;

/// Largest page before compression. More than a row group holds in all, encodings included.
pub const PAGE_BYTES_MAX: usize = ROW_GROUP_BYTES_MAX + ROW_GROUP_ROWS_MAX * 16;

/// Largest footer, indexes included: that of the largest file is a tenth of this.
pub const FOOTER_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Attributes without a column of their own that are listed: there may be as many as records.
pub const RARE_FIELDS_MAX: usize = 10_000;

/// Fields whose values are counted at once: each has memory of its own, and is read.
pub const FACET_FIELDS_MAX: usize = 200;

/// Distinct values of a field that are counted, by each thread, before the rare ones are
/// forgotten: more than anybody looks at.
pub const FACET_VALUES_MAX: usize = 10_000;

/// Threads of one query. More would leave none for taking records in.
pub const QUERY_THREADS_MAX: usize = 4;

/// One in so many bytes of a query's memory is for the states of its regular expressions.
pub const REGEXP_CACHE_SHARE: usize = 4;

/// Least bytes of states for a regular expression in a thread: with fewer it is hardly faster than
/// without.
pub const REGEXP_CACHE_BYTES_MIN: usize = 16 * 1024;

/// The manifest is written anew when it is this large and mostly history.
pub const MANIFEST_BYTES_MIN: u64 = 1024 * 1024;

/// Deliveries that one chunk of the head holds: more are flushed early. The journal remembers a
/// hundred thousand for all its destinations together.
pub const HELD_MAX: usize = 16_384;

/// Sequences that are passed over at each start: what was in the head when the process ended is
/// never given again, so that whoever remembers the sequence of a record finds that one or none.
pub const SEQUENCE_GAP: u64 = 4 * ROW_GROUP_ROWS_MAX as u64;

/// Least memory of the head: two chunks, each of which can take the largest batch.
pub const HEAD_BYTES_MIN: u64 = 8 * 1024 * 1024;

/// Segments that are merged at once: their footers are in memory, and a failure costs no more
/// than this work.
pub const MERGE_SEGMENTS_MAX: usize = 16;

/// Segments of the same size that wait until they are merged: fewer files for queries to look
/// at, against the writing that each merge costs.
pub const MERGE_SEGMENTS_MIN: usize = 8;

/// Records below this many bytes, as they came in, are decoded and encoded anew when they are
/// merged; larger row groups compress as well as they will and are copied as they stand.
pub const STITCH_BYTES_MIN: u64 = 32 * 1024 * 1024;

/// Deletions that are not done yet: each query applies all of them.
pub const DELETIONS_PENDING_MAX: usize = 64;

/// Deletions that are listed after they were done.
pub const DELETIONS_DONE_MAX: usize = 256;

/// Records that are encoded anew at once, bytes as they came in: what a merge has in memory.
pub const MERGE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Segments that are larger on disk are not put together any more: retention removes whole ones.
pub const SEGMENT_BYTES_MAX: u64 = 512 * 1024 * 1024;

const _: () = assert!(2 * HELD_MAX < 100_000 / 2, "two chunks leave room for other destinations");
const _: () = assert!(ROW_GROUP_PAGES_MAX == u64::BITS as usize, "a mask has a bit per page");
const _: () = assert!(PAGE_BYTES_MAX < i32::MAX as usize, "sizes of pages are signed 32 bits");
const _: () = assert!(
    ROW_GROUP_BYTES_MAX + weir_model::limits::FRAME_BYTES_MAX < u32::MAX as usize,
    "texts are found by 32 bits, also those of the row that made the group full"
);
