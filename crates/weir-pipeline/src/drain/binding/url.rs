//! The URL of a drain, and the settings in its query.
//!
//! Requests contain the whole query unchanged, including the parameters that are interpreted here,
//! as in the original: endpoints may depend on them.
//!
//! Invariant: `Display` and `Debug` show neither the user nor the query.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_codec::form_decoded;
use weir_host::Secret;
use weir_model::{Kinds, RecordKind};

use crate::config::Endpoint;

/// Maximum length of a URL that common servers accept.
const URL_BYTES_MAX: usize = 8 * 1024;

/// Maximum length of a text that is shown because it is not a URL: enough to recognize it.
const URL_SHOWN_CHARS_MAX: usize = 200;

/// The beginnings of URLs, for messages.
pub const DRAIN_SCHEMES: &str = "syslog://, syslog-tls://, https:// or https-batch://";

/// Registered ports of the schemes, for URLs without a port.
const SYSLOG_PORT: u16 = 514;
const SYSLOG_TLS_PORT: u16 = 6514;
const HTTPS_PORT: u16 = 443;

/// How messages are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DrainScheme {
    /// Over TCP, with octet-counted framing.
    Syslog,
    /// The same over TLS.
    SyslogTls,
    /// One message per request.
    Https,
    /// Many messages per request.
    HttpsBatch,
}

/// Which envelopes a drain receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DrainData {
    /// Logs and events.
    #[default]
    Logs,
    /// Logs only, as with the older `drain-type=logs`.
    LogsWithoutEvents,
    /// Counters and gauges.
    Metrics,
    /// Logs, counters and gauges, as with the older `drain-type=all`.
    LogsAndMetrics,
    /// Timers.
    Traces,
    /// Everything.
    All,
}

/// A URL that messages can be sent to.
#[derive(Clone, PartialEq, Eq)]
pub struct DrainUrl {
    /// How messages are sent.
    pub scheme: DrainScheme,
    /// Host without brackets.
    pub host: String,
    /// The port, or the one of the scheme.
    pub port: u16,
    /// Which envelopes it receives.
    pub data: DrainData,
    /// Whether messages contain the tags of envelopes; `None` for the configured default.
    pub with_metadata: Option<bool>,
    /// Restricts TLS to the versions and ciphers that components use with each other.
    pub is_strict: bool,
    written: Secret,
    shown: String,
    endpoint: Endpoint,
    authorization: Option<Secret>,
}

/// Why a URL cannot be used. The texts are those of the original, for the log of the application.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DrainUrlError {
    /// It is not a URL.
    #[error("Cannot parse syslog drain URL.")]
    Unparsable,
    /// Its scheme is not a [`DrainScheme`].
    #[error("Invalid Scheme {scheme} for syslog drain url {url}")]
    Scheme {
        /// The scheme.
        scheme: String,
        /// The URL without user and query.
        url: String,
    },
    /// It has no host.
    #[error("No hostname found in syslog drain url {url}")]
    NoHost {
        /// The URL without user and query.
        url: String,
    },
}

impl DrainScheme {
    /// Returns whether connections use TLS.
    pub fn is_tls(self) -> bool {
        match self {
            Self::Syslog => false,
            Self::SyslogTls | Self::Https | Self::HttpsBatch => true,
        }
    }

    /// Returns whether messages are sent in HTTP requests, without framing.
    pub fn is_http(self) -> bool {
        match self {
            Self::Syslog | Self::SyslogTls => false,
            Self::Https | Self::HttpsBatch => true,
        }
    }

    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "syslog" => Self::Syslog,
            "syslog-tls" => Self::SyslogTls,
            "https" => Self::Https,
            "https-batch" => Self::HttpsBatch,
            _ => return None,
        })
    }

    fn port(self) -> u16 {
        match self {
            Self::Syslog => SYSLOG_PORT,
            Self::SyslogTls => SYSLOG_TLS_PORT,
            Self::Https | Self::HttpsBatch => HTTPS_PORT,
        }
    }
}

