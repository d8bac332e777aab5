//! JSON lines and logfmt.
#![no_main]

mod lines;

use libfuzzer_sys::fuzz_target;
use weir_codec::Format;

fuzz_target!(|input: &[u8]| {
    lines::check(Format::Json, input);
    lines::check(Format::Logfmt, input);
});
