//! The header of a syslog message, as stored in the columns of a record and its resource.
//!
//! Lines of files have the same fields as attributes, if a rule parses them. [`HeaderField`] maps
//! the names of these attributes to the columns, so that one name finds both.
//!
//! Invariant: facility, process id and message id have a column; the rest of the header is the
//! severity, and attributes of the resource that others have too. Only a record with one of the
//! three columns has a header.

use crate::batch::Rare;
use crate::{Facility, RecordView, Severity};

/// Names of the facilities of syslog, by number.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

/// A field of the header of a syslog message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderField {
    /// What part of the sender's system the message is from.
    Facility,
    /// How severe it is.
    Severity,
    /// The host that wrote it.
    HostName,
    /// The application that wrote it.
    AppName,
    /// The sender's name for the process.
    ProcessId,
    /// The sender's name for this type of message.
    MessageId,
}

impl HeaderField {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Facility,
        Self::Severity,
        Self::HostName,
        Self::AppName,
        Self::ProcessId,
        Self::MessageId,
    ];

    /// Those with a column of their own.
    pub const COLUMNS: [Self; 3] = [Self::Facility, Self::ProcessId, Self::MessageId];

    /// Returns the name of the attribute that holds it in a parsed line.
    pub fn attribute(self) -> &'static str {
        match self {
            Self::Facility => "syslog.facility",
            Self::Severity => "syslog.severity",
            Self::HostName => "syslog.hostname",
            Self::AppName => "syslog.appname",
            Self::ProcessId => "syslog.procid",
            Self::MessageId => "syslog.msgid",
        }
    }

    /// Returns the field whose attribute has that name.
    pub fn of_attribute(name: &str) -> Option<Self> {
        // Decided by the first bytes for nearly all names.
        if !name.starts_with("syslog.") {
            return None;
        }
        Self::ALL.into_iter().find(|field| field.attribute() == name)
    }

    /// Returns the attribute of the resource that holds it, if one does.
    pub fn resource_attribute(self) -> Option<&'static str> {
        match self {
            Self::HostName => Some("host.name"),
            Self::AppName => Some("service.name"),
            Self::Facility | Self::Severity | Self::ProcessId | Self::MessageId => None,
        }
    }
}

impl Facility {
    /// Returns the facility with that name; none if there is no such facility.
    pub fn of_name(name: &str) -> Self {
        let code = FACILITIES.iter().position(|known| *known == name);
        code.map_or(Self::NONE, |code| Self::of_code(code as u8))
    }

    /// Returns its name; empty for none.
    pub fn name(self) -> &'static str {
        let code = self.code().map(usize::from);
        code.and_then(|code| FACILITIES.get(code)).copied().unwrap_or_default()
    }
}

impl Severity {
    /// The severities of syslog with their names, by number (RFC 5424, section 6.2.1).
    pub const OF_SYSLOG: [(Self, &'static str); 8] = [
        (Self::FATAL, "emergency"),
        (Self::ALERT, "alert"),
        (Self::CRITICAL, "critical"),
        (Self::ERROR, "error"),
        (Self::WARN, "warning"),
        (Self::NOTICE, "notice"),
        (Self::INFO, "info"),
        (Self::DEBUG, "debug"),
    ];

    /// Returns the name of the severity of syslog that has this number; empty if none has.
    pub fn syslog_name(self) -> &'static str {
        let found = Self::OF_SYSLOG.into_iter().find(|(severity, _)| *severity == self);
        found.map_or("", |(_, name)| name)
    }
}

/// Changes to the columns of a header; `None` is unchanged.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeaderChange<'a> {
    /// The facility.
    pub facility: Option<Facility>,
    /// The sender's name for the process; empty = none.
    pub process_id: Option<&'a [u8]>,
    /// The sender's name for this type of message; empty = none.
    pub message_id: Option<&'a [u8]>,
}

impl<'a> RecordView<'a> {
    /// Returns true if the record came with the header of a syslog message.
    #[inline]
    pub fn has_header(&self) -> bool {
        !matches!(self.rare, Rare::Nothing) && self.has_column_of_header()
    }

    fn has_column_of_header(&self) -> bool {
        self.facility() != Facility::NONE
            || !self.process_id().is_empty()
            || !self.message_id().is_empty()
    }

    /// Returns a field that is part of the record itself; empty if the record does not have it, or
    /// if [its resource does](HeaderField::resource_attribute).
    pub fn header_field(&self, field: HeaderField) -> &'a [u8] {
        match field {
            HeaderField::Facility => self.facility().name().as_bytes(),
            HeaderField::Severity if self.has_header() => self.severity.syslog_name().as_bytes(),
            HeaderField::ProcessId => self.process_id(),
            HeaderField::MessageId => self.message_id(),
            HeaderField::Severity | HeaderField::HostName | HeaderField::AppName => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attribute_of_a_header_names_one_field() {
        for field in HeaderField::ALL {
            assert_eq!(HeaderField::of_attribute(field.attribute()), Some(field));
        }
        for name in ["syslog.", "syslog.x", "syslog.facility.x", "facility", ""] {
            assert_eq!(HeaderField::of_attribute(name), None, "{name}");
        }
    }

    #[test]
    fn numbers_outside_of_syslog_have_no_name() {
        assert_eq!(Facility::of_code(23).name(), "local7");
        assert_eq!(Facility::of_name("local7"), Facility::of_code(23));
        assert_eq!(Facility::of_name("local8"), Facility::NONE);
        assert_eq!((Facility::NONE.name(), Facility::of_code(24).name()), ("", ""));
        assert_eq!(Severity::NOTICE.syslog_name(), "notice");
        assert_eq!((Severity::UNSPECIFIED.syslog_name(), Severity(12).syslog_name()), ("", ""));
    }
}