impl DrainData {
    /// Returns the kinds of records that these envelopes contain.
    pub fn kinds(self) -> Kinds {
        let metrics = |kinds: Kinds| kinds.with(RecordKind::Counter).with(RecordKind::Gauge);
        match self {
            Self::Logs => Kinds::LOGS.with(RecordKind::Event),
            Self::LogsWithoutEvents => Kinds::LOGS,
            Self::Metrics => metrics(Kinds::NONE),
            Self::LogsAndMetrics => metrics(Kinds::LOGS),
            Self::Traces => Kinds::NONE.with(RecordKind::Timer),
            Self::All => Kinds::ALL,
        }
    }
}

/// Describes to whoever wrote a URL why it cannot be used, without its user and query. The log of
/// an application has the text of the original instead.
pub(crate) fn describe(text: &str, error: &DrainUrlError) -> String {
    match error {
        DrainUrlError::Unparsable => describe_unparsable(text),
        DrainUrlError::Scheme { .. } => format!("{error}: write {DRAIN_SCHEMES}"),
        DrainUrlError::NoHost { .. } => error.to_string(),
    }
}

fn describe_unparsable(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), text),
    };
    let place = rest.rsplit('@').next().unwrap_or_default();
    // Before a name that is not a scheme there may be a user as well.
    let scheme = if scheme.contains('@') { String::new() } else { scheme };
    let shown: String = format!("{scheme}{place}").chars().take(URL_SHOWN_CHARS_MAX).collect();
    format!("{shown:?} is not a drain URL: write {DRAIN_SCHEMES}")
}

impl DrainUrl {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Self, DrainUrlError> {
        if text.len() > URL_BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(DrainUrlError::Unparsable);
        }
        let text = text.split('#').next().unwrap_or_default();
        let (scheme, rest) = text.split_once("://").ok_or(DrainUrlError::Unparsable)?;
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        if !scheme.chars().all(is_scheme) {
            return Err(DrainUrlError::Unparsable);
        }
        let scheme = scheme.to_ascii_lowercase();
        let (authority, target) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let shown = format!("{scheme}://{place}{path}");
        let Some(kind) = DrainScheme::of(&scheme) else {
            return Err(DrainUrlError::Scheme { scheme, url: shown });
        };
        if place.is_empty() || place.starts_with(':') {
            return Err(DrainUrlError::NoHost { url: shown });
        }
        let endpoint = Endpoint::with_port(kind.is_tls(), &format!("{place}{target}"), kind.port())
            .map_err(|_| DrainUrlError::Unparsable)?;
        let parameters = Parameters::of(query);
        Ok(Self {
            scheme: kind,
            host: endpoint.host.clone(),
            port: endpoint.port,
            data: parameters.data(),
            with_metadata: parameters.with_metadata(),
            is_strict: parameters.get("ssl-strict-internal") == "true",
            written: Secret::new(text.to_owned()),
            shown,
            endpoint,
            authorization: user.filter(|user| !user.is_empty()).map(basic),
        })
    }

    /// Returns the target of requests.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the value of the header `Authorization`, if the URL has a user.
    pub fn authorization(&self) -> Option<&Secret> {
        self.authorization.as_ref()
    }

    /// Returns the whole URL, for the id of a binding.
    pub(in crate::drain) fn written(&self) -> &str {
        self.written.expose()
    }
}

/// Returns the credentials of a URL as a header, with percent-encoding decoded.
fn basic(user: &str) -> Secret {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    // A plus is literal outside of a query.
    let decoded = |text: &str| form_decoded(&text.replace('+', "%2B"));
    let credentials = [decoded(name), b":".to_vec(), decoded(password)].concat();
    Secret::new(format!("Basic {}", STANDARD.encode(credentials)))
}

/// The parameters of a query; the first one of the same name applies.
struct Parameters(Vec<(Vec<u8>, Vec<u8>)>);

