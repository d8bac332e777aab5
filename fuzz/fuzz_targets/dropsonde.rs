//! Envelopes of Loggregator, version 1: each becomes a valid envelope of version 2, and one of
//! version 1 again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_codec::{
    DropsondeConverter, DropsondeEnvelope, DropsondeReceiver, DropsondeRequest,
    LoggregatorEnvelope, LoggregatorTags,
};

fuzz_target!(|input: &[u8]| {
    let mut converter = DropsondeConverter::default();
    let receiver = DropsondeReceiver { tags: &[], is_agent: input.len() % 2 == 0 };
    let converted = converter.to_v2(input, &receiver).map(<[u8]>::to_vec);
    if let Ok(v2) = converted {
        let mut tags = LoggregatorTags::default();
        assert!(LoggregatorEnvelope::parse(&v2, &mut tags).is_ok());
        for (name, value) in tags.iter(&v2) {
            let mut text = name.to_vec();
            value.write(&mut text);
            assert!(String::from_utf8(text).is_ok());
        }
        let mut count = 0;
        let left = converter.to_v1(&v2, usize::MAX, |envelope| {
            assert!(DropsondeEnvelope::parse(envelope).is_ok());
            count += 1;
        });
        assert_eq!((count, left), (1, Ok(0)));
    }
    let outline = converter.outline(input);
    let (mut count, mut bytes) = (0, 0);
    if let Ok(left) = converter.to_v1(input, 1 << 16, |envelope| {
        count += 1;
        bytes += envelope.len();
    }) {
        let expected = outline.ok().flatten().map_or(0, |outline| outline.envelopes);
        assert_eq!(count + left, expected);
        assert!(bytes < (1 << 16) + 2 * input.len() + 1000);
    }
    let _request = DropsondeRequest::parse(input);
});
