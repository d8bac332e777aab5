//! The producers of messages (host, program, sender) as resources, each encoded once.
//!
//! Invariants: the contents of a message never replace the sender's address; the number of cached
//! producers is limited, and evicting one only costs time; names are truncated to the lengths that
//! RFC 5424 allows, so that a resource always fits in a frame.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_model::{PEER, Resource, hash64};

use crate::source::listen::limits::PRODUCERS_MAX;
use crate::source::listen::{BuildIdentity, KeyFields, Origin};

/// Maximum lengths of RFC 5424, in bytes.
const HOST_BYTES_MAX: usize = 255;
const APP_BYTES_MAX: usize = 48;

/// A producer with its encoded resource.
#[derive(Debug)]
pub(super) struct Producer {
    host: Box<[u8]>,
    app: Box<[u8]>,
    peer: Option<IpAddr>,
    /// The host, or the sender if the message names none.
    host_text: String,
    /// Hash of the host, or of the sender if the message names none.
    pub(super) host_hash: u64,
    /// Key of the resource: the same for a host and program, independent of relays.
    pub(super) key: u64,
    pub(super) encoded: Vec<u8>,
    /// Key of the quota of its messages.
    pub(super) quota_key: u64,
}

/// Recently seen producers, by hash.
#[derive(Debug)]
pub(super) struct Producers {
    by_hash: HashMap<u64, Producer, BuildIdentity>,
    scratch: Vec<u8>,
    quota_fields: KeyFields,
    /// Name of this machine: the host of messages from a Unix socket that name none.
    local_host: String,
}

impl Producers {
    /// Creates an empty cache. `quota_fields` make up the key of a quota, if there is one.
    pub(super) fn new(local_host: String, quota_fields: KeyFields) -> Self {
        Self { by_hash: HashMap::default(), scratch: Vec::new(), quota_fields, local_host }
    }

    /// Returns the producer of a message. Empty names mean that the message has none.
    pub(super) fn find(&mut self, host: &[u8], app: &[u8], peer: Option<IpAddr>) -> &Producer {
        let host = host.get(..HOST_BYTES_MAX).unwrap_or(host);
        let app = app.get(..APP_BYTES_MAX).unwrap_or(app);
        let hash = self.hash(host, app, peer);
        let is_known = self.by_hash.get(&hash).is_some_and(|known| known.is(host, app, peer));
        if !is_known {
            if self.by_hash.len() >= PRODUCERS_MAX {
                self.by_hash.clear();
            }
            let mut producer = Producer::new(host, app, peer, &self.local_host);
            producer.quota_key = self.quota_fields.key(&producer.origin(), &mut self.scratch);
            self.by_hash.insert(hash, producer);
        }
        &self.by_hash[&hash]
    }

    fn hash(&mut self, host: &[u8], app: &[u8], peer: Option<IpAddr>) -> u64 {
        self.scratch.clear();
        self.scratch.extend_from_slice(host);
        self.scratch.push(0);
        self.scratch.extend_from_slice(app);
        match peer {
            Some(IpAddr::V4(peer)) => self.scratch.extend_from_slice(&peer.octets()),
            Some(IpAddr::V6(peer)) => self.scratch.extend_from_slice(&peer.octets()),
            None => {}
        }
        hash64(&self.scratch)
    }
}

impl Producer {
    fn new(host: &[u8], app: &[u8], peer: Option<IpAddr>, local_host: &str) -> Self {
        let mut resource = Resource::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let peer_text = peer.map(|peer| peer.to_string());
        // The host of a message that names none is its sender.
        let sender = peer_text.as_deref().unwrap_or(local_host);
        let host_text = if host.is_empty() { sender.to_owned() } else { text(host) };
        if !host_text.is_empty() {
            resource.set("host.name", host_text.as_str());
        }
        if !app.is_empty() {
            resource.set("service.name", text(app));
        }
        if let Some(peer) = peer_text {
            resource.set(PEER, peer);
        }
        let key = hash64(&[b"syslog\0", host_text.as_bytes(), b"\0", app].concat());
        Self {
            host: host.into(),
            app: app.into(),
            peer,
            host_hash: hash64(host_text.as_bytes()),
            host_text,
            key,
            encoded: resource.encode(),
            quota_key: 0,
        }
    }

    /// Returns the origin of its messages.
    pub(super) fn origin(&self) -> Origin<'_> {
        Origin { host: self.host_text.as_bytes(), service: &self.app, peer: self.peer }
    }

    fn is(&self, host: &[u8], app: &[u8], peer: Option<IpAddr>) -> bool {
        *self.host == *host && *self.app == *app && self.peer == peer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_host_is_from_its_sender_and_the_sender_stands_apart() {
        let mut producers = Producers::new("here".to_owned(), KeyFields::default());
        let peer = Some(IpAddr::from([192, 0, 2, 7]));
        let relayed = producers.find(b"web0001", b"nginx", peer).encoded.clone();
        let relayed = Resource::decode(&relayed);
        assert_eq!(relayed.text("host.name"), Some("web0001"));
        assert_eq!(relayed.text("service.name"), Some("nginx"));
        assert_eq!(relayed.peer(), Some("192.0.2.7"));
        let own = Resource::decode(&producers.find(b"", b"", peer).encoded);
        assert_eq!((own.text("host.name"), own.peer()), (Some("192.0.2.7"), Some("192.0.2.7")));
        assert_eq!(own.text("service.name"), None);
        let local = Resource::decode(&producers.find(b"", b"", None).encoded);
        assert_eq!((local.text("host.name"), local.peer()), (Some("here"), None));
    }

    #[test]
    fn endless_names_are_cut_and_memory_is_limited() {
        let mut producers = Producers::new("here".to_owned(), KeyFields::default());
        let long = vec![b'\x01'; 100_000];
        let encoded = &producers.find(&long, &long, None).encoded;
        assert!(encoded.len() < weir_model::limits::RESOURCE_BYTES_MAX);
        for number in 0..2 * PRODUCERS_MAX {
            producers.find(number.to_string().as_bytes(), b"a", None);
        }
        assert!(producers.by_hash.len() <= PRODUCERS_MAX);
    }
}
