//! `type = "syslog"`: messages in the format of RFC 5424 or RFC 3164.
//!
//! Over TCP, TLS and UDP they are sent as by a `socket` output: nothing is acknowledged, and a
//! record counts as delivered when the kernel has accepted all of it. With RELP it counts as
//! delivered when the server has acknowledged it.
//!
//! Reading order: this file, `writer`, `relp`, then `queue` and `session` of `relp`.

mod relp;
mod writer;

use weir_codec::SyslogOutputFraming;

use super::socket::{Dialer, Peer, Writer};
use super::{OutputError, Ready};
use crate::config::{SyslogOutput, SyslogTransport};
pub(super) use relp::{Relp, run};
pub(super) use writer::SyslogWriter;

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
