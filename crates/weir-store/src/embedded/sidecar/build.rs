//! Builds a sidecar, either while its segment is written or from the segment later. Both see the
//! same columns, so both produce the same bytes.

use std::ops::Range;
use std::sync::Arc;

use weir_codec::{Attributes, Scalar};
use weir_host::DiskFile;

use super::counts::Counter;
use super::file::{GroupEntry, Sidecar, SidecarBuffer, SidecarError};
use super::frequent::FrequentWords;
use super::grams::{PageGrams, table_of};
use super::paths::RestPaths;
use super::terms::{RecentWords, TermSet, Word, Words, text_term, value_term};
use super::{bloom, fuse};
use crate::embedded::columns::Rows;
use crate::embedded::segment::{
    Chunk, ChunkInfo, Column, Fixed, Observer, OwnedChunk, PageBuffer, Provenance, Role, Segment,
    SegmentError, SegmentSummary, ValueKind, Values, write_observed,
};
use crate::limits::PAGE_ROWS;

/// zstd level for trigram tables, which are mostly empty.
const GRAMS_LEVEL: i32 = 1;

/// Writes rows as a segment of one row group, with its sidecar; both files must be empty.
pub fn write_segment_with_sidecar(
    rows: &Rows,
    level: i32,
    provenance: Option<&Provenance>,
    segment: &dyn DiskFile,
    sidecar: &dyn DiskFile,
) -> Result<SegmentSummary, SidecarError> {
    let mut builder = Builder::default();
    let summary = write_observed(rows, level, provenance, segment, &mut builder)?;
    builder.finish(summary.identity, sidecar)?;
    Ok(summary)
}

/// Rebuilds the sidecar of a segment into an empty file, and opens it.
pub fn rebuild_sidecar(
    segment: &Segment,
    sidecar: Arc<dyn DiskFile>,
) -> Result<Sidecar, SidecarError> {
    let mut builder = Builder::default();
    let mut buffer = PageBuffer::new()?;
    for group in 0..segment.group_count() {
        for (index, column) in segment.columns().iter().enumerate() {
            if !is_of_interest(column) {
                continue;
            }
            let chunk = OwnedChunk::read(segment, group, index, &mut buffer)?;
            let is_dictionary = segment.chunk(group, index).is_some_and(ChunkInfo::is_dictionary);
            builder.column(column, &chunk.borrow(), is_dictionary);
        }
        builder.end_row_group(segment.group_rows(group));
    }
    builder.finish(segment.identity(), &*sidecar)?;
    Sidecar::open(sidecar, segment)
}

/// Concatenates the sidecars of segments that were concatenated, in the same order, into an empty
/// file. `summary` is the result of [`crate::embedded::segment::concat_segments`].
pub fn concat_sidecars(
    sidecars: &[&Sidecar],
    summary: &SegmentSummary,
    file: &dyn DiskFile,
) -> Result<(), SidecarError> {
    let mut builder = Builder::default();
    for sidecar in sidecars {
        sidecar.copy_groups(sidecar.groups(), &mut builder.buffer)?;
        builder.rest.merge(&sidecar.rest_paths()?);
    }
    builder.finish(summary.identity, file)
}

/// Copies what a sidecar contains about some row groups into an empty file; `summary` is the result
/// of [`crate::embedded::segment::cut_segment`]. When there are paths in `_rest`, nothing is
/// written: only the segment shows which of them those row groups have, so the sidecar must be
/// rebuilt from it.
pub fn cut_sidecar(
    sidecar: &Sidecar,
    groups: Range<usize>,
    summary: &SegmentSummary,
    file: &dyn DiskFile,
) -> Result<(), SidecarError> {
    if sidecar.rest_paths()? != RestPaths::default() {
        return Ok(());
    }
    let mut builder = Builder::default();
    sidecar.copy_groups(groups, &mut builder.buffer)?;
    builder.finish(summary.identity, file)
}

/// Returns whether the sidecar contains anything about the column.
fn is_of_interest(column: &Column) -> bool {
    matches!(column.kind, ValueKind::Text) || column.role == Role::Fixed(Fixed::Time)
}

#[derive(Debug, Default)]
struct Builder {
    buffer: SidecarBuffer,
    /// Terms of each page of the row group.
    pages: Vec<TermSet>,
    /// Encoded trigrams of the words of each page, and frequent words; both empty when there are no
    /// messages.
    grams: Vec<u8>,
    frequent: Vec<u8>,
    counter: Counter,
    rest: RestPaths,
    finder: Words,
    recent: RecentWords,
    attributes: Attributes,
    /// The first error, if something could not be built.
    failure: Option<SegmentError>,
}

impl Observer for Builder {
    fn column(&mut self, column: &Column, chunk: &Chunk<'_>, is_dictionary: bool) {
        if !is_of_interest(column) {
            return;
        }
        if self.pages.is_empty() {
            self.pages = empty_pages(chunk.rows);
        }
        if let Values::Int(times) = &chunk.values {
            return self.counter.times(times);
        }
        match &column.role {
            Role::Fixed(Fixed::Service) => self.counter.services(chunk),
            Role::Fixed(Fixed::Status) => self.counter.statuses(chunk),
            _ => {}
        }
        // The dictionary is already the exact set.
        if is_dictionary && !matches!(column.role, Role::Fixed(Fixed::Message) | Role::Rest) {
            return;
        }
        let Some(texts) = chunk.values.texts() else { return };
        match &column.role {
            Role::Fixed(Fixed::Message) => self.words(chunk, &texts),
            Role::Rest => self.rest(chunk, &texts),
            _ => self.texts(&column.name(), chunk, &texts),
        }
    }

