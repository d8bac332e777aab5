//! Measures the cost of storing: CPU time and bytes of each step, compared with the compressor
//! alone.
//!
//! `cargo run --release -p weir-store --example write FILE [only]`: FILE contains JSON lines, such
//! as those of the benchmark `store` (`bench/.cache/events-*.log`); `only` skips the part about
//! many paths.
#![expect(clippy::print_stdout, reason = "a program that prints figures")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use weir_host::{Disk, DiskFile, OpenMode, RealDisk};
use weir_model::{
    Batch, BatchBuilder, NewRecord, Position, RecordFlags, Seal, Severity, SourceBook, SourceId,
    StreamId,
};
use weir_store::embedded::columns::{Full, Intake, NewRow, Rows};
use weir_store::embedded::segment::{
    Fixed, PageBuffer, PageValues, Role, Segment, SegmentSummary, concat_columns, concat_segments,
    write_segment,
};
use weir_store::embedded::sidecar::{
    Sidecar, rebuild_sidecar, value_term, word_term, write_segment_with_sidecar,
};
use weir_store::limits::PAGE_ROWS;

/// Size of the store's head before it is written.
const HEAD_BYTES: usize = 128 * 1024 * 1024;

/// Puts lines into batches, as a source does.
fn batches(lines: &[u8]) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut builder = BatchBuilder::new(Position::default());
    let mut offset = 0;
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        if builder.room() < 2 * line.len() || builder.record_count() >= 600 {
            batches.push(seal(&mut builder, offset));
        }
        offset += line.len() as u64 + 1;
        let Ok(body) = builder.append(line) else { continue };
        // `{"time":"2026-11-21T00:00:00.000Z"`, otherwise an arbitrary time.
        let time = line.get(9..33).and_then(weir_codec::parse_rfc3339);
        let record = NewRecord {
            timestamp_ns: time.unwrap_or(0),
            end_offset: offset,
            body,
            severity: Severity::UNSPECIFIED,
            flags: RecordFlags::JSON_OBJECT,
            ..NewRecord::default()
        };
        let _fits = builder.push(&record);
    }
    batches.push(seal(&mut builder, offset));
    batches
}

fn seal(builder: &mut BatchBuilder, offset: u64) -> Batch {
    let resource = br#"{"host.name":"a","log.file.path":"/var/log/app.log"}"#;
    builder.resource(0, resource).expect("room for one resource");
    builder.route_all(&[0]);
    builder.seal(&Seal {
        repeatable: true,
        stream: StreamId(1),
        group: 0,
        source: SourceId(1),
        end: Position::new(0, offset),
        observed_ns: 0,
        rule_generation: 1,
        book: &SourceBook::default(),
        state: b"",
    })
}

fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Runs a function and prints its throughput in MB of `bytes` per CPU second.
fn measure<T>(what: &str, bytes: usize, run: impl FnOnce() -> T) -> T {
    let start = cpu();
    let result = run();
    let spent = cpu().saturating_sub(start).as_secs_f64();
    let speed = bytes as f64 / 1e6 / spent;
    println!("{what:<58} {:>9.1} ms {speed:>8.0} MB/s", spent * 1e3);
    result
}

/// Adds records to rows, as many per head as a head takes.
fn take_in(batches: &[Batch]) -> Result<Vec<Rows>, Full> {
    let mut intake = Intake::new();
    let mut heads = vec![Rows::new()];
    let mut sequence = 0;
    for batch in batches {
        intake.begin_batch("app", batch);
        if heads.last().is_some_and(|rows| rows.memory_bytes() >= HEAD_BYTES) {
            heads.push(Rows::new());
        }
        let Some(rows) = heads.last_mut() else { continue };
        for view in batch.records() {
            intake.push(rows, sequence, batch, &view)?;
            sequence += 1;
        }
    }
    Ok(heads)
}

fn create(dir: &Path, name: &str) -> std::io::Result<Arc<dyn DiskFile>> {
    RealDisk.open(&dir.join(name), OpenMode::CreateNew).map(Arc::from)
}

fn print_columns(summaries: &[SegmentSummary]) {
    let mut totals: Vec<(String, u64, u64)> = Vec::new();
    for column in summaries.iter().flat_map(|summary| &summary.columns) {
        let name = column.column.name();
        match totals.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, packed, plain)) => {
                *packed += column.packed_bytes;
                *plain += column.plain_bytes;
            }
            None => totals.push((name, column.packed_bytes, column.plain_bytes)),
        }
    }
    totals.sort_by_key(|(_, packed, _)| std::cmp::Reverse(*packed));
    for (name, packed, plain) in totals.iter().take(9) {
        println!("    {name:<24} {packed:>12} of {plain:>12} bytes");
    }
}

