//! Encodes envelopes as syslog messages (RFC 5424) for drains, as Loggregator's syslog agent does.
//!
//! A log, counter, timer or event is one message, a gauge one for each of its measurements. There
//! are three differences from the original: a log of an unknown type has the priority of standard
//! output, not the invalid `<-1>`; the measurements of a gauge are sorted by name; and a source
//! type that fills the whole process id does not crash the program.
//!
//! Reading order: this file, `parts`.
//!
//! Invariants: an envelope is written completely or not at all; a message ends in a newline and
//! contains no NUL byte in its text; a log only allocates if it is longer than all before it.

mod parts;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::envelope::{
    LoggregatorEnvelope, LoggregatorMessage, LoggregatorMetric, LoggregatorTagValue,
    LoggregatorTags,
};
use super::wire::LoggregatorError;
use crate::time::format_rfc3339_ns;
use parts::{Parameter, write_name_part, write_source_type};

/// Maximum size of the messages of one envelope. Escapes double the largest envelope of a frame,
/// which has at most 512 KiB; only a gauge with many measurements and long tags exceeds this.
const MESSAGES_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Limits of RFC 5424 for the fields of a header.
const HOSTNAME_BYTES_MAX: usize = 255;
const APP_NAME_BYTES_MAX: usize = 48;
const PROCESS_ID_BYTES_MAX: usize = 128;
/// Limit of a label of a host name, and so of each of its three parts.
const LABEL_BYTES_MAX: usize = 63;

/// Facility user, severity informational.
const PRIORITY_OUT: &[u8] = b"<14>1 ";
/// Facility user, severity error.
const PRIORITY_ERR: &[u8] = b"<11>1 ";

/// The format of a drain's messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DrainFormat {
    /// Host name in messages of envelopes without the tags of an application.
    pub hostname: String,
    /// Include tags in the structured data.
    pub with_metadata: bool,
    /// Prefix each message with its length (RFC 6587, octet counting), for connections but not for
    /// HTTP requests.
    pub with_length: bool,
}

/// Why an envelope cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DrainError {
    /// It is not an envelope.
    #[error("the envelope is malformed: {0}")]
    Malformed(#[from] LoggregatorError),
    /// The host name of the drain has characters other than printable ASCII.
    #[error("the host name of the drain has characters that syslog does not allow")]
    Hostname,
    /// The source id has such characters.
    #[error("the source id has characters that syslog does not allow")]
    SourceId,
    /// The instance id has such characters.
    #[error("the instance id has characters that syslog does not allow")]
    InstanceId,
    /// The name of a tag has such characters.
    #[error("the name of a tag has characters that syslog does not allow")]
    TagName,
    /// A tag, or the name or unit of a metric, is not UTF-8.
    #[error("a tag or a name is not valid UTF-8")]
    Encoding,
    /// Its messages would be too long.
    #[error("the messages of the envelope exceed 2 MiB")]
    TooLong,
}

impl DrainError {
    /// Returns a fixed identifier for counters.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Hostname => "hostname",
            Self::SourceId => "source_id",
            Self::InstanceId => "instance_id",
            Self::TagName => "tag_name",
            Self::Encoding => "encoding",
            Self::TooLong => "too_long",
        }
    }
}

/// Encodes envelopes as messages. Reused for one envelope after another.
#[derive(Debug, Clone, Default)]
pub struct DrainEncoder {
    tags: LoggregatorTags,
    /// The message being written, while its length is not known.
    message: Vec<u8>,
}

/// An envelope with the format of its message.
struct Context<'c> {
    envelope: &'c LoggregatorEnvelope<'c>,
    tags: &'c LoggregatorTags,
    format: &'c DrainFormat,
}

