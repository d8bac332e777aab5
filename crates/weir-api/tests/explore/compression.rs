//! Compressed responses.

use std::io::Read as _;
use std::sync::Arc;

use crate::support::{MemoryStore, api, api_of, get, get_bytes, record};

const RANGE: &str = "from=2026-01-01&to=2026-01-02";

/// Joins the chunks of a body; returns it with the trailers.
fn unchunked(mut body: &[u8]) -> (Vec<u8>, String) {
    let mut whole = Vec::new();
    loop {
        let at = body.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&body[..at]).unwrap(), 16).unwrap();
        body = &body[at + 2..];
        if size == 0 {
            return (whole, String::from_utf8(body.to_vec()).unwrap());
        }
        whole.extend_from_slice(&body[..size]);
        body = &body[size + 2..];
    }
}

fn plain(coding: &str, packed: &[u8]) -> String {
    let mut text = String::new();
    match coding {
        "gzip" => flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap(),
        _ => zstd::Decoder::new(packed).unwrap().read_to_string(&mut text).unwrap(),
    };
    text
}

#[test]
fn compressed_answers_equal_plain_ones() {
    let (api, _store) = api(2500);
    let search = "/api/v2/logs/events?filter[from]=2026-01-01&filter[to]=2026-01-02&page[limit]=50";
    let paths = [
        format!("/weir/v1/export?{RANGE}"),
        format!("/weir/v1/export?format=csv&{RANGE}"),
        search.to_owned(),
    ];
    for path in paths {
        let want = get(&api, &path);
        assert!(want.head.contains("\r\nvary: accept-encoding\r\n"), "{}", want.head);
        assert!(!want.head.contains("content-encoding"), "{}", want.head);
        for coding in ["gzip", "zstd"] {
            let (head, body) = get_bytes(&api, &path, &format!("accept-encoding: {coding}\r\n"));
            assert!(head.contains(&format!("\r\ncontent-encoding: {coding}\r\n")), "{head}");
            assert!(head.contains("\r\nvary: accept-encoding\r\n"), "{head}");
            let (packed, _) = unchunked(&body);
            assert!(packed.len() < want.text.len() / 3, "{} bytes", packed.len());
            let text = plain(coding, &packed);
            // Elapsed time and request id differ.
            assert_eq!(text.split("\"meta\"").next(), want.text.split("\"meta\"").next());
        }
    }
    api.shutdown();
}

#[test]
fn short_or_compressed_responses_are_unchanged() {
    let (api, _store) = api(1200);
    for path in ["/weir/v1/export?format=parquet", "/weir/v1/export?limit=1", "/api/v2/logs/events"]
    {
        let (head, _) = get_bytes(&api, path, "accept-encoding: gzip\r\n");
        assert!(head.starts_with("http/1.1 200"), "{head}");
        let is_stream = path.ends_with("limit=1");
        assert_eq!(head.contains("content-encoding"), is_stream, "{head}");
    }
    api.shutdown();
}

#[test]
fn compressed_export_reports_missing_records() {
    let records = (0..2500).map(record).collect();
    let store = MemoryStore { damaged_behind: Some(0), ..MemoryStore::new(records) };
    let api = api_of(Arc::new(store));
    let path = format!("/weir/v1/export?{RANGE}");
    let (_, body) = get_bytes(&api, &path, "accept-encoding: gzip\r\nte: trailers\r\n");
    let (packed, trailers) = unchunked(&body);
    assert_eq!(plain("gzip", &packed).lines().count(), 2500);
    assert_eq!(trailers, "x-weir-partial: damaged\r\n\r\n");
    let (_, body) = get_bytes(&api, &path, "accept-encoding: gzip\r\n");
    assert!(!body.ends_with(b"0\r\n\r\n"), "it is cut");
    api.shutdown();
}
