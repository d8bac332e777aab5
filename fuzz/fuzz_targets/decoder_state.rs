//! Resume states: any bytes are rejected, or result in a decoder that keeps its invariants.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_codec::LineDecoder;
use weir_model::limits::{LINE_BYTES_DEFAULT, READ_BLOCK_BYTES};
use weir_model::{BatchBuilder, Position, SourceBook};

fuzz_target!(|input: &[u8]| {
    let Some(([len, position], rest)) = input.split_first_chunk() else { return };
    let Some((state, file)) = rest.split_at_checked(usize::from(*len)) else { return };
    let position = u64::from(*position) << 8;
    let Ok(mut decoder) = LineDecoder::restore(state, LINE_BYTES_DEFAULT, position) else { return };
    let mut again = Vec::new();
    decoder.state(&mut again);
    let other = LineDecoder::restore(&again, LINE_BYTES_DEFAULT, position).unwrap();
    assert_eq!(other.partials(), decoder.partials());
    let mut builder = BatchBuilder::new(Position::new(0, position));
    let mut book = SourceBook::default();
    let space = builder.read_space(READ_BLOCK_BYTES);
    let count = space.len().min(file.len());
    space[..count].copy_from_slice(&file[..count]);
    let region = builder.advance(count);
    decoder.finish(&mut builder, region, 0, &mut book);
    let _ = decoder.flush_partials(&mut builder, &mut book);
    assert_eq!(book.unaccounted_lines(), 0);
});
