//! Tests of events that are encoded while they are sent.

use std::task::Waker;

use hyper::body::Body as _;
use proptest::prelude::*;
use weir_codec::{Format, HecEncoder, HecMetadata, LineDecoder};
use weir_model::{Batch, BatchBuilder, Position, Seal, SourceBook, SourceId, StreamId};

use super::*;
use crate::config::{Compression, HecMode};
use crate::output::post::request::{self, Request, RequestBuilder};

fn renderer() -> Arc<Mutex<Renderer>> {
    let metadata = HecMetadata {
        index: Some("main".to_owned()),
        sourcetype: None,
        source: None,
        host: "here".to_owned(),
    };
    Arc::new(Mutex::new(Renderer::new(
        request::Encoder::Event(HecEncoder::new(HecMode::Event, metadata)),
        Compression::None,
    )))
}

/// Returns the batch that a source creates from these escaped bodies in a container's log.
fn batch(bodies: &[Vec<u8>]) -> Arc<Batch> {
    let mut file = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        file.extend_from_slice(b"{\"log\":\"");
        file.extend_from_slice(body);
        let second = number % 60;
        let rest =
            format!("\\n\",\"stream\":\"stdout\",\"time\":\"2001-09-09T01:46:{second:02}.5Z\"}}\n");
        file.extend_from_slice(rest.as_bytes());
    }
    let mut builder = BatchBuilder::new(Position::default());
    let region = builder.append(&file).unwrap();
    let mut book = SourceBook::default();
    LineDecoder::new(Format::DockerJson, 4096, 0).decode(&mut builder, region, 7, &mut book);
    assert_eq!(book.records, bodies.len() as u64);
    builder.resource(0, br#"{"host.name":"a"}"#).unwrap();
    Arc::new(builder.seal(&Seal {
        repeatable: true,
        stream: StreamId(1),
        group: 0,
        source: SourceId(1),
        end: Position::new(0, file.len() as u64),
        observed_ns: 7,
        rule_generation: 0,
        book: &book,
        state: &[],
    }))
}

fn request(batches: &[Arc<Batch>], renderer: &Mutex<Renderer>) -> Request {
    let mut renderer = renderer.lock().unwrap();
    let mut request_builder = RequestBuilder::default();
    for batch in batches {
        request_builder.add(PendingBatch::of_batch(batch.clone()), &mut renderer, 0);
    }
    request_builder.finish(&mut renderer)
}

/// Returns everything that a body sends; its pieces must have the announced length.
fn sent(body: &Body) -> Vec<u8> {
    let mut outgoing = body.outgoing();
    assert_eq!(outgoing.size_hint().exact(), Some(body.len() as u64));
    let mut bytes = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    while let Poll::Ready(Some(frame)) = Pin::new(&mut outgoing).poll_frame(&mut context) {
        bytes.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    assert!(outgoing.is_end_stream() && bytes.len() == body.len());
    bytes
}

fn encoded(request: &Request, range: Range<usize>, renderer: &Mutex<Renderer>) -> Vec<u8> {
    let mut renderer = renderer.lock().unwrap();
    let mut plain = Vec::new();
    for (pending, part) in request.overlaps(range) {
        renderer.encoder.encode(&request.batches[pending], part, &mut plain);
    }
    plain
}

#[test]
fn a_large_request_is_sent_in_pieces_and_as_often_as_it_takes() {
    let renderer = renderer();
    let bodies: Vec<_> = (0..150).map(|i| vec![b'a' + (i % 26) as u8; 1000]).collect();
    let batches = [batch(&bodies), batch(&bodies), batch(&bodies), batch(&bodies)];
    let request = request(&batches, &renderer);
    let body = request.body(&(0..600), &renderer);
    assert!(matches!(body, Body::Events(_)) && body.len() > 2 * PIECE_BYTES);
    let want = encoded(&request, 0..600, &renderer);
    assert_eq!(sent(&body), want);
    assert_eq!(sent(&body), want);
}

#[test]
fn events_of_unknown_length_are_encoded_beforehand() {
    let renderer = renderer();
    let plain = batch(&[b"one".to_vec()]);
    // Blank bodies are wrapped, and invalid UTF-8 is replaced.
    for odd in [b" ".to_vec(), b"a\xffb".to_vec()] {
        let odd = batch(&[odd]);
        let request = request(&[plain.clone(), odd], &renderer);
        let body = request.body(&(0..2), &renderer);
        assert!(matches!(body, Body::Bytes { .. }));
        assert_eq!(sent(&body), encoded(&request, 0..2, &renderer));
        assert!(std::str::from_utf8(&sent(&body)).is_ok());
        assert!(matches!(request.body(&(0..1), &renderer), Body::Events(_)));
    }
}

proptest! {
    #[test]
    fn a_body_sent_in_pieces_equals_one_encoded_at_once(
        texts in prop::collection::vec(prop::collection::vec(".{0,300}", 1..6), 1..4),
        from in 0.0..1.0,
    ) {
        let escaped = |text: &String| {
            let quoted = serde_json::to_string(text).unwrap();
            quoted.as_bytes()[1..quoted.len() - 1].to_vec()
        };
        let renderer = renderer();
        let batches: Vec<_> = texts
            .iter()
            .map(|texts| batch(&texts.iter().map(escaped).collect::<Vec<_>>()))
            .collect();
        prop_assert!(batches.iter().all(|batch| batch.is_utf8()));
        let request = request(&batches, &renderer);
        let count: usize = texts.iter().map(Vec::len).sum();
        for range in [0..count, (count as f64 * from) as usize..count] {
            let body = request.body(&range, &renderer);
            prop_assert_eq!(sent(&body), encoded(&request, range, &renderer));
        }
    }
}
