//! Limits of a response to a scrape. The caller limits its length.

/// Maximum length of a line, in bytes: a record holds any metric of that length with its labels.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of labels of a sample: Kubernetes' own metrics have about 20. It also bounds the
/// search for duplicates, which compares all pairs.
pub(super) const LABELS_MAX: usize = 64;

/// Maximum number of families with a type: the largest exporters have some thousands.
pub(super) const FAMILIES_MAX: usize = 50_000;
