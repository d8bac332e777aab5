//! gzip of whole buffers, with the fastest compressor that was built in.
//!
//! Invariants: the output is one complete gzip member; it is appended, existing content of `out` is
//! kept, and `out` grows only by what the member needs. With the feature `isal` on `x86_64`,
//! ISA-L's level 1 is used; otherwise, and if ISA-L fails, libdeflate's level 1. The measurements
//! behind this choice are in `docs/adr/0005-gzip.md`.

use libdeflater::{CompressionLvl, Compressor};

/// Why a buffer could not be compressed. Send it uncompressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("gzip: {0}")]
pub struct GzipError(String);

/// A compressor with its working memory; one per thread.
pub struct Gzip {
    portable: Option<Compressor>,
    /// Space for the worst case, kept between calls so that it is not cleared each time.
    scratch: Vec<u8>,
}

impl std::fmt::Debug for Gzip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gzip").field("engine", &Self::engine()).finish_non_exhaustive()
    }
}

impl Default for Gzip {
    fn default() -> Self {
        Self::new()
    }
}

impl Gzip {
    /// Creates a compressor; its memory is allocated at first use.
    pub fn new() -> Self {
        Self { portable: None, scratch: Vec::new() }
    }

    /// Returns the compressor that this build prefers.
    pub fn engine() -> &'static str {
        if cfg!(all(feature = "isal", target_arch = "x86_64")) { "isa-l" } else { "libdeflate" }
    }

    /// Appends `input` as one gzip member to `out`.
    pub fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), GzipError> {
        // Worst case: stored blocks of 64 KiB with five bytes each, plus header and trailer.
        let bound = input.len() + input.len() / 1024 + 1024;
        let mut scratch = std::mem::take(&mut self.scratch);
        if scratch.len() < bound {
            scratch.resize(bound, 0);
        }
        let written = match fast(input, &mut scratch) {
            Some(n) => Ok(n),
            None => self.portable(input, &mut scratch),
        };
        if let Ok(n) = written {
            out.extend_from_slice(&scratch[..n]);
        }
        self.scratch = scratch;
        written.map(|_| ())
    }

    fn portable(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, GzipError> {
        let compressor = self
            .portable
            .get_or_insert_with(|| Compressor::new(CompressionLvl::new(1).unwrap_or_default()));
        compressor.gzip_compress(input, out).map_err(|e| GzipError(format!("{e:?}")))
    }
}

#[cfg(all(feature = "isal", target_arch = "x86_64"))]
fn fast(input: &[u8], out: &mut [u8]) -> Option<usize> {
    // ISA-L uses 32-bit lengths.
    u32::try_from(out.len()).ok()?;
    isal::compress_into(input, out, isal::CompressionLevel::One, isal::Codec::Gzip).ok()
}

#[cfg(not(all(feature = "isal", target_arch = "x86_64")))]
fn fast(_input: &[u8], _out: &mut [u8]) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use libdeflater::Decompressor;

    fn restored(member: &[u8], len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        let n = Decompressor::new().gzip_decompress(member, &mut out).unwrap();
        out.truncate(n);
        out
    }

    #[test]
    fn compression_round_trips() {
        let text: Vec<u8> =
            (0..5000).flat_map(|i| format!("line {i} of a log\n").into_bytes()).collect();
        let noise: Vec<u8> =
            (0..100_000_u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        let mut gzip = Gzip::new();
        for input in [&text[..], &noise, b"", b"x"] {
            let mut out = b"head".to_vec();
            gzip.compress(input, &mut out).unwrap();
            assert_eq!(&out[..4], b"head");
            assert_eq!(restored(&out[4..], input.len()), input);
        }
    }

    #[test]
    fn the_portable_compressor_agrees() {
        let input = b"the same text, the same text, the same text".repeat(100);
        let mut out = vec![0; 10_000];
        let n = Gzip::new().portable(&input, &mut out).unwrap();
        assert!(n < input.len() / 4);
        assert_eq!(restored(&out[..n], input.len()), input);
    }
}
