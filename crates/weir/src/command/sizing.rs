//! `weir config check --rate N`: how long the buffers last at a rate, and what syslog-ng's formulas
//! give for the same sources.
//!
//! syslog-ng documents `log_iw_size = max_connections * log_fetch_limit` for flow control, and a
//! `log_fifo_size` of 10 to 20 times that.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use weir_host::units::{approx_duration, approx_size, group_digits};
use weir_pipeline::config::{ListenEndpoint, PipelinePlan, SourceKind, SourcePlan};

use crate::cli::SizingArgs;
use crate::cli::sizing::{FETCH_LIMIT_MAX, MESSAGE_BYTES_MAX, RATE_MAX};
use crate::table::Table;

/// What a record takes in a frame in addition to its message: the columns of a received message and
/// a share of its producer.
const ROW_BYTES: u64 = 64;
/// `log_fifo_size` in units of `log_iw_size`.
const FIFO_MIN: u64 = 10;
const FIFO_MAX: u64 = 20;

/// Maximum `connections_max` of a source.
const CONNECTIONS_MAX: u64 = 65_536;

const _: () = {
    let fifo = CONNECTIONS_MAX.checked_mul(FETCH_LIMIT_MAX * FIFO_MAX);
    assert!(fifo.is_some() && (MESSAGE_BYTES_MAX + ROW_BYTES).checked_mul(fifo.unwrap()).is_some());
    assert!(RATE_MAX.checked_mul(MESSAGE_BYTES_MAX).is_some());
};

/// How long the buffers last.
#[derive(Debug, Serialize)]
pub(crate) struct Sizing {
    messages_per_second: u64,
    message_bytes: u64,
    sources: Vec<Window>,
    buffers: Vec<Buffer>,
}

/// What syslog-ng's formulas give for a source with connections.
#[derive(Debug, Serialize)]
struct Window {
    source: String,
    connections: u64,
    log_fetch_limit: u64,
    log_iw_size: u64,
    log_fifo_size_min: u64,
    log_fifo_size_max: u64,
    /// Bytes of messages in a queue of that size.
    fifo_bytes_min: u64,
    fifo_bytes_max: u64,
}

/// A buffer, and how many messages it holds.
#[derive(Debug, Serialize)]
struct Buffer {
    name: String,
    bytes: u64,
    messages: u64,
    /// How long it lasts at the given rate.
    seconds: f64,
    /// It holds messages of outputs, as syslog-ng's queue of a destination does, but fewer than the
    /// largest `log_fifo_size`.
    is_below_log_fifo_size: bool,
}

impl Sizing {
    /// Calculates it; `None` if no rate is given.
    pub(crate) fn of(plan: &PipelinePlan, load: &SizingArgs) -> Option<Self> {
        let messages_per_second = load.rate?;
        let message_bytes = load.message_size;
        let sources = windows(plan, load);
        let fifo_max = sources.iter().map(|window| window.log_fifo_size_max).max().unwrap_or(0);
        let mut buffers = buffers(plan, message_bytes);
        for buffer in &mut buffers {
            buffer.seconds = buffer.messages as f64 / messages_per_second.max(1) as f64;
            buffer.is_below_log_fifo_size &= buffer.messages < fifo_max;
        }
        Some(Self { messages_per_second, message_bytes, sources, buffers })
    }

