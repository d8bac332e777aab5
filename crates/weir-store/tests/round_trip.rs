//! Whatever is written to a segment is read back from it.

mod support;

use proptest::prelude::*;
use support::{Input, open, read_all, rows_of, write};
use weir_codec::{LoggregatorPacker, Scalar};
use weir_store::embedded::columns::{AttributeValue, Form, NewRow, Rows, StoredRecord};
use weir_store::embedded::segment::{Role, Segment, ValueKind};

/// Texts that look like other values, and arbitrary texts.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-z]{0,8}".prop_map(String::into_bytes),
        2 => ".{0,30}".prop_map(String::into_bytes),
        2 => prop_oneof![
            Just("007"), Just("1e400"), Just("-0.0"), Just("300ms"), Just("1.5s"), Just("10MiB"),
            Just("12"), Just("true"), Just("null"), Just("{\"a\":1}"), Just("[1,2]"), Just("NaN"),
        ].prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ]
}

/// A value, or a text of arbitrary bytes.
#[derive(Debug, Clone)]
enum Given {
    Value(AttributeValue),
    Text(Vec<u8>),
}

impl Given {
    fn as_scalar(&self) -> Scalar<'_> {
        match self {
            Self::Value(value) => value.as_scalar(),
            Self::Text(text) => Scalar::Text(text),
        }
    }
}

fn int(number: i64) -> Given {
    Given::Value(AttributeValue::Int(number))
}

fn float(number: f64) -> Given {
    Given::Value(AttributeValue::Float(number))
}

fn truth(truth: bool) -> Given {
    Given::Value(AttributeValue::Bool(truth))
}

fn value() -> impl Strategy<Value = Given> {
    prop_oneof![
        1 => Just(Given::Value(AttributeValue::Null)),
        2 => any::<bool>().prop_map(truth),
        3 => any::<i64>().prop_map(int),
        3 => (-5_i64..5).prop_map(int),
        3 => any::<f64>().prop_map(float),
        2 => prop_oneof![Just(-0.0), Just(0.0), Just(1.0), Just(0.1)].prop_map(float),
        6 => text().prop_map(Given::Text),
    ]
}

/// A path whose values tend to be of one type, so that each type of column occurs.
fn attribute() -> impl Strategy<Value = (Vec<u8>, Given)> {
    prop_oneof![
        (Just("int"), any::<i64>().prop_map(int)),
        (Just("small"), (0_i64..4).prop_map(int)),
        (Just("double"), (-1e9..1e9).prop_map(float)),
        (Just("double"), (-9_i64..9).prop_map(int)),
        (Just("bool"), any::<bool>().prop_map(truth)),
        (Just("text"), text().prop_map(Given::Text)),
        (Just("took"), (0_u32..900).prop_map(|ms| Given::Text(format!("{ms}ms").into_bytes()))),
        (Just("mixed"), value()),
        (Just("mixed.more"), value()),
    ]
    .prop_map(|(path, value)| (path.as_bytes().to_vec(), value))
    .boxed()
    .prop_union((proptest::collection::vec(any::<u8>(), 1..6), value()).boxed())
}

#[derive(Debug, Clone)]
struct Record {
    fixed: [Option<Vec<u8>>; 9],
    numbers: (i64, u64, u64, u32, u64, u64),
    attributes: Vec<(Vec<u8>, Given)>,
    received: Option<Vec<u8>>,
    arrival_ns: Option<i64>,
}

/// The packed bytes of an envelope of one of a few sources, or of something else.
fn received() -> impl Strategy<Value = Vec<u8>> {
    let content = proptest::collection::vec(any::<u8>(), 0..5);
    (0_u8..4, content).prop_map(|(app, content)| {
        let mut envelope = vec![0x12, 1, b'a' + app, 0x2a, content.len() as u8];
        envelope.extend_from_slice(&content);
        // An envelope that ends within a field is packed as a whole.
        envelope.truncate(if app == 3 { 4 } else { envelope.len() });
        LoggregatorPacker::default().pack(&envelope, b"", 0).to_vec()
    })
}

fn record() -> impl Strategy<Value = Record> {
    let fixed = proptest::array::uniform9(proptest::option::weighted(0.8, text()));
    let numbers = (any::<i64>(), any::<u64>(), 0_u64..3, 0_u32..2, any::<u64>(), any::<u64>());
    let received = proptest::option::weighted(0.8, received());
    // The least number stands for no arrival.
    let arrival_ns = proptest::option::weighted(0.8, i64::MIN + 1..);
    let attributes = proptest::collection::vec(attribute(), 0..7);
    (fixed, numbers, attributes, received, arrival_ns).prop_map(
        |(fixed, numbers, attributes, received, arrival_ns)| Record {
            fixed,
            numbers,
            attributes,
            received,
            arrival_ns,
        },
    )
}

