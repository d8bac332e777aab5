//! The validated plan of the pipeline: all defaults are filled in, all values checked. Its TOML
//! form is defined in the binary (`weir::config`).
//!
//! The settings of one type of source or output are defined next to it, in [`crate::source`] and
//! [`crate::output`]; those that several types have are here.

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
use weir_host::{Secret, TlsFiles};
use weir_journal::WhenFull;

pub use crate::drain::DrainsPlan;
pub use crate::output::{Endpoint, EndpointError, FilePath, FilePathError, OutputKind, OutputType};
pub use crate::rule::RulePlan;
pub(crate) use crate::source::{ContainersSource, FileSource};
pub use crate::source::{SourceKind, SourceType};

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
    /// Returns true if the plans differ only in sources, outputs, drains and rules, each of which
    /// can be changed while the others run.
    pub fn differs_only_in_components(&self, other: &Self) -> bool {
        // The fields are listed one by one so that a new field cannot be forgotten here.
        let Self {
            data_dir,
            ring_bytes,
            journal_bytes_max,
            disk_free_bytes_min,
            taken_bytes_max,
            sources: _,
            outputs: _,
            rules: _,
            default_to: _,
            drains: _,
        } = self;
        *data_dir == other.data_dir
            && *ring_bytes == other.ring_bytes
            && *journal_bytes_max == other.journal_bytes_max
            && *disk_free_bytes_min == other.disk_free_bytes_min
            && *taken_bytes_max == other.taken_bytes_max
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
