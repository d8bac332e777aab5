//! Keys for searches and live tails.

use std::time::Duration;

use super::{Field, FieldDefault, ValueType, field, time};
use FieldDefault::{Unset, Value};

/// `[api.queries]`.
pub(super) const QUERIES: &[Field] = &[
    field(
        "concurrent_max",
        ValueType::Count { min: 1, max: 256 },
        Unset("twice the number of processors"),
        "Number of queries that run at once. A quarter of them, at least one of two, have been \
         running for less than 25 ms: a query that takes longer is paused while too many others \
         do. Paused queries together keep at most half as much memory as those that run.",
    ),
    field(
        "waiting_max",
        ValueType::Count { min: 0, max: 10_000 },
        Value("64"),
        "Number of queries that may wait to run. When that many are waiting, further queries are \
         answered with 429.",
    ),
    field(
        "wait_max",
        time(Duration::from_millis(10), Duration::from_mins(1)),
        Value("\"1s\""),
        "How long a query may wait to run; after that it is answered with 503. While more queries \
         arrive than can be answered for this long, the newest run first, and the others wait at \
         most a tenth of this time.",
    ),
    field(
        "deadline",
        time(Duration::from_millis(10), weir_api::DEADLINE_MAX),
        Value("\"1500ms\""),
        "Deadline of queries that do not set their own (`--timeout`). What was found by then is \
         returned and marked as partial.",
    ),
    field(
        "memory_max",
        ValueType::Size { min: 1 << 20, max: 16 << 30 },
        Value("\"32MiB\""),
        "Memory limit of one query. When it is reached, what was found so far is returned and \
         marked as partial.",
    ),
    field(
        "tails_max",
        ValueType::Count { min: 0, max: 1024 },
        Value("64"),
        "Maximum number of concurrent live tails (`weir tail`, `weir search --follow`). Records \
         are matched once for all of them; 16 MiB of records are buffered in total, and about 1.5 \
         MiB of rows for each slow reader.",
    ),
];
