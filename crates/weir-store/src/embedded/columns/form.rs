//! The original form of a record in eight bytes: its flags and severity, and which of its
//! attributes are kept in a column of the record's own instead.
//!
//! Invariant: an attribute is taken out only when it can be put back exactly.

use weir_codec::{Scalar, TimeParser, format_rfc3339_ns};
use weir_expr::Reserved;
use weir_model::{RecordFlags, RecordKind, Severity};

pub use weir_expr::MESSAGE_PATHS;

/// Attributes of a JSON body that hold its time, as the decoders read them. Their indexes are
/// stored: add new ones only at the end.
pub const TIME_PATHS: [&str; 5] = ["time", "timestamp", "@timestamp", "ts", "date"];

/// How a time was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeStyle {
    /// RFC 3339 in UTC with this many fractional digits; no decimal point for 0.
    Rfc3339(u8),
    /// A whole number of units of this many nanoseconds since 1970.
    Units(i64),
}

/// Units of [`TimeStyle::Units`], indexed by their number in a [`Form`] minus [`UNITS_AT`].
const UNITS: [i64; 4] = [1_000_000_000, 1_000_000, 1_000, 1];
const UNITS_AT: u8 = 16;
/// Times that cannot be the result of clamping.
const CERTAIN_TIMES: std::ops::Range<i64> = i64::MIN + 1_000_000_000..i64::MAX;
/// `2026-11-21T19:12:31`.
const WHOLE_LEN: usize = 19;

/// Returns whether a text that is known to be a certain time is written exactly as
/// [`TimeStyle::write`] would write it. This is cheaper than writing it.
fn is_canonical(text: &[u8], digits: usize) -> bool {
    let point = if digits == 0 { None } else { Some(b'.') };
    text.get(10) == Some(&b'T')
        // A leap second is read as the second after it.
        && text.get(WHOLE_LEN - 2..WHOLE_LEN).is_some_and(|second| second != b"60")
        && point.is_none_or(|point| text.get(WHOLE_LEN) == Some(&point))
        && text.len() == WHOLE_LEN + usize::from(point.is_some()) + digits + 1
        && text.last() == Some(&b'Z')
}

impl TimeStyle {
    /// Returns the style in which `value` is the time `time_ns`, if there is one.
    pub fn of(value: Scalar<'_>, time_ns: i64) -> Option<Self> {
        Self::of_next(value, time_ns, &mut TimeParser::default())
    }

    /// Like [`Self::of`], with a parser that has seen the times of the previous records.
    pub(super) fn of_next(value: Scalar<'_>, time_ns: i64, times: &mut TimeParser) -> Option<Self> {
        match value {
            Scalar::Text(text) => {
                let digits = text.len().saturating_sub(WHOLE_LEN + 2);
                let style = Self::Rfc3339(u8::try_from(digits).ok().filter(|n| *n <= 9)?);
                let is_written_so = CERTAIN_TIMES.contains(&time_ns)
                    && is_canonical(text, digits)
                    && times.parse(text) == Some(time_ns);
                is_written_so.then_some(style)
            }
            Scalar::Int(number) => UNITS
                .into_iter()
                .find(|unit| number.checked_mul(*unit) == Some(time_ns))
                .map(Self::Units),
            _ => None,
        }
    }

    /// Appends the text of the time. Returns `None` for numbers and for times that it cannot
    /// express.
    fn write(self, time_ns: i64, out: &mut Vec<u8>) -> Option<()> {
        let Self::Rfc3339(digits @ 0..=9) = self else { return None };
        if time_ns % 10_i64.pow(9 - u32::from(digits)) != 0 {
            return None;
        }
        let start = out.len();
        format_rfc3339_ns(time_ns, out);
        let point = if digits == 0 { 0 } else { 1 + usize::from(digits) };
        out.truncate(start + WHOLE_LEN + point);
        out.push(b'Z');
        Some(())
    }

    /// Returns the value as it was written. Text is put into `buffer`.
    pub fn value(self, time_ns: i64, buffer: &mut Vec<u8>) -> Scalar<'_> {
        buffer.clear();
        match self {
            Self::Rfc3339(_) => {
                let _exact = self.write(time_ns, buffer);
                Scalar::Text(buffer)
            }
            Self::Units(unit) => Scalar::Int(time_ns / unit),
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Rfc3339(digits) => digits,
            Self::Units(unit) => {
                UNITS_AT + UNITS.iter().position(|known| *known == unit).unwrap_or(0) as u8
            }
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        match number {
            0..=9 => Some(Self::Rfc3339(number)),
            UNITS_AT.. => UNITS.get(usize::from(number - UNITS_AT)).map(|unit| Self::Units(*unit)),
            _ => None,
        }
    }
}

/// One byte each: flags; severity; for message, trace, span and time the attribute that is kept
/// there (its index in the list of names + 1, 0 = none); how the time was written; and the kind of
/// the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Form(pub u64);

const SEVERITY: u32 = 8;
const MESSAGE: u32 = 16;
const TRACE: u32 = 24;
const SPAN: u32 = 32;
const TIME: u32 = 40;
const STYLE: u32 = 48;
const KIND: u32 = 56;

impl Form {
    /// Creates the form of a record whose attributes are all kept as attributes.
    pub fn new(flags: RecordFlags, severity: Severity) -> Self {
        Self(u64::from(flags.0) | u64::from(severity.0) << SEVERITY)
    }

