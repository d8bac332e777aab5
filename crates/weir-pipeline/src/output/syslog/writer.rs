//! Encodes records as configured.

use weir_codec::{SyslogEncoder, SyslogFormat, SyslogOutputFraming};
use weir_host::Zone;
use weir_model::{RecordView, Selection};

use super::SyslogOutput;
use crate::output::machine_name;

/// Writes the messages of one output.
#[derive(Debug)]
pub(crate) struct SyslogWriter {
    encoder: SyslogEncoder,
    framing: SyslogOutputFraming,
    message_bytes_max: usize,
    /// Zone of the times; `None` = UTC, or the format states the zone itself.
    zone: Option<Zone>,
}

impl SyslogWriter {
    pub(super) fn new(syslog: &SyslogOutput, framing: SyslogOutputFraming) -> Self {
        let has_zone = syslog.format == SyslogFormat::Rfc3164 && !syslog.zone.is_utc();
        Self {
            encoder: SyslogEncoder::new(syslog.format, &machine_name()),
            framing,
            message_bytes_max: syslog.message_bytes_max,
            zone: has_zone.then(|| syslog.zone.clone()),
        }
    }

    /// Appends a record as one message. Returns false if it had to be truncated.
    pub(crate) fn write(
        &mut self,
        records: &Selection,
        record: &RecordView<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        if let Some(zone) = &self.zone {
            let time_ns = match record.timestamp_ns {
                1.. => record.timestamp_ns,
                _ => records.batch().header().observed_ns,
            };
            let offset_seconds = zone.offset_ns(time_ns) / 1_000_000_000;
            // Offsets are less than a day.
            self.encoder.set_utc_offset(offset_seconds as i32);
        }
        self.encoder.encode(self.framing, records, record, self.message_bytes_max, out)
    }
}
