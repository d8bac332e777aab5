//! The validated plan of every source and output: all defaults are filled in, all values checked.
//! Its TOML form is defined in the binary (`weir::config`).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_codec::Multiline;
pub use weir_codec::{
    Encoding, Framing, HecMode, SyslogFormat, SyslogFramingKind, SyslogOutputFraming,
};
use weir_expr::Network;
pub use weir_host::Compression;
pub use weir_host::ServerTlsFiles;
use weir_host::{Secret, TlsFiles, Zone};
use weir_journal::WhenFull;

pub use crate::component::{OutputKind, OutputType, SourceKind, SourceType};
pub use crate::drain::DrainsPlan;
pub use crate::output::{Endpoint, EndpointError, FilePath, FilePathError};
pub use crate::rule::RulePlan;

/// Everything that weir runs.
#[derive(Debug, Clone)]
pub struct PipelinePlan {
    /// Directory of the journal, the dead-letter files and the cursor log.
    pub data_dir: PathBuf,
    /// Memory for the ring.
    pub ring_bytes: u64,
    /// Maximum disk space for the journal.
    pub journal_bytes_max: u64,
    /// Disk space to keep free.
    pub disk_free_bytes_min: u64,
    /// Maximum size of the batches in flight over all outputs, in bytes.
    pub taken_bytes_max: u64,
    /// Sources by name.
    pub sources: Vec<SourcePlan>,
    /// Outputs by name.
    pub outputs: Vec<OutputPlan>,
    /// Rules, in order.
    pub rules: Vec<RulePlan>,
    /// Outputs for records that no rule routes; `None` = all outputs.
    pub default_to: Option<Vec<String>>,
    /// Drains; `None` = there are none.
    pub drains: Option<DrainsPlan>,
}

impl PipelinePlan {
    /// Returns true if the plans differ only in outputs and rules, which can be changed without a
    /// restart.
    pub fn differs_only_in_outputs_and_rules(&self, other: &Self) -> bool {
        // The fields are listed one by one so that a new field cannot be forgotten here.
        let Self {
            data_dir,
            ring_bytes,
            journal_bytes_max,
            disk_free_bytes_min,
            taken_bytes_max,
            sources,
            outputs: _,
            rules: _,
            default_to: _,
            drains,
        } = self;
        *data_dir == other.data_dir
            && *ring_bytes == other.ring_bytes
            && *journal_bytes_max == other.journal_bytes_max
            && *disk_free_bytes_min == other.disk_free_bytes_min
            && *taken_bytes_max == other.taken_bytes_max
            && *sources == other.sources
            && *drains == other.drains
    }
}

/// A source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourcePlan {
    /// Its name in the configuration.
    pub name: String,
    /// Its kind and settings.
    pub kind: SourceKind,
}

/// `type = "datadog_intake"`.
#[derive(Debug, Clone, PartialEq)]
pub struct DatadogIntake {
    /// Address, limits and TLS of the listener.
    pub listen: ListenSettings,
    /// Maximum size of the bodies being received, over all connections.
    pub in_flight_bytes_max: usize,
    /// Comma-separated keys, one of which clients must send; `None` = no key is required.
    pub api_keys: Option<Secret>,
}

/// `type = "syslog"`.
#[derive(Debug, Clone, PartialEq)]
pub struct SyslogSource {
    /// Address, limits and TLS of the listener.
    pub listen: ListenSettings,
    /// Messages are acknowledged with RELP.
    pub is_relp: bool,
    /// How messages are delimited in a connection.
    pub framing: SyslogFramingKind,
    /// Length at which a message is truncated, in bytes.
    pub message_bytes_max: usize,
    /// Time zone of timestamps without one.
    pub zone: Zone,
}

/// `type = "loggregator"`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggregatorSource {
    /// Address, limits and TLS of the listener.
    pub listen: ListenSettings,
    /// Maximum size of the messages being received, over all connections.
    pub in_flight_bytes_max: usize,
    /// Default tags: added to envelopes that have no tag of that name.
    pub tags: Vec<(String, String)>,
}

/// `type = "dropsonde"`.
#[derive(Debug, Clone, PartialEq)]
pub struct DropsondeSource {
    /// Address and limits of the listener.
    pub listen: ListenSettings,
    /// Default tags: added to envelopes that have no tag of that name.
    pub tags: Vec<(String, String)>,
}

