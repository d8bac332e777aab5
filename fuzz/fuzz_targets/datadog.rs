//! Datadog's logs intake: bodies in every format, with the values that the query sets for all
//! items.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_codec::{DatadogDefaults, DatadogFormat, DatadogItems, DatadogRequest, is_json_object};
use weir_model::{BatchBuilder, Position, RecordFlags, SourceBook};

// The first byte selects the format and the length at which items are truncated, the second how
// much of the rest is the value of each parameter.
fuzz_target!(|input: &[u8]| {
    let [how, value_len, rest @ ..] = input else { return };
    let (value, body) = rest.split_at(usize::from(*value_len % 16).min(rest.len()));
    let format = match how % 3 {
        0 => DatadogFormat::Json,
        1 => DatadogFormat::Lines,
        _ => DatadogFormat::Logplex,
    };
    let mut defaults = DatadogDefaults::default();
    for name in ["ddsource", "ddtags", "service", "hostname"] {
        defaults.set(name, value);
    }
    let mut items = DatadogItems::default();
    let mut body = body.to_vec();
    if items.read(&mut body, format).is_err() {
        assert!(items.is_empty());
        return;
    }
    let item_bytes_max = 1 + usize::from(*how);
    let request =
        DatadogRequest { body: &body, defaults: &defaults, observed_ns: 1, item_bytes_max };
    let mut batch = BatchBuilder::new(Position::default());
    let mut book = SourceBook::default();
    for index in 0..items.len() {
        if items.push(index, &request, &mut batch, index as u64 + 1, &mut book).is_err() {
            assert!(batch.record_count() > 0, "a record alone always fits");
            break;
        }
    }
    assert_eq!(book.unaccounted_lines(), 0);
    assert_eq!(book.records, batch.record_count() as u64);
    let mut bytes = 0;
    for index in 0..batch.record_count() {
        let record = batch.record(index);
        bytes += record.body.len() as u64;
        assert!(record.body.len() <= item_bytes_max);
        assert!(record.attributes.is_empty() || is_json_object(record.attributes));
        let is_object = record.flags.contains(RecordFlags::JSON_OBJECT);
        assert!(!is_object || is_json_object(record.body));
    }
    assert_eq!(book.bytes_read, bytes);
});
