//! Client of the API of a running weir.
//!
//! Invariants: a response is bounded in size and time; if there is no response, the error says
//! which address was tried, where it is configured and what to do; a token is sent with every
//! request and never printed.

use std::io::{self, BufReader, Read, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;
use weir_host::units::format_duration;
use weir_host::{BlockingTls, ConnectError, Secret, SecretError, ServerTrust};

use crate::cli::{ApiArgs, ConfigArgs};
use crate::command::config::locate;
use crate::exit::{Exit, ExitError};

mod chunked;
mod connection;
mod options;

pub(crate) use chunked::Chunked;
pub(crate) use connection::Connection;

/// Maximum size of a response: enough for thousands of components.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Timeout of connecting and of each read.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum wait for the next part of a long response: the server may be busy with other requests.
const READ_TIMEOUT: Duration = Duration::from_mins(2);

/// Environment variable of the token.
const TOKEN_VARIABLE: &str = "WEIR_TOKEN";

/// The address of a running weir, and what authorizes requests.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    tls: Option<BlockingTls>,
    token: Option<Secret>,
    /// Timeout of connecting and of each read.
    timeout: Duration,
}

impl Client {
    /// The address of `--api`, or else that of the configuration.
    pub(crate) fn new(args: &ApiArgs) -> Result<Self> {
        let (address, tls) = match &args.api {
            Some(api) => {
                let authorities = || ServerTrust::Authorities(args.ca_file.clone());
                (api.socket, api.tls_host.clone().map(|host| (authorities(), host)))
            }
            None => configured(args)?,
        };
        if address.port() == 0 {
            bail!("api.listen does not set a port: pass the address that weir printed with --api");
        }
        let tls = tls.map(|(trust, host)| BlockingTls::new(&trust, &host)).transpose()?;
        Ok(Self { address: reachable(address), tls, token: token(args)?, timeout: TIMEOUT })
    }

    /// Waits longer for responses to slow requests.
    pub(crate) fn with_work_timeout(self, work: Option<Duration>) -> Self {
        Self { timeout: self.timeout + work.unwrap_or_default(), ..self }
    }