/// `type = "statsd"`.
#[derive(Debug, Clone, PartialEq)]
pub struct StatsdSource {
    /// Address and limits of the listener.
    pub listen: ListenSettings,
    /// Default tags: added to metrics that have no tag of that name.
    pub tags: Vec<(String, String)>,
}

/// `type = "datadog_metrics"`.
#[derive(Debug, Clone, PartialEq)]
pub struct DatadogMetricsOutput {
    /// URL of the API, without the path of the series.
    pub url: String,
    /// The key that is sent with each request.
    pub api_key: Secret,
    /// Prefix of every name.
    pub prefix: String,
    /// Tags added to every point.
    pub tags: Vec<String>,
    /// How requests are sent.
    pub requests: RequestSettings,
}

/// `type = "drain_messages"`: messages about drains, as logs of the applications.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DrainMessagesSource {
    /// Default tags: added to envelopes that have no tag of that name.
    pub tags: Vec<(String, String)>,
}

/// `type = "loggregator_metrics"`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggregatorMetricsSource {
    /// Interval at which metrics are emitted.
    pub interval: Duration,
    /// Tags of metrics.
    pub tags: Vec<(String, String)>,
}

/// `type = "prometheus"`.
#[derive(Debug, Clone, PartialEq)]
pub struct PrometheusSource {
    /// The configured targets.
    pub targets: Vec<ScrapeTarget>,
    /// Globs of files that each describe one more target.
    pub target_files: Vec<String>,
    /// Interval at which these files are searched for and read.
    pub rescan_interval: Duration,
    /// Source id of targets from files that specify none.
    pub source_id: String,
    /// Scrape interval of targets from files that specify none.
    pub interval: Duration,
    /// Timeout of a scrape of a target from a file.
    pub timeout: Duration,
    /// TLS settings of targets from files.
    pub tls: TlsSettings,
    /// Maximum length of a response in bytes, before and after decompression.
    pub body_bytes_max: usize,
    /// Maximum size of all responses being received or processed, in bytes.
    pub in_flight_bytes_max: usize,
    /// Default tags: added to metrics that have no tag of that name.
    pub tags: Vec<(String, String)>,
}

/// A target of a scrape.
#[derive(Debug, Clone, PartialEq)]
pub struct ScrapeTarget {
    /// `http://` or `https://`, with path and query.
    pub url: String,
    /// Source id of its metrics.
    pub source_id: String,
    /// Instance id of its metrics.
    pub instance_id: String,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    /// Credentials.
    pub auth: HttpAuth,
    /// Tags added to its metrics that have no label of that name.
    pub labels: Vec<(String, String)>,
    /// Scrape interval.
    pub interval: Duration,
    /// Timeout of a scrape.
    pub timeout: Duration,
    /// Certificates.
    pub tls: TlsSettings,
}

/// `type = "container_metrics"`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContainerMetricsSource {
    /// Interval at which containers are measured.
    pub interval: Duration,
    /// Mount point of the cgroup file systems.
    pub cgroup_root: PathBuf,
    /// docker's data directory.
    pub docker_root: PathBuf,
    /// Directories with containerd's tasks, by namespace.
    pub containerd_roots: Vec<PathBuf>,
    /// Directories with CRI-O's containers.
    pub crio_roots: Vec<PathBuf>,
    /// Where `meminfo` and `self/mountinfo` are.
    pub proc_root: PathBuf,
    /// Labels with the source id of a container, in order of preference.
    pub source_id_labels: Vec<String>,
    /// Labels with the instance id of a container, in order of preference.
    pub instance_id_labels: Vec<String>,
    /// Names of tags, with the labels that contain their values.
    pub label_tags: Vec<(String, String)>,
    /// Interval at which writable layers are measured; `None` = never.
    pub disk_interval: Option<Duration>,
    /// Default tags: added to metrics that have no tag of that name.
    pub tags: Vec<(String, String)>,
}

