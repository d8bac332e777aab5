//! One envelope of version 1, in the received bytes.
//!
//! Invariants: as in version 2, a repeated field has its last value, and a field with the wrong
//! type is treated as unknown; a missing required field is an error, as in the original.

use super::super::wire::{Fields, LoggregatorError, Value};

/// A missing text.
const EMPTY: &[u8] = b"";

/// An envelope of version 1, without its tags.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DropsondeEnvelope<'e> {
    /// The whole envelope.
    pub bytes: &'e [u8],
    /// Name of the program.
    pub origin: &'e [u8],
    /// Nanoseconds since 1970; 0 if it is missing.
    pub timestamp_ns: i64,
    /// Name of the deployment; agents add it if it is missing.
    pub deployment: Option<&'e [u8]>,
    /// Name of the job.
    pub job: Option<&'e [u8]>,
    /// Index of the instance of the job.
    pub index: Option<&'e [u8]>,
    /// The address of its machine.
    pub ip: Option<&'e [u8]>,
    /// Its message.
    pub message: DropsondeMessage<'e>,
}

/// Types of envelopes, with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropsondeType {
    /// A request and its response.
    HttpStartStop = 4,
    /// A log line.
    LogMessage = 5,
    /// A current value.
    ValueMetric = 6,
    /// An increment.
    CounterEvent = 7,
    /// An error of a program.
    Error = 8,
    /// The resource usage of a container.
    ContainerMetric = 9,
}

/// The message of an envelope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DropsondeMessage<'e> {
    /// A request and its response.
    HttpStartStop(DropsondeHttp<'e>),
    /// A log line of an application.
    LogMessage {
        /// Its text.
        message: &'e [u8],
        /// It was written to standard error.
        is_error: bool,
        /// Nanoseconds since 1970.
        timestamp_ns: i64,
        /// The GUID of the application.
        app_id: &'e [u8],
        /// Type of the source, such as `APP` or `RTR`.
        source_type: &'e [u8],
        /// Instance of the source.
        source_instance: &'e [u8],
    },
    /// A current value.
    ValueMetric {
        /// Its name.
        name: &'e [u8],
        /// Its value.
        value: f64,
        /// Its unit.
        unit: &'e [u8],
    },
    /// An increment of a counter.
    CounterEvent {
        /// Its name.
        name: &'e [u8],
        /// The increment.
        delta: u64,
        /// The total; 0 if it is missing.
        total: u64,
    },
    /// An error of a program.
    Error {
        /// Its source.
        source: &'e [u8],
        /// Its code.
        code: i32,
        /// Its text.
        message: &'e [u8],
    },
    /// The resource usage of a container.
    ContainerMetric(DropsondeContainer<'e>),
}

/// A request and its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DropsondeHttp<'e> {
    /// Nanoseconds since 1970.
    pub start_ns: i64,
    /// Nanoseconds since 1970.
    pub stop_ns: i64,
    /// Its identifier.
    pub request_id: DropsondeUuid,
    /// The side that measured it: 1 the client, 2 the server.
    pub peer_type: u64,
    /// Number of its method.
    pub method: u64,
    /// The requested URI.
    pub uri: &'e [u8],
    /// Address of the client.
    pub remote_address: &'e [u8],
    /// User agent of the client.
    pub user_agent: &'e [u8],
    /// Status of the response.
    pub status_code: i32,
    /// Length of the body of the response, in bytes.
    pub content_length: i64,
    /// Identifier of the application that was requested.
    pub application_id: Option<DropsondeUuid>,
    /// Index of the application's instance.
    pub instance_index: i32,
    /// GUID of the instance.
    pub instance_id: &'e [u8],
    /// Addresses for which the request was forwarded.
    pub forwarded: DropsondeForwarded<'e>,
}

/// Addresses for which a request was forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DropsondeForwarded<'e> {
    /// None.
    #[default]
    None,
    /// In repeated fields of this message.
    Fields(&'e [u8]),
    /// In a text, one per line.
    Lines(&'e [u8]),
}

/// The resource usage of a container.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DropsondeContainer<'e> {
    /// The GUID of the application.
    pub application_id: &'e [u8],
    /// Index of the application's instance.
    pub instance_index: i32,
    /// Processor time, in percent of one processor.
    pub cpu_percentage: f64,
    /// Memory.
    pub memory_bytes: u64,
    /// Disk.
    pub disk_bytes: u64,
    /// Maximum memory.
    pub memory_bytes_quota: u64,
    /// Maximum disk.
    pub disk_bytes_quota: u64,
}

/// An identifier, as two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DropsondeUuid {
    /// Its first eight bytes.
    pub low: u64,
    /// Its last eight bytes.
    pub high: u64,
}

impl Default for DropsondeMessage<'_> {
    fn default() -> Self {
        Self::CounterEvent { name: EMPTY, delta: 0, total: 0 }
    }
}

