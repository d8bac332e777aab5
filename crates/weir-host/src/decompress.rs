//! Decompression of request bodies.
//!
//! Invariants: never more than the given number of bytes is written, whatever the input announces,
//! and memory grows only with what is written; consecutive members or frames are read as one;
//! trailing bytes are an error, so nothing is silently ignored.

use std::io::Read;

/// Maximum window of a zstd frame, as a power of two: 8 MiB, which the format recommends that every
/// decoder supports.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Coding of a body, as named in `Content-Encoding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentCoding {
    /// No coding.
    Identity,
    /// gzip (RFC 1952).
    Gzip,
    /// The zlib format (RFC 1950), which HTTP calls `deflate`.
    Deflate,
    /// Zstandard (RFC 8878).
    Zstd,
}

/// Why a body could not be decompressed.
#[derive(Debug, thiserror::Error)]
pub enum DecompressError {
    /// It exceeds the limit.
    #[error("more than {max_bytes} bytes")]
    TooLarge {
        /// The limit.
        max_bytes: usize,
    },
    /// It is not valid in its coding.
    #[error("invalid {coding}: {error}")]
    Corrupt {
        /// The coding.
        coding: &'static str,
        /// The error of the library.
        error: std::io::Error,
    },
}

impl ContentCoding {
    /// Parses the value of the header; `None` for unsupported values, including several codings.
    pub fn parse(text: &str) -> Option<Self> {
        let is = |name: &str| text.trim().eq_ignore_ascii_case(name);
        if is("") || is("identity") {
            Some(Self::Identity)
        } else if is("gzip") || is("x-gzip") {
            Some(Self::Gzip)
        } else if is("deflate") {
            Some(Self::Deflate)
        } else if is("zstd") || is("zstd1") {
            Some(Self::Zstd)
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Identity => "text",
            Self::Gzip => "gzip",
            Self::Deflate => "deflate (zlib)",
            Self::Zstd => "zstd",
        }
    }

    /// Replaces the content of `out` with the decompressed body.
    pub fn decompress(
        self,
        input: &[u8],
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        out.clear();
        let read = match self {
            Self::Identity => {
                let fits = input.get(..max_bytes + 1).unwrap_or(input);
                out.extend_from_slice(fits);
                Ok(())
            }
            Self::Gzip => copy(flate2::read::MultiGzDecoder::new(input), max_bytes, out),
            Self::Deflate => inflate(input, max_bytes, out),
            Self::Zstd => unzstd(input, max_bytes, out),
        };
        if out.len() > max_bytes {
            return Err(DecompressError::TooLarge { max_bytes });
        }
        read.map_err(|error| DecompressError::Corrupt { coding: self.name(), error })
    }
}

/// Reads at most one byte more than is allowed.
fn copy(reader: impl Read, max_bytes: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
    reader.take(max_bytes as u64 + 1).read_to_end(out).map(drop)
}

fn inflate(input: &[u8], max_bytes: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
    let mut reader = flate2::read::ZlibDecoder::new(input);
    copy(&mut reader, max_bytes, out)?;
    if out.len() <= max_bytes && reader.total_in() < input.len() as u64 {
        return Err(std::io::Error::other("trailing bytes"));
    }
    Ok(())
}

fn unzstd(input: &[u8], max_bytes: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
    let mut reader = zstd::stream::read::Decoder::with_buffer(input)?;
    reader.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    copy(reader, max_bytes, out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const ALL: [ContentCoding; 4] =
        [ContentCoding::Identity, ContentCoding::Gzip, ContentCoding::Deflate, ContentCoding::Zstd];

    fn packed(coding: ContentCoding, text: &[u8]) -> Vec<u8> {
        match coding {
            ContentCoding::Identity => text.to_vec(),
            ContentCoding::Gzip => {
                let mut writer =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                writer.write_all(text).unwrap();
                writer.finish().unwrap()
            }
            ContentCoding::Deflate => {
                let mut writer =
                    flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                writer.write_all(text).unwrap();
                writer.finish().unwrap()
            }
            ContentCoding::Zstd => zstd::encode_all(text, 1).unwrap(),
        }
    }

    fn unpacked(
        coding: ContentCoding,
        input: &[u8],
        max: usize,
    ) -> Result<Vec<u8>, DecompressError> {
        let mut out = b"before".to_vec();
        coding.decompress(input, max, &mut out)?;
        Ok(out)
    }

    #[test]
    fn decompression_restores_bodies_up_to_the_maximum_size() {
        let text: Vec<u8> = (0..50_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
        for coding in ALL {
            for text in [&text[..], b"", b"x"] {
                let packed = packed(coding, text);
                assert_eq!(unpacked(coding, &packed, text.len()).unwrap(), text, "{coding:?}");
                if let Some(less) = text.len().checked_sub(1) {
                    let refused = unpacked(coding, &packed, less);
                    let is_large = matches!(refused, Err(DecompressError::TooLarge { .. }));
                    assert!(is_large, "{coding:?}");
                }
            }
        }
    }

    #[test]
    fn decompression_bombs_are_stopped_at_the_maximum_size() {
        let zeros = vec![0; 64 << 20];
        for coding in [ContentCoding::Gzip, ContentCoding::Deflate, ContentCoding::Zstd] {
            let mut out = Vec::new();
            let refused = coding.decompress(&packed(coding, &zeros), 1 << 20, &mut out);
            assert!(matches!(refused, Err(DecompressError::TooLarge { .. })), "{coding:?}");
            assert!(out.capacity() <= 4 << 20, "{coding:?}: {}", out.capacity());
        }
    }

    #[test]
    fn members_in_a_row_are_one_body_and_anything_else_behind_them_is_an_error() {
        for coding in [ContentCoding::Gzip, ContentCoding::Zstd] {
            let twice = [packed(coding, b"same"), packed(coding, b"same")].concat();
            assert_eq!(unpacked(coding, &twice, 100).unwrap(), b"samesame", "{coding:?}");
        }
        for coding in [ContentCoding::Gzip, ContentCoding::Deflate, ContentCoding::Zstd] {
            let whole = packed(coding, b"some text that is long enough to be cut");
            let more = [&whole[..], b"more"].concat();
            for input in [&more[..], &whole[..whole.len() - 1], &whole[..5], b"text"] {
                let refused = unpacked(coding, input, 100);
                let is_corrupt = matches!(refused, Err(DecompressError::Corrupt { .. }));
                assert!(is_corrupt, "{coding:?} {input:?}: {refused:?}");
            }
        }
    }

    #[test]
    fn codings_are_known_by_their_names() {
        assert_eq!(ContentCoding::parse("GZIP"), Some(ContentCoding::Gzip));
        assert_eq!(ContentCoding::parse(" deflate "), Some(ContentCoding::Deflate));
        assert_eq!(ContentCoding::parse("zstd1"), Some(ContentCoding::Zstd), "as some clients say");
        assert_eq!(ContentCoding::parse("identity"), Some(ContentCoding::Identity));
        for unknown in ["br", "gzip, gzip", "gzip,zstd", "snappy"] {
            assert_eq!(ContentCoding::parse(unknown), None, "{unknown}");
        }
    }
}
