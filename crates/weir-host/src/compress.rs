//! Compression of whole buffers: one interface for all formats.
//!
//! Invariants: each call appends one complete gzip member or zstd frame, so that the output of
//! several calls is one valid stream; existing content of `out` is kept.

use crate::gzip::{Gzip, GzipError};

/// The fastest level that zstd considers regular; its output is still smaller than gzip's.
const ZSTD_LEVEL: i32 = 1;

/// How bytes are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl Compression {
    /// All compression formats.
    pub const FORMATS: [Self; 2] = [Self::Gzip, Self::Zstd];

    /// Returns its name as an HTTP content encoding; `None` if there is none.
    pub fn content_encoding(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }

    /// Returns the suffix of the name of a compressed file.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }
}

/// Why a buffer could not be compressed. Send it uncompressed.
#[derive(Debug, thiserror::Error)]
pub enum CompressError {
    /// An error of gzip.
    #[error(transparent)]
    Gzip(#[from] GzipError),
    /// An error of zstd.
    #[error("zstd: {0}")]
    Zstd(#[from] std::io::Error),
}

/// A compressor with its working memory; one per thread.
#[derive(Debug)]
pub struct Compressor(Engine);

enum Engine {
    Gzip(Gzip),
    /// Created at first use, because it takes memory.
    Zstd(Option<zstd::bulk::Compressor<'static>>),
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gzip(gzip) => gzip.fmt(f),
            Self::Zstd(_) => f.write_str("Zstd"),
        }
    }
}

impl Compressor {
    /// Creates a compressor; `None` for no compression.
    pub fn new(compression: Compression) -> Option<Self> {
        match compression {
            Compression::None => None,
            Compression::Gzip => Some(Self(Engine::Gzip(Gzip::new()))),
            Compression::Zstd => Some(Self(Engine::Zstd(None))),
        }
    }

    /// Returns the format it produces.
    pub fn compression(&self) -> Compression {
        match self.0 {
            Engine::Gzip(_) => Compression::Gzip,
            Engine::Zstd(_) => Compression::Zstd,
        }
    }

    /// Appends the compressed `input` to `out`.
    ///
    /// # Errors
    /// Out of memory, or a bug in the library; `out` is unchanged.
    pub fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
        match &mut self.0 {
            Engine::Gzip(gzip) => gzip.compress(input, out)?,
            Engine::Zstd(engine) => {
                let engine = match engine {
                    Some(engine) => engine,
                    None => engine.insert(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
                };
                out.extend_from_slice(&engine.compress(input)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn several_members_are_read_as_one_and_existing_content_is_kept() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
        for compression in Compression::FORMATS {
            let mut compressor = Compressor::new(compression).unwrap();
            assert_eq!(compressor.compression(), compression);
            let mut out = b"before".to_vec();
            for piece in [&text[..], b"", b"x"] {
                compressor.compress(piece, &mut out).unwrap();
            }
            let packed = out.strip_prefix(b"before").unwrap();
            assert!(packed.len() < text.len() / 2, "{compression:?}: {} bytes", packed.len());
            let mut plain = Vec::new();
            if compression == Compression::Gzip {
                flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut plain).unwrap();
            } else {
                plain = zstd::decode_all(packed).unwrap();
            }
            assert_eq!(plain, [&text[..], b"x"].concat(), "{compression:?}");
        }
        assert!(Compressor::new(Compression::None).is_none());
    }
}
