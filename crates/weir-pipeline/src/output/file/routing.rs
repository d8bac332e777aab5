//! Which file each record of a batch goes to, if the path has fields.
//!
//! Invariants: a path whose fields all come from the resource is built once per resource, and per
//! hour if it contains the time, and cached across batches, within a limit; the records of a file
//! keep their order.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use weir_expr::{Constants, Field};
use weir_model::{RecordView, Selection, SourceId};

use super::path::{FilePath, HOUR_NS};
use crate::groups::Groups;
use crate::rule::{Draft, Origin, RecordFields};

/// Maximum number of cached resources: more than the producers that one output usually has. At most
/// 16 KiB each, and usually a few hundred bytes.
const RESOURCES_MAX: usize = 4096;

/// The path for the records of a resource; `None` if it depends on the record.
type OfResource = Option<Arc<str>>;

/// Finds the files of records, reusing its memory.
#[derive(Debug, Default)]
pub(super) struct Routing {
    known: HashMap<SourceId, HashMap<Box<[u8]>, OfResource>>,
    known_count: usize,
    /// The hour in which the batch was received, if it is part of the path.
    hour: i64,
    draft: RefCell<Draft>,
    path: String,
    /// The paths of the current batch, each once.
    paths: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, usize>,
    /// For each record of the batch the number of its path.
    of_record: Vec<u32>,
    by_resource: Groups,
    by_path: Groups,
}

impl Routing {
    /// Determines the paths of the records `views` of a batch.
    pub(super) fn route(
        &mut self,
        template: &FilePath,
        source: &str,
        records: &Selection,
        views: &[(usize, RecordView<'_>)],
    ) {
        self.paths.clear();
        self.numbers.clear();
        self.of_record.clear();
        self.of_record.resize(views.len(), 0);
        let mut by_resource = std::mem::take(&mut self.by_resource);
        by_resource.group(views.len(), |item| usize::from(views[item].1.resource()));
        let mut origin = Origin::new(source);
        let arrival_ns = records.batch().header().observed_ns;
        origin.set_arrival(arrival_ns);
        self.set_hour(template, arrival_ns);
        for group in 0..by_resource.len() {
            let mut items = by_resource.items(group);
            let Some(first) = items.next() else { continue };
            let items = std::iter::once(first).chain(items);
            let encoded = records.resource_of(&views[first].1).encoded;
            let source = records.batch().header().source;
            if let Some(path) = self.of_resource(template, source, encoded, &mut origin) {
                let number = self.number(&path);
                items.for_each(|item| self.of_record[item] = number);
            } else {
                origin.set_resource(encoded);
                let mut last = None;
                for item in items {
                    let number = self.of_one(template, &origin, views[item].1, last);
                    self.of_record[item] = number;
                    last = Some(number);
                }
            }
        }
        self.by_resource = by_resource;
        let Self { by_path, of_record, .. } = self;
        by_path.group(views.len(), |item| of_record[item] as usize);
    }

    /// Forgets the paths of another hour.
    fn set_hour(&mut self, template: &FilePath, arrival_ns: i64) {
        let hour = arrival_ns.div_euclid(HOUR_NS);
        if template.has_time() && hour != self.hour {
            self.hour = hour;
            self.known.clear();
            self.known_count = 0;
        }
    }

    /// Returns the number of paths of the batch.
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    /// Returns a path, with the records that go there, as indexes in `views`.
    pub(super) fn file(&self, number: usize) -> (&str, impl Iterator<Item = usize>) {
        (&self.paths[number], self.by_path.items(number))
    }

    /// Returns the path for a resource.
    fn of_resource(
        &mut self,
        template: &FilePath,
        source: SourceId,
        encoded: &[u8],
        origin: &mut Origin,
    ) -> OfResource {
        if let Some(known) = self.known.get(&source).and_then(|known| known.get(encoded)) {
            return known.clone();
        }
        origin.set_resource(encoded);
        let is_constant = |field: &Field| origin.constant(field, &mut |_| {});
        let path = template.fields().all(is_constant).then(|| {
            self.fill(template, origin, RecordView::default());
            Arc::from(&*self.path)
        });
        if self.known_count >= RESOURCES_MAX {
            self.known.clear();
            self.known_count = 0;
        }
        self.known.entry(source).or_default().insert(encoded.into(), path.clone());
        self.known_count += 1;
        path
    }

    /// Returns the number of the path of one record; `last` is that of the previous one.
    fn of_one(
        &mut self,
        template: &FilePath,
        origin: &Origin,
        view: RecordView<'_>,
        last: Option<u32>,
    ) -> u32 {
        self.fill(template, origin, view);
        if let Some(last) = last.filter(|last| *self.paths[*last as usize] == *self.path) {
            return last;
        }
        if let Some(known) = self.numbers.get(&*self.path) {
            return *known as u32;
        }
        self.number(&Arc::from(&*self.path))
    }

    fn fill(&mut self, template: &FilePath, origin: &Origin, view: RecordView<'_>) {
        self.draft.get_mut().begin(&view);
        self.path.clear();
        let fields = RecordFields { origin, view, draft: &self.draft };
        template.fill(&fields, self.hour * HOUR_NS, &mut self.path);
    }

    fn number(&mut self, path: &Arc<str>) -> u32 {
        let next = self.paths.len();
        let number = *self.numbers.entry(path.clone()).or_insert(next);
        if number == next {
            self.paths.push(path.clone());
        }
        number as u32
    }
}