/// Settings of every source that listens.
#[derive(Debug, Clone, PartialEq)]
pub struct ListenSettings {
    /// Where to listen.
    pub endpoint: ListenEndpoint,
    /// Number of threads that receive, at least one, each with a socket of its own.
    pub threads: usize,
    /// Maximum number of open connections; further ones wait.
    pub connections_max: usize,
    /// Maximum number of open connections from one address; further ones are closed.
    pub connections_per_address_max: usize,
    /// Networks that may send; empty = all.
    pub allowed_networks: Vec<Network>,
    /// Certificates; `None` = no TLS.
    pub tls: Option<ServerTlsFiles>,
    /// What each key may send; `None` = unlimited.
    pub rate_limit: Option<QuotaSettings>,
}

/// What each key (host, program, sender) may send to a listening source.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaSettings {
    /// The fields that make up a key.
    pub by: Vec<QuotaField>,
    /// Records per second; `None` = unlimited.
    pub records_per_second: Option<f64>,
    /// Bytes per second; `None` = unlimited.
    pub bytes_per_second: Option<f64>,
    /// Allowed burst, as the time in which the rate adds up to it.
    pub burst: Duration,
    /// True: records above the limit are discarded and counted; false: their connection is not
    /// read for a while, and requests are answered with 429.
    pub discards: bool,
}

/// A field of which a key consists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaField {
    /// The address of the sender.
    Peer,
    /// The host that the record states, or else the sender.
    Host,
    /// The service that the record states.
    Service,
    /// The same, in the terms of syslog.
    AppName,
}

impl QuotaField {
    /// All fields, in the order of the documentation.
    pub const ALL: &'static [Self] = &[Self::Peer, Self::Host, Self::Service, Self::AppName];

    /// Its name in the configuration and in names of keys.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Host => "host",
            Self::Service => "service",
            Self::AppName => "app_name",
        }
    }
}

/// A socket to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenEndpoint {
    /// TCP; port 0 = any free port.
    Tcp(SocketAddr),
    /// UDP.
    Udp {
        /// The address; port 0 = any free port.
        address: SocketAddr,
        /// Size of the receive buffer, in bytes.
        buffer_bytes: usize,
    },
    /// A Unix stream socket.
    UnixStream {
        /// Its path.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A Unix datagram socket.
    UnixDatagram {
        /// Its path.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

/// `type = "file"`.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSource {
    /// Globs of files to tail (`**` crosses directories).
    pub include: Vec<String>,
    /// Globs of files to exclude. Compressed files (`*.gz`, `*.zst`, `*.xz`, `*.bz2`) and `*.tmp`
    /// are always excluded.
    pub exclude: Vec<String>,
    /// Format of the lines.
    pub format: Format,
    /// Settings shared by all sources that tail files.
    pub tail: TailSettings,
}

/// `type = "containers"`.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainersSource {
    /// Roots of docker's container directories (`<id>/<id>-json.log` with `config.v2.json`).
    pub docker_roots: Vec<PathBuf>,
    /// Roots of Kubernetes pod directories (`<ns>_<pod>_<uid>/<container>/<n>.log`).
    pub pod_roots: Vec<PathBuf>,
    /// Directories of links to container logs (`<pod>_<ns>_<container>-<id>.log`).
    pub link_roots: Vec<PathBuf>,
    /// Container names (globs) to exclude.
    pub exclude_containers: Vec<String>,
    /// Settings shared by all sources that tail files.
    pub tail: TailSettings,
}

/// Settings of every source that tails files.
#[derive(Debug, Clone, PartialEq)]
pub struct TailSettings {
    /// Where to start in files that exist at the very first start.
    pub read_from: ReadFrom,
    /// Length at which a line is truncated, in bytes as stored in the file.
    pub line_bytes_max: usize,
    /// Interval between rescans of directories, for changes that inotify did not report.
    pub rescan_interval: Duration,
    /// Which lines are joined into one record; `None` = one record per line.
    pub multiline: Option<Joining>,
    /// How long a partial line waits for its rest after the last write.
    pub partial_timeout: Duration,
    /// How long a renamed or deleted file that was read to its end is still followed, for late
    /// writes.
    pub rotated_grace: Duration,
    /// Maximum total size of deleted files that are kept open; beyond it the oldest are abandoned
    /// and counted.
    pub deleted_bytes_max: u64,
    /// Lines per second of each stream (file or container); none = unlimited.
    pub rate_limit: Option<RateLimit>,
    /// Minimum interval between reads of a file that is written to continuously.
    pub read_interval: Duration,
}