    fn end_row_group(&mut self, rows: usize) {
        let mut pages = std::mem::take(&mut self.pages);
        if pages.is_empty() {
            pages = empty_pages(rows);
        }
        let mut all = TermSet::of_rows(rows);
        for term in pages.iter().flat_map(TermSet::iter) {
            all.insert(term);
        }
        let terms: Vec<u64> = all.iter().collect();
        let (shape, bytes) = fuse::build(&terms).unwrap_or_else(|| {
            let what = "cannot build a filter over distinct terms".to_owned();
            self.failure = Some(SegmentError::Write(what));
            Default::default()
        });
        let (blocks, bloom) = bloom::build(&pages);
        let counts = std::mem::take(&mut self.counter).encode();
        let entry = GroupEntry {
            pages: pages.len() as u32,
            fuse: shape,
            fuse_at: self.buffer.put(&bytes),
            blocks,
            bloom_at: self.buffer.put(&bloom),
            counts_at: self.buffer.put(&counts),
            grams_at: self.buffer.put(&std::mem::take(&mut self.grams)),
            frequent_at: self.buffer.put(&std::mem::take(&mut self.frequent)),
        };
        self.buffer.groups.push(entry);
    }
}

/// Collects the words of one page's messages.
struct PageWords<'a> {
    recent: &'a mut RecentWords,
    frequent: &'a mut FrequentWords,
    terms: &'a mut TermSet,
    grams: &'a mut PageGrams,
}

impl PageWords<'_> {
    #[inline]
    fn add(&mut self, word: Word<'_>, row: u32) {
        // By its bytes: two words may have the same term, but different trigrams.
        let number = self.recent.number(word).unwrap_or_else(|| self.take(word));
        self.frequent.add(number, row);
    }

    /// Adds a word that was not seen recently. Kept out of the loop over all words, which is short
    /// of registers.
    #[inline(never)]
    fn take(&mut self, word: Word<'_>) -> u8 {
        let number = self.frequent.number(word);
        self.recent.remember(word, number);
        self.terms.insert(word.term());
        self.grams.add(word);
        number
    }
}

fn empty_pages(rows: usize) -> Vec<TermSet> {
    vec![TermSet::of_rows(rows.min(PAGE_ROWS)); rows.div_ceil(PAGE_ROWS)]
}

impl Builder {
    fn words(&mut self, chunk: &Chunk<'_>, texts: &[&[u8]]) {
        let mut frequent = FrequentWords::choose(texts, chunk.rows);
        let spans = chunk.pages(PAGE_ROWS);
        let mut grams = vec![PageGrams::default(); spans.len()];
        for ((span, terms), grams) in spans.into_iter().zip(&mut self.pages).zip(&mut grams) {
            self.recent.clear();
            let mut page =
                PageWords { recent: &mut self.recent, frequent: &mut frequent, terms, grams };
            let mut each = |word: Word<'_>, row| page.add(word, row);
            let has_text = |row: &usize| chunk.present.as_ref().is_none_or(|rows| rows[*row]);
            for (row, text) in span.rows.filter(has_text).zip(&texts[span.values]) {
                self.finder.add(text, row as u32, &mut each);
            }
            self.finder.end(&mut each);
        }
        let encoded = frequent
            .encode()
            .and_then(|words| Ok((words, zstd::bulk::compress(&table_of(&grams), GRAMS_LEVEL)?)));
        match encoded {
            Ok((frequent, grams)) => (self.frequent, self.grams) = (frequent, grams),
            Err(error) => self.failure = Some(error),
        }
    }

    fn texts(&mut self, name: &str, chunk: &Chunk<'_>, texts: &[&[u8]]) {
        for (span, terms) in chunk.pages(PAGE_ROWS).into_iter().zip(&mut self.pages) {
            for text in &texts[span.values] {
                terms.insert(text_term(name, text));
            }
        }
    }

    fn rest(&mut self, chunk: &Chunk<'_>, texts: &[&[u8]]) {
        let mut name = String::new();
        for (span, terms) in chunk.pages(PAGE_ROWS).into_iter().zip(&mut self.pages) {
            for text in &texts[span.values] {
                self.attributes.clear();
                // The values in `_rest` were written as an object, so this cannot fail.
                let _ = self.attributes.read_json(text);
                for (path, value) in self.attributes.iter() {
                    let path = std::str::from_utf8(path).unwrap_or_default();
                    self.rest.add(path, value == Scalar::Null);
                    name.clear();
                    name.push('@');
                    name.push_str(path);
                    if let Some(term) = value_term(&name, value) {
                        terms.insert(term);
                    }
                }
            }
        }
    }

    fn finish(mut self, identity: u32, file: &dyn DiskFile) -> Result<(), SidecarError> {
        if let Some(failure) = self.failure {
            return Err(failure.into());
        }
        let rest = self.rest.encode();
        self.buffer.rest_at = self.buffer.put(&rest);
        self.buffer.write(identity, file)?;
        Ok(())
    }
}