    /// Returns the document at a path.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.document(&self.get_text(path)?)
    }

    /// Returns the text at a path.
    pub(crate) fn get_text(&self, path: &str) -> Result<String> {
        self.exchange("GET", path, None)
    }

    /// Posts a request and returns the document of the response.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T> {
        self.document(&self.exchange("POST", path, Some(&body.to_string()))?)
    }

    /// Deletes a resource and returns the document of the response.
    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.document(&self.exchange("DELETE", path, None)?)
    }

    fn document<T: DeserializeOwned>(&self, body: &str) -> Result<T> {
        serde_json::from_str(body).with_context(|| {
            format!("{} did not answer as expected by this release of weir", self.address)
        })
    }

    /// The body of a successful response.
    fn text<'a>(&self, answer: &'a [u8]) -> Result<&'a str> {
        let (status, body) = parse(answer)
            .with_context(|| format!("the server at {} does not speak HTTP", self.address))?;
        match status {
            200 => Ok(body),
            status => {
                let answer: Value = serde_json::from_str(body).unwrap_or_default();
                // Paths of Datadog's API carry the problem next to their errors.
                let problem = answer.get("weir").unwrap_or(&answer);
                let title = ["detail", "title"].into_iter().find_map(|key| problem[key].as_str());
                let message = match (status, title) {
                    // The request is invalid, whatever the source of the message.
                    (400, Some(title)) => options::with_option(title, problem),
                    (401, _) => format!(
                        "{} requires a valid token: set {TOKEN_VARIABLE}, or pass --token-file",
                        self.address
                    ),
                    // The message names the object.
                    (404 | 409, Some(title)) => title.to_owned(),
                    (431, _) => format!(
                        "the request is too long for {}: shorten the expression",
                        self.address
                    ),
                    (_, title) => {
                        let title = title.unwrap_or("no reason given");
                        format!("{} answered with status {status}: {title}", self.address)
                    }
                };
                let exit = match status {
                    400 | 431 => Exit::Usage,
                    429 | 503 => Exit::Temporary,
                    404 => Exit::NotFound,
                    _ => Exit::Failed,
                };
                Err(ExitError::with(exit, message))
            }
        }
    }

    /// Returns a stream of the body at a path. `last_id` is the id of the last event read from an
    /// earlier response; `silence_max` is the maximum time without data before the response ends.
    pub(crate) fn stream(
        &self,
        path: &str,
        last_id: Option<&str>,
        silence_max: Duration,
    ) -> Result<impl Read + use<>> {
        let last_id = last_id.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.0\r\n{last_id}");
        let (stream, _) = self.begin(&request, "")?;
        stream.set_read_timeout(Some(silence_max))?;
        Ok(stream)
    }

    /// Returns a stream of the body at a path, and its headers; later fields are in its trailers.
    /// An incomplete body is an error of the reader.
    pub(crate) fn download(&self, path: &str) -> Result<(Headers, Chunked<BufReader<Connection>>)> {
        let request = format!("GET {path} HTTP/1.1\r\nconnection: close, te\r\nte: trailers\r\n");
        let (stream, head) = self.begin(&request, "")?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let headers = Headers(head);
        let body = Chunked::new(BufReader::new(stream), headers.get("content-length"));
        Ok((headers, body))
    }

    /// Sends a request and reads the head of the response, which must be successful.
    fn begin(&self, request: &str, body: &str) -> Result<(Connection, String)> {
        let mut stream = self.ask(request, body)?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            let read = stream.read_exact(&mut byte);
            read.map_err(|error| self.no_answer(&error))?;
            head.extend_from_slice(&byte);
        }
        if !head.starts_with(b"HTTP/1.0 200") && !head.starts_with(b"HTTP/1.1 200") {
            // Only the problem document follows; a part of it is better than nothing.
            let _part = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut head);
            self.text(&head)?;
            bail!("{} answered with an unexpected status", self.address);
        }
        Ok((stream, String::from_utf8_lossy(&head).into_owned()))
    }

    /// Returns the body of the response.
    fn exchange(&self, method: &str, path: &str, body: Option<&str>) -> Result<String> {
        self.text(&self.answer(method, path, body)?).map(str::to_owned)
    }

    /// Returns the response. Uses HTTP/1.0, so that it is not chunked and ends with the connection.
    fn answer(&self, method: &str, path: &str, body: Option<&str>) -> Result<Vec<u8>> {
        let headers = body.map(|body| {
            format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len())
        });
        let request = format!("{method} {path} HTTP/1.0\r\n{}", headers.unwrap_or_default());
        let mut answer = Vec::new();
        let connection = self.ask(&request, body.unwrap_or_default())?;
        let read = connection.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
        read.map_err(|error| self.no_answer(&error))?;
        Ok(answer)
    }

    fn ask(&self, request: &str, body: &str) -> Result<Connection> {
        let connected = self.connect().map_err(|error| self.no_answer(&error))?;
        let mut connection = match &self.tls {
            None => Connection::Plain(connected),
            Some(tls) => {
                Connection::Tls(tls.connect(connected).map_err(|error| not_trusted(&error))?)
            }
        };
        let token = self.token.as_ref();
        let token = token.map(|token| format!("authorization: Bearer {}\r\n", token.expose()));
        let token = token.unwrap_or_default();
        let request = format!("{request}{token}host: {}\r\n\r\n{body}", self.address);
        let written = connection.write_all(request.as_bytes()).and_then(|()| connection.flush());
        written.map_err(|error| self.no_answer(&error))?;
        Ok(connection)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(stream)
    }

    fn no_answer(&self, error: &io::Error) -> anyhow::Error {
        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
            let message = format!(
                "{} did not answer within {}: try again, or check the address (--api)",
                self.address,
                format_duration(self.timeout),
            );
            return ExitError::with(Exit::Temporary, message);
        }
        let message = format!(
            "no weir is running at {}: {error}; start one with `weir run`, or set its address with \
             --api",
            self.address
        );
        ExitError::with(Exit::Failed, message)
    }
}

