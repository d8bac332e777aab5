//! A URL to send to, taken apart.

use hyper::header::{self, HeaderMap, HeaderValue};

/// `http://host:port/path?query` in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) tls: bool,
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What stands in the `Host` header.
    pub(crate) authority: String,
    /// Path and query, as they stand in the URL.
    pub(crate) path: String,
}

impl Endpoint {
    /// Reads a URL; the error says what would be right. `port` is the one that holds when it names
    /// none, with and without TLS.
    pub(crate) fn parse(text: &str, port: impl Fn(bool) -> u16) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let tls = scheme.eq_ignore_ascii_case("https");
        if !tls && !scheme.eq_ignore_ascii_case("http") {
            return Err("must begin with http:// or https://");
        }
        Self::parts(tls, rest, port)
    }

    /// A host and a port, and nothing else.
    pub(crate) fn address(text: &str) -> Result<Self, &'static str> {
        let endpoint = Self::parts(false, text, |_| 0)?;
        if endpoint.port == 0 || !endpoint.path.is_empty() {
            return Err("must be a host and a port, such as logs.example:514");
        }
        Ok(endpoint)
    }

    fn parts(tls: bool, rest: &str, port: impl Fn(bool) -> u16) -> Result<Self, &'static str> {
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err("must not hold a user name: credentials are set by themselves");
        }
        if path.contains('#') || path.chars().any(|c| c.is_control() || c == ' ') {
            return Err("must end with its path or query, without spaces or a fragment");
        }
        let (host, port) = split_port(authority, port(tls))?;
        Ok(Self {
            tls,
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            authority: format!("{host}:{port}"),
            path: path.to_owned(),
        })
    }
}

impl Endpoint {
    /// Headers that every request to it has; `None` when its host cannot stand in one.
    pub(crate) fn headers(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(&self.authority).ok()?);
        let agent = concat!("weir/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        Some(headers)
    }
}

fn split_port(authority: &str, default: u16) -> Result<(&str, u16), &'static str> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let plain = host.starts_with('[') == host.ends_with(']')
        && (host.starts_with('[') || !host.contains(':'));
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._:[]%".contains(c);
    if host.is_empty() || !plain || !host.chars().all(legal) {
        return Err("must name a host: http://host:8088 or https://[2001:db8::1]:8088");
    }
    match port {
        None => Ok((host, default)),
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => Ok((host, port)),
            _ => Err("must have a port from 1 to 65535"),
        },
    }
}
