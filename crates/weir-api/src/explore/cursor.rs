//! Opaque tokens in answers that are passed back in requests: record ids, and page cursors.
//!
//! A cursor contains the range of the first page, so that `now` does not change between pages, and
//! a hash of the query: using it with another query is an error.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use weir_model::{Position, StreamId};
use weir_store::query::{PageKey, RecordId, TimeRange};

/// Version of the cursor encoding.
const VERSION: u8 = 1;

/// A position between two pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Hash of the query.
    pub(super) query_hash: u64,
    /// The range of the first page.
    pub(super) range: TimeRange,
    /// Where the page starts: for records the previous record; for groups their number, in
    /// `sequence`.
    pub(super) key: PageKey,
}

impl Cursor {
    pub(super) fn encode(&self) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.query_hash.to_le_bytes());
        for number in [self.range.from_ns, self.range.to_ns, self.key.time_ns] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.key.sequence.to_le_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes the cursor if it belongs to this query.
    pub(super) fn decode(text: &str, query_hash: u64) -> Result<Self, &'static str> {
        let bytes = URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
        let cursor = Self::read(&bytes)
            .ok_or("was not created by this release of weir; start again with the first page")?;
        if cursor.query_hash != query_hash {
            return Err(
                "belongs to another query: query, range, order and groups must be the same as for \
                 the page that returned it",
            );
        }
        Ok(cursor)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut numbers = bytes
            .strip_prefix(&[VERSION])?
            .chunks_exact(8)
            .map(|chunk| chunk.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)));
        let mut next = || numbers.next();
        let query_hash = next()?;
        let (from_ns, to_ns) = (next()?.cast_signed(), next()?.cast_signed());
        let (time_ns, sequence) = (next()?.cast_signed(), next()?);
        let range = TimeRange { from_ns, to_ns };
        (bytes.len() == 41).then_some(Self {
            query_hash,
            range,
            key: PageKey { time_ns, sequence },
        })
    }
}

/// Encodes a record id.
pub(crate) fn encode_id(id: &RecordId) -> String {
    let mut bytes = Vec::with_capacity(28);
    bytes.extend_from_slice(&id.time_ns.to_le_bytes());
    bytes.extend_from_slice(&id.stream.0.to_le_bytes());
    bytes.extend_from_slice(&id.position.offset.to_le_bytes());
    bytes.extend_from_slice(&id.position.epoch.to_le_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes a record id.
pub(super) fn decode_id(text: &str) -> Option<RecordId> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (time, rest) = bytes.split_first_chunk::<8>()?;
    let (stream, rest) = rest.split_first_chunk::<8>()?;
    let (offset, rest) = rest.split_first_chunk::<8>()?;
    let (epoch, rest) = rest.split_first_chunk::<4>()?;
    rest.is_empty().then(|| RecordId {
        time_ns: i64::from_le_bytes(*time),
        stream: StreamId(u64::from_le_bytes(*stream)),
        position: Position::new(u32::from_le_bytes(*epoch), u64::from_le_bytes(*offset)),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cursors_and_ids_round_trip(a: u64, b: i64, c: i64, d: i64, e: u64, f: u32) {
            let range = TimeRange { from_ns: b, to_ns: c };
            let key = PageKey { time_ns: d, sequence: e };
            let cursor = Cursor { query_hash: a, range, key };
            prop_assert_eq!(Cursor::decode(&cursor.encode(), a), Ok(cursor));
            prop_assert!(Cursor::decode(&cursor.encode(), a ^ 1).is_err());
            let id = RecordId { time_ns: b, stream: StreamId(a), position: Position::new(f, e) };
            prop_assert_eq!(decode_id(&encode_id(&id)), Some(id));
        }

        #[test]
        fn invalid_cursors_are_rejected(text in "[A-Za-z0-9_-]{0,70}", query_hash: u64) {
            if let Ok(cursor) = Cursor::decode(&text, query_hash) {
                prop_assert_eq!(cursor.encode().len(), text.len());
            }
            let _id = decode_id(&text);
        }
    }
}
