//! What rules changed in the records of a batch, and the batch that is written with it.
//!
//! Invariants: a changed record keeps only its new body and attributes, and its columns; records
//! that no rule changed keep every byte. A resource that changes in the same way for consecutive
//! records is encoded once.

use std::ops::Range;

use weir_model::limits::{ATTRIBUTES_BYTES_MAX, RESOURCE_BYTES_MAX};
use weir_model::{
    BatchBuilder, Facility, HeaderChange, RecordFlags, RecordView, Resource, Severity,
};

use super::draft::{Draft, Origin, ResourceChange};
use super::{Subject, TooLarge, Workspace};

/// The changes that rules made to records of a batch.
#[derive(Debug, Default)]
pub(super) struct Changes {
    bytes: Vec<u8>,
    records: Vec<Changed>,
    /// The last resource that was changed.
    resource: Option<ChangedResource>,
}

#[derive(Debug)]
struct Changed {
    index: usize,
    /// The new message in `bytes`; `None` if unchanged.
    message: Option<Range<usize>>,
    /// The new attributes in `bytes`; `None` if unchanged.
    attributes: Option<Range<usize>>,
    /// The new resource in `bytes`; `None` if unchanged.
    resource: Option<Range<usize>>,
    header: ChangedHeader,
    severity: Severity,
    timestamp_ns: i64,
}

/// The columns of a header that rules changed; texts are in `bytes`.
#[derive(Debug, Clone, Default)]
struct ChangedHeader {
    facility: Option<Facility>,
    process_id: Option<Range<usize>>,
    message_id: Option<Range<usize>>,
}

impl ChangedHeader {
    fn resolve<'a>(&self, bytes: &'a [u8]) -> HeaderChange<'a> {
        let text = |span: &Option<Range<usize>>| span.clone().map(|span| &bytes[span]);
        HeaderChange {
            facility: self.facility,
            process_id: text(&self.process_id),
            message_id: text(&self.message_id),
        }
    }
}

/// A resource that rules changed.
#[derive(Debug)]
struct ChangedResource {
    /// What it was, as encoded in the frame.
    before: Vec<u8>,
    /// What rules set in it.
    changes: Vec<ResourceChange>,
    /// What it is now, in the bytes of the changes; `None` if that is too long.
    after: Option<Range<usize>>,
}

impl Changes {
    /// Starts with the next batch.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.resource = None;
    }

    /// Returns true if no record was changed.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the size of what was changed, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Brings the changes into the order of the records.
    pub(super) fn sort(&mut self) {
        self.records.sort_unstable_by_key(|change| change.index);
    }

    /// Adds what rules changed in record `index`.
    pub(super) fn note(&mut self, index: usize, draft: &mut Draft, origin: &Origin) {
        let message = draft.changed_message().map(|message| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(message);
            start..self.bytes.len()
        });
        let attributes = draft.are_attributes_changed.then(|| {
            let start = self.bytes.len();
            draft.own.write_json(&mut self.bytes);
            while self.bytes.len() - start > ATTRIBUTES_BYTES_MAX {
                self.bytes.truncate(start);
                draft.own.cut_in_half();
                draft.own.write_json(&mut self.bytes);
            }
            start..self.bytes.len()
        });
        let resource = match draft.resource_changes() {
            [] => None,
            changes => self.changed_resource(origin, changes),
        };
        let header = self.changed_header(draft.header_change());
        let (severity, timestamp_ns) = (draft.severity, draft.timestamp_ns);
        self.records.push(Changed {
            index,
            message,
            attributes,
            resource,
            header,
            severity,
            timestamp_ns,
        });
    }

    fn changed_header(&mut self, change: HeaderChange<'_>) -> ChangedHeader {
        let mut keep = |text: &[u8]| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(text);
            start..self.bytes.len()
        };
        ChangedHeader {
            facility: change.facility,
            process_id: change.process_id.map(&mut keep),
            message_id: change.message_id.map(&mut keep),
        }
    }

    /// Returns where the resource with these changes is encoded; `None` if it is too long.
    fn changed_resource(
        &mut self,
        origin: &Origin,
        changes: &[ResourceChange],
    ) -> Option<Range<usize>> {
        if let Some(last) = &self.resource
            && last.before == origin.encoded()
            && last.changes == changes
        {
            return last.after.clone();
        }
        let mut resource = Resource::decode(origin.encoded());
        for (path, text) in changes {
            resource.set(path, &*String::from_utf8_lossy(text));
        }
        let encoded = resource.encode();
        let after = (encoded.len() <= RESOURCE_BYTES_MAX).then(|| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&encoded);
            start..self.bytes.len()
        });
        let (before, changes) = (origin.encoded().to_vec(), changes.to_vec());
        self.resource = Some(ChangedResource { before, changes, after: after.clone() });
        after
    }
}

