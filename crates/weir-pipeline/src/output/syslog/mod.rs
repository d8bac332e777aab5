//! `type = "syslog"`: messages in the format of RFC 5424 or RFC 3164.
//!
//! Over TCP, TLS and UDP they are sent as by a `socket` output: nothing is acknowledged, and a
//! record counts as delivered when the kernel has accepted all of it. With RELP it counts as
//! delivered when the server has acknowledged it.
//!
//! Reading order: this file, `writer`, `relp`, then `queue` and `session` of `relp`.

mod relp;
mod writer;

use std::time::Duration;

use weir_codec::{SyslogFormat, SyslogOutputFraming};
use weir_host::Zone;

use super::socket::{Dialer, Peer, Writer};
use super::{OutputError, Ready};
use crate::config::TlsSettings;
pub(super) use relp::{Relp, run};
pub(super) use writer::SyslogWriter;

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

/// Checks the address and reads the certificate files.
pub(super) fn prepare(output: &str, syslog: &SyslogOutput) -> Result<Ready, OutputError> {
    let is_udp = syslog.transport == SyslogTransport::Datagrams;
    let peer = Box::new(Peer {
        dialer: Dialer::new(output, &syslog.address, syslog.tls.as_ref(), is_udp)?,
        write_timeout: syslog.write_timeout,
        retry_min: syslog.retry_min,
        retry_max: syslog.retry_max,
    });
    let unacknowledged = |framing, is_for_datagrams| {
        let writer = Box::new(SyslogWriter::new(syslog, framing));
        Box::new(Writer::Syslog { writer, is_for_datagrams })
    };
    Ok(match syslog.transport {
        SyslogTransport::Stream(framing) => Ready::Socket(peer, unacknowledged(framing, false)),
        SyslogTransport::Datagrams => {
            Ready::Socket(peer, unacknowledged(SyslogOutputFraming::Unframed, true))
        }
        SyslogTransport::Relp { unanswered_max, ack_timeout } => Ready::Relp(Box::new(Relp {
            peer: *peer,
            writer: SyslogWriter::new(syslog, SyslogOutputFraming::Unframed),
            unanswered_max,
            ack_timeout,
        })),
    })
}
