//! Exports records as Parquet files, in pieces that fit into memory.
//!
//! Invariant: a client that did not request pieces gets a file with all records, or none.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use weir_host::DiskFile;
use weir_host::units::{approx_size, group_digits};
use weir_store::embedded::columns::{Rows, StoredRecord};
use weir_store::embedded::segment::write_segment;
use weir_store::query::PageKey;

use super::{Export, NEXT_HEADER};
use crate::explore::admission::AnswerStatus;
use crate::explore::cursor::Cursor;
use crate::explore::{QueryKind, internal_error, rejection_problem};
use crate::problem::Problem;
use crate::response::NO_STORE;

/// Approximate size of the records of a piece.
const PIECE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of rows of a piece: one row group.
const PIECE_ROWS_MAX: usize = weir_store::limits::ROW_GROUP_ROWS_MAX;

/// Approximate size of a row in addition to its texts.
const ROW_BYTES: usize = 100;

/// zstd level for a file that is kept.
const LEVEL: i32 = 3;

/// Identifies the piece.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Hash of the query.
    pub(super) query_hash: u64,
    /// Maximum number of records of all pieces together.
    pub(super) limit: Option<u64>,
    /// Whether pieces were requested.
    pub(super) pieces_requested: bool,
}

impl Piece {
    /// The cursor of the next piece, with the number of remaining records if there is a limit.
    fn next(self, export: &Export, key: PageKey) -> String {
        let range = export.request.filter.range;
        let cursor = Cursor { query_hash: self.query_hash, range, key }.encode();
        match self.limit {
            Some(_) => format!("{cursor}{REMAINING_SEPARATOR}{}", export.remaining),
            None => cursor,
        }
    }
}

/// Prefix of the number of remaining records; otherwise it occurs in no cursor.
const REMAINING_SEPARATOR: char = '.';

/// Splits a cursor from the number of remaining records, if it has one.
pub(super) fn split_cursor(cursor: Option<&str>) -> (Option<&str>, Option<u64>) {
    match cursor.and_then(|cursor| cursor.split_once(REMAINING_SEPARATOR)) {
        Some((position, remaining)) => match remaining.parse() {
            Ok(remaining) => (Some(position), Some(remaining)),
            // Not a cursor of weir.
            Err(_) => (cursor, None),
        },
        None => (cursor, None),
    }
}

/// Responds with a piece as a file.
pub(super) async fn file(mut export: Export, piece: Piece) -> Result<Response, Problem> {
    let mut rows = Rows::new();
    let mut bytes = 0;
    while !export.is_done && bytes < PIECE_BYTES_MAX && rows.len() < PIECE_ROWS_MAX {
        export.request.limit = export.request.limit.min(PIECE_ROWS_MAX - rows.len());
        let records = export.next(|records| records).await?;
        bytes += records.iter().map(approx_bytes).sum::<usize>();
        let push = move || {
            let pushed = records.iter().try_for_each(|record| rows.push_record(record));
            pushed.map(|()| rows)
        };
        // A large number of records would block others.
        let pushed =
            tokio::task::spawn_blocking(push).await.map_err(|error| internal_error(&error))?;
        rows = pushed.map_err(|error| internal_error(&error))?;
    }
    let mut headers = export.reasons.headers();
    if let Some(key) = export.request.after.filter(|_| !export.is_done) {
        if !piece.pieces_requested {
            return Err(too_many(rows.len(), bytes));
        }
        let next = piece.next(&export, key);
        headers.extend(HeaderValue::from_str(&next).ok().map(|next| (NEXT_HEADER, next)));
    }
    let work = move |_budget: &_| {
        let file = MemoryFile::default();
        let written = write_segment(&rows, LEVEL, &file);
        let status = if written.is_ok() { AnswerStatus::Complete } else { AnswerStatus::Failed };
        (written.map(|_| file.into_bytes()), status)
    };
    let run = export.state.explore.admission.run(QueryKind::Export, None, work);
    let bytes = run.await.map_err(rejection_problem)?.map_err(|error| internal_error(&error))?;
    let parquet = HeaderValue::from_static("application/vnd.apache.parquet");
    headers.insert(header::CONTENT_TYPE, parquet);
    Ok((StatusCode::OK, headers, [NO_STORE], bytes).into_response())
}

/// There are more records than the ones that fill a file.
fn too_many(rows: usize, bytes: usize) -> Problem {
    let (rows, bytes) = (group_digits(rows as u64), approx_size(bytes as u64));
    let title = format!(
        "the records do not fit into one Parquet file: the first {rows} of them fill it ({bytes} \
         in memory), and there are more; narrow the query or the range, or request several files \
         with pieces=true"
    );
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, title).for_parameter("pieces")
}

/// Approximate size of a record.
fn approx_bytes(record: &StoredRecord) -> usize {
    use weir_store::embedded::columns::AttributeValue;
    let message = record.message.as_ref().map_or(0, String::len);
    let values = record.attributes.iter().flat_map(|(_, values)| values);
    let attributes: usize = values
        .map(|value| match value {
            AttributeValue::Text(text) => 16 + text.len(),
            _ => 16,
        })
        .sum();
    ROW_BYTES + message + attributes
}

/// A file that exists only in memory.
#[derive(Debug, Default)]
struct MemoryFile(Mutex<Vec<u8>>);

impl MemoryFile {
    fn into_bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskFile for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.bytes();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let mut bytes = self.bytes();
        // Segments are written sequentially.
        if offset as usize != bytes.len() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        for part in parts {
            bytes.extend_from_slice(part);
        }
        Ok(parts.iter().map(|part| part.len()).sum())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes().resize(len as usize, 0);
        Ok(())
    }

    fn punch(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn is_at(&self, _path: &Path) -> io::Result<bool> {
        Ok(true)
    }
}
