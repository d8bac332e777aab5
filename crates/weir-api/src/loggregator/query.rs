//! Requests to the gateway, parsed from the parameters of the URL.
//!
//! Invariant: as in the original, the presence of a parameter selects a kind of envelope, and its
//! value selects names; a parameter that cannot be decoded is ignored.

use weir_codec::{
    LoggregatorRequest, LoggregatorSelector, LoggregatorWanted, form_decoded, form_decoded_strictly,
};

/// Why a request is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryError {
    Empty,
    NoType,
}

/// Reads the query of a URL.
pub(super) fn parse(query: &str) -> Result<LoggregatorRequest, QueryError> {
    let parameters = parameters(query);
    if parameters.is_empty() {
        return Err(QueryError::Empty);
    }
    let values = |name: &str| -> Vec<&str> {
        let named = parameters.iter().filter(|(key, _)| key == name);
        named.map(|(_, value)| value.as_str()).collect()
    };
    let has = |name: &str| parameters.iter().any(|(key, _)| key == name);
    let first = |name: &str| values(name).first().copied().unwrap_or_default().to_owned();
    let mut wanted = Vec::new();
    if has("log") {
        wanted.push(LoggregatorWanted::Log);
    }
    let counters = values("counter.name");
    wanted.extend(counters.iter().map(|name| LoggregatorWanted::Counter((*name).to_owned())));
    if counters.is_empty() && has("counter") {
        wanted.push(LoggregatorWanted::Counter(String::new()));
    }
    let gauges = values("gauge.name");
    for names in &gauges {
        wanted.push(LoggregatorWanted::gauge(names.split(',').map(str::to_owned).collect()));
    }
    if gauges.is_empty() && has("gauge") {
        wanted.push(LoggregatorWanted::Gauge(Vec::new()));
    }
    if has("timer") {
        wanted.push(LoggregatorWanted::Timer);
    }
    if has("event") {
        wanted.push(LoggregatorWanted::Event);
    }
    if wanted.is_empty() {
        return Err(QueryError::NoType);
    }
    let mut sources = values("source_id");
    if sources.is_empty() {
        sources.push("");
    }
    let mut selectors = Vec::with_capacity(sources.len() * wanted.len());
    for source_id in sources {
        selectors.extend(wanted.iter().map(|wanted| LoggregatorSelector {
            source_id: source_id.to_owned(),
            message: Some(wanted.clone()),
        }));
    }
    Ok(LoggregatorRequest {
        shard_id: first("shard_id"),
        deterministic_name: first("deterministic_name"),
        prefers_tags: true,
        selectors,
    })
}

/// Decodes a part of a path, in which a plus sign is literal.
pub(super) fn path_decoded(part: &str) -> String {
    String::from_utf8_lossy(&form_decoded(&part.replace('+', "%2B"))).into_owned()
}

/// Names and values, decoded; a pair that cannot be decoded is ignored.
pub(super) fn parameters(query: &str) -> Vec<(String, String)> {
    pairs(query).filter_map(Result::ok).collect()
}

/// Names and values, decoded. An error is that of the original.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = Result<(String, String), String>> {
    let text = |text: &str| match form_decoded_strictly(text) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(escape) => Err(format!("invalid URL escape {escape:?}")),
    };
    query.split('&').filter(|pair| !pair.is_empty()).map(move |pair| {
        if pair.contains(';') {
            return Err("invalid semicolon separator in query".to_owned());
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((text(key)?, text(value)?))
    })
}

/// Returns the path to which the original redirects: without empty parts, `.` and `..`. `None` if
/// no redirect is needed.
pub(super) fn cleaned_path(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    let mut cleaned = format!("/{}", parts.join("/"));
    if path.ends_with('/') && !parts.is_empty() {
        cleaned.push('/');
    }
    (cleaned != path).then_some(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selectors(query: &str) -> Vec<(String, LoggregatorWanted)> {
        let request = parse(query).unwrap();
        assert!(request.prefers_tags);
        let all = request.selectors.into_iter();
        all.map(|selector| (selector.source_id, selector.message.unwrap())).collect()
    }

    #[test]
    fn kinds_names_and_sources_are_combined() {
        let name = |name: &str| LoggregatorWanted::Counter(name.to_owned());
        let of = |source: &str, wanted| (source.to_owned(), wanted);
        assert_eq!(selectors("log"), [of("", LoggregatorWanted::Log)]);
        assert_eq!(
            selectors("counter&counter.name=a&counter.name=b%20c&source_id=x&source_id=y"),
            [of("x", name("a")), of("x", name("b c")), of("y", name("a")), of("y", name("b c"))]
        );
        assert_eq!(selectors("counter=no"), [of("", name(""))]);
        let gauge = LoggregatorWanted::Gauge(vec!["cpu".to_owned(), "memory".to_owned()]);
        assert_eq!(selectors("gauge.name=memory,cpu"), [of("", gauge)]);
        assert_eq!(
            selectors("gauge&timer&event&source_id=x"),
            [
                of("x", LoggregatorWanted::Gauge(Vec::new())),
                of("x", LoggregatorWanted::Timer),
                of("x", LoggregatorWanted::Event)
            ]
        );
        let request = parse("log&shard_id=s&deterministic_name=d").unwrap();
        assert_eq!((request.shard_id.as_str(), request.deterministic_name.as_str()), ("s", "d"));
    }

    #[test]
    fn queries_without_parameters_or_kinds_are_errors() {
        assert_eq!(parse(""), Err(QueryError::Empty));
        assert_eq!(parse("&"), Err(QueryError::Empty));
        assert_eq!(parse("source_id=x"), Err(QueryError::NoType));
        assert_eq!(parse("log=%zz"), Err(QueryError::Empty));
        assert_eq!(parse("log;timer&source_id=x"), Err(QueryError::NoType));
        let errors: Vec<String> = pairs("a=%&b;c&d=1").filter_map(Result::err).collect();
        let expected = ["invalid URL escape \"%\"", "invalid semicolon separator in query"];
        assert_eq!(errors, expected);
    }

    #[test]
    fn paths_are_cleaned_as_by_the_original() {
        for path in ["/", "/v2/read", "/v2/read/", "/a%2F%2Fb", "/a/...", "/.a"] {
            assert_eq!(cleaned_path(path), None, "{path}");
        }
        for (path, cleaned) in [
            ("//v2/read", "/v2/read"),
            ("/v2//read//", "/v2/read/"),
            ("/v2/./x/../read", "/v2/read"),
            ("/../..", "/"),
            ("//example.org/..", "/"),
            ("/a/..//", "/"),
        ] {
            assert_eq!(cleaned_path(path).as_deref(), Some(cleaned), "{path}");
        }
    }
}
