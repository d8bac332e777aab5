//! The words that keys of the configuration accept, each with its meaning and its value.
//!
//! Invariant: a word and its value are defined once, in one line; a value without a word does not
//! compile.

use weir_codec::MultilinePreset;
use weir_host::Compression;
use weir_pipeline::config::{
    Encoding, Format, Framing, HecMode, ReadFrom, SyslogFormat, SyslogFramingKind,
    SyslogOutputFraming,
};
use weir_pipeline::output::{HttpMethod, SocketProtocol};

use super::field::Word;
use super::plan::LogFormat;

/// A value that is written as one of some words.
pub(crate) trait Choice: Copy + 'static {
    /// The words, in the order of the reference.
    const WORDS: &'static [Word];
    /// Their values, in the same order.
    const VALUES: &'static [Self];

    /// The value of a word.
    fn of(word: &str) -> Option<Self> {
        let index = Self::WORDS.iter().position(|known| known.word == word)?;
        Self::VALUES.get(index).copied()
    }
}

macro_rules! choice {
    ($type:ident { $($variant:ident = $word:literal: $doc:literal,)* }) => {
        impl Choice for $type {
            const WORDS: &'static [Word] = &[$(Word { word: $word, doc: $doc }),*];
            const VALUES: &'static [Self] = &[$($type::$variant),*];
        }

        const _: fn($type) = |value| match value {
            $($type::$variant => {})*
        };
    };
    ($(#[$attribute:meta])* enum $type:ident { $($variant:ident = $word:literal: $doc:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $type {
            $($variant,)*
        }

        choice! { $type { $($variant = $word: $doc,)* } }
    };
}

