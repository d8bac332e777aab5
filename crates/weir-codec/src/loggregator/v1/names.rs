//! Names of enumerated values, and identifiers as text.

use super::envelope::{DropsondeType, DropsondeUuid};

/// Methods of requests, in the order of their numbers, from 1.
const METHODS: [&str; 44] = [
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "HEAD",
    "ACL",
    "BASELINE_CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "DEBUG",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "OPTIONS",
    "ORDERPATCH",
    "PATCH",
    "PRI",
    "PROPFIND",
    "PROPPATCH",
    "REBIND",
    "REPORT",
    "SEARCH",
    "SHOWMETHOD",
    "SPACEJUMP",
    "TEXTSEARCH",
    "TRACE",
    "TRACK",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION_CONTROL",
];

/// The side that measured a request, from 1.
const PEERS: [&str; 2] = ["Client", "Server"];

fn name_of(names: &[&'static str], number: u64) -> Option<&'static str> {
    names.get(usize::try_from(number.checked_sub(1)?).ok()?).copied()
}

/// Returns the number of a name; 0 if it is unknown, as in the original.
fn number_of(names: &[&str], name: &[u8]) -> u64 {
    names.iter().position(|known| known.as_bytes() == name).map_or(0, |at| at as u64 + 1)
}

pub(super) fn method_name(number: u64) -> Option<&'static str> {
    name_of(&METHODS, number)
}

pub(super) fn method_number(name: &[u8]) -> u64 {
    number_of(&METHODS, name)
}

pub(super) fn peer_name(number: u64) -> Option<&'static str> {
    name_of(&PEERS, number)
}

pub(super) fn peer_number(name: &[u8]) -> u64 {
    number_of(&PEERS, name)
}

impl DropsondeType {
    pub(super) fn of(number: u64) -> Option<Self> {
        Some(match number {
            4 => Self::HttpStartStop,
            5 => Self::LogMessage,
            6 => Self::ValueMetric,
            7 => Self::CounterEvent,
            8 => Self::Error,
            9 => Self::ContainerMetric,
            _ => return None,
        })
    }

    /// Returns its name in the original, and in the tag `__v1_type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::HttpStartStop => "HttpStartStop",
            Self::LogMessage => "LogMessage",
            Self::ValueMetric => "ValueMetric",
            Self::CounterEvent => "CounterEvent",
            Self::Error => "Error",
            Self::ContainerMetric => "ContainerMetric",
        }
    }
}

/// Positions of the hyphens in the text of an identifier.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Length of an identifier as text.
const UUID_LEN: usize = 36;

impl DropsondeUuid {
    /// Reads the usual form with hyphens. As in the original, the separators are not checked.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() != UUID_LEN {
            return None;
        }
        let mut digits = text.iter().enumerate().filter(|(at, _)| !HYPHENS.contains(at));
        let mut bytes = [0_u8; 16];
        for byte in &mut bytes {
            let mut digit = || char::from(*digits.next()?.1).to_digit(16);
            *byte = (digit()? << 4 | digit()?) as u8;
        }
        let number = u128::from_le_bytes(bytes);
        Some(Self { low: number as u64, high: (number >> 64) as u64 })
    }

    /// Appends the usual form with hyphens.
    pub fn write(self, out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let number = u128::from(self.high) << 64 | u128::from(self.low);
        for (at, byte) in number.to_le_bytes().into_iter().enumerate() {
            if [4, 6, 8, 10].contains(&at) {
                out.push(b'-');
            }
            for digit in [byte >> 4, byte & 15] {
                out.extend(DIGITS.get(usize::from(digit)));
            }
        }
    }
}