impl DropsondeMessage<'_> {
    /// Its type.
    pub fn event_type(&self) -> DropsondeType {
        match self {
            Self::HttpStartStop(_) => DropsondeType::HttpStartStop,
            Self::LogMessage { .. } => DropsondeType::LogMessage,
            Self::ValueMetric { .. } => DropsondeType::ValueMetric,
            Self::CounterEvent { .. } => DropsondeType::CounterEvent,
            Self::Error { .. } => DropsondeType::Error,
            Self::ContainerMetric(_) => DropsondeType::ContainerMetric,
        }
    }
}

/// Returns the value of a required field.
fn required<T>(value: Option<T>, name: &'static str) -> Result<T, LoggregatorError> {
    value.ok_or(LoggregatorError::Missing(name))
}

impl<'e> DropsondeEnvelope<'e> {
    /// Parses an envelope.
    pub fn parse(bytes: &'e [u8]) -> Result<Self, LoggregatorError> {
        let mut envelope = Self { bytes, ..Self::default() };
        let (mut origin, mut event_type, mut messages) = (None, None, [None; 6]);
        for field in Fields::new(bytes) {
            match field? {
                (1, Value::Bytes(text)) => origin = Some(text),
                (2, Value::Number(number)) => event_type = Some(number),
                (6, Value::Number(number)) => envelope.timestamp_ns = number as i64,
                (number @ 7..=12, Value::Bytes(message)) => {
                    if let Some(place) = messages.get_mut(number as usize - 7) {
                        *place = Some(message);
                    }
                }
                (13, Value::Bytes(text)) => envelope.deployment = Some(text),
                (14, Value::Bytes(text)) => envelope.job = Some(text),
                (15, Value::Bytes(text)) => envelope.index = Some(text),
                (16, Value::Bytes(text)) => envelope.ip = Some(text),
                _ => {}
            }
        }
        envelope.origin = required(origin, "origin")?;
        let number = required(event_type, "eventType")?;
        let kind = DropsondeType::of(number).ok_or(LoggregatorError::EventType(number))?;
        let [http, log, value, counter, error, container] = messages;
        envelope.message = match kind {
            DropsondeType::HttpStartStop => {
                DropsondeMessage::HttpStartStop(http_start_stop(required(http, "httpStartStop")?)?)
            }
            DropsondeType::LogMessage => log_message(required(log, "logMessage")?)?,
            DropsondeType::ValueMetric => value_metric(required(value, "valueMetric")?)?,
            DropsondeType::CounterEvent => counter_event(required(counter, "counterEvent")?)?,
            DropsondeType::Error => error_message(required(error, "error")?)?,
            DropsondeType::ContainerMetric => {
                let metric = required(container, "containerMetric")?;
                DropsondeMessage::ContainerMetric(container_metric(metric)?)
            }
        };
        Ok(envelope)
    }

    /// Returns the tags of a parsed envelope, in the order in which they were sent. A later one
    /// replaces an earlier one with the same name.
    pub fn tags(&self) -> impl Iterator<Item = (&'e [u8], &'e [u8])> + Clone {
        Fields::new(self.bytes).filter_map(|field| match field {
            Ok((17, Value::Bytes(entry))) => super::super::tags::key_and_value(entry).ok(),
            Ok(_) | Err(_) => None,
        })
    }
}

fn http_start_stop(message: &[u8]) -> Result<DropsondeHttp<'_>, LoggregatorError> {
    let mut http = DropsondeHttp::default();
    let (mut request_id, mut seen) = (None, 0_u32);
    for field in Fields::new(message) {
        let (number, value) = field?;
        match (number, value) {
            (1, Value::Number(value)) => http.start_ns = value as i64,
            (2, Value::Number(value)) => http.stop_ns = value as i64,
            (3, Value::Bytes(id)) => request_id = Some(uuid(id)?),
            (4, Value::Number(value)) => http.peer_type = value,
            (5, Value::Number(value)) => http.method = value,
            (6, Value::Bytes(text)) => http.uri = text,
            (7, Value::Bytes(text)) => http.remote_address = text,
            (8, Value::Bytes(text)) => http.user_agent = text,
            (9, Value::Number(value)) => http.status_code = value as i32,
            (10, Value::Number(value)) => http.content_length = value as i64,
            (12, Value::Bytes(id)) => http.application_id = Some(uuid(id)?),
            (13, Value::Number(value)) => http.instance_index = value as i32,
            (14, Value::Bytes(text)) => http.instance_id = text,
            (15, Value::Bytes(_)) => http.forwarded = DropsondeForwarded::Fields(message),
            _ => continue,
        }
        seen |= 1 << number;
    }
    http.request_id = required(request_id, "requestId")?;
    let names = [
        "startTimestamp",
        "stopTimestamp",
        "requestId",
        "peerType",
        "method",
        "uri",
        "remoteAddress",
        "userAgent",
        "statusCode",
        "contentLength",
    ];
    match (1..).zip(names).find(|(number, _)| seen & 1 << *number == 0) {
        Some((_, name)) => Err(LoggregatorError::Missing(name)),
        None => Ok(http),
    }
}

