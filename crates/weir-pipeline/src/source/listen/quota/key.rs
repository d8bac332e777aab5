//! The key of a quota: the sender, host or service of a record, or several of them.
//!
//! Invariants: keys are distinguished only by a 64-bit hash, so that a known key costs neither an
//! allocation nor a comparison of names (of 65,536 keys, two share a quota with a probability below
//! one in a billion); the name of a key is limited in length, and has no control characters.

use std::fmt::{self, Write as _};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;

use weir_model::{PEER, Resource, hash64};

use crate::config::QuotaField;

/// Maximum length of a part of a name, in bytes: that of a host in RFC 5424.
const PART_BYTES_MAX: usize = 255;

/// The origin of a record, from its own fields. An empty text means that the field is missing.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::source) struct Origin<'o> {
    pub(in crate::source) host: &'o [u8],
    pub(in crate::source) service: &'o [u8],
    /// The address of the sender; `None` for Unix sockets.
    pub(in crate::source) peer: Option<IpAddr>,
}

/// The fields that make up a key.
#[derive(Debug, Clone, Default)]
pub(in crate::source) struct KeyFields(Vec<QuotaField>);

/// The display name of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::source) struct KeyName {
    parts: Vec<(QuotaField, String)>,
}

impl KeyFields {
    pub(in crate::source) fn new(fields: &[QuotaField]) -> Self {
        Self(fields.to_vec())
    }

    /// Returns the key of a record. `scratch` is only working memory.
    pub(in crate::source) fn key(&self, origin: &Origin<'_>, scratch: &mut Vec<u8>) -> u64 {
        scratch.clear();
        for field in &self.0 {
            match field {
                QuotaField::Host => scratch.extend_from_slice(origin.host),
                QuotaField::Service | QuotaField::AppName => {
                    scratch.extend_from_slice(origin.service);
                }
                QuotaField::Peer => match origin.peer {
                    Some(IpAddr::V4(peer)) => scratch.extend_from_slice(&peer.octets()),
                    Some(IpAddr::V6(peer)) => scratch.extend_from_slice(&peer.octets()),
                    None => {}
                },
            }
            scratch.push(0);
        }
        hash64(scratch)
    }

    /// Returns the name of the key of a record.
    pub(in crate::source) fn name(&self, origin: &Origin<'_>) -> KeyName {
        let part = |field: &QuotaField| match field {
            QuotaField::Host => printable(origin.host),
            QuotaField::Service | QuotaField::AppName => printable(origin.service),
            QuotaField::Peer => origin.peer.map_or_else(String::new, |peer| peer.to_string()),
        };
        KeyName { parts: self.0.iter().map(|field| (*field, part(field))).collect() }
    }
}

impl KeyName {
    /// Returns the name of the key that stands for all others.
    pub(super) fn shared() -> Self {
        Self { parts: Vec::new() }
    }

    /// Returns the resource that records of the key have in common.
    pub(super) fn resource(&self) -> Resource {
        let mut resource = Resource::new();
        for (field, text) in self.parts.iter().filter(|(_, text)| !text.is_empty()) {
            let name = match field {
                QuotaField::Host => "host.name",
                QuotaField::Service | QuotaField::AppName => "service.name",
                QuotaField::Peer => PEER,
            };
            resource.set(name, text.as_str());
        }
        resource
    }

    /// Returns the service in it; empty if there is none.
    pub(super) fn service(&self) -> &str {
        let is_service = |field| matches!(field, QuotaField::Service | QuotaField::AppName);
        let service = self.parts.iter().find(|(field, _)| is_service(*field));
        service.map_or("", |(_, text)| text)
    }

    /// Returns the host in it; empty if there is none.
    pub(super) fn host(&self) -> &str {
        let host = self.parts.iter().find(|(field, _)| *field == QuotaField::Host);
        host.map_or("", |(_, text)| text)
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts.is_empty() {
            return out.write_str("keys beyond the maximum number");
        }
        for (index, (field, text)) in self.parts.iter().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            if text.is_empty() || text.contains([' ', '"', '=']) {
                write!(out, "{blank}{}={text:?}", field.name())?;
            } else {
                write!(out, "{blank}{}={text}", field.name())?;
            }
        }
        Ok(())
    }
}

/// Text without control characters, of limited length.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..PART_BYTES_MAX).unwrap_or(bytes));
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if printable.len() >= PART_BYTES_MAX {
            break;
        }
        if character.is_control() {
            let _infallible = write!(printable, "{}", character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// A hasher for numbers that are already hashes.
#[derive(Debug, Default)]
pub(in crate::source) struct Identity(u64);

/// Builds [`Identity`].
pub(in crate::source) type BuildIdentity = BuildHasherDefault<Identity>;

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash64(bytes);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(fields: &[QuotaField], origin: &Origin<'_>) -> u64 {
        KeyFields::new(fields).key(origin, &mut Vec::new())
    }

    #[test]
    fn a_key_consists_of_the_configured_fields_alone() {
        let web = Origin { host: b"web7", service: b"nginx", peer: None };
        let cron = Origin { service: b"cron", ..web };
        let relayed = Origin { peer: Some(IpAddr::from([192, 0, 2, 1])), ..web };
        let (host, both) = ([QuotaField::Host], [QuotaField::Host, QuotaField::AppName]);
        assert_eq!(key(&host, &web), key(&host, &cron));
        assert_ne!(key(&both, &web), key(&both, &cron));
        assert_eq!(key(&both, &web), key(&both, &relayed));
        assert_ne!(key(&[QuotaField::Peer], &web), key(&[QuotaField::Peer], &relayed));
        let shifted = Origin { host: b"web7n", service: b"ginx", peer: None };
        assert_ne!(key(&both, &web), key(&both, &shifted));
    }

    #[test]
    fn a_name_can_be_printed_whatever_the_sender_states() {
        let fields = KeyFields::new(&[QuotaField::Host, QuotaField::AppName, QuotaField::Peer]);
        let origin = Origin {
            host: b"web\n7\x1b[2J",
            service: b"two words",
            peer: Some(IpAddr::from([192, 0, 2, 1])),
        };
        let name = fields.name(&origin);
        let shown = "host=web\\n7\\u{1b}[2J app_name=\"two words\" peer=192.0.2.1";
        assert_eq!(name.to_string(), shown);
        let resource = name.resource();
        assert_eq!(resource.text("service.name"), Some("two words"));
        assert_eq!(resource.peer(), Some("192.0.2.1"));
        let long = Origin { host: &[b'x'; 10_000], ..Origin::default() };
        assert!(fields.name(&long).to_string().len() < 2 * PART_BYTES_MAX);
        assert_eq!(fields.name(&Origin::default()).host(), "");
    }
}
