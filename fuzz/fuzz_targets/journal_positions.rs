//! Damaged files with positions, and files of another origin: the journal opens, and its books
//! balance.
#![no_main]

mod journal;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((way, rest)) = input.split_first() else { return };
    if way % 8 == 0 {
        journal::foreign(rest, "cursors-0000000099.wcur");
    } else {
        journal::damaged(rest, "wcur", way % 2 == 1);
    }
});
