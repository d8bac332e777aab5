//! Every bound of the language, with its reason.

/// Longest expression, bytes. A list of a thousand addresses fits; a file given by mistake does
/// not.
pub const EXPRESSION_BYTES_MAX: usize = 64 * 1024;

/// Deepest nesting of groups and negations. Evaluation and printing recurse this deep.
pub const DEPTH_MAX: usize = 100;

/// Deepest nesting inside a regular expression.
pub const REGEXP_DEPTH_MAX: u32 = 100;

/// Fields that one measure may look at, those of the measures that it is computed from included. What
/// somebody writes has tens.
pub const MEASURE_STEPS_MAX: u64 = 10_000;

/// Bytes that one compiled regular expression may take: `\w{1000}` does not fit, every pattern
/// seen in configurations does.
pub const REGEXP_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of states that a compiled regular expression may keep while it is used; with fewer it builds
/// them again more often.
pub const REGEXP_CACHE_BYTES: usize = 2 * 1024 * 1024;

/// Rules in one set: a rule is told by 32 bits, and the tables of more take seconds to build.
pub const RULES_MAX: usize = 20_000;

/// Bytes that all regular expressions of a set may take together.
pub const RULE_SET_BYTES_MAX: usize = 256 * 1024 * 1024;
