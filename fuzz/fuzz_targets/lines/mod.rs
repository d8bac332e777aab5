//! Shared by the targets for decoders. The first bytes of the input select the maximum length of a
//! line, growth of the file, length of the batches and restarts; the rest is the file. Reading it
//! at once and in pieces must result in the same records and books. The reader, which tests use
//! too, asserts the invariants after every call.

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
