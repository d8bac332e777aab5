//! Mistakes in the settings of searches and live tails.

use super::check;

#[test]
fn wrong_calculated_fields() {
    check(&[
        (
            "[store]\ncalculated_fields = { delay = \"@a - \" }",
            2,
            "store.calculated_fields.delay: ",
            "",
        ),
        (
            "[store]\ncalculated_fields = { delay = 5 }",
            2,
            "store.calculated_fields.delay must be text",
            "calculated_fields =",
        ),
        (
            "[store]\ncalculated_fields = { a = \"@a + 1\" }",
            2,
            "computed from itself",
            "another name",
        ),
        (
            "[store]\ncalculated_fields = { x = \"@a\", a = \"@b + 1\", b = \"2 * @a\" }",
            2,
            "computed from itself through b",
            "another name",
        ),
        (
            "[store.calculated_fields]\na = \"(@b + @b) * (@b + @b)\"\nb = \"(@c + @c) * (@c + @c)\"\n\
             c = \"(@d + @d) * (@d + @d)\"\nd = \"(@e + @e) * (@e + @e)\"\n\
             e = \"(@f + @f) * (@f + @f)\"\nf = \"(@g + @g) * (@g + @g)\"\n\
             g = \"(@h + @h) * (@h + @h)\"\nh = \"(@i + @i) * (@i + @i)\"\n",
            2,
            "store.calculated_fields.a is too long",
            "fewer times",
        ),
        ("[store]\nmeasures = {}", 2, "unknown key \"measures\"", "\"calculated_fields\"?"),
        ("[journal]\nlimit = \"1GiB\"", 2, "unknown key \"limit\"", "\"size_max\"?"),
        ("[api.queries]\ntails = 1", 2, "unknown key \"tails\"", "\"tails_max\"?"),
        ("[store]\ncalculated_fields = { a = \"@b_ms + @c_bytes\" }", 2, "a time and a size", ""),
        (
            "[store.calculated_fields]\ndelay = \"250ms + 4KiB\"",
            2,
            "store.calculated_fields.delay: ",
            "",
        ),
    ]);
}

#[test]
fn wrong_units() {
    check(&[
        ("[units]\ntook = 5", 2, "units.took must be a unit", "took ="),
        ("[units]\ntook = \"msec\"", 2, "\"msec\" is not a unit", "did you mean \"ms\"?"),
        ("[units]\ntook = \"seconds\"", 2, "is not a unit", "did you mean \"s\"?"),
        ("[units]\nhttp.sent = \"kib\"", 2, "units.http.sent: ", "did you mean \"KiB\"?"),
        ("[units]\ntook = \"parsec\"", 2, "is not a unit", "units are ns us ms s min h"),
        ("[units]\n\"a..b\" = \"ms\"", 2, "cannot have an empty part", "such as"),
        ("[units]\nlag = \"ms\"", 2, "units.lag: @lag is in nanoseconds", "with store.remap"),
        (
            "[store.remap]\n\"behind\" = \"lag\"\n[units]\na = \"s\"\nbehind = \"ms\"",
            5,
            "units.lag: @lag is in nanoseconds",
            "give the attribute another name",
        ),
        ("[units]\n\"a.b\" = \"ms\"\na.b = \"s\"", 3, "units.a.b has two units", "one of them"),
    ]);
}

#[test]
fn wrong_renames() {
    check(&[
        ("[store.remap]\na = 5", 2, "store.remap.a must be the new name", "remap ="),
        ("[store.remap]\na = \"b..c\"", 2, "cannot have an empty part", "such as"),
        (
            "[store.remap]\n\"a.b\" = \"@a\"",
            2,
            "a.b and a are part of each other",
            "in a different place",
        ),
        ("[store.remap]\na = \"b\"\nb = \"c\"", 3, "overlaps with the entry a", "final name"),
        ("[store.remap]\na = \"b\"\n\"a.x\" = \"c\"", 3, "overlaps with the entry a", "once"),
    ]);
}

#[test]
fn wrong_query_limits() {
    check(&[
        (
            "[api.queries]\ndeadline = \"2m\"",
            2,
            "api.queries.deadline is 2m; the maximum is 1m",
            "",
        ),
        ("[api.queries]\ntails_max = -1", 2, "api.queries.tails_max", ""),
        (
            "[api.queries]\nmemory_max = \"8KiB\"",
            2,
            "api.queries.memory_max is 8KiB; the minimum is 1MiB",
            "",
        ),
        ("[api.queries]\ndedline = \"1s\"", 2, "unknown key", "deadline"),
        ("[api]\nqueries = 5", 2, "api.queries", ""),
        (
            "[api.queries]\nconcurrent_max = 100\nmemory_max = \"64MiB\"",
            3,
            "100 queries of 64MiB at once, and paused ones, need 9600MiB",
            "reduce",
        ),
    ]);
}
