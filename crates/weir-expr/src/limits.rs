//! All limits of the language, with the reason for each.

/// Maximum length of an expression in bytes. A list of a thousand addresses fits; a file passed by
/// mistake does not.
pub const EXPRESSION_BYTES_MAX: usize = 64 * 1024;

/// Maximum nesting of groups and negations. Evaluation and printing recurse this deep.
pub const DEPTH_MAX: usize = 100;

/// Maximum number of errors that one suggestion corrects. Typing mistakes are fewer; beyond that it
/// would be a guess.
pub const CORRECTIONS_MAX: usize = 4;

/// Maximum nesting inside a regular expression.
pub const REGEXP_DEPTH_MAX: u32 = 100;

/// Maximum number of fields that one calculated field may read, including those of the calculated
/// fields that it uses. Hand-written ones have tens.
pub const FORMULA_STEPS_MAX: u64 = 10_000;

/// Maximum size of a compiled regular expression in bytes: `\w{1000}` does not fit, but every
/// pattern found in real configurations does.
pub const REGEXP_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Maximum size of the states that a compiled regular expression caches in use, in bytes; with
/// fewer it rebuilds them more often.
pub const REGEXP_CACHE_BYTES: usize = 2 * 1024 * 1024;

/// Maximum number of rules in a set: rules are numbered with 32 bits, and building the tables for
/// more takes seconds.
pub const RULES_MAX: usize = 20_000;

/// Maximum size of all regular expressions of a set together, in bytes.
pub const RULE_SET_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Maximum size of the states that all regular expressions of a set cache together in each thread,
/// in bytes: the full cache for the first 32, smaller ones if there are more.
pub const RULE_SET_CACHE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Minimum size of the states that a regular expression of a set caches, in bytes: a search with
/// less would rebuild them all the time.
pub const RULE_CACHE_BYTES_MIN: usize = 16 * 1024;
