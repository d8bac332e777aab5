//! What a sidecar reports about a segment is true, whether it was written with it or rebuilt later.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use support::{Input, bytes_of, file, open, read_all, rows_of};
use weir_codec::Scalar;
use weir_host::DiskFile;
use weir_store::embedded::columns::{AttributeValue, NewRow, Rows, StoredRecord};
use weir_store::embedded::segment::{ChunkInfo, Role, Segment};
use weir_store::embedded::sidecar::{
    RestPath, Sidecar, SidecarError, rebuild_sidecar, value_term, word_term, words_of,
    write_segment_with_sidecar,
};
use weir_store::limits::PAGE_ROWS;

fn write(rows: &Rows) -> (Segment, Arc<dyn DiskFile>) {
    let (segment, sidecar) = (file(b""), file(b""));
    write_segment_with_sidecar(rows, 1, None, &*segment, &*sidecar).unwrap();
    (open(&segment), sidecar)
}

/// Asserts that for every word and value of a record, its page is among those that may contain it.
fn assert_finds(segment: &Segment, sidecar: &Sidecar, records: &[StoredRecord]) {
    for (row, record) in records.iter().enumerate() {
        let page = row / PAGE_ROWS;
        let is_found = |term| sidecar.pages(0, term).unwrap() >> page & 1 == 1;
        let message = record.message.as_deref().unwrap_or_default();
        assert!(words_of(message.as_bytes()).into_iter().all(is_found), "{message}");
        for (path, values) in &record.attributes {
            for value in values {
                let column = segment.column(&Role::Attribute(path.clone()));
                let in_dictionary = column
                    .and_then(|column| segment.chunk(0, column))
                    .is_some_and(ChunkInfo::is_dictionary);
                let is_text = matches!(value, AttributeValue::Text(_));
                let rest = sidecar.rest_paths().unwrap().get(path).has_values;
                if (is_text && !in_dictionary && column.is_some()) || (rest && column.is_none()) {
                    let term = value_term(&format!("@{path}"), value.as_scalar());
                    assert!(term.is_none_or(is_found), "{path} {value:?}");
                }
            }
        }
    }
}

fn assert_counts(sidecar: &Sidecar, records: &[StoredRecord]) {
    type Key = (i64, Option<String>, Option<String>);
    let mut wanted: BTreeMap<Key, u64> = BTreeMap::new();
    for record in records {
        let minute = record.time_ns.div_euclid(60_000_000_000);
        let key = (minute, record.service.clone(), record.status.clone());
        *wanted.entry(key).or_default() += 1;
    }
    let counts = sidecar.counts(0).unwrap().unwrap();
    let text = |texts: &weir_store::embedded::columns::Texts, code: Option<u32>| {
        code.map(|code| String::from_utf8(texts.get(code as usize).to_vec()).unwrap())
    };
    let found: BTreeMap<Key, u64> = counts
        .entries()
        .iter()
        .map(|entry| {
            let service = text(counts.services(), entry.service);
            ((entry.minute, service, text(counts.statuses(), entry.status)), entry.rows)
        })
        .collect();
    assert_eq!(found, wanted);
}

fn assert_rest(segment: &Segment, sidecar: &Sidecar, records: &[StoredRecord]) {
    let paths = sidecar.rest_paths().unwrap();
    assert!(paths.is_complete());
    let known: BTreeSet<&str> = paths.iter().map(|(path, _)| path).collect();
    for record in records {
        for (path, values) in &record.attributes {
            let is_column = segment.column(&Role::Attribute(path.clone())).is_some();
            let is_null = values.contains(&AttributeValue::Null);
            if values.len() > 1 || is_null || !is_column {
                assert!(known.contains(path.as_str()), "{path}");
            }
            assert!(!is_null || paths.get(path).has_nulls);
        }
    }
}

#[derive(Debug, Clone)]
struct Record {
    time_ns: i64,
    service: Option<usize>,
    message: String,
    attributes: Vec<(String, i64, String)>,
}