/// Reads the pages of a column in all segments.
fn scan(segments: &[Segment], role: &Role, mut each: impl FnMut(PageValues<'_>)) -> usize {
    let Ok(mut buffer) = PageBuffer::new() else { return 0 };
    let mut bytes = 0;
    for segment in segments {
        let Some(column) = segment.column(role) else { continue };
        for page in 0..segment.page_count(0) {
            if segment.read_page(0, column, page, &mut buffer).is_ok() {
                each(buffer.values());
            }
        }
        bytes += segment.chunk(0, column).map_or(0, |chunk| chunk.plain_bytes() as usize);
    }
    bytes
}

fn read(segments: &[Segment], sidecars: &[Sidecar]) {
    let message = Role::Fixed(Fixed::Message);
    let bytes = scan(segments, &message, |_| {});
    measure("read all pages of message", bytes, || scan(segments, &message, |_| {}));
    let finder = memchr::memmem::Finder::new("no such text");
    let mut hits = 0;
    measure("the same, searching each for a text", bytes, || {
        scan(segments, &message, |values| {
            if let PageValues::Texts(texts) = values {
                hits += finder.find_iter(texts.bytes).count();
            }
        })
    });
    let status = Role::Attribute("http.status_code".to_owned());
    let mut codes = [0_u64; 16];
    let bytes = scan(segments, &status, |_| {});
    measure("count the codes of @http.status_code", bytes, || {
        scan(segments, &status, |values| {
            if let PageValues::Codes(found) = values {
                for code in found {
                    codes[*code as usize % 16] += 1;
                }
            }
        })
    });
    println!("    {codes:?}");
    let count = |term| -> u32 {
        let pages = sidecars.iter().map(|sidecar| sidecar.pages(0, term).unwrap_or(u64::MAX));
        pages.map(u64::count_ones).sum()
    };
    for number in 0..3_u8 {
        let text = format!("{number:016x}");
        let term = value_term("@request_id", weir_codec::Scalar::Text(text.as_bytes()));
        let pages =
            measure("pages of an absent @request_id", 0, || count(term.unwrap_or_default()));
        println!("    {pages} pages");
    }
    println!("    {} pages hold \"checkout\"", count(word_term(b"checkout")));
}

/// Tests 5,000 paths, 20 of them in each record.
fn many_paths(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut rng = Rng::with_seed(2);
    let paths: Vec<String> = (0..5000).map(|n| format!("attribute.number.{n}")).collect();
    let mut rows = Rows::new();
    let mut bytes = 0;
    for number in 0..100_000_u64 {
        let first = rng.usize(..250) * 20;
        let texts: Vec<String> = (0..20).map(|_| format!("value {}", rng.u32(..5000))).collect();
        let attributes = texts.iter().enumerate().map(|(index, text)| {
            (paths[first + index].as_bytes(), weir_codec::Scalar::Text(text.as_bytes()))
        });
        let row = NewRow { sequence: number, message: Some(b"many paths"), ..NewRow::default() };
        bytes += texts.iter().map(|text| text.len() + 26).sum::<usize>();
        rows.push(&row, attributes)?;
    }
    println!("\n5,000 paths, 100,000 rows, {} MB as JSON", bytes / 1_000_000);
    println!("    {} MB in memory", rows.memory_bytes() / 1_000_000);
    let (segment, sidecar) = (create(dir, "paths.parquet")?, create(dir, "paths.widx")?);
    let summary = measure("write segment and sidecar, zstd 1", bytes, || {
        write_segment_with_sidecar(&rows, 1, None, &*segment, &*sidecar)
    })?;
    let columns: u64 = summary.columns.iter().map(|column| column.packed_bytes).sum();
    println!("    {} bytes, {} in the footer", summary.file_bytes, summary.file_bytes - columns);
    println!("    {} bytes of sidecar", sidecar.len()?);
    print_columns(&[summary]);
    measure("open it", bytes, || Segment::open(segment)).map(drop)?;
    Ok(())
}

/// Segment and sidecar of each head.
type Files = Vec<(Arc<dyn DiskFile>, Arc<dyn DiskFile>)>;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn write(heads: &[Rows], bytes: usize, dir: &Path) -> Outcome<Files> {
    for level in [1, 3] {
        let files = (0..heads.len())
            .map(|head| create(dir, &format!("{level}-{head}.only.parquet")))
            .collect::<Result<Vec<_>, _>>()?;
        let written = measure(&format!("write segments, zstd {level}"), bytes, || {
            let pairs = heads.iter().zip(&files);
            pairs.map(|(rows, file)| write_segment(rows, level, &**file)).collect::<Vec<_>>()
        });
        let total: u64 = written.into_iter().filter_map(Result::ok).map(|s| s.file_bytes).sum();
        println!("    {total} bytes, ratio {:.2}", bytes as f64 / total as f64);
    }
    let mut files = Files::new();
    for head in 0..heads.len() {
        let segment = create(dir, &format!("{head}.parquet"))?;
        files.push((segment, create(dir, &format!("{head}.widx"))?));
    }
    let written = measure("write segments and sidecars, zstd 1", bytes, || {
        let pairs = heads.iter().zip(&files);
        let write = |(rows, (segment, sidecar)): (&Rows, &(Arc<dyn DiskFile>, _))| {
            let sidecar: &Arc<dyn DiskFile> = sidecar;
            write_segment_with_sidecar(rows, 1, None, &**segment, &**sidecar)
        };
        pairs.map(write).collect::<Result<Vec<_>, _>>()
    })?;
    print_columns(&written);
    let side: u64 = files.iter().filter_map(|(_, sidecar)| sidecar.len().ok()).sum();
    let total: u64 = written.iter().map(|summary| summary.file_bytes).sum();
    println!("    {total} bytes of segments, {side} of sidecars");
    Ok(files)
}

/// Runs the compressor alone on the same lines.
fn compress(batches: &[Batch]) -> Outcome<()> {
    let lines = batches.iter().map(Batch::arena).collect::<Vec<_>>().concat();
    for level in [1, 3] {
        let packed = measure(&format!("zstd {level} alone on the lines"), lines.len(), || {
            let mut engine = zstd::bulk::Compressor::new(level)?;
            let pieces = lines.chunks(323 * PAGE_ROWS);
            pieces.map(|piece| engine.compress(piece).map(|packed| packed.len())).sum()
        });
        let packed: std::io::Result<usize> = packed;
        println!("    {} bytes", packed?);
    }
    Ok(())
}

fn merge(segments: &[Segment], bytes: usize, dir: &Path) -> Outcome<()> {
    let parts: Vec<&Segment> = segments.iter().collect();
    let columns = concat_columns(&parts).ok_or("the columns do not fit")?;
    let whole = create(dir, "whole.parquet")?;
    let summary = measure("concatenate all segments", bytes, || {
        concat_segments(&parts, &columns, None, &*whole)
    })?;
    println!("    {} bytes", summary.file_bytes);
    let again = create(dir, "again.widx")?;
    let share = bytes / segments.len().max(1);
    let Some(first) = segments.first() else { return Ok(()) };
    measure("rebuild the first sidecar", share, || rebuild_sidecar(first, again))?;
    Ok(())
}

fn main() -> Outcome<()> {
    let file = std::env::args().nth(1).ok_or("name a file of JSON lines")?;
    let lines = std::fs::read(file)?;
    let (batches, bytes) = (batches(&lines), lines.len());
    println!("{} MB", bytes / 1_000_000);
    measure("parse the JSON of all records", bytes, || {
        let mut attributes = weir_codec::Attributes::new();
        let parse = |body: &[u8]| {
            attributes.clear();
            attributes.read_json(body).is_some()
        };
        let bodies = batches.iter().flat_map(Batch::records).map(|record| record.body);
        bodies.map(parse).filter(|is_object| *is_object).count()
    });
    let heads = measure("records to columns", bytes, || take_in(&batches))?;
    let memory: usize = heads.iter().map(Rows::memory_bytes).sum();
    println!("    {} heads, {} MB in memory", heads.len(), memory / 1_000_000);
    let dir = tempfile::tempdir()?;
    let files = write(&heads, bytes, dir.path())?;
    compress(&batches)?;
    let mut segments = Vec::new();
    let mut sidecars = Vec::new();
    for (segment, sidecar) in &files {
        let segment = Segment::open(Arc::clone(segment))?;
        sidecars.push(Sidecar::open(Arc::clone(sidecar), &segment)?);
        segments.push(segment);
    }
    read(&segments, &sidecars);
    merge(&segments, bytes, dir.path())?;
    if std::env::args().nth(2).is_some() {
        return Ok(());
    }
    many_paths(dir.path())
}
