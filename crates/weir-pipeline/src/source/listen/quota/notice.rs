//! Records that report a key above its limit, among the records of that key.
//!
//! Invariant: a notice is a record like any other: it has the resource of its key, passes the
//! rules, and counts as a line that was received.

use std::time::Duration;

use weir_host::units::approx_duration;
use weir_model::{BatchBuilder, Full, NewRecord, Severity, SourceBook, hash64};

use super::key::KeyName;
use crate::stats::LimitedCounts;

/// A notice about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) name: KeyName,
    pub(super) event: NoticeEvent,
}

/// The event of a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoticeEvent {
    /// The key exceeds its limit.
    Begins,
    /// It still does; with the counts since the last notice.
    Lasts { counts: LimitedCounts, during: Duration },
    /// It no longer does; with the counts of the whole episode.
    Ends { counts: LimitedCounts, lasted: Duration },
}

/// A notice as a record.
#[derive(Debug)]
pub(in crate::source) struct NoticeRecord {
    body: String,
    key: u64,
    resource: Vec<u8>,
    /// Hash of the host that it is about, which selects its lane.
    pub(in crate::source) host_hash: u64,
    timestamp_ns: i64,
}

impl Notice {
    /// Creates the record of a notice at this time. `limit` is the limit in words.
    pub(super) fn record(&self, limit: &str, discards: bool, unix_ns: i64) -> NoticeRecord {
        let resource = self.name.resource().encode();
        NoticeRecord {
            body: self.text(limit, discards),
            key: hash64(&[b"rate_limit\0", resource.as_slice()].concat()),
            resource,
            host_hash: hash64(self.name.host().as_bytes()),
            timestamp_ns: unix_ns,
        }
    }

    fn text(&self, limit: &str, discards: bool) -> String {
        let name = &self.name;
        match &self.event {
            NoticeEvent::Begins if discards => {
                format!("weir: records of {name} exceed rate_limit and are discarded ({limit})")
            }
            NoticeEvent::Begins => {
                format!("weir: records of {name} exceed rate_limit and are delayed ({limit})")
            }
            NoticeEvent::Lasts { counts, during } => {
                let held_back = held_back(&format!(" of {name}"), counts);
                let during = approx_duration(*during);
                format!("weir: {held_back} in the last {during} ({limit})")
            }
            NoticeEvent::Ends { counts, lasted } => {
                let held_back = held_back("", counts);
                let lasted = approx_duration(*lasted);
                format!(
                    "weir: {name} is within rate_limit again; in {lasted}, {held_back} ({limit})"
                )
            }
        }
    }
}

/// Describes the counts as a part of a sentence.
fn held_back(of: &str, counts: &LimitedCounts) -> String {
    let LimitedCounts { discarded_records, refused_records, delayed_records, .. } = counts;
    let mut parts = Vec::new();
    if *discarded_records > 0 {
        parts.push(format!("{discarded_records} records{of} were discarded by rate_limit"));
    }
    if *refused_records > 0 {
        parts.push(format!("{refused_records} records{of} were refused by rate_limit"));
    }
    if *delayed_records > 0 || parts.is_empty() {
        let waited = approx_duration(Duration::from_nanos(counts.delayed_ns));
        parts.push(format!(
            "{delayed_records} records{of} were above rate_limit and delayed their connections for \
             {waited}"
        ));
    }
    parts.join(" and ")
}

impl NoticeRecord {
    /// Adds it to a batch as the record that ends at `end_offset`, and counts it.
    pub(in crate::source) fn push(
        &self,
        batch: &mut BatchBuilder,
        end_offset: u64,
        book: &mut SourceBook,
    ) -> Result<(), Full> {
        let resource = batch.resource(self.key, &self.resource)?;
        if batch.room() < self.body.len() {
            return Err(Full);
        }
        let body = batch.append(self.body.as_bytes())?;
        let start = body.start;
        let pushed = batch.push(&NewRecord {
            timestamp_ns: self.timestamp_ns,
            end_offset,
            body: body.clone(),
            severity: Severity::WARN,
            resource,
            ..NewRecord::default()
        });
        if pushed.is_err() {
            batch.retract(start);
            return pushed;
        }
        batch.mark_utf8(body);
        book.lines += 1;
        book.records += 1;
        book.bytes_read += self.body.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::QuotaField;
    use crate::source::listen::quota::key::{KeyFields, Origin};

    #[test]
    fn a_notice_names_the_key_its_counts_and_the_limit() {
        let fields = KeyFields::new(&[QuotaField::Host, QuotaField::AppName]);
        let name = fields.name(&Origin { host: b"web7", service: b"nginx", peer: None });
        let counts = LimitedCounts { discarded_records: 12_345, ..LimitedCounts::default() };
        let during = Duration::from_secs(10);
        let notice =
            |event| Notice { name: name.clone(), event }.text("limit 1000 records/s", true);
        assert_eq!(
            notice(NoticeEvent::Lasts { counts, during }),
            "weir: 12345 records of host=web7 app_name=nginx were discarded by rate_limit in the \
             last 10.0 s (limit 1000 records/s)"
        );
        assert_eq!(
            notice(NoticeEvent::Begins),
            "weir: records of host=web7 app_name=nginx exceed rate_limit and are discarded (limit \
             1000 records/s)"
        );
        let counts = LimitedCounts {
            delayed_records: 7,
            delayed_ns: 1_500_000_000,
            ..LimitedCounts::default()
        };
        assert_eq!(
            notice(NoticeEvent::Ends { counts, lasted: during }),
            "weir: host=web7 app_name=nginx is within rate_limit again; in 10.0 s, 7 records were \
             above rate_limit and delayed their connections for 1.50 s (limit 1000 records/s)"
        );
    }
}