fn record() -> impl Strategy<Value = Record> {
    let attribute = ("[a-c]", any::<i64>(), "[a-z0-9 ]{0,9}");
    let attributes = proptest::collection::vec(attribute, 0..4);
    let time = prop_oneof![any::<i64>(), 0_i64..600_000_000_000];
    (time, proptest::option::of(0_usize..3), "[A-Za-z0-9 é_.-]{0,40}", attributes).prop_map(
        |(time_ns, service, message, attributes)| Record { time_ns, service, message, attributes },
    )
}

fn input(record: &Record) -> Input<'_> {
    let attributes = record.attributes.iter().map(|(path, number, text)| {
        let value = match number % 4 {
            0 => Scalar::Int(*number),
            1 => Scalar::Null,
            _ => Scalar::Text(text.as_bytes()),
        };
        (path.as_bytes(), value)
    });
    let row = NewRow {
        time_ns: record.time_ns,
        service: record.service.map(|index| [b"web".as_slice(), b"api", b"db"][index]),
        status: record.service.map(|_| b"info".as_slice()),
        message: Some(record.message.as_bytes()),
        ..NewRow::default()
    };
    Input { row, attributes: attributes.collect() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn sidecar_never_excludes_a_matching_page(records in proptest::collection::vec(record(), 1..60)) {
        let inputs: Vec<Input<'_>> = records.iter().map(input).collect();
        let (segment, written) = write(&rows_of(&inputs));
        let sidecar = Sidecar::open(Arc::clone(&written), &segment).unwrap();
        let found = read_all(&segment);
        assert_finds(&segment, &sidecar, &found);
        assert_counts(&sidecar, &found);
        assert_rest(&segment, &sidecar, &found);
        let rebuilt = file(b"");
        rebuild_sidecar(&segment, Arc::clone(&rebuilt)).unwrap();
        prop_assert_eq!(bytes_of(&*rebuilt), bytes_of(&*written));
    }
}

/// Rows of three pages; each message contains a number of its own and one of its page.
fn paged() -> Rows {
    let mut rows = Rows::new();
    for number in 0..40_000_u64 {
        let message = format!("Request {number} of page-{} done", number as usize / PAGE_ROWS);
        let id = format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let row = NewRow {
            time_ns: number as i64,
            sequence: number,
            message: Some(message.as_bytes()),
            ..NewRow::default()
        };
        let attributes = [(b"id".as_slice(), Scalar::Text(id.as_bytes()))];
        rows.push(&row, attributes.into_iter()).unwrap();
    }
    rows
}

#[test]
fn rare_text_selects_only_its_page() {
    let (segment, sidecar) = write(&paged());
    let sidecar = Sidecar::open(sidecar, &segment).unwrap();
    let pages = |term| sidecar.pages(0, term).unwrap();
    assert_eq!(pages(word_term(b"REQUEST")), 0b111);
    let mut others = 0;
    for number in (0..40_000_u64).step_by(97) {
        let page = number as usize / PAGE_ROWS;
        for term in [
            word_term(number.to_string().as_bytes()),
            value_term(
                "@id",
                Scalar::Text(
                    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).as_bytes(),
                ),
            )
            .unwrap(),
        ] {
            let found = pages(term);
            assert_eq!(found >> page & 1, 1, "{number}");
            others += found.count_ones() - 1;
        }
    }
    assert!(others < 60, "{others} pages too many for 826 terms");
    let absent = (0..2000).filter(|n| pages(word_term(format!("absent{n}").as_bytes())) != 0);
    assert!(absent.count() < 5);
    let size = sidecar.file_bytes();
    assert!(size < 40_000 * 5, "{size} bytes for two terms of 40,000 rows");
}

