//! A URL to send to, taken apart. The check of the configuration and the outputs read it here, so
//! what passes the one can be sent by the others.
//!
//! Invariant: path and host of an [`Endpoint`] can stand in a request.

use std::net::{IpAddr, Ipv6Addr};

use hyper::Uri;
use hyper::header::{self, HeaderMap, HeaderValue};

/// Port of a collector when the URL names none.
const COLLECTOR_PORT: u16 = 8088;

/// `http://host:port/path?query` in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The scheme is `https`.
    pub tls: bool,
    /// Without brackets.
    pub host: String,
    /// The one that is named, or the usual one.
    pub port: u16,
    /// What stands in the `Host` header.
    pub authority: String,
    /// Path and query, as they stand in the URL.
    pub path: String,
}

/// Why a text is no endpoint. Written behind the name of the setting: `url has no host`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Neither `http://` nor `https://` stands before this.
    #[error("has no scheme")]
    NoScheme(String),
    /// Another scheme.
    #[error("has the scheme {0:?}")]
    Scheme(String),
    /// Spaces, control characters, letters beyond ASCII.
    #[error("has characters that no URL has")]
    Characters,
    /// A path that no request can name.
    #[error("has a path with characters that no URL has: {0:?}")]
    Path(String),
    /// A user name, perhaps with a password.
    #[error("has a user name or password in it")]
    Credentials,
    /// Nothing stands between the scheme and the path.
    #[error("has no host")]
    NoHost,
    /// Neither a name nor an address.
    #[error("has the host {0:?}")]
    Host(String),
    /// No port.
    #[error("has the port {0:?}")]
    Port(String),
    /// Something behind `#`, or behind `?` where that cannot be.
    #[error("has a query or a fragment")]
    Query,
    /// Host and port were asked for.
    #[error("is no host with a port")]
    NoAddress,
}

impl EndpointError {
    /// What would be right.
    pub fn help(&self) -> String {
        match self {
            Self::NoScheme(text) => format!("write \"https://{text}\" or \"http://{text}\""),
            Self::Scheme(_) => "write https:// or http://".to_owned(),
            Self::Characters => "take out spaces and accents".to_owned(),
            Self::Path(_) => "write such characters as % and two digits: < as %3C".to_owned(),
            Self::Credentials => {
                "take out everything before the @: credentials are keys of their own".to_owned()
            }
            Self::NoHost => "write https://HOST:8088".to_owned(),
            Self::Host(_) => {
                "write a name or an IP address, one of version 6 in brackets".to_owned()
            }
            Self::Port(_) => "a port is a number from 1 to 65535".to_owned(),
            Self::Query => "leave out everything from ? or # on".to_owned(),
            Self::NoAddress => "write \"logs.example:514\" or \"[2001:db8::1]:514\"".to_owned(),
        }
    }
}

impl Endpoint {
    /// The URL of a collector: no query.
    pub fn collector(text: &str) -> Result<Self, EndpointError> {
        let endpoint = Self::parse(text, |_tls| COLLECTOR_PORT)?;
        if endpoint.path.contains('?') {
            return Err(EndpointError::Query);
        }
        Ok(endpoint)
    }

    /// Any URL that requests can be sent to.
    pub fn url(text: &str) -> Result<Self, EndpointError> {
        Self::parse(text, |tls| if tls { 443 } else { 80 })
    }

    /// A host and a port, and nothing else.
    pub fn address(text: &str) -> Result<Self, EndpointError> {
        let endpoint = match Self::parts(false, text, |_tls| 0) {
            Err(EndpointError::NoHost) => return Err(EndpointError::NoAddress),
            endpoint => endpoint?,
        };
        if endpoint.port == 0 || !endpoint.path.is_empty() {
            return Err(EndpointError::NoAddress);
        }
        Ok(endpoint)
    }

