//! The table `rate_limit` of sources that listen: its checks, and its settings.
//!
//! Invariant: datagrams, which cannot be delayed, are discarded by default, and `delay` is rejected
//! for them.

use std::time::Duration;

use weir_pipeline::config::{QuotaField, QuotaSettings};

use crate::config::choices::{Choice as _, SyslogProtocol, WhenOverQuota};
use crate::config::diagnostic::{Diagnostics, nearest};
use crate::config::field::FieldDefault::{Unset, Value};
use crate::config::field::{Field, ValueType, field, list_or, time};
use crate::config::section::Section;

/// The key of the limits.
pub(super) const RATE_LIMIT: Field = field(
    "rate_limit",
    ValueType::Table(QUOTAS),
    Unset("no limit"),
    "Limit for each sender, so that a noisy one does not fill the buffers that others need. See \
     [noisy senders](../guide/noisy-senders.md).",
);

/// Quotas by key.
const QUOTAS: &[Field] = &[
    field(
        "by",
        ValueType::Names,
        Value("[\"host\"]"),
        "Fields that make up a key; the limits apply to each key separately. `host`: the host named \
         in the record, or otherwise its sender; `app_name` or `service`: the program named in the \
         record; `peer`: the address of the sender. Up to 65,536 keys are distinguished; further \
         ones share a limit.",
    ),
    field(
        "records_per_second",
        ValueType::Count { min: 1, max: 1_000_000_000 },
        Unset("no limit of records; one of the two limits is required"),
        "Records per second and key.",
    ),
    field(
        "bytes_per_second",
        ValueType::Size { min: 1 << 10, max: 1 << 40 },
        Unset("no limit of bytes"),
        "Bytes per second and key.",
    ),
    field(
        "burst",
        time(Duration::from_millis(100), Duration::from_hours(1)),
        Value("\"5s\""),
        "Size of a burst that a key may send after a pause, as a time: with 1000 records per second \
         and `\"5s\"`, 5000 records.",
    ),
    field(
        "when_limited",
        ValueType::Choice(WhenOverQuota::WORDS),
        Unset("`\"delay\"`; `\"discard\"` for datagrams, which cannot be delayed"),
        "What to do with records above the limit.",
    ),
];

/// Checks the table of a source, if there is one.
pub(super) fn check(source: &Section, diagnostics: &mut Diagnostics) {
    let Some(section) = source.table("rate_limit") else { return };
    if !section.is_set("records_per_second") && !section.is_set("bytes_per_second") {
        let message = format!("{} limits nothing", section.path);
        diagnostics
            .error(section.location.clone(), &section.path, message)
            .help("set records_per_second, bytes_per_second, or both");
    }
    fields(source, section, diagnostics);
    let is_delay = section.optional_choice("when_limited") == Some(WhenOverQuota::Delay);
    if is_delay && is_datagrams(source) {
        let key_path = section.key_path("when_limited");
        let message = format!("{key_path} cannot be \"delay\": datagrams cannot be delayed");
        diagnostics
            .error(section.location("when_limited"), &key_path, message)
            .help("write \"discard\", or receive over \"tcp\", \"relp\" or \"unix_stream\"");
    }
}

fn fields(source: &Section, section: &Section, diagnostics: &mut Diagnostics) {
    let key_path = section.key_path("by");
    if section.is_empty_list("by") {
        let message = format!("{key_path} is empty");
        diagnostics
            .error(section.location("by"), &key_path, message)
            .help("write [\"host\"] for a limit of each host");
    }
    let mut found: Vec<QuotaField> = Vec::new();
    for (text, location) in section.list("by") {
        let mut error = |message: String, help: &str| {
            diagnostics.error(Some(location.clone()), &key_path, message).help(help);
        };
        let Some(field) = named(text) else {
            let names = || QuotaField::ALL.iter().map(|field| field.name());
            let help = match nearest(text, names()) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("write {}", list_or(names())),
            };
            error(format!("{text:?} is not a field of {key_path}"), &help);
            continue;
        };
        if found.iter().any(|other| is_same(*other, field)) {
            error(format!("{key_path} names the same field twice"), "remove one of them");
        }
        let needed = needed(source, field);
        if let Some((message, help)) = needed {
            error(message.to_owned(), help);
        }
        found.push(field);
    }
}

/// Why a source has no such field, and what to write.
fn needed(source: &Section, field: QuotaField) -> Option<(&'static str, &'static str)> {
    match field {
        QuotaField::Peer if is_unix(source) => {
            Some(("senders to a Unix socket have no address", "write \"app_name\" or \"host\""))
        }
        QuotaField::AppName if !source.has("protocol") => {
            Some(("records of this source have no app_name", "write \"service\""))
        }
        QuotaField::Peer | QuotaField::Host | QuotaField::Service | QuotaField::AppName => None,
    }
}

fn is_same(one: QuotaField, other: QuotaField) -> bool {
    let is_program = |field| matches!(field, QuotaField::Service | QuotaField::AppName);
    one == other || is_program(one) && is_program(other)
}

fn named(text: &str) -> Option<QuotaField> {
    QuotaField::ALL.iter().copied().find(|field| field.name() == text)
}

/// Whether a source listens on a Unix socket.
pub(super) fn is_unix(source: &Section) -> bool {
    source.has("protocol")
        && match source.choice("protocol") {
            SyslogProtocol::UnixStream | SyslogProtocol::UnixDatagram => true,
            SyslogProtocol::Tcp | SyslogProtocol::Relp | SyslogProtocol::Udp => false,
        }
}

fn is_datagrams(source: &Section) -> bool {
    if !source.has("protocol") {
        return source.has("receive_buffer");
    }
    match source.choice("protocol") {
        SyslogProtocol::Udp | SyslogProtocol::UnixDatagram => true,
        SyslogProtocol::Tcp | SyslogProtocol::Relp | SyslogProtocol::UnixStream => false,
    }
}

/// The settings of a source; `None` if it has no limit.
pub(super) fn settings(source: &Section) -> Option<QuotaSettings> {
    let section = source.table("rate_limit")?;
    let is_set = |key| section.is_set(key);
    let when_limited = section.optional_choice("when_limited");
    Some(QuotaSettings {
        by: section.list("by").iter().filter_map(|(text, _)| named(text)).collect(),
        records_per_second: section.count("records_per_second").map(|count| count as f64),
        bytes_per_second: is_set("bytes_per_second")
            .then(|| section.size("bytes_per_second") as f64),
        burst: section.duration("burst"),
        discards: is_datagrams(source) || when_limited == Some(WhenOverQuota::Discard),
    })
}
