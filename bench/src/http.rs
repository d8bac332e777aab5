//! One request at a time to a server on this machine.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Maximum time for a response.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a request and returns the body of the response, which must be successful.
///
/// Uses HTTP/1.0, so that the response is not chunked and ends with the connection.
pub(crate) fn exchange(port: u16, method: &str, path: &str, body: &[u8]) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    ensure!(status.starts_with('2'), "{method} {path} failed: {head}\n{body}");
    Ok(body.to_owned())
}

/// Returns a port that was free a moment ago; the started program binds it at once.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Escapes a text for use in a URL.
pub(crate) fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}
