//! All limits of the store, with the reason for each. Related limits are asserted against each
//! other.

/// Rows of one page, the same in every column. A page of messages is then 2 MiB of text, for which
/// zstd reaches 99 % of the compression ratio of larger pages.
pub const PAGE_ROWS: usize = 16_384;

/// Maximum number of pages in a row group: one bit each in a `u64`, which is how pages are
/// selected.
pub const ROW_GROUP_PAGES_MAX: usize = 64;

/// Maximum number of rows in a row group.
pub const ROW_GROUP_ROWS_MAX: usize = PAGE_ROWS * ROW_GROUP_PAGES_MAX;

/// Maximum size of the texts in a row group, in memory: what a merge has to hold.
pub const ROW_GROUP_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Maximum number of row groups in a file: the whole footer is read at once.
pub const ROW_GROUPS_MAX: usize = 1024;

/// Maximum number of attribute paths of a segment with a column of their own. A column costs about
/// 425 bytes of footer and index per row group, whatever it contains.
pub const ATTRIBUTE_COLUMNS_MAX: usize = 256;

/// Maximum number of columns in a file: the fixed ones, and for each attribute its values, its
/// numbers and its kinds.
pub const COLUMNS_MAX: usize = 32 + 3 * ATTRIBUTE_COLUMNS_MAX;

/// Maximum number of distinct values in a dictionary: codes of two bytes.
pub const DICTIONARY_VALUES_MAX: usize = 65_536;

/// Maximum size of a dictionary: it is read completely before the first row is read.
pub const DICTIONARY_BYTES_MAX: usize = 1024 * 1024;

/// Maximum uncompressed size of a page. More than a whole row group takes, encodings included.
pub const PAGE_BYTES_MAX: usize = ROW_GROUP_BYTES_MAX + ROW_GROUP_ROWS_MAX * 16;

/// Maximum size of the footer including indexes: that of the largest file is a tenth of this.
pub const FOOTER_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Maximum number of listed attributes without a column: there may be as many as records.
pub const RARE_FIELDS_MAX: usize = 10_000;

/// Maximum number of fields whose values are counted at once: each takes memory and must be read.
pub const FACET_FIELDS_MAX: usize = 200;

/// Maximum number of distinct values of a field that each thread counts before it drops the rare
/// ones: more than anyone would look at.
pub const FACET_VALUES_MAX: usize = 10_000;

/// Maximum number of threads of one query. More would leave none for taking records in.
pub const QUERY_THREADS_MAX: usize = 4;

/// The fraction of a query's memory for cached states of its regular expressions, as a divisor.
pub const REGEXP_CACHE_SHARE: usize = 4;

/// Minimum memory for cached states of a regular expression in a thread: below this, the cache
/// hardly helps.
pub const REGEXP_CACHE_BYTES_MIN: usize = 16 * 1024;

/// Maximum number of services of segments that are remembered, over all segments: about 32 MiB with
/// names of the usual length.
pub const SERVICE_SPANS_CACHED_MAX: usize = 256 * 1024;

/// Minimum size for rewriting the manifest, which also requires that it is mostly history.
pub const MANIFEST_BYTES_MIN: u64 = 1024 * 1024;

/// Maximum number of deliveries held by one chunk of the head; beyond this it is flushed early. The
/// journal keeps track of a hundred thousand for all of its destinations together.
pub const HELD_DELIVERIES_MAX: usize = 16_384;

/// Number of sequences skipped at each start: those given to records in the head when the process
/// ended are never reused, so a remembered sequence refers to the same record or to none.
pub const SEQUENCE_GAP: u64 = 4 * ROW_GROUP_ROWS_MAX as u64;

/// Minimum memory of the head: two chunks, each of which can take the largest batch.
pub const HEAD_BYTES_MIN: u64 = 8 * 1024 * 1024;

/// Maximum number of segments merged at once: their footers are in memory, and a failure wastes no
/// more than this work.
pub const MERGE_SEGMENTS_MAX: usize = 16;

/// Minimum number of segments of the same size to merge: fewer files for queries to read, against
/// the writing that each merge costs.
pub const MERGE_SEGMENTS_MIN: usize = 8;

/// Row groups whose records have fewer bytes than this, as received, are decoded and encoded again
/// when they are merged; larger ones would not compress any better and are copied unchanged.
pub const CONCAT_BYTES_MIN: u64 = 32 * 1024 * 1024;

/// Maximum number of deletions that are not done: each query applies all of them.
pub const DELETIONS_PENDING_MAX: usize = 64;

/// Maximum number of ended deletions that are listed.
pub const DELETIONS_DONE_MAX: usize = 256;

/// Maximum size, as received, of the records that are encoded at once: what a merge holds in
/// memory.
pub const MERGE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Maximum size of a merged segment on disk: retention removes whole segments.
pub const SEGMENT_BYTES_MAX: u64 = 512 * 1024 * 1024;

const _: () =
    assert!(2 * HELD_DELIVERIES_MAX < 100_000 / 2, "two chunks leave room for other destinations");
const _: () = assert!(ROW_GROUP_PAGES_MAX == u64::BITS as usize, "a mask has a bit per page");
const _: () = assert!(PAGE_BYTES_MAX < i32::MAX as usize, "sizes of pages are signed 32 bits");
const _: () = assert!(
    ROW_GROUP_BYTES_MAX + weir_model::limits::FRAME_BYTES_MAX < u32::MAX as usize,
    "text offsets have 32 bits, including those of the row that fills the group"
);
