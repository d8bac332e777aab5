//! Pages: a header in Thrift's compact protocol, then the compressed body.
//!
//! Only the headers that segments use are supported: fields in the order of Parquet's definition,
//! no statistics. The checksum covers the body; each field of the header is compared with the
//! footer, which has its own checksum.

use std::io::Cursor;

use super::decode::Reader;
use super::encode::zigzag;
use super::error::SegmentError;
use crate::limits::PAGE_BYTES_MAX;

/// Encoding of a page's values, by Parquet's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
pub(super) enum PageEncoding {
    Plain = 0,
    DeltaBinary = 5,
    DeltaLength = 6,
    Dictionary = 8,
}

/// Parquet's number for `RLE`, the encoding of levels.
const LEVELS_ENCODING: i64 = 3;
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;

/// Maximum length of a header: ten numbers of at most ten bytes, and their framing.
const HEADER_BYTES_MAX: usize = 128;

/// The content of a page header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub(super) is_dictionary: bool,
    /// Uncompressed length of the body in bytes.
    pub(super) plain_len: usize,
    /// Compressed length of the body in bytes.
    pub(super) packed_len: usize,
    crc: u32,
    /// Number of rows of a data page, including nulls; number of values of a dictionary.
    pub(super) value_count: usize,
    pub(super) encoding: PageEncoding,
}

/// Type codes of the compact protocol.
const I32: u8 = 5;
const STRUCT: u8 = 12;

/// Returns a field header: the difference to the previous field's number, and the type.
fn field(step: u8, kind: u8) -> u8 {
    step << 4 | kind
}

impl PageHeader {
    fn bytes(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES_MAX);
        let out = &mut header;
        let int = |step: u8, number: i64, out: &mut Vec<u8>| {
            out.push(field(step, I32));
            zigzag(number, out);
        };
        int(1, if self.is_dictionary { DICTIONARY_PAGE } else { DATA_PAGE }, out);
        int(1, self.plain_len as i64, out);
        int(1, self.packed_len as i64, out);
        int(1, i64::from(self.crc.cast_signed()), out);
        // Field 5 is the header of a data page, field 7 that of a dictionary.
        out.push(field(if self.is_dictionary { 3 } else { 1 }, STRUCT));
        int(1, self.value_count as i64, out);
        int(1, self.encoding as i64, out);
        if !self.is_dictionary {
            int(1, LEVELS_ENCODING, out);
            int(1, LEVELS_ENCODING, out);
        }
        out.extend_from_slice(&[0, 0]);
        header
    }

    /// Reads the header at the front of a page, and advances the reader past it.
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let is_dictionary = match int(reader)? {
            DATA_PAGE => false,
            DICTIONARY_PAGE => true,
            _ => return None,
        };
        let plain_len = usize::try_from(int(reader)?).ok()?;
        let packed_len = usize::try_from(int(reader)?).ok()?;
        let crc = i32::try_from(int(reader)?).ok()?.cast_unsigned();
        expect(reader, field(if is_dictionary { 3 } else { 1 }, STRUCT))?;
        let value_count = usize::try_from(int(reader)?).ok()?;
        let encoding = match int(reader)? {
            0 => PageEncoding::Plain,
            5 => PageEncoding::DeltaBinary,
            6 => PageEncoding::DeltaLength,
            8 => PageEncoding::Dictionary,
            _ => return None,
        };
        if !is_dictionary && [int(reader)?, int(reader)?] != [LEVELS_ENCODING; 2] {
            return None;
        }
        expect(reader, 0)?;
        expect(reader, 0)?;
        Some(Self { is_dictionary, plain_len, packed_len, crc, value_count, encoding })
    }
}

fn expect(reader: &mut Reader<'_>, byte: u8) -> Option<()> {
    (reader.take(1)? == [byte]).then_some(())
}

/// Reads the next field, a number.
fn int(reader: &mut Reader<'_>) -> Option<i64> {
    expect(reader, field(1, I32))?;
    reader.zigzag()
}

/// Compresses pages.
pub(super) struct PageWriter {
    compressor: zstd::bulk::Compressor<'static>,
}

impl PageWriter {
    pub(super) fn new(level: i32) -> Result<Self, SegmentError> {
        Ok(Self { compressor: zstd::bulk::Compressor::new(level)? })
    }