/// How lines are joined into records.
#[derive(Debug, Clone, PartialEq)]
pub struct Joining {
    /// Which lines belong together.
    pub rule: Arc<Multiline>,
    /// How long a record waits for a further line after the last write.
    pub timeout: Duration,
}

/// A limit of lines per second, and what happens to lines beyond it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Lines per second, with a burst of one second.
    pub lines_per_second: f64,
    /// True: discard and count them; false: read them later (the file holds the data).
    pub shed: bool,
}

/// Where to start in files that exist at the very first start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// At the first byte.
    Beginning,
    /// At the current end.
    End,
}

/// Format of the lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Detected per file from its first lines.
    Auto,
    /// The line is the body.
    Raw,
    /// docker json-file.
    DockerJson,
    /// Kubernetes container runtime interface.
    Cri,
    /// JSON objects.
    Json,
    /// logfmt.
    Logfmt,
}

/// An output.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputPlan {
    /// Its name in the configuration.
    pub name: String,
    /// What to do when its buffer is full.
    pub when_full: WhenFull,
    /// Maximum size of the batches waiting for it, in bytes.
    pub buffer_bytes_max: u64,
    /// Maximum size of the batches in flight, in bytes.
    pub window_bytes: u64,
    /// Whether records that the destination permanently rejects are dead-lettered.
    pub dead_letter: bool,
    /// Its kind and settings.
    pub kind: OutputKind,
}

/// `type = "splunk_hec"`.
#[derive(Debug, Clone, PartialEq)]
pub struct SplunkHec {
    /// `http://host:port` or `https://host:port`, with an optional path prefix.
    pub endpoint: String,
    /// HEC token.
    pub token: Secret,
    /// Events (`/services/collector/event`) or raw text (`/services/collector/raw`).
    pub mode: HecMode,
    /// Poll for the indexer acknowledgement before a batch counts as delivered.
    pub indexer_ack: bool,
    /// How long to wait for the indexer acknowledgement before sending again.
    pub ack_timeout: Duration,
    /// Index for all events; a resource attribute of the record takes precedence.
    pub index: Option<String>,
    /// Sourcetype.
    pub sourcetype: Option<String>,
    /// Source; default: the path of the log file.
    pub source: Option<String>,
    /// Host; default: the record's `host.name`, then the name of this machine.
    pub host: Option<String>,
    /// Batching, concurrency, retries and TLS.
    pub requests: RequestSettings,
}

/// Settings of requests that do not depend on their content.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestSettings {
    /// Compression of request bodies.
    pub compression: Compression,
    /// Target size of a request body before compression, in bytes.
    pub batch_bytes: usize,
    /// How long a record may wait for its batch to fill.
    pub batch_age: Duration,
    /// Maximum number of concurrent requests.
    pub connections_max: usize,
    /// Timeout of a request.
    pub request_timeout: Duration,
    /// Minimum pause between attempts.
    pub retry_min: Duration,
    /// Maximum pause between attempts.
    pub retry_max: Duration,
    /// TLS settings for `https`.
    pub tls: TlsSettings,
}

/// `type = "http"`.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpOutput {
    /// `http://` or `https://`, with path and query.
    pub url: String,
    /// Method of every request.
    pub method: HttpMethod,
    /// How records are combined into a request body.
    pub framing: Framing,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    /// Credentials.
    pub auth: HttpAuth,
    /// Batching, concurrency, retries and TLS.
    pub requests: RequestSettings,
}

/// Method of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
}

/// Credentials of requests.
#[derive(Debug, Clone, PartialEq)]
pub enum HttpAuth {
    /// No authentication.
    None,
    /// `Authorization: Bearer ...`.
    Bearer(Secret),
    /// `Authorization: Basic ...`.
    Basic {
        /// User name, without a colon.
        user: String,
        /// Password.
        password: Secret,
    },
}

/// `type = "loggregator"`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggregatorOutput {
    /// `host:port` of each receiver.
    pub addresses: Vec<String>,
    /// Connections use TLS.
    pub is_encrypted: bool,
    /// Batching, concurrency, retries and TLS.
    pub requests: RequestSettings,
}

