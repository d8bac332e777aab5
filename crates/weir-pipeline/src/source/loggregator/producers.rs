//! The producers of envelopes (source, instance, tags, sender) as resources, each encoded once.
//!
//! Tags that describe the source are attributes of the resource; others, such as those of a single
//! request, stay with the record: otherwise every record could have a resource of its own.
//!
//! Invariants: a known producer costs no allocation; producers are compared in full, not only by
//! hash, so a collision cannot assign records to another source; the number of cached producers is
//! limited, and evicting one only costs time; a resource always fits in a frame.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use weir_codec::{
    LoggregatorEnvelope, LoggregatorTagValue, LoggregatorTags, encode_loggregator_source,
    encode_loggregator_tag,
};
use weir_model::limits::RESOURCE_BYTES_MAX;
use weir_model::{PEER, Resource, hash64};

use crate::source::listen::limits::PRODUCERS_MAX;
use crate::source::listen::{BuildIdentity, KeyFields, Origin};

/// Maximum length of a name or value in a resource, in bytes. The record contains it in full in its
/// original.
const TEXT_BYTES_MAX: usize = 512;

/// Maximum number of cached producers with the same source and instance, which differ in tags or
/// senders.
const VARIANTS_MAX: usize = 8;

/// Name and value of a tag.
type Tag = (Box<[u8]>, Box<[u8]>);

/// A producer with its encoded resource.
#[derive(Debug)]
pub(super) struct Producer {
    source_id: Box<[u8]>,
    /// Its envelopes have a source id; otherwise their tag `origin` is used.
    states_source: bool,
    instance_id: Box<[u8]>,
    peer: Option<IpAddr>,
    /// The tags that describe the source, as they were sent.
    tags: Vec<Tag>,
    /// The address of the machine that it runs on, or else of the sender.
    host: String,
    /// Key of the resource: the same for all instances of a source.
    pub(super) key: u64,
    pub(super) encoded: Vec<u8>,
    /// Fields that its envelopes lack: default tags, and a source id.
    added: Vec<u8>,
    /// Key of the quota of its envelopes.
    pub(super) quota_key: u64,
}

/// Recently seen producers.
#[derive(Debug)]
pub(super) struct Producers {
    by_hash: HashMap<u64, Vec<Producer>, BuildIdentity>,
    count: usize,
    /// Location of the last found producer.
    last: (u64, usize),
    scratch: Vec<u8>,
    quota_fields: KeyFields,
    default_tags: Vec<(String, String)>,
}

/// Returns whether a tag describes the source, so that it has few values.
fn describes_source(name: &[u8]) -> bool {
    matches!(
        name,
        b"deployment"
            | b"job"
            | b"index"
            | b"ip"
            | b"origin"
            | b"source_type"
            | b"organization_id"
            | b"organization_name"
            | b"space_id"
            | b"space_name"
            | b"app_id"
            | b"app_name"
            | b"process_id"
            | b"process_type"
            | b"process_instance_id"
            | b"instance_id"
            | b"instance_group"
            | b"availability_zone"
            | b"product"
            | b"system_domain"
    )
}

impl Producers {
    /// Creates an empty cache. `quota_fields` make up the key of a quota, if there is one.
    /// `default_tags` are added to envelopes without a tag of that name.
    pub(super) fn new(default_tags: Vec<(String, String)>, quota_fields: KeyFields) -> Self {
        let (by_hash, scratch) = (HashMap::default(), Vec::new());
        Self { by_hash, count: 0, last: (0, 0), scratch, quota_fields, default_tags }
    }

    /// Returns whether a tag belongs to the resource, not to the record.
    pub(super) fn has_tag(default_tags: &[(String, String)], name: &[u8]) -> bool {
        describes_source(name) || default_tags.iter().any(|(tag, _)| tag.as_bytes() == name)
    }

    /// Returns the default tags.
    pub(super) fn default_tags(&self) -> &[(String, String)] {
        &self.default_tags
    }

