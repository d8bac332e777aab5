//! Frames from a disk or a peer: they are rejected, or every accessor works.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_model::{Batch, FrameHeader, HEADER_LEN, Position};

fuzz_target!(|input: &[u8]| {
    let _ = FrameHeader::read(input);
    if let Ok(batch) = Batch::from_frame(input.to_vec()) {
        read_all(&batch);
    }
    // With the right length and checksum, more of the parser is reached.
    if let Some(batch) = with_checksum(input) {
        read_all(&batch);
    }
});

/// Makes a frame of the input: with the right magic, version, length and checksum.
fn with_checksum(input: &[u8]) -> Option<Batch> {
    let mut frame = input.to_vec();
    frame.truncate(frame.len() / 8 * 8);
    if frame.len() < HEADER_LEN {
        return None;
    }
    frame[..4].copy_from_slice(b"WFRM");
    frame[4..6].copy_from_slice(&2_u16.to_le_bytes());
    frame[6] = 1;
    let len = frame.len() as u32;
    frame[8..12].copy_from_slice(&len.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&frame[..12]), &frame[16..]);
    frame[12..16].copy_from_slice(&checksum.to_le_bytes());
    Batch::from_frame(frame).ok()
}

fn read_all(batch: &Batch) {
    let count = batch.record_count();
    assert_eq!(batch.records().count(), count);
    for (index, view) in batch.records().enumerate().take(64) {
        let _ = view.plain_body();
        let _ = batch.is_routed(index, 3);
        let _ =
            (view.original(), view.process_id(), view.message_id(), view.kind(), view.facility());
        let _ = batch.resource(view.resource());
        let _ = batch.to_log_record(index);
    }
    let _ = (batch.routed_count(1), batch.routed_counts(), batch.only_for(&[1, 700]));
    let _ = (batch.arena(), batch.state(), batch.book(), batch.keys());
    let _ = batch.records_up_to(Position::new(0, 5));
    let _ = batch.record(count);
}