/// Rewrites the batch with the changes and without discarded records: of the block that was read,
/// only the bodies and attributes of the records remain, and the originals of unchanged records.
pub(super) fn write_changes(
    work: &mut Workspace,
    subject: &mut Subject<'_>,
) -> Result<(), TooLarge> {
    let old = &mut *subject.batch;
    let mut written = write_records(work, old, false);
    if written.is_err() && subject.must_fit {
        written = write_records(work, old, true);
    }
    subject.book.truncated += written?;
    std::mem::swap(old, &mut work.spare);
    Ok(())
}

/// Space for the columns of a record.
const ROW_BYTES: usize = 64;

/// Writes all records to the spare builder. With `is_cut`, no record grows at the expense of later
/// ones, and originals are dropped, so that all fit. Returns how many records were truncated.
fn write_records(work: &mut Workspace, old: &BatchBuilder, is_cut: bool) -> Result<u64, TooLarge> {
    let Workspace { spare, discarded, changes, .. } = work;
    spare.rewrite_of(old);
    let mut discarded = discarded.iter().map(|(index, _)| *index).peekable();
    let mut changed = changes.records.iter().peekable();
    let bytes_of = |index| {
        let view = old.record(index);
        view.body.len() + view.attributes.len() + id_bytes(&view) + ROW_BYTES
    };
    let mut later: usize = (0..old.record_count()).filter(|_| is_cut).map(bytes_of).sum();
    let mut cut_count = 0;
    for index in 0..old.record_count() {
        let change = changed.next_if(|change| change.index == index);
        if is_cut {
            later -= bytes_of(index);
        }
        if discarded.next_if_eq(&index).is_some() {
            continue;
        }
        let mut view = old.record(index);
        if let Some(change) = change {
            change.apply(&changes.bytes, &mut view);
        }
        if is_cut {
            let kept = later + id_bytes(&view) + ROW_BYTES;
            cut_count += u64::from(cut(&mut view, spare.room().saturating_sub(kept)));
        }
        let original = if is_cut || change.is_some() { &[] } else { view.original() };
        let resource = change.and_then(|change| change.resource.clone());
        let resource = match resource.map(|span| &changes.bytes[span]) {
            // Nothing is truncated for it.
            Some(encoded) if !is_cut || fits(spare, &view, later + encoded.len()) => {
                spare.resource(old.resource_at(view.resource()).key, encoded)
            }
            _ => Ok(view.resource()),
        };
        let resource = if is_cut { resource.unwrap_or(view.resource()) } else { resource? };
        let header = change.map(|change| change.header.resolve(&changes.bytes));
        let header =
            header.filter(|header| !is_cut || fits(spare, &view, later + bytes_in(header)));
        spare.copy_with(&view, header.unwrap_or_default(), original, resource)?;
        spare.route_as(old, index);
    }
    Ok(cut_count)
}

impl Changed {
    fn apply<'a>(&self, bytes: &'a [u8], view: &mut RecordView<'a>) {
        if let Some(span) = &self.message {
            view.body = &bytes[span.clone()];
            // The message is stored without escapes.
            view.flags = of_body(view.body, view.flags.without(RecordFlags::JSON_ESCAPED));
        }
        if let Some(span) = &self.attributes {
            view.attributes = &bytes[span.clone()];
        }
        (view.severity, view.timestamp_ns) = (self.severity, self.timestamp_ns);
    }
}

/// Truncates a record to `room` bytes: drops all attributes, then the end of the body. Returns true
/// if something was dropped.
fn cut(view: &mut RecordView<'_>, room: usize) -> bool {
    let bytes = view.body.len() + view.attributes.len();
    if bytes <= room {
        return false;
    }
    if view.attributes.len() > room {
        view.attributes = &[];
    }
    let keep = weir_codec::cut_body(view.body, view.flags, room - view.attributes.len());
    view.body = &view.body[..keep];
    view.flags = of_body(view.body, view.flags.with(RecordFlags::TRUNCATED));
    true
}

/// Returns true if there is room for the record and `beside` more bytes.
fn fits(spare: &BatchBuilder, view: &RecordView<'_>, beside: usize) -> bool {
    let bytes = view.body.len() + view.attributes.len() + id_bytes(view);
    bytes + beside + 2 * ROW_BYTES <= spare.room()
}

/// Returns the size of what is never truncated.
fn id_bytes(view: &RecordView<'_>) -> usize {
    view.process_id().len() + view.message_id().len()
}

fn bytes_in(header: &HeaderChange<'_>) -> usize {
    header.process_id.unwrap_or_default().len() + header.message_id.unwrap_or_default().len()
}

/// Returns the flags of a record with another body, which may no longer be an object.
fn of_body(body: &[u8], flags: RecordFlags) -> RecordFlags {
    if flags.contains(RecordFlags::JSON_OBJECT) && !weir_codec::is_json_object(body) {
        flags.without(RecordFlags::JSON_OBJECT)
    } else {
        flags
    }
}
