//! `weir config check --rate N`: how long the buffers last at a rate, and what syslog-ng's formulas
//! give for the same sources.
//!
//! syslog-ng documents `log_iw_size = max_connections * log_fetch_limit` for flow control, and a
//! `log_fifo_size` of 10 to 20 times that.

use std::fmt::Write as _;
use std::time::Duration;

use weir_host::units::{approx_duration, approx_size, group_digits};
use weir_pipeline::config::{ListenEndpoint, PipelinePlan, SourceKind};

use crate::cli::SizingArgs;
use crate::table::Table;

/// What a record takes in a frame in addition to its message: the columns of a received message and
/// a share of its producer.
const ROW_BYTES: u64 = 64;
/// `log_fifo_size` in units of `log_iw_size`.
const FIFO_MIN: u64 = 10;
const FIFO_MAX: u64 = 20;

/// A buffer, and how many messages it holds.
struct Buffer {
    name: String,
    bytes: u64,
    messages: u64,
    /// It holds messages of outputs, as syslog-ng's queue of a destination does.
    is_queue: bool,
}

/// The report, as text.
pub(crate) fn report(plan: &PipelinePlan, load: &SizingArgs) -> String {
    let Some(per_second) = load.rate else { return String::new() };
    let message_bytes = load.message_size;
    let mut text = format!(
        "\nat {} messages/s of {} ({}/s):\n",
        group_digits(per_second),
        approx_size(message_bytes),
        approx_size(per_second * message_bytes)
    );
    let (table, fifo_max) = windows(plan, load);
    if fifo_max > 0 {
        let _infallible = write!(text, "\n{}", table.text());
    }
    let mut table = Table::new(&["BUFFER", "SIZE", "MESSAGES", "LASTS"], 1);
    let mut warnings = String::new();
    for buffer in buffers(plan, message_bytes) {
        let lasts = Duration::from_secs_f64(buffer.messages as f64 / per_second.max(1) as f64);
        table.row(vec![
            buffer.name.clone(),
            approx_size(buffer.bytes),
            group_digits(buffer.messages),
            approx_duration(lasts),
        ]);
        if buffer.is_queue && buffer.messages < fifo_max {
            let needed = fifo_max * (message_bytes + ROW_BYTES);
            let _infallible = writeln!(
                warnings,
                "warning: {} holds fewer messages than a log_fifo_size of {}; it takes {}",
                buffer.name,
                group_digits(fifo_max),
                approx_size(needed)
            );
        }
    }
    let _infallible = write!(text, "\n{}", table.text());
    if !warnings.is_empty() {
        let _infallible = write!(text, "\n{warnings}");
    }
    text
}

/// syslog-ng's formulas for each source with connections; also the largest `log_fifo_size`.
fn windows(plan: &PipelinePlan, load: &SizingArgs) -> (Table, u64) {
    let head = ["SOURCE", "CONNECTIONS", "FETCH LIMIT", "LOG_IW_SIZE", "LOG_FIFO_SIZE", "BYTES"];
    let mut table = Table::new(&head, 1);
    let mut fifo_max = 0;
    for source in &plan.sources {
        let SourceKind::Syslog(syslog) = &source.kind else { continue };
        let connections = match syslog.listen.endpoint {
            ListenEndpoint::Tcp(_) | ListenEndpoint::UnixStream { .. } => {
                syslog.listen.connections_max as u64
            }
            ListenEndpoint::Udp { .. } | ListenEndpoint::UnixDatagram { .. } => continue,
        };
        let window = connections * load.fetch_limit;
        let fifo = (window * FIFO_MIN, window * FIFO_MAX);
        let bytes = |messages: u64| approx_size(messages * load.message_size);
        table.row(vec![
            source.name.clone(),
            group_digits(connections),
            group_digits(load.fetch_limit),
            group_digits(window),
            format!("{} to {}", group_digits(fifo.0), group_digits(fifo.1)),
            format!("{} to {}", bytes(fifo.0), bytes(fifo.1)),
        ]);
        fifo_max = fifo_max.max(fifo.1);
    }
    (table, fifo_max)
}

/// Every buffer that holds messages while what follows it does not take them.
fn buffers(plan: &PipelinePlan, message_bytes: u64) -> Vec<Buffer> {
    let mut buffers = Vec::new();
    for source in &plan.sources {
        if let SourceKind::Syslog(syslog) = &source.kind
            && let ListenEndpoint::Udp { buffer_bytes, .. } = syslog.listen.endpoint
        {
            let bytes = buffer_bytes as u64;
            buffers.push(Buffer {
                name: format!("receive_buffer of source {}", source.name),
                bytes,
                messages: bytes / datagram_bytes(message_bytes),
                is_queue: false,
            });
        }
    }
    let messages = |bytes: u64| bytes / (message_bytes + ROW_BYTES);
    for output in &plan.outputs {
        let bytes = output.buffer_limit_bytes;
        let name = format!("buffer_max of output {}", output.name);
        buffers.push(Buffer { name, bytes, messages: messages(bytes), is_queue: true });
    }
    let bytes = plan.journal_limit_bytes;
    let name = "size_max of the journal, for all outputs".to_owned();
    buffers.push(Buffer { name, bytes, messages: messages(bytes), is_queue: true });
    buffers
}

/// What the kernel charges for a datagram: it keeps each in memory of its own, in a power of two,
/// beside a description of it.
fn datagram_bytes(message_bytes: u64) -> u64 {
    const HEADERS_BYTES: u64 = 320;
    const DESCRIPTION_BYTES: u64 = 256;
    (message_bytes + HEADERS_BYTES).next_power_of_two() + DESCRIPTION_BYTES
}
