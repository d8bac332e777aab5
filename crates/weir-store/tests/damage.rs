//! Damaged, truncated and foreign files: an error or the same answer, never another one or a panic.

mod support;

use std::sync::Arc;

use fastrand::Rng;
use support::{Input, bytes_of, file, open, read_all, rows_of};
use weir_codec::Scalar;
use weir_host::DiskFile;
use weir_store::embedded::columns::{NewRow, Rows, StoredRecord};
use weir_store::embedded::segment::{PageBuffer, Segment, SegmentError};
use weir_store::embedded::sidecar::{
    RestPath, Sidecar, SidecarError, rebuild_sidecar, value_term, word_term,
    write_segment_with_sidecar,
};

/// Returns rows with a column of every type and encoding.
fn sample(count: u64) -> Rows {
    let mut rng = Rng::with_seed(3);
    let texts: Vec<String> =
        (0..count).map(|n| format!("text {:08x} no {n}", rng.u32(..))).collect();
    let inputs: Vec<Input<'_>> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| {
            let row = NewRow {
                time_ns: 1_700_000_000_000_000_000 + rng.i64(..1_000_000_000_000),
                sequence: number as u64,
                stream: rng.u64(..2),
                service: Some([b"web".as_slice(), b"api"][rng.usize(..2)]),
                message: (number % 5 != 0).then_some(text.as_bytes()),
                ..NewRow::default()
            };
            let mut attributes: Vec<(&[u8], Scalar<'_>)> = vec![
                (b"big", Scalar::Int(rng.i64(..))),
                (b"code", Scalar::Int(rng.i64(200..203))),
                (b"share", Scalar::Float(rng.f64())),
                (b"on", Scalar::Bool(rng.bool())),
                (b"id", Scalar::Text(text.as_bytes())),
            ];
            if number % 4 == 0 {
                attributes.push((b"mixed", Scalar::Text(b"many")));
                attributes.push((b"list", Scalar::Int(1)));
                attributes.push((b"list", Scalar::Null));
            } else {
                attributes.push((b"mixed", Scalar::Int(number as i64)));
            }
            if number % 10 == 0 {
                attributes.push((b"raw", Scalar::Text(b"a\xffb")));
            }
            Input { row, attributes }
        })
        .collect();
    rows_of(&inputs)
}

fn written(rows: &Rows) -> (Vec<u8>, Vec<u8>) {
    let (segment, sidecar) = (file(b""), file(b""));
    write_segment_with_sidecar(rows, 1, None, &*segment, &*sidecar).unwrap();
    (bytes_of(&*segment), bytes_of(&*sidecar))
}

fn try_read(bytes: &[u8]) -> Result<Vec<StoredRecord>, SegmentError> {
    let segment = Segment::open(file(bytes))?;
    let mut buffer = PageBuffer::new()?;
    let mut records = Vec::new();
    for group in 0..segment.group_count() {
        let rows: Vec<usize> = (0..segment.group_rows(group)).collect();
        records.extend(segment.records(group, &rows, &mut buffer)?);
        // Columns that records are not made of.
        for column in 0..segment.columns().len() {
            segment.dictionary(group, column, &mut buffer)?;
            for page in 0..segment.page_count(group) {
                segment.read_page(group, column, page, &mut buffer)?;
            }
        }
    }
    Ok(records)
}

/// Asserts that a changed segment returns an error or what was written.
fn assert_noticed(damaged: &[u8], records: &[StoredRecord], what: &str) {
    match try_read(damaged) {
        Ok(found) => assert_eq!(found, records, "{what}"),
        Err(error) => assert!(error.is_damage(), "{what}: {error}"),
    }
}

/// Answers to every question that a sidecar supports.
type Answers = (Vec<u64>, Option<Vec<u64>>, Vec<RestPath>);

fn try_ask(bytes: &[u8], segment: &Segment) -> Result<Answers, SidecarError> {
    let sidecar = Sidecar::open(file(bytes), segment)?;
    let terms = (0..50)
        .map(|number| word_term(number.to_string().as_bytes()))
        .chain([b"text".as_slice(), b"no", b"absent"].map(word_term))
        .chain(value_term("@list", Scalar::Int(1)));
    let pages = terms.map(|term| sidecar.pages(0, term)).collect::<Result<_, _>>()?;
    let counts = sidecar.counts(0)?;
    let rows = counts.map(|counts| counts.entries().iter().map(|entry| entry.rows).collect());
    let paths = sidecar.rest_paths()?;
    Ok((pages, rows, ["list", "id", "absent"].map(|path| paths.get(path)).to_vec()))
}

fn assert_sidecar_noticed(damaged: &[u8], segment: &Segment, answers: &Answers, what: &str) {
    match try_ask(damaged, segment) {
        Ok(found) => assert_eq!(found, *answers, "{what}"),
        Err(error) => assert!(matches!(error, SidecarError::Damaged(_)), "{what}: {error}"),
    }
}

