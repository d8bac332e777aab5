//! Keys of searching and following.

use std::time::Duration;

use super::{Default, Field, Kind, field, time};
use Default::{None, Value};

/// `[api.queries]`.
pub(super) const QUERIES: &[Field] = &[
    field(
        "concurrent",
        Kind::Count { min: 1, max: 256 },
        None("twice the processors"),
        "Queries that are answered at once, each by a thread of its own.",
    ),
    field(
        "waiting",
        Kind::Count { min: 0, max: 10_000 },
        Value("64"),
        "Queries that may wait for their turn. Who comes when as many wait is answered with 429.",
    ),
    field(
        "wait",
        time(Duration::from_millis(10), Duration::from_mins(1)),
        Value("\"1s\""),
        "How long a query may wait for its turn; it is answered with 503 then. When more has been \
         asked than can be answered for so long, the newest queries come first, and the others \
         wait at most a tenth of it.",
    ),
    field(
        "deadline",
        time(Duration::from_millis(10), weir_api::DEADLINE_MAX),
        Value("\"1500ms\""),
        "How long a query may take that does not say it (`--timeout`). What was found by then is \
         the answer, and marked as partial.",
    ),
    field(
        "memory",
        Kind::Size { min: 1 << 20, max: 16 << 30 },
        Value("\"32MiB\""),
        "Memory in which one query gathers its answer. What was found when it is used up is the \
         answer, and marked as partial.",
    ),
    field(
        "tails",
        Kind::Count { min: 0, max: 1024 },
        Value("64"),
        "Live tails (`weir tail`, `weir search --follow`) that are served at once. Records are \
         looked at once for all of them; 16 MiB of records wait for all, and about 1.5 MiB of rows \
         for each whose reader is slow.",
    ),
];