    /// Appends a page; returns the length of its header and the page's uncompressed length.
    ///
    /// A page may be as large as all records in memory, so it is compressed directly into its place
    /// and then moved up to its header, whose length depends on the compressed length.
    pub(super) fn append(
        &mut self,
        is_dictionary: bool,
        encoding: PageEncoding,
        value_count: usize,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<usize, SegmentError> {
        if body.len() > PAGE_BYTES_MAX {
            return Err(SegmentError::Write("the page is too large".to_owned()));
        }
        let start = out.len();
        let packed_at = start + HEADER_BYTES_MAX;
        out.resize(packed_at, 0);
        out.reserve(zstd::zstd_safe::compress_bound(body.len()));
        let mut room = Cursor::new(&mut *out);
        room.set_position(packed_at as u64);
        self.compressor.compress_to_buffer(body, &mut room)?;
        let packed = &out[packed_at..];
        let header = PageHeader {
            is_dictionary,
            plain_len: body.len(),
            packed_len: packed.len(),
            crc: crc32fast::hash(packed),
            value_count,
            encoding,
        };
        let header = header.bytes();
        out[start..start + header.len()].copy_from_slice(&header);
        out.drain(start + header.len()..packed_at);
        Ok(header.len() + body.len())
    }
}

/// Checks a page without decompressing it.
pub(super) fn check_page(bytes: &[u8]) -> Result<(), SegmentError> {
    packed_page(bytes).map(drop)
}

/// Returns the header and the compressed body of a page that fills `bytes`.
fn packed_page(bytes: &[u8]) -> Result<(PageHeader, &[u8]), SegmentError> {
    let mut reader = Reader::new(bytes);
    let header = PageHeader::read(&mut reader)
        .filter(|header| header.packed_len == reader.rest().len())
        .ok_or(SegmentError::Damaged("invalid page header"))?;
    if crc32fast::hash(reader.rest()) != header.crc {
        return Err(SegmentError::Damaged("page checksum mismatch"));
    }
    Ok((header, reader.rest()))
}

/// Checks and decompresses pages, reusing its memory.
pub(super) struct PageOpener {
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl std::fmt::Debug for PageOpener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PageOpener")
    }
}

impl PageOpener {
    pub(super) fn new() -> Result<Self, SegmentError> {
        Ok(Self { decompressor: zstd::bulk::Decompressor::new()? })
    }

    /// Reads a page that fills `bytes`; the body is put into `body`.
    pub(super) fn open(
        &mut self,
        bytes: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<PageHeader, SegmentError> {
        let (header, packed) = packed_page(bytes)?;
        let stated = zstd::zstd_safe::get_frame_content_size(packed).ok().flatten();
        if stated != Some(header.plain_len as u64) || header.plain_len > PAGE_BYTES_MAX {
            return Err(SegmentError::Damaged("invalid page size"));
        }
        body.clear();
        body.reserve(header.plain_len);
        let unpacked = self.decompressor.decompress_to_buffer(packed, body);
        if unpacked.ok() != Some(header.plain_len) || body.len() != header.plain_len {
            return Err(SegmentError::Damaged("invalid page body"));
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_round_trips_and_detects_every_flipped_bit() {
        let text = b"a page with some text in it, some of it twice, some of it twice".as_slice();
        let mut page = Vec::new();
        let mut writer = PageWriter::new(1).unwrap();
        writer.append(false, PageEncoding::DeltaLength, 7, text, &mut page).unwrap();
        let mut opener = PageOpener::new().unwrap();
        let mut body = Vec::new();
        let header = opener.open(&page, &mut body).unwrap();
        assert_eq!((header.value_count, header.encoding), (7, PageEncoding::DeltaLength));
        assert_eq!(body, text);
        for bit in 0..page.len() * 8 {
            let mut damaged = page.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if let Ok(other) = opener.open(&damaged, &mut body) {
                // It then differs from what the footer says about the page.
                assert_ne!(other, header, "bit {bit}");
                assert_eq!(body, text, "bit {bit}");
            }
        }
        for len in 0..page.len() {
            assert!(opener.open(&page[..len], &mut body).is_err(), "cut to {len}");
        }
    }

    #[test]
    fn dictionary_page_round_trips() {
        let mut page = Vec::new();
        let mut writer = PageWriter::new(1).unwrap();
        writer.append(true, PageEncoding::Plain, 300, b"", &mut page).unwrap();
        let mut body = Vec::new();
        let header = PageOpener::new().unwrap().open(&page, &mut body).unwrap();
        assert!(header.is_dictionary && body.is_empty());
        assert_eq!(header.value_count, 300);
    }
}
