//! A connection to the API, encrypted or not.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use weir_host::TlsConnection;

/// A connection to the API.
#[derive(Debug)]
pub(crate) enum Connection {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Tls(TlsConnection),
}

impl Connection {
    /// Sets the timeout of each read.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.set_read_timeout(timeout),
            Self::Tls(stream) => stream.set_read_timeout(timeout),
        }
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