impl DrainEncoder {
    /// Appends the messages of an envelope to `out`, and the end of each in `out` to `ends`.
    /// Returns their number: 0 if the envelope has no known content. After an error nothing was
    /// appended.
    pub fn encode(
        &mut self,
        bytes: &[u8],
        format: &DrainFormat,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<usize, DrainError> {
        let envelope = LoggregatorEnvelope::parse(bytes, &mut self.tags)?;
        self.tags.sort(bytes);
        let context = Context { envelope: &envelope, tags: &self.tags, format };
        let (start, first) = (out.len(), ends.len());
        match context.write_all(&mut self.message, out, ends) {
            Ok(()) => Ok(ends.len() - first),
            Err(error) => {
                out.truncate(start);
                ends.truncate(first);
                Err(error)
            }
        }
    }
}

impl<'c> Context<'c> {
    fn write_all(
        &self,
        message: &mut Vec<u8>,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<(), DrainError> {
        let number = |number: u64| Parameter::Integer(i128::from(number));
        let time = |number: i64| Parameter::Integer(i128::from(number));
        match self.envelope.message {
            LoggregatorMessage::None => return Ok(()),
            LoggregatorMessage::Log { payload, is_error } => {
                message.clear();
                self.write_log(payload, is_error, message)?;
                self.finish(message, out, ends);
            }
            LoggregatorMessage::Counter { name, delta, total } => {
                let parameters = [
                    ("name", Parameter::Text(name)),
                    ("total", number(total)),
                    ("delta", number(delta)),
                ];
                self.write_metric("counter", &parameters, message)?;
                self.finish(message, out, ends);
            }
            LoggregatorMessage::Gauge(gauge) => {
                // The last value of a repeated name applies.
                let metrics: BTreeMap<&[u8], LoggregatorMetric<'_>> =
                    gauge.metrics().map(|metric| (metric.name, metric)).collect();
                let start = out.len();
                for metric in metrics.values() {
                    let parameters = [
                        ("name", Parameter::Text(metric.name)),
                        ("value", Parameter::Float(metric.value)),
                        ("unit", Parameter::Text(metric.unit)),
                    ];
                    self.write_metric("gauge", &parameters, message)?;
                    if out.len() - start + message.len() > MESSAGES_BYTES_MAX {
                        return Err(DrainError::TooLong);
                    }
                    self.finish(message, out, ends);
                }
            }
            LoggregatorMessage::Timer { name, start_ns, stop_ns } => {
                let parameters = [
                    ("name", Parameter::Text(name)),
                    ("start", time(start_ns)),
                    ("stop", time(stop_ns)),
                ];
                self.write_metric("timer", &parameters, message)?;
                self.finish(message, out, ends);
            }
            LoggregatorMessage::Event { title, body } => {
                let parameters =
                    [("title", Parameter::Text(title)), ("body", Parameter::Text(body))];
                self.write_metric("event", &parameters, message)?;
                self.finish(message, out, ends);
            }
        }
        Ok(())
    }

    /// Appends the complete message.
    fn finish(&self, message: &[u8], out: &mut Vec<u8>, ends: &mut Vec<usize>) {
        if self.format.with_length {
            Parameter::Integer(message.len() as i128).write(out);
            out.push(b' ');
        }
        out.extend_from_slice(message);
        ends.push(out.len());
    }

    fn write_log(
        &self,
        payload: &[u8],
        is_error: bool,
        message: &mut Vec<u8>,
    ) -> Result<(), DrainError> {
        message.extend_from_slice(if is_error { PRIORITY_ERR } else { PRIORITY_OUT });
        self.write_time_and_names(message)?;
        self.write_process_of_log(message)?;
        message.extend_from_slice(b" - ");
        if !self.write_tags(message)? {
            message.push(b'-');
        }
        message.push(b' ');
        for part in payload.split(|byte| *byte == 0) {
            message.extend_from_slice(part);
        }
        if !message.ends_with(b"\n") {
            message.push(b'\n');
        }
        Self::check_len(message)
    }

    fn write_metric(
        &self,
        kind: &str,
        parameters: &[(&str, Parameter<'_>)],
        message: &mut Vec<u8>,
    ) -> Result<(), DrainError> {
        message.clear();
        message.extend_from_slice(PRIORITY_OUT);
        self.write_time_and_names(message)?;
        let start = message.len();
        message.push(b'[');
        message.extend_from_slice(self.envelope.instance_id);
        message.push(b']');
        Self::end_process(message, start)?;
        message.extend_from_slice(b" - ");
        parts::open_element(kind, message);
        for (name, value) in parameters {
            value.check()?;
            parts::write_parameter(name.as_bytes(), value, message);
        }
        message.push(b']');
        self.write_tags(message)?;
        message.extend_from_slice(b" \n");
        Self::check_len(message)
    }

    fn check_len(message: &[u8]) -> Result<(), DrainError> {
        if message.len() > MESSAGES_BYTES_MAX { Err(DrainError::TooLong) } else { Ok(()) }
    }

    /// Writes time, host name and application, each with the blank after it.
    fn write_time_and_names(&self, message: &mut Vec<u8>) -> Result<(), DrainError> {
        parts::write_time(self.envelope.timestamp_ns, message);
        message.push(b' ');
        let start = message.len();
        if !self.write_names_of_app(message) {
            message.extend_from_slice(self.format.hostname.as_bytes());
        }
        end_word(message, start, HOSTNAME_BYTES_MAX).map_err(|()| DrainError::Hostname)?;
        message.push(b' ');
        let start = message.len();
        message.extend_from_slice(self.envelope.source_id);
        end_word(message, start, APP_NAME_BYTES_MAX).map_err(|()| DrainError::SourceId)?;
        message.push(b' ');
        Ok(())
    }

    /// Writes `organization.space.application`, if the tags name any of them.
    fn write_names_of_app(&self, message: &mut Vec<u8>) -> bool {
        let names = ["organization_name", "space_name", "app_name"].map(|name| self.tag(name));
        if names.iter().all(Option::is_none) {
            return false;
        }
        for (index, name) in names.iter().enumerate() {
            if index > 0 {
                message.push(b'.');
            }
            if let Some(name) = name {
                write_name_part(name, LABEL_BYTES_MAX, message);
            }
        }
        true
    }

    /// Writes `[APP/PROC/WEB/0]`.
    fn write_process_of_log(&self, message: &mut Vec<u8>) -> Result<(), DrainError> {
        let start = message.len();
        message.push(b'[');
        write_source_type(self.tag("source_type").unwrap_or_default(), message);
        let instance = self.envelope.instance_id;
        if !instance.is_empty() {
            message.push(b'/');
            // Keep the closing bracket.
            let room = PROCESS_ID_BYTES_MAX.saturating_sub(message.len() - start + 1);
            message.extend_from_slice(instance.get(..room).unwrap_or(instance));
        }
        message.push(b']');
        Self::end_process(message, start)
    }

    fn end_process(message: &mut Vec<u8>, start: usize) -> Result<(), DrainError> {
        end_word(message, start, PROCESS_ID_BYTES_MAX).map_err(|()| DrainError::InstanceId)
    }

    /// Returns the value of a tag, if it is text.
    fn tag(&self, name: &str) -> Option<&'c [u8]> {
        let found = self.tags.iter(self.envelope.bytes).filter(|(key, _)| *key == name.as_bytes());
        match found.last()?.1 {
            LoggregatorTagValue::Text(text) => Some(text),
            LoggregatorTagValue::Integer(_) | LoggregatorTagValue::Decimal(_) => None,
        }
    }

    /// Writes the element with all tags; returns false if there are none.
    fn write_tags(&self, message: &mut Vec<u8>) -> Result<bool, DrainError> {
        if !self.format.with_metadata {
            return Ok(false);
        }
        let mut tags = self.tags.iter(self.envelope.bytes).peekable();
        if tags.peek().is_none() {
            return Ok(false);
        }
        parts::open_element("tags", message);
        while let Some((name, value)) = tags.next() {
            if tags.peek().is_some_and(|(next, _)| *next == name) {
                continue;
            }
            if !parts::is_parameter_name(name) {
                return Err(DrainError::TagName);
            }
            let value = match value {
                LoggregatorTagValue::Text(text) => Parameter::Text(text),
                LoggregatorTagValue::Integer(_) | LoggregatorTagValue::Decimal(_) => {
                    Parameter::Number(value)
                }
            };
            value.check()?;
            parts::write_parameter(name, &value, message);
        }
        message.push(b']');
        Ok(true)
    }
}

/// Ends a field of the header: truncates it, and writes `-` if it is empty. Returns an error if it
/// is not printable ASCII.
fn end_word(message: &mut Vec<u8>, start: usize, bytes_max: usize) -> Result<(), ()> {
    message.truncate(start + bytes_max);
    let word = message.get(start..).unwrap_or_default();
    if !word.iter().all(u8::is_ascii_graphic) {
        return Err(());
    }
    if word.is_empty() {
        message.push(b'-');
    }
    Ok(())
}