fn uuid(message: &[u8]) -> Result<DropsondeUuid, LoggregatorError> {
    let (mut low, mut high) = (None, None);
    for field in Fields::new(message) {
        match field? {
            (1, Value::Number(number)) => low = Some(number),
            (2, Value::Number(number)) => high = Some(number),
            _ => {}
        }
    }
    Ok(DropsondeUuid { low: required(low, "low")?, high: required(high, "high")? })
}

fn log_message(bytes: &[u8]) -> Result<DropsondeMessage<'_>, LoggregatorError> {
    let (mut message, mut message_type, mut timestamp) = (None, None, None);
    let (mut app_id, mut source_type, mut source_instance) = (EMPTY, EMPTY, EMPTY);
    for field in Fields::new(bytes) {
        match field? {
            (1, Value::Bytes(text)) => message = Some(text),
            (2, Value::Number(number)) => message_type = Some(number),
            (3, Value::Number(number)) => timestamp = Some(number as i64),
            (4, Value::Bytes(text)) => app_id = text,
            (5, Value::Bytes(text)) => source_type = text,
            (6, Value::Bytes(text)) => source_instance = text,
            _ => {}
        }
    }
    Ok(DropsondeMessage::LogMessage {
        message: required(message, "message")?,
        is_error: required(message_type, "message_type")? == 2,
        timestamp_ns: required(timestamp, "timestamp")?,
        app_id,
        source_type,
        source_instance,
    })
}

fn value_metric(bytes: &[u8]) -> Result<DropsondeMessage<'_>, LoggregatorError> {
    let (mut name, mut value, mut unit) = (None, None, None);
    for field in Fields::new(bytes) {
        match field? {
            (1, Value::Bytes(text)) => name = Some(text),
            (2, Value::Fixed64(bits)) => value = Some(f64::from_bits(bits)),
            (3, Value::Bytes(text)) => unit = Some(text),
            _ => {}
        }
    }
    Ok(DropsondeMessage::ValueMetric {
        name: required(name, "name")?,
        value: required(value, "value")?,
        unit: required(unit, "unit")?,
    })
}

fn counter_event(bytes: &[u8]) -> Result<DropsondeMessage<'_>, LoggregatorError> {
    let (mut name, mut delta, mut total) = (None, None, 0);
    for field in Fields::new(bytes) {
        match field? {
            (1, Value::Bytes(text)) => name = Some(text),
            (2, Value::Number(number)) => delta = Some(number),
            (3, Value::Number(number)) => total = number,
            _ => {}
        }
    }
    let (name, delta) = (required(name, "name")?, required(delta, "delta")?);
    Ok(DropsondeMessage::CounterEvent { name, delta, total })
}

fn error_message(bytes: &[u8]) -> Result<DropsondeMessage<'_>, LoggregatorError> {
    let (mut source, mut code, mut message) = (None, None, None);
    for field in Fields::new(bytes) {
        match field? {
            (1, Value::Bytes(text)) => source = Some(text),
            (2, Value::Number(number)) => code = Some(number as i32),
            (3, Value::Bytes(text)) => message = Some(text),
            _ => {}
        }
    }
    Ok(DropsondeMessage::Error {
        source: required(source, "source")?,
        code: required(code, "code")?,
        message: required(message, "message")?,
    })
}

fn container_metric(bytes: &[u8]) -> Result<DropsondeContainer<'_>, LoggregatorError> {
    let (mut application, mut instance, mut cpu) = (None, None, None);
    let (mut memory, mut disk, mut quotas) = (None, None, [0; 2]);
    for field in Fields::new(bytes) {
        match field? {
            (1, Value::Bytes(text)) => application = Some(text),
            (2, Value::Number(number)) => instance = Some(number as i32),
            (3, Value::Fixed64(bits)) => cpu = Some(f64::from_bits(bits)),
            (4, Value::Number(number)) => memory = Some(number),
            (5, Value::Number(number)) => disk = Some(number),
            (6, Value::Number(number)) => quotas = [number, quotas[1]],
            (7, Value::Number(number)) => quotas = [quotas[0], number],
            _ => {}
        }
    }
    let [memory_bytes_quota, disk_bytes_quota] = quotas;
    Ok(DropsondeContainer {
        application_id: required(application, "applicationId")?,
        instance_index: required(instance, "instanceIndex")?,
        cpu_percentage: required(cpu, "cpuPercentage")?,
        memory_bytes: required(memory, "memoryBytes")?,
        disk_bytes: required(disk, "diskBytes")?,
        memory_bytes_quota,
        disk_bytes_quota,
    })
}