    /// Finds the producer of an envelope; [`Self::last`] then returns it.
    pub(super) fn find(
        &mut self,
        envelope: &LoggregatorEnvelope<'_>,
        tags: &LoggregatorTags,
        peer: Option<IpAddr>,
    ) {
        let source_id = source_of(envelope, tags);
        self.scratch.clear();
        self.scratch.extend_from_slice(source_id);
        self.scratch.push(0);
        self.scratch.extend_from_slice(envelope.instance_id);
        let hash = hash64(&self.scratch);
        let found = self.by_hash.get(&hash).and_then(|known| {
            known.iter().position(|known| {
                known.is(source_id, envelope.instance_id, peer)
                    && known.states_source != envelope.source_id.is_empty()
                    && known.has_tags(envelope.bytes, tags, &self.default_tags)
            })
        });
        let index = found.unwrap_or_else(|| self.add(hash, source_id, envelope, tags, peer));
        self.last = (hash, index);
    }

    /// Returns the producer that was found last; call [`Self::find`] first.
    pub(super) fn last(&self) -> &Producer {
        let (hash, index) = self.last;
        &self.by_hash[&hash][index]
    }

    #[cold]
    fn add(
        &mut self,
        hash: u64,
        source_id: &[u8],
        envelope: &LoggregatorEnvelope<'_>,
        tags: &LoggregatorTags,
        peer: Option<IpAddr>,
    ) -> usize {
        if self.count >= PRODUCERS_MAX {
            self.by_hash.clear();
            self.count = 0;
        }
        let mut kept = Vec::new();
        for (name, value) in tags.iter(envelope.bytes) {
            if Self::has_tag(&self.default_tags, name) {
                kept.push((name.into(), text_of(value).into_boxed_slice()));
            }
        }
        let mut producer =
            Producer::new(source_id, envelope.instance_id, peer, kept, &self.default_tags);
        producer.states_source = !envelope.source_id.is_empty();
        if !producer.states_source && !source_id.is_empty() {
            encode_loggregator_source(source_id, &mut producer.added);
        }
        producer.quota_key = self.quota_fields.key(&producer.origin(), &mut self.scratch);
        let variants = self.by_hash.entry(hash).or_default();
        if variants.len() >= VARIANTS_MAX {
            self.count -= variants.len();
            variants.clear();
        }
        variants.push(producer);
        self.count += 1;
        variants.len() - 1
    }
}

/// Returns the source id of an envelope, or its tag `origin` if it has none.
fn source_of<'e>(envelope: &LoggregatorEnvelope<'e>, tags: &LoggregatorTags) -> &'e [u8] {
    if !envelope.source_id.is_empty() {
        return envelope.source_id;
    }
    // Deprecated tags come last, and are used only if there is no other.
    let mut origins = tags.iter(envelope.bytes).filter(|(name, _)| *name == b"origin");
    match origins.next() {
        Some((_, LoggregatorTagValue::Text(origin))) => origin,
        Some((_, LoggregatorTagValue::Integer(_) | LoggregatorTagValue::Decimal(_))) | None => b"",
    }
}

fn text_of(value: LoggregatorTagValue<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    value.write(&mut text);
    text
}

/// Returns the beginning of a text, with invalid UTF-8 replaced.
fn shown(bytes: &[u8], bytes_max: usize) -> String {
    String::from_utf8_lossy(bytes.get(..bytes_max).unwrap_or(bytes)).into_owned()
}