impl Parameters {
    fn of(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.contains(';'));
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(pairs.map(|(name, value)| (form_decoded(name), form_decoded(value))).collect())
    }

    fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name.as_bytes());
        found.and_then(|(_, value)| std::str::from_utf8(value).ok()).unwrap_or_default()
    }

    fn data(&self) -> DrainData {
        if !self.get("include-metrics-deprecated").is_empty() {
            return DrainData::All;
        }
        match self.get("drain-data") {
            "logs" => return DrainData::Logs,
            "metrics" => return DrainData::Metrics,
            "traces" => return DrainData::Traces,
            "all" => return DrainData::All,
            _ => {}
        }
        match self.get("drain-type") {
            "logs" => DrainData::LogsWithoutEvents,
            "metrics" => DrainData::Metrics,
            "all" => DrainData::LogsAndMetrics,
            _ => DrainData::default(),
        }
    }

    fn with_metadata(&self) -> Option<bool> {
        let without = match self.get("disable-metadata") {
            "" => self.get("omit-metadata"),
            stated => stated,
        };
        match without {
            "true" => Some(false),
            "false" => Some(true),
            _ => None,
        }
    }
}

impl fmt::Display for DrainUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for DrainUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DrainUrl({})", self.shown)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> DrainUrl {
        DrainUrl::parse(text).unwrap()
    }

    #[test]
    fn urls_are_taken_apart_and_shown_without_user_and_query() {
        let check = |text: &str, scheme, host: &str, port, target: &str, shown: &str| {
            let url = url(text);
            assert_eq!((url.scheme, url.host.as_str(), url.port), (scheme, host, port), "{text}");
            assert_eq!((url.endpoint().target().as_str(), &*url.to_string()), (target, shown));
            assert!(!format!("{url:?}").contains("hidden"), "{url:?}");
        };
        let plain = "syslog://logs.example:1234";
        check(plain, DrainScheme::Syslog, "logs.example", 1234, "/", plain);
        check("syslog://logs.example", DrainScheme::Syslog, "logs.example", 514, "/", &plain[..21]);
        check(
            "Syslog-TLS://[::1]?a=hidden",
            DrainScheme::SyslogTls,
            "::1",
            6514,
            "/?a=hidden",
            "syslog-tls://[::1]",
        );
        check(
            "https://hidden:hidden@h/p/q?drain-data=all&x=hidden#f",
            DrainScheme::Https,
            "h",
            443,
            "/p/q?drain-data=all&x=hidden",
            "https://h/p/q",
        );
        check(
            "https-batch://a@hidden@h:1/",
            DrainScheme::HttpsBatch,
            "h",
            1,
            "/",
            "https-batch://h:1/",
        );
    }

    #[test]
    fn users_of_urls_are_credentials() {
        let sent = |text: &str| url(text).authorization().map(|sent| sent.expose().to_owned());
        assert_eq!(sent("https://h"), None);
        assert_eq!(sent("https://@h"), None);
        assert_eq!(sent("https://a%40b:p+%3a@h").as_deref(), Some("Basic YUBiOnArOg=="));
        assert_eq!(sent("https://token@h").as_deref(), Some("Basic dG9rZW46"));
    }

    #[test]
    fn parameters_select_the_envelopes_of_a_drain() {
        let data = |query: &str| url(&format!("syslog://h?{query}")).data;
        for (query, expected) in [
            ("", DrainData::Logs),
            ("drain-data=logs", DrainData::Logs),
            ("drain-data=metrics", DrainData::Metrics),
            ("drain-data=traces&drain-type=all", DrainData::Traces),
            ("drain-type=all&drain-data=all", DrainData::All),
            ("drain-data=wrong&drain-type=all", DrainData::LogsAndMetrics),
            ("drain-type=logs", DrainData::LogsWithoutEvents),
            ("drain-type=metrics", DrainData::Metrics),
            ("drain-type=wrong", DrainData::Logs),
            ("drain%2Ddata=a%6cl", DrainData::All),
            ("drain-data=metrics&drain-data=all", DrainData::Metrics),
            ("drain-data=logs&include-metrics-deprecated=x", DrainData::All),
            ("include-metrics-deprecated=", DrainData::Logs),
        ] {
            assert_eq!(data(query), expected, "{query}");
        }
        let held = |data: DrainData| {
            let kinds = RecordKind::ALL.into_iter().filter(|kind| data.kinds().contains(*kind));
            kinds.map(|kind| format!("{kind:?}").remove(0)).collect::<String>()
        };
        let all = [
            DrainData::Logs,
            DrainData::LogsWithoutEvents,
            DrainData::Metrics,
            DrainData::LogsAndMetrics,
            DrainData::Traces,
            DrainData::All,
        ];
        assert_eq!(all.map(held), ["LE", "L", "CG", "LCG", "T", "LCGTE"]);
        let metadata = |query: &str| url(&format!("syslog://h?{query}")).with_metadata;
        assert_eq!(metadata("disable-metadata=true"), Some(false));
        assert_eq!(metadata("omit-metadata=true"), Some(false));
        assert_eq!(metadata("disable-metadata=false&omit-metadata=true"), Some(true));
        assert_eq!(metadata("disable-metadata=yes"), None);
        assert!(url("syslog://h?ssl-strict-internal=true").is_strict);
        assert!(!url("syslog://h?ssl-strict-internal=1").is_strict);
    }

    #[test]
    fn invalid_drains_are_refused_with_the_texts_of_the_original() {
        for (text, expected) in [
            ("", "Cannot parse syslog drain URL."),
            ("logs.example", "Cannot parse syslog drain URL."),
            ("user:hidden@logs.example", "Cannot parse syslog drain URL."),
            ("syslog://a b", "Cannot parse syslog drain URL."),
            ("syslog://a\r\nb", "Cannot parse syslog drain URL."),
            ("syslog://lögs", "Cannot parse syslog drain URL."),
            ("syslog://h:port", "Cannot parse syslog drain URL."),
            ("syslog://[::1", "Cannot parse syslog drain URL."),
            ("sys/log://h", "Cannot parse syslog drain URL."),
            ("http://u:p@h/x?hidden", "Invalid Scheme http for syslog drain url http://h/x"),
            ("://h", "Invalid Scheme  for syslog drain url ://h"),
            ("syslog://?hidden", "No hostname found in syslog drain url syslog://"),
            ("https:///path", "No hostname found in syslog drain url https:///path"),
            ("syslog://u:hidden@:514", "No hostname found in syslog drain url syslog://:514"),
        ] {
            assert_eq!(DrainUrl::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
        let long = format!("https://h/{}", "x".repeat(URL_BYTES_MAX));
        assert_eq!(DrainUrl::parse(&long), Err(DrainUrlError::Unparsable));
    }

    #[test]
    fn text_that_is_no_url_is_shown_without_user_and_query() {
        for (text, shown) in [
            ("foo", "foo"),
            ("user:hidden@logs.example?hidden#hidden", "logs.example"),
            ("syslog://u:hidden@h:port/p?hidden", "syslog://h:port/p"),
            ("u:hidden@h://x", "x"),
        ] {
            let error = DrainUrl::parse(text).unwrap_err();
            let want = format!("{shown:?} is not a drain URL: write {DRAIN_SCHEMES}");
            assert_eq!(describe(text, &error), want);
        }
        let error = DrainUrl::parse("http://h").unwrap_err();
        assert!(describe("http://h", &error).ends_with(DRAIN_SCHEMES));
    }

    proptest! {
        #[test]
        fn no_text_shows_its_user_or_its_query(
            scheme in "(syslog|syslog-tls|https|https-batch|http)",
            place in "[a-z]{0,3}(:[0-9]{1,6})?",
            path in "(/[a-z]{0,3})?",
        ) {
            let text = format!("{scheme}://SECRET:SECRET@{place}{path}?SECRET=SECRET#SECRET");
            let shown = match DrainUrl::parse(&text) {
                Ok(url) => format!("{url} {url:?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            prop_assert!(!shown.contains("SECRET"), "{}", shown);
        }

        #[test]
        fn hostile_texts_are_refused_or_can_be_sent(text in "(syslog|https)://[ -~é\n]{0,30}") {
            if let Ok(url) = DrainUrl::parse(&text) {
                prop_assert!(url.endpoint().target().parse::<hyper::Uri>().is_ok());
                prop_assert!(url.endpoint().headers().is_some());
            }
        }
    }
}
