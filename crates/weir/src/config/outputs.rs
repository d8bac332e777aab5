//! The plan of each output, made from its section.

use weir_host::Zone;
use weir_pipeline::config::{
    Compression, FileOutput, FilePath, FsyncPolicy, HttpAuth, HttpOutput, LoggregatorOutput,
    OutputKind, OutputPlan, OutputType, RequestSettings, Rotation, SocketOutput, SplunkHec,
    SyslogOutput, SyslogOutputFraming, SyslogTransport, TlsSettings,
};

use super::check_syslog;
use super::choices::{
    FileCompression, Fsync, HecCompression, HttpCompression, SyslogOutputDelimiter,
    SyslogOutputProtocol, WhenFull,
};
use super::metrics;
use super::section::Section;
use super::sections::{ComponentSection, texts};

/// `None` only if a required secret or path is missing, which has been reported.
pub(super) fn output(named: &ComponentSection<OutputType>) -> Option<OutputPlan> {
    let section = &named.section;
    let kind = match named.component_type {
        OutputType::SplunkHec => OutputKind::SplunkHec(Box::new(splunk_hec(section)?)),
        OutputType::Http => OutputKind::Http(Box::new(http(section)?)),
        OutputType::Socket => OutputKind::Socket(Box::new(socket(section)?)),
        OutputType::Loggregator => OutputKind::Loggregator(Box::new(loggregator_output(section))),
        OutputType::DatadogMetrics => {
            OutputKind::DatadogMetrics(Box::new(metrics::datadog(section)?))
        }
        OutputType::Syslog => OutputKind::Syslog(Box::new(syslog_output(section)?)),
        OutputType::File => OutputKind::File(file(section)?),
        OutputType::Stdout => OutputKind::Stdout(section.choice("encoding")),
        OutputType::Blackhole => OutputKind::Blackhole,
    };
    Some(OutputPlan {
        name: named.name.clone(),
        when_full: section.choice::<WhenFull>("when_full").into(),
        buffer_bytes_max: section.size("buffer_max"),
        window_bytes: section.size("window"),
        dead_letter: section.bool("dead_letter"),
        kind,
    })
}

fn file(section: &Section) -> Option<FileOutput> {
    Some(FileOutput {
        path: FilePath::parse(section.text("path")?).ok()?,
        encoding: section.choice("encoding"),
        fsync: match section.optional_choice("fsync") {
            Some(Fsync::Always) => FsyncPolicy::Always,
            Some(Fsync::Never) => FsyncPolicy::Never,
            None => FsyncPolicy::Interval(section.duration("fsync")),
        },
        rotation: Rotation {
            size_bytes: section.is_set("rotate_size").then(|| section.size("rotate_size")),
            every: section.is_set("rotate_every").then(|| section.duration("rotate_every")),
            keep: section.count("keep").map(|count| count as usize),
            compress: section.choice::<FileCompression>("compress").into(),
        },
        open_files_max: section.count("open_files_max").unwrap_or(1) as usize,
    })
}

fn splunk_hec(section: &Section) -> Option<SplunkHec> {
    let text = |name| section.text(name).map(str::to_owned);
    Some(SplunkHec {
        endpoint: text("endpoint")?.trim_end_matches('/').to_owned(),
        token: section.secret("token")?,
        mode: section.choice("mode"),
        indexer_ack: section.bool("indexer_ack"),
        ack_timeout: section.duration("ack_timeout"),
        index: text("index"),
        sourcetype: text("sourcetype"),
        source: text("source"),
        host: text("host"),
        requests: requests(section, section.choice::<HecCompression>("compression").into()),
    })
}

/// Credentials of requests.
pub(crate) fn http_auth(section: &Section) -> HttpAuth {
    match (section.text("user"), section.secret("password"), section.secret("bearer")) {
        (Some(user), Some(password), _) => HttpAuth::Basic { user: user.to_owned(), password },
        (_, _, Some(token)) => HttpAuth::Bearer(token),
        _ => HttpAuth::None,
    }
}

fn http(section: &Section) -> Option<HttpOutput> {
    Some(HttpOutput {
        url: section.text("url")?.to_owned(),
        method: section.choice("method"),
        framing: section.choice("format"),
        headers: super::check_http::headers(section),
        auth: http_auth(section),
        requests: requests(section, section.choice::<HttpCompression>("compression").into()),
    })
}

fn loggregator_output(section: &Section) -> LoggregatorOutput {
    LoggregatorOutput {
        addresses: texts(section, "addresses"),
        is_encrypted: section.is_set("tls"),
        requests: requests(section, Compression::None),
    }
}

pub(crate) fn requests(section: &Section, compression: Compression) -> RequestSettings {
    RequestSettings {
        compression,
        batch_bytes: section.size("batch_size") as usize,
        batch_age: section.duration("batch_age"),
        connections_max: section.count("connections_max").unwrap_or(1) as usize,
        request_timeout: section.duration("request_timeout"),
        retry_min: section.duration("retry_min"),
        retry_max: section.duration("retry_max"),
        tls: tls_settings(section),
    }
}

/// TLS settings of connections to others.
pub(crate) fn tls_settings(section: &Section) -> TlsSettings {
    section.table("tls").map_or_else(TlsSettings::default, |tls| TlsSettings {
        ca_file: tls.file("ca_file"),
        cert_file: tls.file("cert_file"),
        key_file: tls.file("key_file"),
        server_name: tls.text("server_name").map(str::to_owned),
        insecure_skip_verify: tls.bool("insecure_skip_verify"),
    })
}

fn socket(section: &Section) -> Option<SocketOutput> {
    Some(SocketOutput {
        address: section.text("address")?.to_owned(),
        protocol: section.choice("protocol"),
        encoding: section.choice("encoding"),
        datagram_bytes_max: section.size("datagram_max") as usize,
        write_timeout: section.duration("write_timeout"),
        retry_min: section.duration("retry_min"),
        retry_max: section.duration("retry_max"),
        tls: tls_settings(section),
    })
}

fn syslog_output(section: &Section) -> Option<SyslogOutput> {
    let framing = |default: SyslogOutputDelimiter| {
        let delimiter = section.optional_choice("framing").unwrap_or(default);
        SyslogTransport::Stream(SyslogOutputFraming::from(delimiter))
    };
    let transport = match section.choice("protocol") {
        SyslogOutputProtocol::Tcp => framing(SyslogOutputDelimiter::Newline),
        SyslogOutputProtocol::Tls => framing(SyslogOutputDelimiter::OctetCounted),
        SyslogOutputProtocol::Udp => SyslogTransport::Datagrams,
        SyslogOutputProtocol::Relp => SyslogTransport::Relp {
            unanswered_max: section.count("unanswered_max").unwrap_or(1) as usize,
            ack_timeout: section.duration("ack_timeout"),
        },
    };
    Some(SyslogOutput {
        address: section.text("address")?.to_owned(),
        transport,
        tls: check_syslog::is_tls(section).then(|| tls_settings(section)),
        format: section.choice("format"),
        zone: Zone::parse(section.text("timezone")?).ok()?,
        message_bytes_max: check_syslog::message_bytes_max(section) as usize,
        write_timeout: section.duration("write_timeout"),
        retry_min: section.duration("retry_min"),
        retry_max: section.duration("retry_max"),
    })
}