impl Record {
    fn input(&self) -> Input<'_> {
        let [service, host, source, status, tags, resource, message, trace_id, span_id] =
            self.fixed.each_ref().map(Option::as_deref);
        let (time_ns, sequence, stream, epoch, offset, form) = self.numbers;
        let row = NewRow {
            time_ns,
            sequence,
            stream,
            position: weir_model::Position::new(epoch, offset),
            form: Form(form),
            service,
            host,
            source,
            status,
            tags,
            resource,
            message,
            trace_id,
            span_id,
            received: self.received.as_deref(),
            arrival_ns: self.arrival_ns,
        };
        let attributes =
            self.attributes.iter().map(|(path, value)| (path.as_slice(), value.as_scalar()));
        Input { row, attributes: attributes.collect() }
    }
}

/// Asserts that copied rows are the records, all of them or some.
fn assert_copies_are(segment: &Segment, records: &[StoredRecord]) {
    for step in [1, 3] {
        let mut copied = Rows::new();
        for group in 0..segment.group_count() {
            segment.copy_group(group, |row| row % step == 0, &mut copied).unwrap();
        }
        let copied = (0..copied.len()).map(|row| copied.record(row).unwrap());
        assert!(copied.eq(records.iter().step_by(step).cloned()), "every {step}th record");
    }
}

/// Asserts that each record of the rows is in the segment exactly once.
fn assert_comes_back(rows: &Rows) {
    let file = write(rows);
    let segment = open(&file);
    let mut found = read_all(&segment);
    assert_copies_are(&segment, &found);
    let mut wanted: Vec<_> = (0..rows.len()).map(|row| rows.record(row).unwrap()).collect();
    assert_eq!(found.len(), wanted.len());
    let key = |record: &StoredRecord| (record.sequence, record.time_ns, format!("{record:?}"));
    found.sort_by_key(key);
    wanted.sort_by_key(key);
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn records_round_trip(records in proptest::collection::vec(record(), 0..40)) {
        let inputs: Vec<Input<'_>> = records.iter().map(Record::input).collect();
        assert_comes_back(&rows_of(&inputs));
    }

    #[test]
    fn invalid_utf8_is_kept_in_the_raw_column(
        message in proptest::collection::vec(any::<u8>(), 0..20),
        path in proptest::collection::vec(any::<u8>(), 1..20),
        value in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let row = NewRow { message: Some(&message), ..NewRow::default() };
        let input = Input { row, attributes: vec![(&path, Scalar::Text(&value))] };
        let file = write(&rows_of(&[input]));
        let record = read_all(&open(&file)).remove(0);
        let texts = [&message, &path, &value].map(|text| String::from_utf8_lossy(text));
        prop_assert_eq!(record.message.as_deref(), Some(&*texts[0]));
        prop_assert_eq!(&record.attributes[0].0, &*texts[1]);
        let is_text =
            [&message, &path, &value].iter().all(|text| std::str::from_utf8(text).is_ok());
        prop_assert_eq!(record.original.is_none(), is_text);
        if let Some(original) = record.original {
            prop_assert_eq!(original.message(), &message);
            let attributes: Vec<_> = original.attributes().collect();
            prop_assert_eq!(attributes, vec![(path.as_slice(), Scalar::Text(&value))]);
        }
    }
}

#[test]
fn rows_of_several_pages_round_trip() {
    let mut rows = Rows::new();
    let mut rng = fastrand::Rng::with_seed(5);
    for number in 0..40_000_u64 {
        let message = format!("message {number} of {}", rng.u32(..1000));
        let id = format!("{:016x}", rng.u64(..));
        let row = NewRow {
            time_ns: 1_700_000_000_000_000_000 + rng.i64(..1_000_000_000),
            sequence: number,
            stream: rng.u64(..3),
            service: Some([b"web".as_slice(), b"api", b"db"][rng.usize(..3)]),
            message: Some(message.as_bytes()),
            ..NewRow::default()
        };
        let mut attributes = vec![(b"id".as_slice(), Scalar::Text(id.as_bytes()))];
        if number % 3 == 0 {
            attributes.push((b"status", Scalar::Int(rng.i64(200..205))));
        }
        if number > 20_000 {
            attributes.push((b"late", Scalar::Float(0.5 + number as f64)));
        }
        rows.push(&row, attributes.into_iter()).unwrap();
    }
    assert_comes_back(&rows);
}

#[test]
fn huge_values_round_trip() {
    let huge = vec![b'x'; 400_000];
    let row = NewRow { message: Some(&huge), ..NewRow::default() };
    let input = || Input { row, attributes: vec![(b"a", Scalar::Text(&huge))] };
    assert_comes_back(&rows_of(&[input(), input(), input()]));
}

#[test]
fn empty_segment_round_trips() {
    let file = write(&Rows::new());
    let segment = open(&file);
    assert_eq!((segment.row_count(), segment.group_count()), (0, 0));
}