impl Producer {
    fn new(
        source_id: &[u8],
        instance_id: &[u8],
        peer: Option<IpAddr>,
        tags: Vec<Tag>,
        default_tags: &[(String, String)],
    ) -> Self {
        let peer_text = peer.map(|peer| peer.to_string());
        let ip = tags.iter().rev().find(|(name, value)| **name == *b"ip" && !value.is_empty());
        let host = ip.map(|(_, ip)| shown(ip, TEXT_BYTES_MAX)).or_else(|| peer_text.clone());
        let host = host.unwrap_or_default();
        let encode = |bytes_max| {
            let mut resource = Resource::new();
            let texts = [
                ("host.name", shown(host.as_bytes(), bytes_max)),
                ("service.name", shown(source_id, bytes_max)),
                ("service.instance.id", shown(instance_id, bytes_max)),
                (PEER, peer_text.clone().unwrap_or_default()),
            ];
            for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
                resource.set(name, text);
            }
            let mut by_name: BTreeMap<String, String> = BTreeMap::new();
            for (name, value) in &tags {
                by_name.insert(shown(name, bytes_max), shown(value, bytes_max));
            }
            for (name, value) in default_tags {
                by_name.entry(name.clone()).or_insert_with(|| value.clone());
            }
            let list: Vec<String> =
                by_name.iter().map(|(name, value)| format!("{name}:{value}")).collect();
            if !list.is_empty() {
                resource.set_tags(list.iter().map(String::as_str));
            }
            resource.encode()
        };
        let mut bytes_max = TEXT_BYTES_MAX;
        let mut encoded = encode(bytes_max);
        while encoded.len() > RESOURCE_BYTES_MAX && bytes_max > 0 {
            bytes_max /= 2;
            encoded = encode(bytes_max);
        }
        let mut added = Vec::new();
        for (name, value) in default_tags {
            if !tags.iter().any(|(tag, _)| **tag == *name.as_bytes()) {
                encode_loggregator_tag(name, value, &mut added);
            }
        }
        Self {
            added,
            source_id: source_id.into(),
            states_source: true,
            instance_id: instance_id.into(),
            peer,
            tags,
            host,
            key: hash64(&[b"loggregator\0", source_id].concat()),
            encoded,
            quota_key: 0,
        }
    }

    /// Returns its source id, or the tag `origin` of its envelopes if they have none.
    pub(super) fn source_id(&self) -> &[u8] {
        &self.source_id
    }

    /// Returns the fields that its envelopes lack.
    pub(super) fn added(&self) -> &[u8] {
        &self.added
    }

    /// Returns the origin of its envelopes.
    pub(super) fn origin(&self) -> Origin<'_> {
        Origin { host: self.host.as_bytes(), service: &self.source_id, peer: self.peer }
    }

    #[inline]
    fn is(&self, source_id: &[u8], instance_id: &[u8], peer: Option<IpAddr>) -> bool {
        *self.source_id == *source_id && *self.instance_id == *instance_id && self.peer == peer
    }

    /// Returns whether these are its tags, in any order: clients do not write them in a fixed one.
    #[inline]
    fn has_tags(
        &self,
        bytes: &[u8],
        tags: &LoggregatorTags,
        default_tags: &[(String, String)],
    ) -> bool {
        let mut count = 0;
        for (name, value) in tags.iter(bytes) {
            let is_at = |(tag, text): &Tag| **tag == *name && is_text(value, text);
            if self.tags.get(count).is_some_and(is_at) {
                count += 1;
            } else if Producers::has_tag(default_tags, name) {
                if !self.tags.iter().any(is_at) {
                    return false;
                }
                count += 1;
            }
        }
        count == self.tags.len()
    }
}

/// Returns whether a value has this text.
#[inline]
fn is_text(value: LoggregatorTagValue<'_>, text: &[u8]) -> bool {
    match value {
        LoggregatorTagValue::Text(value) => value == text,
        LoggregatorTagValue::Integer(_) | LoggregatorTagValue::Decimal(_) => text_of(value) == text,
    }
}

#[cfg(test)]
mod tests {
    use weir_codec::{LoggregatorMessage, encode_loggregator_envelope};

    use super::*;

    fn producers() -> Producers {
        let tags = vec![("deployment".to_owned(), "cf".to_owned())];
        Producers::new(tags, KeyFields::default())
    }

