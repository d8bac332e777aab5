//! Keys of rules and their tests.

use super::{Field, FieldDefault, ValueType, field};
use FieldDefault::{Required, Unset, Value};

pub(super) const RULE: &[Field] = &[
    field("name", ValueType::Text, Required, "Unique name of the rule in metrics and messages."),
    field(
        "when",
        ValueType::Expression,
        Value("\"*\""),
        "Which records match: an [expression](expressions.md). Single quotes avoid escaping \
         backslashes.",
    ),
    field(
        "to",
        ValueType::Names,
        Unset("adds no output"),
        "Outputs that receive the matching records; `store` is weir's own store.",
    ),
    field(
        "final",
        ValueType::Bool,
        Value("false"),
        "Whether later rules are skipped for records that match.",
    ),
    field(
        "drop",
        ValueType::Bool,
        Value("false"),
        "Discards the records, whatever earlier rules did; counted with the reason `rule`.",
    ),
    field(
        "sample",
        ValueType::Share,
        Unset("all of them"),
        "Share of the records to keep. The choice is deterministic: the same records are kept each \
         time they are read. The others are discarded and counted with the reason `sampled`.",
    ),
    field(
        "parse",
        ValueType::Names,
        Unset("nothing"),
        "Formats to read attributes from: `json`, `logfmt`, `syslog`, `common`, `combined`, \
         `nginx`, or a custom format in the syntax of nginx's `log_format`; `text` takes time and \
         severity from the start of a plain text line. The first format that matches is used; a \
         message that matches none is left as it is.",
    ),
    field(
        "extract",
        ValueType::Text,
        Unset("nothing"),
        "A regular expression; the matches of its named groups `(?<name>...)` in the message \
         become attributes. Two underscores in a name stand for a dot.",
    ),
    field(
        "set",
        ValueType::Values,
        Unset("nothing"),
        "Values for `\"@attribute\"`, `message`, `status`, `service` or `host`: numbers, booleans, \
         text with fields in it (`\"{service} {@user.id}\"`; a literal brace is doubled), or `{ \
         calculated = \"@request_time - @upstream_response_time\" }`. A status is recognized by its \
         beginning, as in a record; text that is none leaves it unchanged.",
    ),
    field(
        "remove",
        ValueType::Names,
        Unset("nothing"),
        "Attributes (`\"@password\"`) to remove, also from a message that is JSON.",
    ),
    field(
        "redact",
        ValueType::Items,
        Unset("nothing"),
        "What to hide before the record is written to disk: `\"card\"`, `\"email\"`, `\"token\"`, \
         `\"ip\"`, or a table with `preset` or `pattern` (the first group is what is hidden), \
         `with` (a text, `\"*\"` for the same number of asterisks, or `\"hash\"`), `key` (for the \
         hash, a secret), and `field` (`message` or `\"@attribute\"`; default: everywhere).",
    ),
];

pub(super) const TEST: &[Field] = &[
    field("name", ValueType::Text, Required, "What the test shows."),
    field(
        "record",
        ValueType::Values,
        Required,
        "The record: `message`, and where needed `source`, `service`, `host`, `status`, \
         `iostream`, `\"@attribute\"` and tag names.",
    ),
    field("rules", ValueType::Names, Unset("not checked"), "Exactly the rules that must match."),
    field(
        "to",
        ValueType::Names,
        Unset("not checked"),
        "Exactly the outputs that must receive the record; an empty list if it must be discarded.",
    ),
    field(
        "expect",
        ValueType::Values,
        Unset("not checked"),
        "Values expected afterwards: `message`, `status`, `\"@attribute\"`; `false` for an \
         attribute that must be absent.",
    ),
];