#[test]
fn rows_of_frequent_words_are_exact() {
    let mut rows = Rows::new();
    for number in 0..40_000_u64 {
        let level = ["Warning", "error", "fine"][number as usize % 7 % 3];
        let message = format!("{level}: UnexpectedlyLongWord{} took {number}", number % 2);
        let row = NewRow {
            sequence: number,
            // Some rows have no message.
            message: (number % 11 != 0).then_some(message.as_bytes()),
            ..NewRow::default()
        };
        rows.push(&row, std::iter::empty()).unwrap();
    }
    let (segment, sidecar) = write(&rows);
    let sidecar = Sidecar::open(sidecar, &segment).unwrap();
    let records = read_all(&segment);
    let rows_of = |word: &str| sidecar.rows_of_word(0, records.len(), word.as_bytes()).unwrap();
    for word in ["warning", "error", "fine", "took", "unexpectedlylongword1"] {
        let found = rows_of(word).unwrap();
        for (row, record) in records.iter().enumerate() {
            let message = record.message.as_deref().unwrap_or_default();
            let has = words_of(message.as_bytes()).contains(&word_term(word.as_bytes()));
            assert_eq!(found[row / 64] >> (row % 64) & 1 == 1, has, "{word} in row {row}");
        }
    }
    assert_eq!((rows_of("17"), rows_of("warn"), rows_of("Error")), (None, None, None));
    let grams = sidecar.grams(0).unwrap().unwrap();
    assert_eq!((grams.pages(b"longword"), grams.pages(b"shortword")), (0b111, 0));
}

#[test]
fn sidecar_of_an_earlier_release_is_rebuilt() {
    let (segment, sidecar) = write(&paged());
    let mut bytes = bytes_of(&*sidecar);
    bytes[4] = 1;
    let check = crc32c::crc32c_append(crc32c::crc32c(&bytes[..6]), &bytes[8..36]) as u16;
    bytes[6..8].copy_from_slice(&check.to_le_bytes());
    let error = Sidecar::open(file(&bytes), &segment).unwrap_err();
    assert!(matches!(error, SidecarError::Damaged("old version")), "{error}");
}

#[test]
fn lists_and_nulls_are_indexed_in_the_rest() {
    let attributes = vec![
        (b"list".as_slice(), Scalar::Int(1)),
        (b"list".as_slice(), Scalar::Text(b"two")),
        (b"none".as_slice(), Scalar::Null),
        (b"plain".as_slice(), Scalar::Int(5)),
    ];
    let (segment, sidecar) = write(&rows_of(&[Input { row: NewRow::default(), attributes }]));
    let sidecar = Sidecar::open(sidecar, &segment).unwrap();
    let paths = sidecar.rest_paths().unwrap();
    assert_eq!(paths.get("list"), RestPath { has_values: true, has_nulls: false });
    assert_eq!(paths.get("none"), RestPath { has_values: false, has_nulls: true });
    assert_eq!(paths.get("plain"), RestPath::default());
    let pages = |value| sidecar.pages(0, value_term("@list", value).unwrap()).unwrap();
    assert_eq!((pages(Scalar::Int(1)), pages(Scalar::Text(b"two"))), (1, 1));
}

#[test]
fn excess_minutes_and_paths_are_dropped() {
    let mut rows = Rows::new();
    for number in 0..70_000_i64 {
        let path = format!("path{}", number % 20_000);
        let row = NewRow { time_ns: number * 60_000_000_000, ..NewRow::default() };
        rows.push(&row, [(path.as_bytes(), Scalar::Int(number))].into_iter()).unwrap();
    }
    let (segment, sidecar) = write(&rows);
    let sidecar = Sidecar::open(sidecar, &segment).unwrap();
    assert!(sidecar.counts(0).unwrap().is_none());
    let paths = sidecar.rest_paths().unwrap();
    assert!(!paths.is_complete());
    assert!(paths.get("never.seen").has_values);
}

#[test]
fn sidecar_of_another_segment_is_rejected() {
    let one = Input { row: NewRow { time_ns: 1, ..NewRow::default() }, attributes: Vec::new() };
    let other = Input { row: NewRow { time_ns: 2, ..NewRow::default() }, attributes: Vec::new() };
    let (segment, _) = write(&rows_of(&[one]));
    let (_, sidecar) = write(&rows_of(&[other]));
    let error = Sidecar::open(sidecar, &segment).unwrap_err();
    assert!(matches!(error, SidecarError::Damaged("belongs to another segment")), "{error}");
}

#[test]
fn empty_segment_has_a_sidecar() {
    let (segment, sidecar) = write(&Rows::new());
    let sidecar = Sidecar::open(sidecar, &segment).unwrap();
    assert!(sidecar.rest_paths().unwrap().is_complete());
}
