//! A client that sends HTTP requests over one connection, and reports exactly what was received.
//!
//! Invariants: nothing is sent twice automatically; an incomplete response is an error, so a test
//! knows what was received and what was not.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use weir_measure::PATIENCE;

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Its status.
    pub status: u16,
    /// Its head in lower case, line by line.
    pub head: String,
    /// Its body.
    pub body: String,
}

impl HttpAnswer {
    /// Returns the value of a header, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

/// One connection to a server; opened when needed, and again after an error.
#[derive(Debug)]
pub struct HttpSender {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

impl HttpSender {
    /// Creates a sender to this address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, stream: None }
    }

    /// Sends to another address from now on.
    pub fn set_address(&mut self, address: SocketAddr) {
        if self.address != address {
            *self = Self::new(address);
        }
    }

    /// Sends a `POST` request with a body and these headers.
    pub fn post(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<HttpAnswer> {
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        self.exchange(&[head.as_bytes(), body].concat())
    }

    /// Sends these bytes as they are, and reads a response.
    pub fn exchange(&mut self, request: &[u8]) -> io::Result<HttpAnswer> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        // A server that has already responded may stop reading: its response counts.
        let sent = stream.write_all(request);
        let answer = read_answer(&mut stream).or_else(|error| sent.and(Err(error)))?;
        if answer.header("connection") != Some("close") {
            self.stream = Some(stream);
        }
        Ok(answer)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}

fn read_answer(stream: &mut TcpStream) -> io::Result<HttpAnswer> {
    let mut bytes = Vec::new();
    let mut block = [0; 4096];
    loop {
        if let Some(answer) = whole(&bytes)? {
            return Ok(answer);
        }
        match stream.read(&mut block)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&block[..count]),
        }
    }
}

/// Returns the response, once it is complete. Weir's responses always have a length.
fn whole(bytes: &[u8]) -> io::Result<Option<HttpAnswer>> {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return Ok(None) };
    let head = head.to_ascii_lowercase().replace("\r\n", "\n");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let answer = HttpAnswer {
        status: status.ok_or(io::ErrorKind::InvalidData)?,
        head,
        body: body.to_owned(),
    };
    let length = answer.header("content-length").and_then(|length| length.parse().ok());
    Ok((body.len() >= length.unwrap_or(0_usize)).then_some(answer))
}
