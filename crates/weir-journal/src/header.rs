//! The first 16 bytes of every file of the journal: magic, version, check, eight bytes of the
//! file's own.
//!
//! Invariant: a version is believed only when the check matches, so that one damaged bit cannot
//! pass for a file of a later release and keep weir from starting. Every later version keeps the
//! place and the rule of these fields.

/// Length of the header.
pub(crate) const HEADER_LEN: usize = 16;

/// A header as it is written. `own` is the segment's number, or the cursor log's salt.
pub(crate) fn encode(magic: [u8; 4], version: u16, own: [u8; 8]) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&magic);
    header[4..6].copy_from_slice(&version.to_le_bytes());
    header[8..].copy_from_slice(&own);
    let check = check(&header);
    header[6..8].copy_from_slice(&check);
    header
}

/// The version that a header states; `None` when it is not whole or not of this kind.
pub(crate) fn version(header: &[u8], magic: [u8; 4]) -> Option<u16> {
    let header: &[u8; HEADER_LEN] = header.first_chunk()?;
    let is_whole = header[..4] == magic && header[6..8] == check(header);
    is_whole.then(|| u16::from_le_bytes([header[4], header[5]]))
}

/// The lower half of the CRC-32C of everything but the check itself.
fn check(header: &[u8; HEADER_LEN]) -> [u8; 2] {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..6]), &header[8..]);
    [crc as u8, (crc >> 8) as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_damaged_bit_passes_for_another_version() {
        let header = encode(*b"TEST", 1, *b"12345678");
        assert_eq!(version(&header, *b"TEST"), Some(1));
        assert_eq!(version(&header, *b"ELSE"), None);
        assert_eq!(version(&header[..15], *b"TEST"), None);
        for bit in 0..HEADER_LEN * 8 {
            let mut damaged = header;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(version(&damaged, *b"TEST"), None, "bit {bit}");
        }
    }
}
