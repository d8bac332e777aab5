//! What all decoders are fuzzed for. The first bytes of the input choose limit, growth of the
//! file, length of the batches and restarts; the rest is the file. Reading it at once and in
//! pieces must give the same records and books; what must hold after every call the reader
//! asserts, which the tests use too.

#[path = "../../../crates/weir-codec/tests/common/mod.rs"]
mod common;

use common::{Plan, read_file};
use weir_codec::Format;
use weir_model::limits::LINE_BYTES_DEFAULT;

pub(crate) fn check(format: Format, input: &[u8]) {
    let Some(([limit, growth, more, seal, forget], file)) = input.split_first_chunk() else {
        return;
    };
    let limit = if *limit < 128 { LINE_BYTES_DEFAULT } else { usize::from(*limit) - 127 };
    let plan = Plan {
        growth: vec![usize::from(*growth) + 1, usize::from(*more) + 1],
        seal_after: usize::from(*seal % 8) + 1,
        forget: forget % 2 == 1,
    };
    let at_once = read_file(file, format, limit, &Plan::at_once());
    let in_pieces = read_file(file, format, limit, &plan);
    assert_eq!(at_once, in_pieces);
}
