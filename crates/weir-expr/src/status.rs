//! The nine statuses, their order, and the mapping from words and numbers of other systems.

use weir_model::Severity;

/// The severity of a record. Ordered: `Debug` is the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Debugging, tracing.
    Debug,
    /// Success, if a source reports it.
    Ok,
    /// Information.
    Info,
    /// Normal but significant.
    Notice,
    /// Warning.
    Warn,
    /// Error.
    Error,
    /// Critical.
    Critical,
    /// Action must be taken immediately.
    Alert,
    /// The system is unusable.
    Emergency,
}

/// Prefixes of words and their meaning; the first that matches applies.
const BEGINNINGS: [(&str, Status); 14] = [
    ("emerg", Status::Emergency),
    ("f", Status::Emergency),
    ("panic", Status::Emergency),
    ("a", Status::Alert),
    ("c", Status::Critical),
    ("err", Status::Error),
    ("w", Status::Warn),
    ("n", Status::Notice),
    ("i", Status::Info),
    ("d", Status::Debug),
    ("trace", Status::Debug),
    ("verbose", Status::Debug),
    ("o", Status::Ok),
    ("s", Status::Ok),
];

impl Status {
    /// Parses a status as Datadog does: by the prefix of the word, ignoring case, or as a syslog
    /// severity `0` to `7`.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if let [digit @ b'0'..=b'7'] = text {
            return Self::from_syslog(i64::from(digit - b'0'));
        }
        let starts = |start: &str| {
            text.get(..start.len()).is_some_and(|s| s.eq_ignore_ascii_case(start.as_bytes()))
        };
        BEGINNINGS.iter().find(|(start, _)| starts(start)).map(|(_, status)| *status)
    }

    /// Returns the status for a syslog severity, 0 (emergency) to 7 (debug).
    pub fn from_syslog(severity: i64) -> Option<Self> {
        Some(match severity {
            0 => Self::Emergency,
            1 => Self::Alert,
            2 => Self::Critical,
            3 => Self::Error,
            4 => Self::Warn,
            5 => Self::Notice,
            6 => Self::Info,
            7 => Self::Debug,
            _ => return None,
        })
    }

    /// Returns the status for an OpenTelemetry severity number; none when it is not stated.
    pub fn from_severity(severity: Severity) -> Option<Self> {
        Some(match severity.0 {
            1..=8 => Self::Debug,
            9 => Self::Info,
            10..=12 => Self::Notice,
            13..=16 => Self::Warn,
            17 => Self::Error,
            18 => Self::Critical,
            19..=20 => Self::Alert,
            21..=24 => Self::Emergency,
            _ => return None,
        })
    }

    /// Returns the OpenTelemetry severity number, from which the status can be restored; only
    /// [`Self::Ok`], which OpenTelemetry lacks, becomes [`Self::Info`].
    pub fn severity(self) -> Severity {
        match self {
            Self::Debug => Severity::DEBUG,
            Self::Ok | Self::Info => Severity::INFO,
            Self::Notice => Severity::NOTICE,
            Self::Warn => Severity::WARN,
            Self::Error => Severity::ERROR,
            Self::Critical => Severity::CRITICAL,
            Self::Alert => Severity::ALERT,
            Self::Emergency => Severity::FATAL,
        }
    }

    /// Returns its canonical name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Ok => "ok",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_words_map_by_prefix() {
        for (text, want) in [
            ("WARNING", Some(Status::Warn)),
            ("err", Some(Status::Error)),
            ("Fatal", Some(Status::Emergency)),
            ("crit", Some(Status::Critical)),
            ("informational", Some(Status::Info)),
            ("3", Some(Status::Error)),
            ("success", Some(Status::Ok)),
            ("8", None),
            ("", None),
            ("er", None),
        ] {
            assert_eq!(Status::parse(text.as_bytes()), want, "{text}");
        }
        for number in 1..=24 {
            let status = Status::from_severity(Severity(number)).unwrap();
            assert_eq!(Status::parse(status.name().as_bytes()), Some(status));
            assert_eq!(Status::from_severity(status.severity()), Some(status));
        }
        assert_eq!(Status::from_severity(Severity::UNSPECIFIED), None);
        assert!(Status::Warn < Status::Error && Status::Debug < Status::Info);
    }
}
