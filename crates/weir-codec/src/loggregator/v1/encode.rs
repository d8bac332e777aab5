//! Encodes envelopes of version 1.
//!
//! Invariant: required fields are always written, even if they are zero or empty.

use super::super::wire::{
    Fields, Value, number_len, put_bytes_field, put_double_field, put_entry, put_number,
};
use super::envelope::{
    DropsondeContainer, DropsondeEnvelope, DropsondeForwarded, DropsondeHttp, DropsondeMessage,
    DropsondeUuid,
};

/// Appends a field with a number, even if it is zero.
fn put_number_always(field: u64, number: u64, out: &mut Vec<u8>) {
    put_number(field << 3, out);
    put_number(number, out);
}

impl DropsondeEnvelope<'_> {
    /// Appends an envelope with these tags. `bytes` is ignored.
    pub fn encode<'t>(&self, tags: impl Iterator<Item = (&'t [u8], &'t [u8])>, out: &mut Vec<u8>) {
        self.encode_with(tags, &mut Vec::new(), out);
    }

    /// The same, with space for the message.
    pub(super) fn encode_with<'t>(
        &self,
        tags: impl Iterator<Item = (&'t [u8], &'t [u8])>,
        space: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        let event_type = self.message.event_type() as u64;
        put_bytes_field(1, self.origin, out);
        put_number_always(2, event_type, out);
        put_number_always(6, self.timestamp_ns as u64, out);
        space.clear();
        self.message.encode(space);
        put_bytes_field(event_type + 3, space, out);
        for (field, text) in (13..).zip([self.deployment, self.job, self.index, self.ip]) {
            if let Some(text) = text {
                put_bytes_field(field, text, out);
            }
        }
        for (name, value) in tags {
            put_entry(17, name, value, out);
        }
    }
}

impl DropsondeMessage<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::HttpStartStop(http) => http.encode(out),
            Self::LogMessage {
                message,
                is_error,
                timestamp_ns,
                app_id,
                source_type,
                source_instance,
            } => {
                put_bytes_field(1, message, out);
                put_number_always(2, 1 + u64::from(is_error), out);
                put_number_always(3, timestamp_ns as u64, out);
                put_bytes_field(4, app_id, out);
                put_bytes_field(5, source_type, out);
                put_bytes_field(6, source_instance, out);
            }
            Self::ValueMetric { name, value, unit } => {
                put_bytes_field(1, name, out);
                put_double_field(2, value, out);
                put_bytes_field(3, unit, out);
            }
            Self::CounterEvent { name, delta, total } => {
                put_bytes_field(1, name, out);
                put_number_always(2, delta, out);
                put_number_always(3, total, out);
            }
            Self::Error { source, code, message } => {
                put_bytes_field(1, source, out);
                put_number_always(2, i64::from(code) as u64, out);
                put_bytes_field(3, message, out);
            }
            Self::ContainerMetric(metric) => metric.encode(out),
        }
    }
}

impl DropsondeHttp<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_number_always(1, self.start_ns as u64, out);
        put_number_always(2, self.stop_ns as u64, out);
        self.request_id.encode(3, out);
        put_number_always(4, self.peer_type, out);
        put_number_always(5, self.method, out);
        put_bytes_field(6, self.uri, out);
        put_bytes_field(7, self.remote_address, out);
        put_bytes_field(8, self.user_agent, out);
        put_number_always(9, i64::from(self.status_code) as u64, out);
        put_number_always(10, self.content_length as u64, out);
        if let Some(application_id) = self.application_id {
            application_id.encode(12, out);
        }
        put_number_always(13, i64::from(self.instance_index) as u64, out);
        put_bytes_field(14, self.instance_id, out);
        self.forwarded.for_all(|address| put_bytes_field(15, address, out));
    }
}

impl DropsondeForwarded<'_> {
    /// Calls `each` with each address.
    pub(super) fn for_all(self, mut each: impl FnMut(&[u8])) {
        match self {
            Self::None => {}
            Self::Fields(message) => {
                for field in Fields::new(message) {
                    if let Ok((15, Value::Bytes(address))) = field {
                        each(address);
                    }
                }
            }
            Self::Lines(text) => {
                for line in text.split(|byte| *byte == b'\n') {
                    each(line);
                }
            }
        }
    }
}

impl DropsondeContainer<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes_field(1, self.application_id, out);
        put_number_always(2, i64::from(self.instance_index) as u64, out);
        put_double_field(3, self.cpu_percentage, out);
        put_number_always(4, self.memory_bytes, out);
        put_number_always(5, self.disk_bytes, out);
        put_number_always(6, self.memory_bytes_quota, out);
        put_number_always(7, self.disk_bytes_quota, out);
    }
}

impl DropsondeUuid {
    fn encode(self, field: u64, out: &mut Vec<u8>) {
        put_number(field << 3 | 2, out);
        put_number(2 + number_len(self.low) as u64 + number_len(self.high) as u64, out);
        put_number_always(1, self.low, out);
        put_number_always(2, self.high, out);
    }
}