/// `type = "socket"`.
#[derive(Debug, Clone, PartialEq)]
pub struct SocketOutput {
    /// `host:port`.
    pub address: String,
    /// TCP, TLS or UDP.
    pub protocol: SocketProtocol,
    /// How records are encoded.
    pub encoding: Encoding,
    /// Maximum size of a UDP datagram in bytes; longer ones are truncated.
    pub datagram_bytes_max: usize,
    /// How long the peer may accept no data before the connection is closed.
    pub write_timeout: Duration,
    /// Minimum pause between attempts.
    pub retry_min: Duration,
    /// Maximum pause between attempts.
    pub retry_max: Duration,
    /// TLS settings.
    pub tls: TlsSettings,
}

/// Protocol of a socket output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketProtocol {
    /// Lines over TCP.
    Tcp,
    /// Lines over TLS.
    Tls,
    /// One UDP datagram per record.
    Udp,
}

/// `type = "syslog"`.
#[derive(Debug, Clone, PartialEq)]
pub struct SyslogOutput {
    /// `host:port`.
    pub address: String,
    /// How messages are carried.
    pub transport: SyslogTransport,
    /// TLS settings; `None` = no TLS.
    pub tls: Option<TlsSettings>,
    /// Format of the messages.
    pub format: SyslogFormat,
    /// Zone of the times of RFC 3164.
    pub zone: Zone,
    /// Maximum size of a message in bytes; longer ones are truncated.
    pub message_bytes_max: usize,
    /// How long the peer may accept no data before the connection is closed.
    pub write_timeout: Duration,
    /// Minimum pause between attempts.
    pub retry_min: Duration,
    /// Maximum pause between attempts.
    pub retry_max: Duration,
}

/// How a syslog output carries its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyslogTransport {
    /// One after the other over a connection, without acknowledgements.
    Stream(SyslogOutputFraming),
    /// One UDP datagram per message, without acknowledgements.
    Datagrams,
    /// RELP.
    Relp {
        /// Maximum number of unacknowledged messages.
        unanswered_max: usize,
        /// How long an acknowledgement may take before the connection is closed.
        ack_timeout: Duration,
    },
}

/// TLS settings of a client.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TlsSettings {
    /// PEM file of certificate authorities to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM file of the client certificate chain.
    pub cert_file: Option<PathBuf>,
    /// PEM file of its key.
    pub key_file: Option<PathBuf>,
    /// Server name to verify instead of the endpoint's host.
    pub server_name: Option<String>,
    /// Accept any certificate. Off by default; reported in health and in the log when on.
    pub insecure_skip_verify: bool,
}

impl TlsSettings {
    /// Returns the files and options of a client that speaks HTTP/1.1, or another protocol.
    pub fn files(&self) -> TlsFiles {
        TlsFiles {
            ca_file: self.ca_file.clone(),
            cert_file: self.cert_file.clone(),
            key_file: self.key_file.clone(),
            server_name: self.server_name.clone(),
            insecure_skip_verify: self.insecure_skip_verify,
            is_http_2: false,
        }
    }
}

/// `type = "file"`.
#[derive(Debug, Clone, PartialEq)]
pub struct FileOutput {
    /// Path, which may contain fields; missing directories are created.
    pub path: FilePath,
    /// How records are encoded.
    pub encoding: Encoding,
    /// When written lines are flushed to stable storage.
    pub fsync: FsyncPolicy,
    /// When a file is rotated.
    pub rotation: Rotation,
    /// Maximum number of open files.
    pub open_files_max: usize,
}

/// When a file is rotated, and what happens to it then. By default files are never rotated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Rotate before the file would exceed this size in bytes.
    pub size_bytes: Option<u64>,
    /// Rotate at the first line of a new period; periods are counted from 1970-01-01 UTC.
    pub every: Option<Duration>,
    /// Number of rotated files to keep per file; `None` = all.
    pub keep: Option<usize>,
    /// Compression of rotated files.
    pub compress: Compression,
}

impl Rotation {
    /// Returns true if files are ever rotated.
    pub fn is_on(&self) -> bool {
        self.size_bytes.is_some() || self.every.is_some()
    }
}

/// When written lines are flushed to stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsyncPolicy {
    /// Before each acknowledgement to the journal.
    Always,
    /// At most this long after writing; records count as delivered only then.
    Interval(Duration),
    /// Left to the operating system; records count as delivered once written.
    Never,
}