    /// It leads to this machine.
    pub fn is_local(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Headers that every request to it has; `None` when its host cannot stand in one.
    pub(crate) fn headers(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(&self.authority).ok()?);
        let agent = concat!("weir/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        Some(headers)
    }

    /// Path and query as a request names them: never empty.
    pub(crate) fn target(&self) -> String {
        if self.path.starts_with('/') { self.path.clone() } else { format!("/{}", self.path) }
    }

    /// Reads a URL. `port` is the one that holds when it names none, with and without TLS.
    fn parse(text: &str, port: impl Fn(bool) -> u16) -> Result<Self, EndpointError> {
        if !text.chars().all(|c| c.is_ascii_graphic()) {
            return Err(EndpointError::Characters);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(EndpointError::NoScheme(text.to_owned()));
        };
        let tls = scheme.eq_ignore_ascii_case("https");
        if !tls && !scheme.eq_ignore_ascii_case("http") {
            return Err(EndpointError::Scheme(scheme.to_owned()));
        }
        Self::parts(tls, rest, port)
    }

    fn parts(tls: bool, rest: &str, port: impl Fn(bool) -> u16) -> Result<Self, EndpointError> {
        let (authority, path) = match rest.find(['/', '?', '#']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(EndpointError::Credentials);
        }
        if path.contains('#') {
            return Err(EndpointError::Query);
        }
        let (written, named_port) = split_port(authority)?;
        let port = named_port.unwrap_or_else(|| port(tls));
        let (authority, path) = (format!("{written}:{port}"), path.to_owned());
        let host = host(written)?.to_owned();
        let endpoint = Self { tls, host, port, authority, path };
        if endpoint.target().parse::<Uri>().is_err() {
            return Err(EndpointError::Path(endpoint.path));
        }
        Ok(endpoint)
    }
}

/// A host as it is written, and the port behind it.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), EndpointError> {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let is_number = port.bytes().all(|digit| digit.is_ascii_digit());
            match port.parse() {
                Ok(port @ 1..) if is_number => Ok((host, Some(port))),
                _ => Err(EndpointError::Port(port.to_owned())),
            }
        }
        _ => Ok((authority, None)),
    }
}

/// A name or an address, without brackets.
fn host(written: &str) -> Result<&str, EndpointError> {
    if written.is_empty() {
        return Err(EndpointError::NoHost);
    }
    let bare = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    match bare {
        Some(bare) if bare.parse::<Ipv6Addr>().is_ok() => Ok(bare),
        None if written.chars().all(is_name) => Ok(written),
        _ => Err(EndpointError::Host(written.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let check = |endpoint: Endpoint, tls, host: &str, port, path: &str| {
            let seen = (endpoint.tls, endpoint.host, endpoint.port, endpoint.path);
            assert_eq!(seen, (tls, host.to_owned(), port, path.to_owned()));
        };
        let url = |text| Endpoint::url(text).unwrap();
        check(url("http://127.0.0.1:1234"), false, "127.0.0.1", 1234, "");
        check(url("https://[::1]:80/a?b=c"), true, "::1", 80, "/a?b=c");
        check(url("HTTPS://a_b.example?x"), true, "a_b.example", 443, "?x");
        check(url("http://a/%3C%7b\"{}|"), false, "a", 80, "/%3C%7b\"{}|");
        check(Endpoint::collector("https://[::1]/p").unwrap(), true, "::1", 8088, "/p");
        check(Endpoint::address("[::1]:514").unwrap(), false, "::1", 514, "");
        assert_eq!(url("http://a?x").target(), "/?x");
        assert_eq!(url("http://a").target(), "/");
        assert!(url("http://[::1]").is_local() && !url("http://10.0.0.1").is_local());
    }

    #[test]
    fn what_is_no_url_says_why() {
        for (text, what) in [
            ("splunk:8088", "has no scheme"),
            ("tcp://splunk", "has the scheme \"tcp\""),
            ("https://", "has no host"),
            ("https://:8088", "has no host"),
            ("https://splunk:http", "has the port \"http\""),
            ("https://splunk:0", "has the port \"0\""),
            ("https://splunk:+80", "has the port \"+80\""),
            ("https://splunk:99999", "has the port \"99999\""),
            ("https://spl unk", "has characters that no URL has"),
            ("https://splünk", "has characters that no URL has"),
            ("https://splunk#x", "has a query or a fragment"),
            ("https://user@splunk", "has a user name or password in it"),
            ("https://spl*unk", "has the host \"spl*unk\""),
            ("https://[::1:8088", "has the host \"[::1\""),
            ("https://::1:8088", "has the host \"::1\""),
            ("https://[10.0.0.1]", "has the host \"[10.0.0.1]\""),
            ("https://a/b<c", "has a path with characters that no URL has: \"/b<c\""),
        ] {
            assert_eq!(Endpoint::url(text).unwrap_err().to_string(), what, "{text}");
        }
        assert_eq!(Endpoint::collector("http://a/?x=1"), Err(EndpointError::Query));
        for text in ["logs", "", ":514", "logs:514/path", "logs:514?x"] {
            assert_eq!(Endpoint::address(text), Err(EndpointError::NoAddress), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_a_url_can_be_sent(text in "https?://[ -~]{1,12}(:[0-9]{1,5})?[/?]?[ -~é]{0,12}") {
            if let Ok(endpoint) = Endpoint::url(&text) {
                prop_assert!(endpoint.target().parse::<Uri>().is_ok());
                prop_assert!(endpoint.headers().is_some());
                prop_assert!(endpoint.authority.parse::<hyper::http::uri::Authority>().is_ok());
            }
        }
    }
}
