//! Damaged segments, and files of another origin: the journal opens, and its books balance.
#![no_main]

mod journal;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((way, rest)) = input.split_first() else { return };
    if way % 8 == 0 {
        journal::foreign(rest, "segment-00000000000000000099.wseg");
    } else {
        journal::damaged(rest, "wseg", way % 2 == 1);
    }
});
