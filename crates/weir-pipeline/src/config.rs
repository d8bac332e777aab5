//! The validated plan of every source and output: all defaults filled in, all values checked.
//! How it is written in TOML is the binary's business (`weir::config`).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_codec::Multiline;
pub use weir_codec::{Encoding, Framing, HecMode};
pub use weir_host::Compression;
use weir_host::Secret;
pub use weir_host::ServerTlsFiles;
use weir_journal::WhenFull;

pub use crate::component::{OutputType, SourceType};
pub use crate::output::{Endpoint, EndpointError, FilePath, FilePathError};
pub use crate::rule::RulePlan;

/// What weir runs.
#[derive(Debug, Clone)]
pub struct PipelinePlan {
    /// Home of the journal, the dead-letter files and the cursor log.
    pub data_dir: PathBuf,
    /// Memory of the ring.
    pub ring_bytes: u64,
    /// Most disk that the journal may use.
    pub journal_limit_bytes: u64,
    /// Disk that always stays free.
    pub disk_free_bytes_min: u64,
    /// Sources by name.
    pub sources: Vec<SourcePlan>,
    /// Outputs by name.
    pub outputs: Vec<OutputPlan>,
    /// Rules in their order.
    pub rules: Vec<RulePlan>,
    /// Outputs for what no rule routes; `None` = all of them.
    pub default_to: Option<Vec<String>>,
}

impl PipelinePlan {
    /// Whether everything but the rules is the same, so that rules can be replaced alone.
    pub fn differs_only_in_rules(&self, other: &Self) -> bool {
        // Named one by one, so that a new field has to be thought about here.
        let Self {
            data_dir,
            ring_bytes,
            journal_limit_bytes,
            disk_free_bytes_min,
            sources,
            outputs,
            rules: _,
            default_to: _,
        } = self;
        *data_dir == other.data_dir
            && *ring_bytes == other.ring_bytes
            && *journal_limit_bytes == other.journal_limit_bytes
            && *disk_free_bytes_min == other.disk_free_bytes_min
            && *sources == other.sources
            && *outputs == other.outputs
    }
}

/// One source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourcePlan {
    /// Its name in the configuration.
    pub name: String,
    /// Its kind and settings.
    pub kind: SourceKind,
}

/// Kinds of sources.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceKind {
    /// Plain files by glob.
    File(FileSource),
    /// Containers of docker and of Kubernetes nodes.
    Containers(ContainersSource),
    /// Datadog's logs intake over HTTP.
    DatadogIntake(DatadogIntake),
}

/// `type = "datadog_intake"`.
#[derive(Debug, Clone, PartialEq)]
pub struct DatadogIntake {
    /// Where it listens.
    pub listen: ListenSettings,
    /// Keys, separated by commas, that clients must send one of; none = whoever reaches the port
    /// may send.
    pub api_keys: Option<Secret>,
}

/// Settings of every source that listens for requests.
#[derive(Debug, Clone, PartialEq)]
pub struct ListenSettings {
    /// Address to listen on; port 0 = any that is free.
    pub address: SocketAddr,
    /// Most connections at once; further ones wait.
    pub connections_max: usize,
    /// Most bytes of bodies that are being read, over all connections.
    pub in_flight_bytes_max: usize,
    /// Certificates, when it speaks TLS.
    pub tls: Option<ServerTlsFiles>,
}

/// `type = "file"`.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSource {
    /// Globs of files to tail (`**` crosses directories).
    pub include: Vec<String>,
    /// Globs of files to leave out. Compressed files (`*.gz`, `*.zst`, `*.xz`, `*.bz2`) and
    /// `*.tmp` are left out unless `compressed` is set.
    pub exclude: Vec<String>,
    /// Format of the lines.
    pub format: Format,
    /// What all file sources have in common.
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
    /// Container names (globs) to leave out.
    pub exclude_containers: Vec<String>,
    /// What all file sources have in common.
    pub tail: TailSettings,
}

/// Settings of every source that tails files.
#[derive(Debug, Clone, PartialEq)]
pub struct TailSettings {
    /// Where to begin with files that are there at the very first start.
    pub read_from: ReadFrom,
    /// Length at which a line is cut, in bytes as they stand in the file.
    pub line_bytes_max: usize,
    /// Slow rescan of directories, for what inotify did not tell.
    pub rescan_interval: Duration,
    /// Which lines are joined to one record; none = each is one.
    pub multiline: Option<Joining>,
    /// How long a partial line waits for its rest after the last write.
    pub partial_timeout: Duration,
    /// How long a renamed or deleted file is followed behind its end for late writes.
    pub rotated_grace: Duration,
    /// Most bytes that unlinked files may hold in all before they are given up (counted).
    pub deleted_bytes_max: u64,
    /// Lines per second of each stream (file or container); none = unlimited.
    pub rate_limit: Option<RateLimit>,
    /// Reads of one file are at least this far apart while it is written to in a trickle.
    pub read_interval: Duration,
}

/// How lines are joined to records.
#[derive(Debug, Clone, PartialEq)]
pub struct Joining {
    /// Which lines belong together.
    pub rule: Arc<Multiline>,
    /// How long a record waits for a further line after the last write.
    pub timeout: Duration,
}

/// A limit of lines per second, and what happens to more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Lines per second, with a burst of one second.
    pub lines_per_second: f64,
    /// True: discard and count; false: read later (the file holds the data).
    pub shed: bool,
}

