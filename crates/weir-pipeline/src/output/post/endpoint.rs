//! A parsed destination URL. The configuration check and the outputs share this parser, so a URL
//! that passes the check can be used.
//!
//! Invariant: path and host of an [`Endpoint`] are valid in a request.

use std::net::{IpAddr, Ipv6Addr};

use hyper::Uri;
use hyper::header::{self, HeaderMap, HeaderValue};

/// Port of a collector if the URL has none.
const COLLECTOR_PORT: u16 = 8088;

/// The parts of `http://host:port/path?query`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The scheme is `https`.
    pub tls: bool,
    /// Host without brackets.
    pub host: String,
    /// The given port, or the default one.
    pub port: u16,
    /// Value of the `Host` header.
    pub authority: String,
    /// Path and query, as in the URL.
    pub path: String,
}

/// Why a text is not an endpoint. Shown after the name of the setting: `url has no host`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It does not start with `http://` or `https://`.
    #[error("has no scheme")]
    NoScheme(String),
    /// An unsupported scheme.
    #[error("has the unsupported scheme {0:?}")]
    Scheme(String),
    /// Spaces, control characters or non-ASCII characters.
    #[error("contains characters that are not valid in a URL")]
    Characters,
    /// A path that is not valid in a request.
    #[error("has a path with invalid characters: {0:?}")]
    Path(String),
    /// A user name, possibly with a password.
    #[error("contains a user name or password")]
    Credentials,
    /// Nothing between the scheme and the path.
    #[error("has no host")]
    NoHost,
    /// Neither a valid name nor a valid address.
    #[error("has the invalid host {0:?}")]
    Host(String),
    /// Not a valid port.
    #[error("has the invalid port {0:?}")]
    Port(String),
    /// A fragment after `#`, or a query after `?` where it is not allowed.
    #[error("has a query or a fragment")]
    Query,
    /// Not of the form host and port, where this is required.
    #[error("is not a host with a port")]
    NoAddress,
}

impl EndpointError {
    /// Returns how to fix it.
    pub fn help(&self) -> String {
        match self {
            Self::NoScheme(text) => format!("write \"https://{text}\" or \"http://{text}\""),
            Self::Scheme(_) => "write https:// or http://".to_owned(),
            Self::Characters => "remove spaces and non-ASCII characters".to_owned(),
            Self::Path(_) => "percent-encode these characters: < as %3C".to_owned(),
            Self::Credentials => {
                "remove everything before the @: credentials have their own keys".to_owned()
            }
            Self::NoHost => "write https://HOST:8088".to_owned(),
            Self::Host(_) => {
                "write a name or an IP address, with IPv6 addresses in brackets".to_owned()
            }
            Self::Port(_) => "the port must be a number from 1 to 65535".to_owned(),
            Self::Query => "remove everything from ? or # on".to_owned(),
            Self::NoAddress => "write \"logs.example:514\" or \"[2001:db8::1]:514\"".to_owned(),
        }
    }
}

impl Endpoint {
    /// Parses the URL of a collector: no query.
    pub fn collector(text: &str) -> Result<Self, EndpointError> {
        let endpoint = Self::parse(text, |_tls| COLLECTOR_PORT)?;
        if endpoint.path.contains('?') {
            return Err(EndpointError::Query);
        }
        Ok(endpoint)
    }

    /// Parses any URL that requests can be sent to.
    pub fn url(text: &str) -> Result<Self, EndpointError> {
        Self::parse(text, |tls| if tls { 443 } else { 80 })
    }

    /// Parses a host and a port, and nothing else.
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

    /// Parses the part after the scheme, for URLs with other schemes.
    pub(crate) fn with_port(tls: bool, rest: &str, port: u16) -> Result<Self, EndpointError> {
        Self::parts(tls, rest, |_tls| port)
    }

    /// Returns true if it leads to this machine.
    pub fn is_local(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Returns the headers of every request to it; `None` if its host is not valid in one.
    pub(crate) fn headers(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(&self.authority).ok()?);
        let agent = concat!("weir/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        Some(headers)
    }

    /// Returns path and query for a request: never empty.
    pub(crate) fn target(&self) -> String {
        if self.path.starts_with('/') { self.path.clone() } else { format!("/{}", self.path) }
    }

    /// Parses a URL. `port` returns the default port, with and without TLS.
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

/// Splits an authority into the host as written and its port.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), EndpointError> {
    let is_open = authority.starts_with('[') && !authority.contains(']');
    match authority.rsplit_once(':').filter(|_| !is_open) {
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

/// Parses a name or an address, and removes brackets.
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
    fn invalid_urls_are_explained() {
        for (text, what) in [
            ("splunk:8088", "has no scheme"),
            ("tcp://splunk", "has the unsupported scheme \"tcp\""),
            ("https://", "has no host"),
            ("https://:8088", "has no host"),
            ("https://splunk:http", "has the invalid port \"http\""),
            ("https://splunk:0", "has the invalid port \"0\""),
            ("https://splunk:+80", "has the invalid port \"+80\""),
            ("https://splunk:99999", "has the invalid port \"99999\""),
            ("https://spl unk", "contains characters that are not valid in a URL"),
            ("https://splünk", "contains characters that are not valid in a URL"),
            ("https://splunk#x", "has a query or a fragment"),
            ("https://user@splunk", "contains a user name or password"),
            ("https://spl*unk", "has the invalid host \"spl*unk\""),
            ("https://[::1:8088", "has the invalid host \"[::1:8088\""),
            ("https://[::1", "has the invalid host \"[::1\""),
            ("https://::1:8088", "has the invalid host \"::1\""),
            ("https://[10.0.0.1]", "has the invalid host \"[10.0.0.1]\""),
            ("https://a/b<c", "has a path with invalid characters: \"/b<c\""),
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
        fn valid_urls_can_be_sent(text in "https?://[ -~]{1,12}(:[0-9]{1,5})?[/?]?[ -~é]{0,12}") {
            if let Ok(endpoint) = Endpoint::url(&text) {
                prop_assert!(endpoint.target().parse::<Uri>().is_ok());
                prop_assert!(endpoint.headers().is_some());
                prop_assert!(endpoint.authority.parse::<hyper::http::uri::Authority>().is_ok());
            }
        }
    }
}