    fn byte(self, at: u32) -> u8 {
        (self.0 >> at) as u8
    }

    fn with(self, at: u32, byte: u8) -> Self {
        Self(self.0 & !(0xff << at) | u64::from(byte) << at)
    }

    /// Returns the record's flags.
    pub fn flags(self) -> RecordFlags {
        RecordFlags(self.byte(0))
    }

    /// Returns the severity that the source stated.
    pub fn severity(self) -> Severity {
        Severity(self.byte(SEVERITY))
    }

    /// Sets the kind of the record.
    #[must_use]
    pub fn with_kind(self, kind: RecordKind) -> Self {
        self.with(KIND, kind as u8)
    }

    /// Returns the kind of the record; a log if it is not known.
    pub fn kind(self) -> RecordKind {
        let number = usize::from(self.byte(KIND));
        RecordKind::ALL.get(number).copied().unwrap_or_default()
    }

    /// Sets the message to be the attribute with that index in [`MESSAGE_PATHS`].
    #[must_use]
    pub fn with_message(self, index: usize) -> Self {
        self.with(MESSAGE, index as u8 + 1)
    }

    /// Sets the trace to be the attribute with that index among those of [`Reserved::TraceId`].
    #[must_use]
    pub fn with_trace(self, index: usize) -> Self {
        self.with(TRACE, index as u8 + 1)
    }

    /// Sets the span to be the attribute with that index among those of [`Reserved::SpanId`].
    #[must_use]
    pub fn with_span(self, index: usize) -> Self {
        self.with(SPAN, index as u8 + 1)
    }

    /// Sets the time to be the attribute with that index in [`TIME_PATHS`], and its style.
    #[must_use]
    pub fn with_time(self, index: usize, style: TimeStyle) -> Self {
        self.with(TIME, index as u8 + 1).with(STYLE, style.number())
    }

    /// Returns the attribute that is kept as the message.
    pub fn message_path(self) -> Option<&'static str> {
        named(&MESSAGE_PATHS, self.byte(MESSAGE))
    }

    /// Returns the attribute that is kept as the trace.
    pub fn trace_path(self) -> Option<&'static str> {
        named(Reserved::TraceId.record_paths(), self.byte(TRACE))
    }

    /// Returns the attribute that is kept as the span.
    pub fn span_path(self) -> Option<&'static str> {
        named(Reserved::SpanId.record_paths(), self.byte(SPAN))
    }

    /// Returns the attribute that is kept as the time, and how it was written.
    pub fn time_path(self) -> Option<(&'static str, TimeStyle)> {
        let path = named(&TIME_PATHS, self.byte(TIME))?;
        Some((path, TimeStyle::from_number(self.byte(STYLE))?))
    }
}

fn named(names: &[&'static str], number: u8) -> Option<&'static str> {
    names.get(usize::from(number).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME_NS: i64 = 1_700_000_000_123_456_000;

    #[test]
    fn time_is_promoted_only_if_it_round_trips() {
        let style = |text: &str| TimeStyle::of(Scalar::Text(text.as_bytes()), TIME_NS);
        assert_eq!(style("2023-11-14T22:13:20.123456Z"), Some(TimeStyle::Rfc3339(6)));
        assert_eq!(style("2023-11-14T22:13:20.123456000Z"), Some(TimeStyle::Rfc3339(9)));
        for other in [
            "2023-11-14T22:13:20.123Z",
            "2023-11-14T22:13:20.123456z",
            "2023-11-14 22:13:20.123456Z",
            "2023-11-15T03:43:20.123456+05:30",
            "2023-11-14T22:13:20.1234560000Z",
            "2023-11-14T22:13:20Z",
            "2023-11-14T22:13:20,123456Z",
            "",
        ] {
            assert_eq!(style(other), None, "{other}");
        }
        let whole = 1_700_000_000_000_000_000;
        let text = Scalar::Text(b"2023-11-14T22:13:20Z");
        assert_eq!(TimeStyle::of(text, whole), Some(TimeStyle::Rfc3339(0)));
        let millis = Scalar::Int(1_700_000_000_123);
        assert_eq!(
            TimeStyle::of(millis, 1_700_000_000_123_000_000),
            Some(TimeStyle::Units(1_000_000))
        );
        assert_eq!(TimeStyle::of(Scalar::Int(5), TIME_NS), None);
    }

    #[test]
    fn form_round_trips() {
        let mut buffer = Vec::new();
        for style in (0..=9).map(TimeStyle::Rfc3339).chain(UNITS.into_iter().map(TimeStyle::Units))
        {
            let form = Form::new(RecordFlags::JSON_OBJECT, Severity(17))
                .with_message(1)
                .with_trace(0)
                .with_span(3)
                .with_time(2, style);
            assert_eq!((form.flags(), form.severity()), (RecordFlags::JSON_OBJECT, Severity(17)));
            assert_eq!(form.message_path(), Some("msg"));
            assert_eq!(form.trace_path(), Some("trace_id"));
            assert_eq!(form.span_path(), Some("dd.span_id"));
            assert_eq!(form.time_path(), Some(("@timestamp", style)));
            let whole = 1_700_000_000_000_000_000;
            let value = style.value(whole, &mut buffer);
            assert!(TimeStyle::of(value, whole).is_some());
        }
        assert_eq!(Form::default().message_path(), None);
        assert_eq!(Form(u64::MAX).time_path(), None);
    }
}