/// Damages some bytes as disks and people do, and returns a description.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) -> String {
    let len = bytes.len();
    let at = rng.usize(..len);
    let end = (at + 1 + rng.usize(..600)).min(len);
    match rng.u8(..7) {
        0 => {
            bytes[at] ^= 1 << rng.u8(..8);
            format!("bit in byte {at}")
        }
        1 => {
            bytes[at..end].fill(0);
            format!("zeros in {at}..{end}")
        }
        2 => {
            bytes[at..end].iter_mut().for_each(|byte| *byte = rng.u8(..));
            format!("noise in {at}..{end}")
        }
        3 => {
            bytes.truncate(at);
            format!("cut to {at}")
        }
        4 => {
            bytes.drain(at..end);
            format!("{at}..{end} missing")
        }
        5 => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
            format!("{at}..{end} twice")
        }
        _ => {
            bytes.extend(std::iter::repeat_with(|| rng.u8(..)).take(end - at));
            format!("{} bytes longer", end - at)
        }
    }
}

#[test]
fn every_damaged_byte_of_a_segment_is_detected() {
    let (segment, _) = written(&sample(40));
    let mut rng = Rng::with_seed(17);
    for at in 0..segment.len() {
        let mut damaged = segment.clone();
        damaged[at] ^= 1 << rng.u8(..8);
        assert!(try_read(&damaged).is_err(), "damage to byte {at} not noticed");
    }
}

#[test]
fn truncated_segment_is_rejected() {
    let (segment, _) = written(&sample(40));
    for len in 0..segment.len() {
        let error = try_read(&segment[..len]).unwrap_err();
        assert!(error.is_damage(), "cut to {len}: {error}");
    }
}

#[test]
fn every_damaged_byte_of_a_sidecar_is_detected_or_unused() {
    let (segment, sidecar) = written(&sample(40));
    let segment = open(&file(&segment));
    let answers = try_ask(&sidecar, &segment).unwrap();
    let mut rng = Rng::with_seed(18);
    for at in 0..sidecar.len() {
        let mut damaged = sidecar.clone();
        damaged[at] ^= 1 << rng.u8(..8);
        assert_sidecar_noticed(&damaged, &segment, &answers, &format!("byte {at}"));
    }
    for len in 0..sidecar.len() {
        let what = format!("cut to {len}");
        assert!(try_ask(&sidecar[..len], &segment).is_err(), "{what}");
        assert_sidecar_noticed(&sidecar[..len], &segment, &answers, &what);
    }
}

#[test]
fn random_damage_gives_an_error_or_the_same_results() {
    let (whole, whole_sidecar) = written(&sample(3000));
    let records = try_read(&whole).unwrap();
    let segment = open(&file(&whole));
    let answers = try_ask(&whole_sidecar, &segment).unwrap();
    for seed in 0..400 {
        let mut rng = Rng::with_seed(seed);
        let mut damaged = whole.clone();
        let mut what = format!("seed {seed}: {}", damage(&mut damaged, &mut rng));
        if rng.bool() && !damaged.is_empty() {
            what += &damage(&mut damaged, &mut rng);
        }
        assert_noticed(&damaged, &records, &what);
        let mut damaged = whole_sidecar.clone();
        let what = format!("seed {seed}: {}", damage(&mut damaged, &mut rng));
        assert_sidecar_noticed(&damaged, &segment, &answers, &what);
    }
}

#[test]
fn damaged_sidecar_is_rebuilt() {
    let (segment, sidecar) = written(&sample(3000));
    let segment = open(&file(&segment));
    let mut damaged = sidecar.clone();
    damaged[5000] ^= 1;
    let is_damaged = |bytes: &[u8]| try_ask(bytes, &segment).is_err();
    let fresh: Arc<dyn DiskFile> = file(b"");
    rebuild_sidecar(&segment, Arc::clone(&fresh)).unwrap();
    assert_eq!(bytes_of(&*fresh), sidecar);
    assert!(!is_damaged(&sidecar));
}

#[test]
fn unreadable_page_does_not_affect_others() {
    let (mut bytes, _) = written(&sample(20_000));
    let segment = open(&file(&bytes));
    // The body of the first page of the first column.
    bytes[100] ^= 1;
    let damaged = open(&file(&bytes));
    let mut buffer = PageBuffer::new().unwrap();
    assert!(damaged.read_page(0, 0, 0, &mut buffer).unwrap_err().is_damage());
    assert!(damaged.records(0, &[5], &mut buffer).is_err());
    let found = damaged.records(0, &[17_000], &mut buffer).unwrap();
    assert_eq!(found, segment.records(0, &[17_000], &mut buffer).unwrap());
    assert_eq!(read_all(&segment).len(), 20_000);
}

#[test]
fn unknown_version_is_rejected() {
    let (_, mut sidecar) = written(&sample(40));
    let (segment, _) = written(&sample(40));
    let segment = open(&file(&segment));
    sidecar[4] = 9;
    let check = crc32c::crc32c_append(crc32c::crc32c(&sidecar[..6]), &sidecar[8..36]);
    sidecar[6..8].copy_from_slice(&check.to_le_bytes()[..2]);
    let error = Sidecar::open(file(&sidecar), &segment).unwrap_err();
    assert!(matches!(error, SidecarError::Version(9)), "{error}");
}
