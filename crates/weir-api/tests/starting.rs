//! The API before a pipeline runs, and what it rejects.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use weir_api::{Api, ApiSettings};

fn api() -> Api {
    Api::bind(&ApiSettings::at(SocketAddr::from(([127, 0, 0, 1], 0))), "1.2.3").unwrap()
}

fn ask(api: &Api, request: &str) -> String {
    let mut stream = TcpStream::connect(api.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(api: &Api, path: &str) -> String {
    ask(api, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
}

#[test]
fn weir_is_live_but_not_ready_until_the_pipeline_runs() {
    let api = api();
    assert!(get(&api, "/health/live").starts_with("HTTP/1.1 200"));
    let health = get(&api, "/health");
    assert!(health.starts_with("HTTP/1.1 503") && health.contains("\"starting\""), "{health}");
    let ledger = get(&api, "/weir/v1/ledger");
    assert!(ledger.contains("application/problem+json") && ledger.contains("is starting"));
    assert!(get(&api, "/metrics").contains("weir_build_info{version=\"1.2.3\"} 1"));
    api.shutdown();
}

#[test]
fn unknown_methods_and_paths_return_a_problem() {
    let api = api();
    let post = ask(
        &api,
        "POST /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    );
    assert!(post.starts_with("HTTP/1.1 405") && post.contains("allow: GET, HEAD"), "{post}");
    let missing = get(&api, "/weir/v1/legder");
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    assert!(missing.contains("problem+json") && missing.contains("/weir/v1/ledger"), "{missing}");
    let head =
        ask(&api, "HEAD /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    api.shutdown();
}

#[test]
fn endless_request_head_is_rejected() {
    let api = api();
    let mut stream = TcpStream::connect(api.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut sent = stream.write_all(b"GET / HTTP/1.1\r\n");
    for _ in 0..10_000 {
        sent = sent.and_then(|()| stream.write_all(b"x-padding: 0123456789\r\n"));
    }
    let mut answer = Vec::new();
    // Either an error status or a reset; in both cases the connection is closed.
    let read = stream.read_to_end(&mut answer);
    let status = String::from_utf8_lossy(&answer).into_owned();
    assert!(read.is_err() || status.is_empty() || status.starts_with("HTTP/1.1 4"), "{status}");
    assert!(get(&api, "/health/live").starts_with("HTTP/1.1 200"), "others are answered");
    api.shutdown();
}

#[test]
fn port_in_use_is_an_error_and_shutdown_frees_the_port() {
    let first = api();
    let address = first.address();
    let error = Api::bind(&ApiSettings::at(address), "1").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    first.shutdown();
    Api::bind(&ApiSettings::at(address), "1").unwrap().shutdown();
}

#[test]
fn idle_connection_does_not_delay_shutdown() {
    let api = api();
    let mut idle = TcpStream::connect(api.address()).unwrap();
    idle.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut first = [0];
    idle.read_exact(&mut first).unwrap();
    api.shutdown();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).unwrap();
}