    /// The resource and key of an envelope.
    fn find(
        producers: &mut Producers,
        source: &str,
        instance: &str,
        tags: &[(&str, &str)],
    ) -> (Resource, u64) {
        let envelope = LoggregatorEnvelope {
            source_id: source.as_bytes(),
            instance_id: instance.as_bytes(),
            message: LoggregatorMessage::None,
            ..LoggregatorEnvelope::default()
        };
        let (mut bytes, mut read) = (Vec::new(), LoggregatorTags::default());
        encode_loggregator_envelope(&envelope, tags, &mut bytes);
        let envelope = LoggregatorEnvelope::parse(&bytes, &mut read).unwrap();
        producers.find(&envelope, &read, Some(IpAddr::from([192, 0, 2, 7])));
        let producer = producers.last();
        (Resource::decode(&producer.encoded), producer.key)
    }

    fn tags(resource: &Resource) -> Vec<&str> {
        resource.tags().collect()
    }

    #[test]
    fn a_source_has_its_tags_and_those_of_the_agent_that_it_lacks() {
        let mut all = producers();
        let (one, key) = find(&mut all, "app", "0", &[("job", "cell"), ("ip", "10.0.0.1")]);
        assert_eq!(one.text("service.name"), Some("app"));
        assert_eq!(one.text("service.instance.id"), Some("0"));
        assert_eq!((one.text("host.name"), one.peer()), (Some("10.0.0.1"), Some("192.0.2.7")));
        assert_eq!(tags(&one), ["deployment:cf", "ip:10.0.0.1", "job:cell"]);
        let (other, same) = find(&mut all, "app", "1", &[("deployment", "own")]);
        assert_eq!((tags(&other), same), (vec!["deployment:own"], key));
        assert_eq!(other.text("host.name"), Some("192.0.2.7"));
        let origin = [("origin", "gorouter"), ("deployment", "own")];
        for (stated, is_added) in [("gorouter", false), ("", true), ("gorouter", false)] {
            let (mapped, _) = find(&mut all, stated, "", &origin);
            assert_eq!(mapped.text("service.name"), Some("gorouter"));
            assert_eq!(!all.last().added().is_empty(), is_added);
        }
        find(&mut all, "app", "0", &[]);
        let mut tags = LoggregatorTags::default();
        let added = all.last().added().to_vec();
        LoggregatorEnvelope::parse(&added, &mut tags).unwrap();
        let tag = (&b"deployment"[..], LoggregatorTagValue::Text(b"cf"));
        assert_eq!(tags.iter(&added).collect::<Vec<_>>(), [tag]);
    }

    #[test]
    fn the_order_of_tags_and_tags_of_a_single_record_make_no_new_producer() {
        let mut all = producers();
        let (a, b, c) = (("job", "cell"), ("ip", "10.0.0.1"), ("request_id", "1"));
        for tags in [[a, b, c], [c, b, a], [b, ("request_id", "2"), a]] {
            find(&mut all, "app", "0", &tags);
        }
        assert_eq!(all.count, 1);
        find(&mut all, "app", "0", &[a]);
        find(&mut all, "app", "0", &[a, ("ip", "10.0.0.2")]);
        assert_eq!(all.count, 3);
    }

    #[test]
    fn endless_names_are_cut_and_memory_is_limited() {
        let mut all = producers();
        let long = "\u{1}".repeat(100_000);
        let tags = ["job", "ip", "index", "app_name", "space_name", "origin", "product"];
        let tags = tags.map(|name| (name, long.as_str()));
        let (resource, _) = find(&mut all, &long, &long, &tags);
        assert!(resource.encode().len() <= RESOURCE_BYTES_MAX);
        for number in 0..2 * PRODUCERS_MAX {
            find(&mut all, &format!("app{}", number / 20), "0", &[("index", &number.to_string())]);
        }
        let held: usize = all.by_hash.values().map(Vec::len).sum();
        assert!(held == all.count && held <= PRODUCERS_MAX, "{held} {}", all.count);
    }
}