choice! {
    /// `log.level`.
    enum LogLevel {
        Error = "error": "problems that require action",
        Warn = "warn": "also problems that may require action",
        Info = "info": "also starts, stops and state changes",
        Debug = "debug": "also events of each file and request",
        Trace = "trace": "everything",
    }
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

choice! {
    /// `loggregator.access.uaa_verify`.
    enum TokenCheck {
        CheckToken = "check_token": "UAA checks each token, including whether it was revoked",
        Keys = "keys": "weir verifies signatures with UAA's public keys and makes no other requests to UAA",
    }
}

choice! {
    LogFormat {
        Auto = "auto": "`text` on a terminal, otherwise `json`",
        Text = "text": "a short human-readable line",
        Json = "json": "one JSON object per line",
    }
}

choice! {
    ReadFrom {
        Beginning = "beginning": "at the first byte",
        End = "end": "at the end; the bytes before it are counted as skipped",
    }
}

choice! {
    Format {
        Auto = "auto": "detected for each file from its first lines",
        Raw = "raw": "the line is the body",
        DockerJson = "docker_json": "docker's json-file driver",
        Cri = "cri": "Kubernetes container runtimes",
        Json = "json": "one JSON object per line",
        Logfmt = "logfmt": "`key=value` pairs",
    }
}

choice! {
    MultilinePreset {
        Auto = "auto": "the stack traces of all languages below",
        Java = "java": "Java, Kotlin, Scala",
        Python = "python": "Python, including chained exceptions and exception groups",
        Go = "go": "panics, fatal errors and goroutine dumps",
        Node = "node": "errors of Node.js, with the source excerpt before them",
        Dotnet = "dotnet": ".NET",
        Ruby = "ruby": "Ruby and Rails",
        Php = "php": "PHP and Laravel",
    }
}

/// `off`, and the presets.
pub(crate) const OFF_OR_PRESET: &[Word] = &{
    const OFF: Word = Word { word: "off", doc: "every line is a record" };
    let presets = MultilinePreset::WORDS;
    let mut words = [OFF; MultilinePreset::WORDS.len() + 1];
    let mut index = 0;
    while index < presets.len() {
        words[index + 1] = presets[index];
        index += 1;
    }
    words
};

choice! {
    /// `when_limited`.
    enum WhenLimited {
        Delay = "delay": "they stay in the file and are read later",
        Discard = "discard": "they are discarded and counted",
    }
}

choice! {
    /// `rate_limit.when_limited` of a listening source.
    enum WhenOverQuota {
        Delay = "delay":
            "reading from the connection is paused, and HTTP requests are answered with 429; \
             nothing is lost",
        Discard = "discard": "they are discarded and counted",
    }
}

choice! {
    /// `when_full` of an output.
    enum WhenFull {
        Block = "block": "the sources that feed it stop until there is space; nothing is lost",
        DropOldest = "drop_oldest":
            "the oldest records of the application with the most waiting data are discarded and \
             counted; others lose nothing",
    }
}

impl From<WhenFull> for weir_journal::WhenFull {
    fn from(when_full: WhenFull) -> Self {
        match when_full {
            WhenFull::Block => Self::Block,
            WhenFull::DropOldest => Self::DropOldest,
        }
    }
}

choice! {
    Encoding {
        Raw = "raw": "the body as it is, with newlines inside it written as `\\n`",
        Json = "json": "one JSON object that follows OpenTelemetry's log data model",
        Syslog = "syslog": "time in UTC, host, program and body, as in the files of syslog servers: \
            `2026-01-31T12:00:00.123456Z web1 sshd[42]: text`",
    }
}

choice! {
    /// Words of `fsync`, beside a duration.
    enum Fsync {
        Always = "always": "before each acknowledgement to the journal",
        Never = "never": "left to the operating system",
    }
}

choice! {
    /// `compress` of rotated files.
    enum FileCompression {
        None = "none": "not compressed",
        Gzip = "gzip": "as `NAME.20261122T011500.123Z.gz`",
        Zstd = "zstd": "as `NAME.20261122T011500.123Z.zst`",
    }
}

impl From<FileCompression> for Compression {
    fn from(compression: FileCompression) -> Self {
        match compression {
            FileCompression::None => Self::None,
            FileCompression::Gzip => Self::Gzip,
            FileCompression::Zstd => Self::Zstd,
        }
    }
}

choice! {
    /// `compression` of requests to a Splunk HTTP event collector.
    enum HecCompression {
        Gzip = "gzip": "gzip; logs shrink to about a tenth",
        None = "none": "no compression",
    }
}

impl From<HecCompression> for Compression {
    fn from(compression: HecCompression) -> Self {
        match compression {
            HecCompression::Gzip => Self::Gzip,
            HecCompression::None => Self::None,
        }
    }
}

choice! {
    /// `compression` of requests to any endpoint.
    enum HttpCompression {
        Gzip = "gzip": "gzip; logs shrink to about a tenth",
        Zstd = "zstd": "zstd; smaller and with less CPU time, if the server supports it",
        None = "none": "no compression",
    }
}

impl From<HttpCompression> for Compression {
    fn from(compression: HttpCompression) -> Self {
        match compression {
            HttpCompression::Gzip => Self::Gzip,
            HttpCompression::Zstd => Self::Zstd,
            HttpCompression::None => Self::None,
        }
    }
}

choice! {
    HecMode {
        Event = "event": "JSON events with their own time, host, source and fields",
        Raw = "raw": "lines as they are; only the fixed metadata below is sent with them",
    }
}

choice! {
    HttpMethod {
        Post = "post": "`POST`",
        Put = "put": "`PUT`",
    }
}

choice! {
    Framing {
        Lines = "ndjson": "one JSON object per line, `application/x-ndjson`",
        Array = "json": "one JSON array of objects, `application/json`",
    }
}

choice! {
    /// `protocol` of a syslog source.
    enum SyslogProtocol {
        Tcp = "tcp": "messages over TCP, or over TLS if `tls` is set",
        Udp = "udp": "one message per datagram",
        Relp = "relp": "RELP: a message is acknowledged once it is on stable storage",
        UnixStream = "unix_stream": "a Unix stream socket",
        UnixDatagram = "unix_datagram": "a Unix datagram socket, such as `/dev/log`",
    }
}

choice! {
    SyslogFramingKind {
        Detect = "auto": "detected for each message from its first byte",
        OctetCounted = "octet_counted": "a length before each message (RFC 6587, RFC 5425)",
        Lines = "newline": "one message per line",
    }
}

choice! {
    SocketProtocol {
        Tcp = "tcp": "lines over TCP",
        Tls = "tls": "lines over TLS",
        Udp = "udp": "one datagram per record, without a line ending",
    }
}

choice! {
    /// `protocol` of a syslog output.
    enum SyslogOutputProtocol {
        Tcp = "tcp": "messages over TCP",
        Tls = "tls": "messages over TLS (RFC 5425)",
        Udp = "udp": "one datagram per message (RFC 5426)",
        Relp = "relp": "RELP: the server acknowledges each message; over TLS if `tls` is set",
    }
}

choice! {
    SyslogFormat {
        Rfc5424 = "rfc5424": "RFC 5424, with attributes as structured data",
        Rfc3164 = "rfc3164": "RFC 3164, for receivers that do not support RFC 5424",
    }
}

choice! {
    /// `framing` of a syslog output.
    enum SyslogOutputDelimiter {
        OctetCounted = "octet_counted":
            "a length before each message (RFC 6587, RFC 5425); newlines in it are kept",
        Newline = "newline": "one message per line, with newlines inside it written as `\\n`",
    }
}

impl From<SyslogOutputDelimiter> for SyslogOutputFraming {
    fn from(delimiter: SyslogOutputDelimiter) -> Self {
        match delimiter {
            SyslogOutputDelimiter::OctetCounted => Self::OctetCounted,
            SyslogOutputDelimiter::Newline => Self::Lines,
        }
    }
}