/// Why no weir can be reached at the address in the configuration; `None` if it accepts
/// connections. Any later error is then one of that weir.
pub(crate) fn absence(args: &ConfigArgs) -> Result<Option<String>> {
    let Some(address) = locate(args)?.api_listen else {
        return Ok(Some("api.enabled is false in its configuration".to_owned()));
    };
    if address.port() == 0 {
        return Ok(Some("api.listen does not set a port".to_owned()));
    }
    let address = reachable(address);
    let connected = TcpStream::connect_timeout(&address, TIMEOUT);
    Ok(connected.err().map(|error| format!("{address} does not answer: {error}")))
}

/// The address in the configuration. The weir that uses this configuration has its certificate,
/// whichever name or address it is reached by.
fn configured(args: &ApiArgs) -> Result<(SocketAddr, Option<(ServerTrust, String)>)> {
    let settings = locate(&args.config)?;
    let address = settings.api_listen.ok_or_else(|| {
        ExitError::with(Exit::ConfigInvalid, "api.enabled is false in the configuration")
    })?;
    let certificate = settings.api_cert_file.map(ServerTrust::Certificate);
    Ok((address, certificate.map(|trust| (trust, reachable(address).ip().to_string()))))
}

/// A handshake that failed, with what to do on the command line.
fn not_trusted(error: &ConnectError) -> anyhow::Error {
    let as_is = || ExitError::with(Exit::Failed, error.to_string());
    let ConnectError::Certificate { target, kind, problem, .. } = error else { return as_is() };
    let advice = match *kind {
        "certificate_unknown_authority" => "pass the authority's certificate with --ca-file",
        "certificate_of_an_authority" => "if it is self-signed, pass it with --ca-file",
        "certificate_wrong_name" => "use a URL with such a name",
        _ => return as_is(),
    };
    ExitError::with(Exit::Failed, format!("certificate of {target} {problem}: {advice}"))
}

/// The token of the file, or else that of the environment.
fn token(args: &ApiArgs) -> Result<Option<Secret>> {
    if let Some(path) = &args.token_file {
        return Ok(Some(Secret::from_file(path)?));
    }
    match Secret::from_env(TOKEN_VARIABLE) {
        Ok(token) => Ok(Some(token)),
        Err(SecretError::NotSet { .. } | SecretError::Empty { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Header lines of a response, or its trailers.
#[derive(Debug)]
pub(crate) struct Headers(String);

impl Headers {
    /// The value of a header.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// An address to connect to, for an address that is listened on.
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
    fn responses_are_parsed() {
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\na: b\r\n\r\n{}"), Some((200, "{}")));
        assert_eq!(parse(b"SSH-2.0\r\n\r\n"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn server_that_does_not_answer_is_not_a_missing_one() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let timeout = Duration::from_millis(20);
        let address = silent.local_addr().unwrap();
        let client = Client { address, tls: None, token: None, timeout };
        let error = client.get_text("/").unwrap_err();
        let error = error.downcast_ref::<ExitError>().unwrap();
        assert_eq!(error.exit, Exit::Temporary);
        assert!(error.message.contains("did not answer within 20ms"), "{error}");
    }

    #[test]
    fn wildcard_address_is_reached_on_loopback() {
        assert_eq!(reachable("0.0.0.0:7080".parse().unwrap()).to_string(), "127.0.0.1:7080");
        assert_eq!(reachable("[::]:7080".parse().unwrap()).to_string(), "[::1]:7080");
    }
}
