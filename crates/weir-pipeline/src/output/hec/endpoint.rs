//! The endpoint of a collector, taken apart.

/// `http://host:port/prefix` in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) tls: bool,
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What stands in the `Host` header.
    pub(crate) authority: String,
    /// Path before `/services/collector`, without a slash at its end.
    pub(crate) prefix: String,
}

/// Port of a collector when the endpoint names none.
const DEFAULT_PORT: u16 = 8088;

impl Endpoint {
    /// Reads an endpoint; the error says what would be right. A complete collector URL is taken
    /// as well: what follows its prefix is known anyway.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err("must begin with http:// or https://"),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err("must not hold a user name: the token is set by itself");
        }
        if path.contains(['?', '#']) || path.chars().any(|c| c.is_control() || c == ' ') {
            return Err("must end with its path, without a query");
        }
        let (host, port) = split_port(authority)?;
        let prefix = path.split("/services/collector").next().unwrap_or_default();
        Ok(Self {
            tls,
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            authority: format!("{host}:{port}"),
            prefix: prefix.trim_end_matches('/').to_owned(),
        })
    }
}

fn split_port(authority: &str) -> Result<(&str, u16), &'static str> {
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
        None => Ok((host, DEFAULT_PORT)),
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => Ok((host, port)),
            _ => Err("must have a port from 1 to 65535"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_taken_apart() {
        let check = |text: &str, tls, host: &str, port, prefix: &str| {
            let endpoint = Endpoint::parse(text).unwrap();
            let seen = (endpoint.tls, endpoint.host, endpoint.port, endpoint.prefix);
            assert_eq!(seen, (tls, host.to_owned(), port, prefix.to_owned()));
        };
        check("http://127.0.0.1:1234", false, "127.0.0.1", 1234, "");
        check("https://splunk.example", true, "splunk.example", 8088, "");
        check("https://[::1]:8088/", true, "::1", 8088, "");
        check("https://[::1]", true, "::1", 8088, "");
        check("https://a:1/gateway/", true, "a", 1, "/gateway");
        check("https://a:1/x/services/collector/event", true, "a", 1, "/x");
    }

    #[test]
    fn wrong_endpoints_say_what_would_be_right() {
        let problem = |text: &str| Endpoint::parse(text).unwrap_err();
        assert!(problem("splunk:8088").contains("http://"));
        assert!(problem("ftp://a").contains("http://"));
        assert!(problem("http://:8088").contains("host"));
        assert!(problem("http://a:99999").contains("port"));
        assert!(problem("http://a:x").contains("port"));
        assert!(problem("http://user@a").contains("token"));
        assert!(problem("http://a/?x=1").contains("query"));
        assert!(problem("http://::1:8088").contains("host"));
    }
}
