//! gRPC messages with batches of Loggregator envelopes: each envelope becomes one record, which
//! keeps its bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_codec::{
    GrpcFraming, GrpcStep, LoggregatorBatch, LoggregatorDecoder, LoggregatorEnvelope,
    LoggregatorOrigin, LoggregatorTags, is_json_object,
};
use weir_model::{BatchBuilder, Position, RecordFlags, SourceBook};

// The first byte selects the length of the pieces in which the stream arrives.
fuzz_target!(|input: &[u8]| {
    let [piece, stream @ ..] = input else { return };
    let mut framing = GrpcFraming::new(64 * 1024);
    let (mut tags, mut decoder) = (LoggregatorTags::default(), LoggregatorDecoder::default());
    let mut batch = BatchBuilder::new(Position::default());
    let mut book = SourceBook::default();
    let mut envelopes = Vec::new();
    'stream: for mut bytes in stream.chunks(usize::from(*piece) + 1) {
        while let Ok(GrpcStep::Message(message)) = framing.next(&mut bytes) {
            for envelope in LoggregatorBatch::new(message).map_while(Result::ok) {
                let end_offset = envelopes.len() as u64 + 1;
                let origin =
                    LoggregatorOrigin { resource: 0, end_offset, observed_ns: 1, added: b"" };
                let pushed = match LoggregatorEnvelope::parse(envelope, &mut tags) {
                    Ok(parsed) => {
                        let tags = tags.iter(envelope);
                        decoder.push(&mut batch, &parsed, tags, &origin, &mut book)
                    }
                    Err(_) => decoder.push_malformed(&mut batch, envelope, &origin, &mut book),
                };
                if pushed.is_err() {
                    break 'stream;
                }
                envelopes.push(envelope.to_vec());
            }
        }
    }
    assert_eq!((book.records, book.unaccounted_lines()), (envelopes.len() as u64, 0));
    for (index, envelope) in envelopes.iter().enumerate() {
        let record = batch.record(index);
        if record.flags.contains(RecordFlags::MALFORMED) {
            assert_eq!(record.body, &envelope[..]);
        } else if !record.flags.contains(RecordFlags::TRUNCATED) {
            assert_eq!(record.original(), &envelope[..]);
        }
        if record.flags.contains(RecordFlags::JSON_OBJECT) {
            assert!(is_json_object(record.body));
        }
    }
});
