//! Lines of the format `docker_json`.
#![no_main]

mod lines;

use libfuzzer_sys::fuzz_target;
use weir_codec::Format;

fuzz_target!(|input: &[u8]| lines::check(Format::DockerJson, input));