    /// The report, as text.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "\nat {} messages/s of {} ({}/s):\n",
            group_digits(self.messages_per_second),
            approx_size(self.message_bytes),
            approx_size(self.messages_per_second * self.message_bytes)
        );
        if !self.sources.is_empty() {
            let _infallible = write!(text, "\n{}", self.windows_table().text());
        }
        let mut table = Table::new(&["BUFFER", "SIZE", "MESSAGES", "LASTS"], 1);
        for buffer in &self.buffers {
            table.row(vec![
                buffer.name.clone(),
                approx_size(buffer.bytes),
                group_digits(buffer.messages),
                approx_duration(Duration::from_secs_f64(buffer.seconds)),
            ]);
        }
        let _infallible = write!(text, "\n{}", table.text());
        text + &self.warnings()
    }

    fn windows_table(&self) -> Table {
        let head =
            ["SOURCE", "CONNECTIONS", "FETCH LIMIT", "LOG_IW_SIZE", "LOG_FIFO_SIZE", "BYTES"];
        let mut table = Table::new(&head, 1);
        for window in &self.sources {
            let range = |min, max| format!("{min} to {max}");
            let (min, max) = (window.log_fifo_size_min, window.log_fifo_size_max);
            table.row(vec![
                window.source.clone(),
                group_digits(window.connections),
                group_digits(window.log_fetch_limit),
                group_digits(window.log_iw_size),
                range(group_digits(min), group_digits(max)),
                range(approx_size(window.fifo_bytes_min), approx_size(window.fifo_bytes_max)),
            ]);
        }
        table
    }

    fn warnings(&self) -> String {
        let Some(fifo_max) = self.sources.iter().map(|window| window.log_fifo_size_max).max()
        else {
            return String::new();
        };
        let needed = fifo_max * (self.message_bytes + ROW_BYTES);
        let mut warnings = String::new();
        for buffer in self.buffers.iter().filter(|buffer| buffer.is_below_log_fifo_size) {
            let _infallible = writeln!(
                warnings,
                "warning: {} holds fewer messages than a log_fifo_size of {}; it takes {}",
                buffer.name,
                group_digits(fifo_max),
                approx_size(needed)
            );
        }
        if warnings.is_empty() { warnings } else { format!("\n{warnings}") }
    }
}

/// syslog-ng's formulas for each source with connections.
fn windows(plan: &PipelinePlan, load: &SizingArgs) -> Vec<Window> {
    let window = |source: &SourcePlan| {
        let SourceKind::Syslog(syslog) = &source.kind else { return None };
        let connections = match syslog.listen.endpoint {
            ListenEndpoint::Tcp(_) | ListenEndpoint::UnixStream { .. } => {
                syslog.listen.connections_max as u64
            }
            ListenEndpoint::Udp { .. } | ListenEndpoint::UnixDatagram { .. } => return None,
        };
        let log_iw_size = connections * load.fetch_limit;
        let (min, max) = (log_iw_size * FIFO_MIN, log_iw_size * FIFO_MAX);
        Some(Window {
            source: source.name.clone(),
            connections,
            log_fetch_limit: load.fetch_limit,
            log_iw_size,
            log_fifo_size_min: min,
            log_fifo_size_max: max,
            fifo_bytes_min: min * load.message_size,
            fifo_bytes_max: max * load.message_size,
        })
    };
    plan.sources.iter().filter_map(window).collect()
}

/// Every buffer that holds messages while what follows it does not take them.
fn buffers(plan: &PipelinePlan, message_bytes: u64) -> Vec<Buffer> {
    let buffer = |name: String, bytes: u64, bytes_each: u64, is_queue: bool| Buffer {
        name,
        bytes,
        messages: bytes / bytes_each,
        seconds: 0.0,
        is_below_log_fifo_size: is_queue,
    };
    let mut buffers = Vec::new();
    for source in &plan.sources {
        if let Some(listen) = source.kind.listen()
            && let ListenEndpoint::Udp { buffer_bytes, .. } = listen.endpoint
        {
            let name = format!("receive_buffer of source {}", source.name);
            let bytes_each = datagram_bytes(message_bytes);
            buffers.push(buffer(name, buffer_bytes as u64, bytes_each, false));
        }
    }
    let bytes_each = message_bytes + ROW_BYTES;
    for output in &plan.outputs {
        let name = format!("buffer_max of output {}", output.name);
        buffers.push(buffer(name, output.buffer_bytes_max, bytes_each, true));
    }
    let name = "size_max of the journal, for all outputs".to_owned();
    buffers.push(buffer(name, plan.journal_bytes_max, bytes_each, true));
    buffers
}

/// What the kernel charges for a datagram: a buffer whose size is a power of two, and a description
/// of it.
fn datagram_bytes(message_bytes: u64) -> u64 {
    const HEADERS_BYTES: u64 = 320;
    const DESCRIPTION_BYTES: u64 = 256;
    (message_bytes + HEADERS_BYTES).next_power_of_two() + DESCRIPTION_BYTES
}
