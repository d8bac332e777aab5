//! The subset of HTTP/1.1 that a collector needs: requests with a length or in chunks, one
//! response.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use rustls::pki_types::PrivateKeyDer;

use super::SinkState;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 28\r\n\r\n{\"text\":\"Success\",\"code\":0}\n";

/// Maximum size of the head of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Serves one connection until it ends.
pub(super) fn serve(mut stream: impl Read + Write, shared: &SinkState) -> Result<()> {
    let mut buffer = Buffer { bytes: vec![0; 1 << 20], start: 0, end: 0 };
    let mut body = Vec::new();
    loop {
        let Some(head) = buffer.head(&mut stream)? else { return Ok(()) };
        let head = head.to_ascii_lowercase();
        let field = |name: &str| {
            head.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':').map(str::trim))
        };
        if field("expect").is_some() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        body.clear();
        if field("transfer-encoding").is_some_and(|v| v.contains("chunked")) {
            buffer.chunks(&mut stream, &mut body)?;
        } else {
            let length = field("content-length").unwrap_or("0").parse()?;
            buffer.exactly(&mut stream, length, &mut body)?;
        }
        shared.take(&body, field("content-encoding") == Some("gzip"))?;
        stream.write_all(ANSWER)?;
        stream.flush()?;
    }
}

/// Bytes that were read and not yet used.
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    fn fill(&mut self, stream: &mut impl Read) -> Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let read = stream.read(&mut self.bytes[self.end..])?;
        self.end += read;
        Ok(read)
    }

    /// Returns everything up to and including `end`; `None` if the connection ends before its first
    /// byte.
    fn until(&mut self, stream: &mut impl Read, end: &[u8]) -> Result<Option<String>> {
        loop {
            let there = &self.bytes[self.start..self.end];
            if let Some(at) = memchr::memmem::find(there, end) {
                let text = String::from_utf8_lossy(&there[..at]).into_owned();
                self.start += at + end.len();
                return Ok(Some(text));
            }
            ensure!(there.len() < HEAD_BYTES_MAX, "head of a request is too long");
            if self.fill(stream)? == 0 {
                ensure!(self.start == self.end, "connection ended inside a request");
                return Ok(None);
            }
        }
    }

    fn head(&mut self, stream: &mut impl Read) -> Result<Option<String>> {
        self.until(stream, b"\r\n\r\n")
    }

    fn exactly(&mut self, stream: &mut impl Read, length: usize, body: &mut Vec<u8>) -> Result<()> {
        let there = length.min(self.end - self.start);
        body.extend_from_slice(&self.bytes[self.start..self.start + there]);
        self.start += there;
        let begun = body.len();
        body.resize(begun + length - there, 0);
        stream.read_exact(&mut body[begun..]).context("connection ended inside a body")
    }

    fn chunks(&mut self, stream: &mut impl Read, body: &mut Vec<u8>) -> Result<()> {
        loop {
            let Some(line) = self.until(stream, b"\r\n")? else { bail!("ended inside chunks") };
            let length = usize::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16)?;
            self.exactly(stream, length, body)?;
            let mut newline = Vec::new();
            self.exactly(stream, 2, &mut newline)?;
            if length == 0 {
                return Ok(());
            }
        }
    }
}

/// Returns the settings of a TLS server with a certificate for 127.0.0.1, which is written to a
/// file for clients.
pub(super) fn server_config(certificate_file: &Path) -> Result<Arc<rustls::ServerConfig>> {
    let made =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    fs::write(certificate_file, made.cert.pem())?;
    let key =
        PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    Ok(Arc::new(config))
}
