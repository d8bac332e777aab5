//! Paths from hostile values: each stays one name, below the base.

use proptest::prelude::*;
use weir_expr::{Body, Reserved, Value, Visitor};

use super::*;

/// Returns the same text for every field.
struct Says<'a>(&'a [u8]);

impl Fields for Says<'_> {
    fn body(&self) -> Body<'_> {
        Body { bytes: b"", json_escaped: false }
    }

    fn visit(&self, field: &Field, visit: &mut Visitor<'_>) {
        match field {
            Field::Reserved(Reserved::Host) => visit(Value::Text(b"vm")),
            Field::Tag(_) => {}
            _ => {
                visit(Value::Text(self.0));
                visit(Value::Text(b"second"));
            }
        }
    }
}

/// 2026-02-03T04:59:59.999999999Z.
const ARRIVAL_NS: i64 = 1_770_094_799_999_999_999;

fn filled(template: &str, value: &[u8]) -> String {
    let mut out = String::new();
    FilePath::parse(template).unwrap().fill(&Says(value), ARRIVAL_NS, &mut out);
    out
}

#[test]
fn the_base_is_what_stands_before_the_first_field() {
    let base = |text: &str| FilePath::parse(text).unwrap().base().to_owned();
    assert_eq!(base("/log/{host}/{service}.log"), Path::new("/log"));
    assert_eq!(base("/log/a-{host}.log"), Path::new("/log"));
    assert_eq!(base("/{host}.log"), Path::new("/"));
    assert_eq!(base("{host}.log"), Path::new("."));
    assert_eq!(base("/log/a{{b}}.log"), Path::new("/log/a{b}.log"));
    assert!(!FilePath::parse("/log/a{{b}}.log").unwrap().is_template());
}

#[test]
fn fields_are_filled_in_and_missing_ones_leave_a_mark() {
    assert_eq!(filled("/log/{host}/x-{service}.log", b"web"), "vm/x-web.log");
    assert_eq!(filled("/log/{nothing}/{@a}", b""), "_/_");
}

#[test]
fn the_time_of_receipt_can_be_part_of_a_path() {
    assert_eq!(filled("/log/{arrival:%Y}/{arrival:%m}/{host}-{arrival:%d}", b""), "2026/02/vm-03");
    assert_eq!(filled("/log/all-{arrival:%Y-%m-%dT%H}.log", b""), "all-2026-02-03T04.log");
    let path = FilePath::parse("/log/all-{arrival:%Y%m%d}.log").unwrap();
    assert!(path.is_template() && path.has_time());
    assert_eq!((path.base(), path.fields().count()), (Path::new("/log"), 0));
    assert_eq!(path.example(), Path::new("/log/all-00000000.log"));
    assert!(path.covers(Path::new("/log/all-20260203.log")));
    assert!(!path.covers(Path::new("/log/other-20260203.log")));
    for format in ["", "Y", "%", "%Y/%m", "%j", "%Y%ü"] {
        let error = FilePath::parse(&format!("/log/{{arrival:{format}}}.log")).unwrap_err();
        assert_eq!(error, FilePathError::Time(format.to_owned()));
    }
    let five = FilePath::parse("/log/{arrival:%Y%m%d%H%H}.log").unwrap_err();
    assert!(matches!(five, FilePathError::Long(_)), "{five}");
}

#[test]
fn hostile_values_stay_one_name_below_the_base() {
    for (value, name) in [
        (&b".."[..], "_"),
        (b".", "_"),
        (b"../../etc/passwd", ".._.._etc_passwd"),
        (b"/etc/passwd", "_etc_passwd"),
        (b"a\0b\nc\x1b[2J", "a_b_c_[2J"),
        (b"\xff\xfe", "__"),
        ("a\u{85}b".as_bytes(), "a_b"),
        (b"app.log.20261122T011500.123Z.gz", "app.log.20261122T011500.123Z.gz_"),
    ] {
        assert_eq!(filled("/log/{service}", value), name, "{value:?}");
    }
}

#[test]
fn long_values_are_cut_and_stay_apart() {
    let one = vec![b'a'; 1 << 20];
    let mut two = one.clone();
    two.push(b'b');
    let (one, two) = (filled("/log/{service}.log", &one), filled("/log/{service}.log", &two));
    assert!(one.len() <= NAME_BYTES_MAX - SUFFIX_BYTES, "{one}");
    assert_eq!(one.strip_suffix(".log").map(|name| name.contains('~')), Some(true));
    assert_ne!(one, two);
}

#[test]
fn invalid_paths_are_explained() {
    let error = |text: &str| FilePath::parse(text).unwrap_err();
    assert_eq!(error("/log/{host"), TemplateError::Open(5).into());
    assert_eq!(error("/log/host}"), TemplateError::Close(9).into());
    assert_eq!(error("/log/{}"), TemplateError::Empty(5).into());
    assert_eq!(error("/log/{host}/../x"), FilePathError::Dots("..".to_owned()));
    assert_eq!(error("/log/{host}/"), FilePathError::Directory);
    assert_eq!(error("/log/{message}"), FilePathError::Message);
    assert!(matches!(error("/{a}{b}{c}{d}{e}"), FilePathError::Long(_)));
}

#[test]
fn its_own_files_are_known_again() {
    let path = FilePath::parse("/log/{host}/x-{service}.log").unwrap();
    let covers = |text: &str| path.covers(Path::new(text));
    assert!(covers("/log/a/x-b.log"));
    assert!(covers("/log/a/x-b.log.20261122T011500.123Z"));
    assert!(covers("/log/a/x-b.log.20261122T011500.123Z.gz"));
    assert!(!covers("/log/a/b.log"));
    assert!(!covers("/log/x-b.log"));
    assert!(!covers("/log/a/x-b.txt"));
    let fixed = FilePath::parse("/log/out.log").unwrap();
    assert!(fixed.covers(Path::new("/log/out.log.20261122T011500.123Z")));
    assert!(fixed.covers(Path::new("/log/out.log")));
    assert!(!fixed.covers(Path::new("/log/out.log.1")));
}

proptest! {
    #[test]
    fn no_value_escapes_the_base_directory(value in proptest::collection::vec(any::<u8>(), 0..600)) {
        let path = FilePath::parse("/log/{service}/{@a}{@b}.{@c}").unwrap();
        let mut out = String::new();
        path.fill(&Says(&value), ARRIVAL_NS, &mut out);
        let names: Vec<&str> = out.split('/').collect();
        prop_assert_eq!(names.len(), 2);
        for name in names {
            prop_assert!(!matches!(name, "" | "." | ".."));
            prop_assert!(name.len() <= NAME_BYTES_MAX - SUFFIX_BYTES + 1);
            prop_assert!(!name.chars().any(char::is_control));
        }
        prop_assert!(path.covers(&Path::new("/log").join(&out)));
    }
}