/// Where to begin with files that are there at the very first start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// Their first byte.
    Beginning,
    /// Their present end.
    End,
}

/// Format of the lines of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Found out per file from its first lines.
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

/// One output.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputPlan {
    /// Its name in the configuration.
    pub name: String,
    /// What to do when its buffer is full.
    pub when_full: WhenFull,
    /// Bytes that may wait for it.
    pub buffer_limit_bytes: u64,
    /// Bytes that may be in flight.
    pub window_bytes: u64,
    /// What happens to records that the destination refuses for good.
    pub dead_letter: bool,
    /// Its kind and settings.
    pub kind: OutputKind,
}

/// Kinds of outputs.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputKind {
    /// Splunk HTTP event collector.
    SplunkHec(Box<SplunkHec>),
    /// Any endpoint that takes JSON over HTTP.
    Http(Box<HttpOutput>),
    /// Lines over TCP or TLS, datagrams over UDP.
    Socket(Box<SocketOutput>),
    /// A local file, one line per record.
    File(FileOutput),
    /// Standard output, one line per record.
    Stdout(Encoding),
    /// Nowhere: counts.
    Blackhole,
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
    /// Poll the indexer acknowledgement before a batch counts as delivered.
    pub indexer_ack: bool,
    /// How long to wait for the indexer acknowledgement before sending again.
    pub ack_timeout: Duration,
    /// Fixed metadata; a record's resource wins where it has the attribute.
    pub index: Option<String>,
    /// Sourcetype.
    pub sourcetype: Option<String>,
    /// Source; default: the log file's path.
    pub source: Option<String>,
    /// Host; default: the record's `host.name`, else this machine's name.
    pub host: Option<String>,
    /// How its requests are made.
    pub requests: RequestSettings,
}

/// How requests are made, whatever stands in them.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestSettings {
    /// Of request bodies.
    pub compression: Compression,
    /// Uncompressed bytes of a request to aim for.
    pub batch_bytes: usize,
    /// How long a record may wait for company.
    pub batch_age: Duration,
    /// Most requests in flight at once.
    pub connections_max: usize,
    /// Deadline of one request.
    pub request_timeout: Duration,
    /// First and longest pause between attempts.
    pub retry_min: Duration,
    /// See `retry_min`.
    pub retry_max: Duration,
    /// TLS settings for `https`.
    pub tls: TlsSettings,
}

/// `type = "http"`.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpOutput {
    /// `http://` or `https://`, with path and query.
    pub url: String,
    /// Of every request.
    pub method: HttpMethod,
    /// How records are put together.
    pub framing: Framing,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// Who weir says that it is.
    pub auth: HttpAuth,
    /// How its requests are made.
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
    /// None.
    None,
    /// `Authorization: Bearer ...`.
    Bearer(Secret),
    /// `Authorization: Basic ...`.
    Basic {
        /// Without a colon.
        user: String,
        /// The password.
        password: Secret,
    },
}

/// `type = "socket"`.
#[derive(Debug, Clone, PartialEq)]
pub struct SocketOutput {
    /// `host:port`.
    pub address: String,
    /// TCP, TLS or UDP.
    pub protocol: SocketProtocol,
    /// How records become lines.
    pub encoding: Encoding,
    /// Longest datagram of UDP, bytes; what is longer is cut.
    pub datagram_bytes_max: usize,
    /// How long the peer may take nothing.
    pub write_timeout: Duration,
    /// First and longest pause between attempts.
    pub retry_min: Duration,
    /// See `retry_min`.
    pub retry_max: Duration,
    /// TLS settings.
    pub tls: TlsSettings,
}

/// What a socket output speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketProtocol {
    /// Lines over TCP.
    Tcp,
    /// Lines over TLS.
    Tls,
    /// A datagram for each record.
    Udp,
}

/// Client side of TLS.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TlsSettings {
    /// PEM file of authorities to trust beside the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM file of the client certificate chain.
    pub cert_file: Option<PathBuf>,
    /// PEM file of its key.
    pub key_file: Option<PathBuf>,
    /// Name to expect instead of the endpoint's host.
    pub server_name: Option<String>,
    /// Accept any certificate (never the default; named in health and log).
    pub insecure_skip_verify: bool,
}

/// `type = "file"`.
#[derive(Debug, Clone, PartialEq)]
pub struct FileOutput {
    /// Path, perhaps with fields; directories are created.
    pub path: FilePath,
    /// How records become lines.
    pub encoding: Encoding,
    /// When written lines are flushed to stable storage.
    pub fsync: FsyncPolicy,
    /// When a file is put aside and a new one begun.
    pub rotation: Rotation,
    /// Most files that are open at once.
    pub open_files_max: usize,
}

/// When a file is put aside, and what becomes of it. The default is never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Before it would become larger than this, bytes.
    pub size_bytes: Option<u64>,
    /// With the first line of a new period; periods are counted from 1970 (UTC).
    pub every: Option<Duration>,
    /// How many rotated files are kept beside each file; `None` = all.
    pub keep: Option<usize>,
    /// How rotated files are compressed.
    pub compress: Compression,
}

impl Rotation {
    /// Whether files are ever put aside.
    pub fn is_on(&self) -> bool {
        self.size_bytes.is_some() || self.every.is_some()
    }
}

/// When written lines are flushed to stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsyncPolicy {
    /// Before each acknowledgement to the journal.
    Always,
    /// At most that long after writing; records count as delivered only then.
    Interval(Duration),
    /// Left to the operating system; records count as delivered once written.
    Never,
}
