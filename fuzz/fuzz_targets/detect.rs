//! Detection of the format, and functions that outputs use: the JSON check, escaping and times.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_codec::{
    detect, escape_json_into, format_rfc3339_ns, format_unix_time, is_json_object, parse_rfc3339,
};

fuzz_target!(|input: &[u8]| {
    // Once the format is known, more bytes do not change it.
    if let Some(format) = detect(input)
        && input.contains(&b'\n')
    {
        assert_eq!(detect(&[input, b"more\n{}"].concat()).is_some(), true, "{format:?}");
    }
    if let Ok(text) = std::str::from_utf8(input)
        && is_json_object(input)
        && let Err(error) = serde_json::from_str::<serde_json::Value>(text)
    {
        // The check reads numbers as text: a number that is out of range is still JSON.
        assert!(error.to_string().contains("number out of range"), "{error}");
    }
    let mut escaped = Vec::from(*b"\"");
    escape_json_into(input, &mut escaped);
    escaped.push(b'"');
    let read: String = serde_json::from_slice(&escaped).unwrap();
    assert_eq!(read, String::from_utf8_lossy(input));
    if let Some(time_ns) = parse_rfc3339(input) {
        let mut text = Vec::new();
        format_rfc3339_ns(time_ns, &mut text);
        assert_eq!(parse_rfc3339(&text), Some(time_ns));
        format_unix_time(time_ns, &mut text);
    }
});