fn kinds_of(values: &[Scalar<'_>]) -> Vec<(Role, ValueKind)> {
    let inputs: Vec<Input<'_>> = values
        .iter()
        .map(|value| Input { row: NewRow::default(), attributes: vec![(b"a", *value)] })
        .collect();
    let file = write(&rows_of(&inputs));
    let columns = open(&file).columns().to_vec();
    let is_own = |role: &Role| !matches!(role, Role::Fixed(_));
    columns.into_iter().filter(|c| is_own(&c.role)).map(|c| (c.role, c.kind)).collect()
}

/// Values of a path, and the resulting columns.
type Case<'a> = (&'a [Scalar<'a>], Vec<(Role, ValueKind)>);

#[test]
fn column_has_the_common_type_of_its_values() {
    let attribute = || Role::Attribute("a".to_owned());
    let number = || Role::Number("a".to_owned());
    let kind = || Role::Kind("a".to_owned());
    let text = |text: &'static str| Scalar::Text(text.as_bytes());
    let cases: [Case<'_>; 10] = [
        (&[Scalar::Int(1), Scalar::Int(i64::MAX)], vec![(attribute(), ValueKind::Int)]),
        (&[Scalar::Int(1), Scalar::Float(0.5)], vec![(attribute(), ValueKind::Double)]),
        (&[Scalar::Bool(true)], vec![(attribute(), ValueKind::Bool)]),
        (&[text("007x"), text("b")], vec![(attribute(), ValueKind::Text)]),
        (
            &[text("300ms"), text("1.5s")],
            vec![(attribute(), ValueKind::Text), (number(), ValueKind::Double)],
        ),
        // Times and sizes: a single column cannot tell which is meant.
        (&[text("300ms"), text("1MiB")], vec![(attribute(), ValueKind::Text)]),
        (
            &[Scalar::Int(5), text("five")],
            vec![
                (attribute(), ValueKind::Text),
                (kind(), ValueKind::Int),
                (number(), ValueKind::Double),
            ],
        ),
        // A float cannot hold both exactly.
        (
            &[Scalar::Int(i64::MAX), Scalar::Float(0.5)],
            vec![(attribute(), ValueKind::Text), (kind(), ValueKind::Int)],
        ),
        (&[Scalar::Null], vec![(Role::Rest, ValueKind::Text)]),
        (&[Scalar::Float(1.0), Scalar::Int(2)], vec![(attribute(), ValueKind::Int)]),
    ];
    for (values, wanted) in cases {
        assert_eq!(kinds_of(values), wanted, "{values:?}");
    }
}

#[test]
fn excess_paths_and_lists_are_in_the_rest() {
    let paths: Vec<String> = (0..600).map(|number| format!("path.{number:03}")).collect();
    let texts: Vec<String> = (0..600).map(|number| "x".repeat(number)).collect();
    let mut attributes: Vec<(&[u8], Scalar<'_>)> = paths
        .iter()
        .zip(&texts)
        .map(|(path, text)| (path.as_bytes(), Scalar::Text(text.as_bytes())))
        .collect();
    attributes.push((b"list", Scalar::Int(1)));
    attributes.push((b"list", Scalar::Text(b"two")));
    attributes.push((b"list", Scalar::Null));
    let rows = rows_of(&[Input { row: NewRow::default(), attributes }]);
    assert_comes_back(&rows);
    let file = write(&rows);
    let segment = open(&file);
    let own = segment.columns().iter().filter(|c| matches!(c.role, Role::Attribute(_))).count();
    assert!((255..=256).contains(&own), "{own}");
    // The largest have columns of their own.
    assert!(segment.column(&Role::Attribute("path.599".to_owned())).is_some());
    assert!(segment.column(&Role::Attribute("path.000".to_owned())).is_none());
    assert!(segment.column(&Role::Rest).is_some());
}

#[test]
fn row_with_a_rest_too_large_to_read_is_not_copied() {
    // About 250 have columns of their own: the rest are more than may be listed.
    let paths: Vec<String> = (0..1400).map(|number| format!("path.{number:04}")).collect();
    let input = |sequence: u64, count: usize| Input {
        row: NewRow { sequence, ..NewRow::default() },
        attributes: paths[..count].iter().map(|p| (p.as_bytes(), Scalar::Int(1))).collect(),
    };
    let segment = open(&write(&rows_of(&[input(0, 600), input(1, 1400)])));
    let copied = |wanted: usize| {
        let mut rows = Rows::new();
        segment.copy_group(0, |row| row == wanted, &mut rows).map(|()| rows)
    };
    let whole = copied(0).unwrap();
    assert_eq!(whole.record(0).unwrap().attributes.len(), 600);
    assert!(copied(1).is_err_and(|error| error.is_damage()));
}

#[test]
fn escaped_path_stays_within_the_readable_length() {
    let path = [b"a".as_slice(), &[0xff; weir_codec::PATH_BYTES_MAX - 1]].concat();
    // A list, which is stored in `_rest`.
    let attributes: Vec<_> = (1..=2).map(|n| (path.as_slice(), Scalar::Int(n))).collect();
    let rows = rows_of(&[Input { row: NewRow::default(), attributes }]);
    let known = &rows.record(0).unwrap().attributes;
    assert!(known.len() == 1 && known[0].0.len() > 1000, "{known:?}");
    assert_comes_back(&rows);
}
