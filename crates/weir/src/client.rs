//! Asks a running weir over its API.
//!
//! Invariants: an answer is bounded in size and time; when nobody answers, the error says which
//! address was tried, where that came from and what to do.

use std::io::{self, Read, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;

use crate::cli::ApiArgs;
use crate::command::config::locate;
use crate::exit::{Exit, ExitError};

/// Largest answer that is read: thousands of components.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Deadline of connecting and of each read.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where a running weir is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    address: SocketAddr,
}

impl Client {
    /// The address of `--api`, else that of the configuration.
    pub(crate) fn new(args: &ApiArgs) -> Result<Self> {
        let address = match args.api {
            Some(address) => address,
            None => locate(&args.config)?.api_listen.ok_or_else(|| {
                ExitError::with(Exit::ConfigInvalid, "api.enabled is false in the configuration")
            })?,
        };
        if address.port() == 0 {
            bail!("api.listen leaves the port open: name the address that weir printed with --api");
        }
        Ok(Self { address: reachable(address) })
    }

    /// The document at a path.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let body = self.get_text(path)?;
        serde_json::from_str(&body).with_context(|| {
            format!("{} does not answer as this release of weir does", self.address)
        })
    }

    /// The text at a path.
    pub(crate) fn get_text(&self, path: &str) -> Result<String> {
        let answer = self.exchange(path).map_err(|error| self.no_answer(&error))?;
        self.text(&answer).map(str::to_owned)
    }

    /// The body of an answer that is one.
    fn text<'a>(&self, answer: &'a [u8]) -> Result<&'a str> {
        let (status, body) = parse(answer)
            .with_context(|| format!("what answers on {} does not speak HTTP", self.address))?;
        match status {
            200 => Ok(body),
            status => {
                let problem: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
                let title = ["detail", "title"].into_iter().find_map(|key| problem[key].as_str());
                let title = title.unwrap_or("no reason given");
                let message = format!("{} answers with status {status}: {title}", self.address);
                let exit = if status == 503 { Exit::Temporary } else { Exit::Failed };
                Err(ExitError::with(exit, message))
            }
        }
    }

    /// The body at a path, as it comes. `last_id` is that of the last event that was read of an
    /// earlier answer; `silence_max` is how long nothing may come before the answer ends.
    pub(crate) fn stream(
        &self,
        path: &str,
        last_id: Option<&str>,
        silence_max: Duration,
    ) -> Result<impl Read + use<>> {
        let last_id = last_id.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let mut stream = self.ask(path, &last_id).map_err(|error| self.no_answer(&error))?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            let read = stream.read_exact(&mut byte);
            read.map_err(|error| self.no_answer(&error))?;
            head.extend_from_slice(&byte);
        }
        if !head.starts_with(b"HTTP/1.0 200") && !head.starts_with(b"HTTP/1.1 200") {
            // Nothing but the problem document follows; a part of it is better than nothing.
            let _part = (&stream).take(ANSWER_BYTES_MAX).read_to_end(&mut head);
            self.text(&head)?;
        }
        stream.set_read_timeout(Some(silence_max))?;
        Ok(stream)
    }

    fn exchange(&self, path: &str) -> io::Result<Vec<u8>> {
        let stream = self.ask(path, "")?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(answer)
    }

    /// In HTTP/1.0, so that the answer is not chunked and ends with the connection.
    fn ask(&self, path: &str, headers: &str) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        write!(stream, "GET {path} HTTP/1.0\r\nhost: {}\r\n{headers}\r\n", self.address)?;
        Ok(stream)
    }

    fn no_answer(&self, error: &io::Error) -> anyhow::Error {
        let message = format!(
            "no weir answers on {}: {error}; start one with `weir run`, or name its address with --api",
            self.address
        );
        ExitError::with(Exit::Failed, message)
    }
}

/// An address to connect to, for one to listen on.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Status and body.
fn parse(answer: &[u8]) -> Option<(u16, &str)> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_apart() {
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\na: b\r\n\r\n{}"), Some((200, "{}")));
        assert_eq!(parse(b"SSH-2.0\r\n\r\n"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn an_address_that_listens_everywhere_is_asked_on_loopback() {
        assert_eq!(reachable("0.0.0.0:7080".parse().unwrap()).to_string(), "127.0.0.1:7080");
        assert_eq!(reachable("[::]:7080".parse().unwrap()).to_string(), "[::1]:7080");
    }
}
