//! Responses to scrapes, and files of targets: a response that the check accepts parses to the same
//! samples again, and every sample becomes an envelope that can be parsed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_codec::{
    FlatYaml, LoggregatorEnvelope, LoggregatorMessage, LoggregatorTags, PrometheusOrigin,
    PrometheusText,
};

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = std::str::from_utf8(input) {
        let _is_no_panic = FlatYaml::parse(text);
    }
    let Ok(mut text) = PrometheusText::check(input) else { return };
    let labels = [("zone".to_owned(), "a".to_owned())];
    let origin = PrometheusOrigin { source_id: "target", instance_id: "", labels: &labels };
    let (mut envelope, mut tags) = (Vec::new(), LoggregatorTags::default());
    while let Some(sample) = text.next_sample() {
        envelope.clear();
        if !sample.encode(&origin, 1, &mut envelope) {
            assert!(envelope.is_empty());
            continue;
        }
        let parsed = LoggregatorEnvelope::parse(&envelope, &mut tags).expect("an envelope");
        match parsed.message {
            LoggregatorMessage::Counter { name, .. } => assert_eq!(name, sample.name.as_bytes()),
            LoggregatorMessage::Gauge(_) => {}
            other => panic!("{other:?}"),
        }
    }
});
