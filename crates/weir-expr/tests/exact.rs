//! A rule set yields exactly what the naive evaluator yields for each of its rules, whatever the
//! rules, the records, the form of the message, and the constants of the batch.

use proptest::prelude::*;
use serde_json::json;
use weir_expr::{
    Constants, Expr, Field, Fields, Finding, Hits, Limits, Meter, NoConstants, Reserved, Rule,
    RuleSet, SampleRecord, Visitor, naive, parse,
};

/// Parts of messages and of queries.
const PIECES: [&str; 30] = [
    "error",
    "Error",
    "ERR",
    "connection",
    "refused",
    "kiss",
    "s",
    "k",
    "a",
    "ab",
    "abc",
    "GET",
    "/api/v1",
    "timeout",
    "42",
    "é",
    "ſ",
    "\u{212a}",
    "\"",
    "\\",
    "\n",
    "/",
    "<",
    " ",
    " ",
    "-",
    "_",
    "=",
    "\u{1}",
    "日本",
];

const PATTERNS: [&str; 40] = [
    "error",
    "(?i)error",
    "(?i)kiss",
    "(?i)ask|kiss",
    "connection.*refused",
    r"\d+",
    r"^\w+ ",
    r"a+b?c",
    "(error|timeout)",
    "(err|time)(or|out)",
    "[ae]rr",
    r"\berror\b",
    r"\x22",
    r"\\\\",
    r"\n",
    "/api",
    "é",
    "(?i)É",
    r"e.r",
    "x*",
    "(?i)s",
    "a{2,3}",
    "<",
    "GET /api.* 4[0-9]",
    "(?-i)GET",
    "timeout$",
    r"[^\x00-\x7f]",
    r"\pL\d",
    "日",
    "(a|b|c|ab)c",
    "(?i-u)kiss",
    "refused|42 ",
    r"(?s)\n.",
    "(?P<word>err)or",
    "[[:upper:]]{3}",
    "(?i)connection (?i)refused",
    r"\s-\s",
    "_=",
    "(?i)[k-s]iss",
    "[sſ]",
];

fn message() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..14)
        .prop_map(|pieces| pieces.concat())
}

/// The message as one of many JSON encoders would write it.
fn escaped() -> impl Strategy<Value = (String, Vec<u8>)> {
    (message(), any::<u8>(), any::<u64>()).prop_map(|(text, style, seed)| {
        let mut out = String::new();
        for (index, c) in text.chars().enumerate() {
            let by_code = match style % 4 {
                0 => false,
                1 => matches!(c, '<' | '/'),
                2 => !c.is_ascii(),
                _ => seed >> (index % 64) & 1 == 1,
            };
            match c {
                _ if by_code => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.extend(["\\u", &format!("{unit:04x}")]);
                    }
                }
                '"' | '\\' => out.extend(['\\', c]),
                '/' if style & 4 != 0 => out.push_str("\\/"),
                '\n' => out.push_str("\\n"),
                c if c < ' ' => out.extend(["\\u", &format!("{:04x}", c as u32)]),
                c => out.push(c),
            }
        }
        (text, out.into_bytes())
    })
}

fn words() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES.to_vec()), 1..3).prop_map(|pieces| {
        let text: String = pieces.concat();
        format!("\"{}\"", text.replace(['"', '\\'], " "))
    })
}

fn term() -> impl Strategy<Value = String> {
    let pattern = prop::sample::select(PATTERNS.to_vec());
    let fields = vec![
        "service:web",
        "service:w*",
        "service:/w.b/",
        "-service:db",
        "status:error",
        "status:>=warn",
        "status:err*",
        "env:prod",
        "env:(prod OR test)",
        "tags:urgent",
        "@n:42",
        "@n:\"42\"",
        "@n:>41",
        "@n:[1 TO 42}",
        "@n:4*",
        "@n:/4/",
        "@n:*",
        "@d:>300ms",
        "@a.b:x",
        "@a.b:x*",
        "@a.b:?x",
        "@a:*",
        "_missing_:@a",
        "@s:error",
        "@s:err*",
        "@s:\"\"",
        "CIDR(@ip,10.0.0.0/8)",
        "*:error",
        "*:/err/",
        "*",
        "message:*",
        "host:*",
        "@ok:true",
        "@n:42.0",
        "@n:0.5",
        "*_",
        "@s:>=error",
    ];
    let globs = vec!["err*", "*or", "?rr*", "conn*ref", "connection-ref*", "a?", "?", "*é*", "GE?"];
    prop_oneof![
        5 => (pattern, any::<bool>()).prop_map(|(pattern, ignore)| {
            format!("/{}/{}", pattern.replace('/', "\\/"), if ignore { "i" } else { "" })
        }),
        3 => words(),
        1 => prop::sample::select(globs).prop_map(str::to_owned),
        4 => prop::sample::select(fields).prop_map(str::to_owned),
    ]
}

fn query() -> impl Strategy<Value = String> {
    term().prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            3 => inner.clone(),
            1 => inner.clone().prop_map(|query| format!("-({query})")),
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) ({b})")),
            1 => (inner.clone(), inner).prop_map(|(a, b)| format!("({a}) OR ({b})")),
        ]
    })
}

fn record() -> impl Strategy<Value = (SampleRecord, SampleRecord)> {
    let attribute = prop::sample::select(vec![
        json!({}),
        json!({"n": 42}),
        json!({"n": "42", "s": "error"}),
        json!({"n": 41.5, "ok": true, "d": 300_000_001}),
        json!({"n": [1, 42], "d": "310ms", "s": ""}),
        json!({"n": 0.5, "a": {"b": "x"}, "ip": "10.1.1.1"}),
        json!({"a": [{"b": "xy"}, {"b": null}], "ip": ["11.0.0.1", "::ffff:10.0.0.1"]}),
        json!({"a.b": "ax", "s": "errors", "n": null, "ok": "true"}),
    ]);
    let service = prop::sample::select(vec![None, Some("web"), Some("db"), Some("w")]);
    let status = prop::sample::select(vec![json!("ERROR"), json!("info"), json!(3), json!("what")]);
    let tags = prop::sample::select(vec![vec![], vec!["env:prod"], vec!["urgent", "env:test"]]);
    (escaped(), attribute, service, status, tags).prop_map(
        |((text, escaped), attributes, service, status, tags)| {
            let complete = |mut record: SampleRecord| {
                if let Some(service) = service {
                    record = record.with(Reserved::Service, service);
                }
                for tag in &tags {
                    record = record.with_tag(*tag);
                }
                record.with(Reserved::Status, status.clone()).with_attributes(attributes.clone())
            };
            let plain = complete(SampleRecord::with_message(text));
            (plain, complete(SampleRecord::with_escaped_message(escaped)))
        },
    )
}

/// Some fields of one record, declared constant.
struct SomeConstants<'a>(&'a SampleRecord, u8);

impl Constants for SomeConstants<'_> {
    fn constant(&self, field: &Field, visit: &mut Visitor<'_>) -> bool {
        let is_constant = match field {
            Field::Reserved(Reserved::Service) => self.1 & 1 != 0,
            Field::Reserved(_) => self.1 & 2 != 0,
            Field::Tag(_) | Field::Tags => self.1 & 4 != 0,
            Field::Attribute(_) => self.1 & 8 != 0,
            Field::Message | Field::Any => false,
        };
        if is_constant {
            self.0.visit(field, visit);
        }
        is_constant
    }
}

fn rules(queries: &[String]) -> Vec<Rule> {
    let rule = |(index, query): (usize, &String)| Rule {
        name: format!("r{index}"),
        when: parse(query).unwrap_or_else(|error| panic!("{query}: {error}")),
    };
    queries.iter().enumerate().map(rule).collect()
}

fn naive_hits(rules: &[Rule], record: &SampleRecord) -> Vec<usize> {
    let matching = rules.iter().enumerate().filter(|(_, r)| naive::matches(&r.when, record));
    matching.map(|(index, _)| index).collect()
}

#[derive(Default)]
struct Clock {
    now: u64,
    rules: Vec<usize>,
}

impl Meter for Clock {
    fn now_ns(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
    fn shared(&mut self, ns: u64) {
        assert!(ns > 0);
    }
    fn rule(&mut self, rule: usize, ns: u64) {
        assert!(ns > 0);
        self.rules.push(rule);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn rule_set_agrees_with_each_rule_alone(
        queries in prop::collection::vec(query(), 1..12),
        records in prop::collection::vec(record(), 1..6),
        constant in any::<u8>(),
    ) {
        let rules = rules(&queries);
        let set = RuleSet::compile(&rules, Limits::default()).unwrap();
        let mut scratch = set.scratch();
        let mut hits = Hits::default();
        for (plain, escaped) in &records {
            let want = naive_hits(&rules, plain);
            prop_assert_eq!(&naive_hits(&rules, escaped), &want, "naive on {:?}", escaped);
            for record in [plain, escaped] {
                let constants = SomeConstants(record, constant);
                let mut pass = set.batch(&constants, &mut scratch);
                pass.record(record, &mut hits);
                let got: Vec<usize> = hits.iter().collect();
                prop_assert_eq!(&got, &want, "{:?} on {:?}", queries, record);
                let mut clock = Clock::default();
                pass.record_metered(record, &mut hits, &mut clock);
                prop_assert_eq!(hits.iter().collect::<Vec<_>>(), got);
            }
        }
        let mut pass = set.batch(&NoConstants, &mut scratch);
        for (plain, escaped) in &records {
            for record in [plain, escaped] {
                pass.record(record, &mut hits);
                prop_assert_eq!(hits.iter().collect::<Vec<_>>(), naive_hits(&rules, plain));
            }
        }
    }

    #[test]
    fn findings_never_and_always_are_correct(query in query(), (record, _) in record()) {
        let rules = rules(&[query]);
        let set = RuleSet::compile(&rules, Limits::default()).unwrap();
        let matches = naive::matches(&rules[0].when, &record);
        for finding in set.findings() {
            match finding {
                Finding::Never { .. } => prop_assert!(!matches),
                Finding::Always { .. } => prop_assert!(matches),
                Finding::Duplicate { .. } | Finding::NoLiteral { .. } => {}
            }
        }
    }
}

/// Adaptation to the records seen never changes a result: a scratch that has seen thousands of
/// records yields the same as a new one.
#[test]
fn tuning_changes_no_result() {
    let queries = [
        "/took \\d{3}ms/",
        "/(?i)ERROR.*user/",
        "/\\b4\\d{2}\\b/",
        "\"user lost\"",
        "timeout",
        "/[45]\\d\\d \\d{3}$/",
        "/user=\\w+ took/",
        "service:web /error/",
        "conn*",
        "/x+y/",
        "-/took/ error",
        "/took 1.*(error|user)/",
        "id user",
        "/kiſs took/i",
        "/ms user=[a-f]+/",
        "\"lost user lost\" -took",
        "\"42 404\" -\"user lost\" -x",
        "service:web user -(lost OR connect*)",
        "service:web \"error took\" /x .*kiss/",
        "\"x took\" OR \"x kiss\"",
    ];
    let some: Vec<String> = queries.map(str::to_owned).into();
    // These demand a second search for nearly every record.
    let asking = ["/ms/ -lost -x", "/ms/ \"kiss took\" -(user OR timeout)"].map(str::to_owned);
    let all = [&some[..], &asking].concat();
    for queries in [some, all] {
        adapts(&rules(&queries));
    }
}

fn adapts(rules: &[Rule]) {
    let set = RuleSet::compile(rules, Limits::default()).unwrap();
    let mut seasoned = set.scratch();
    let words = ["took", "error", "user=abc", "user", "lost", "42", "404", "x", "connect", "kiss"];
    let (mut hits, mut again) = (Hits::default(), Hits::default());
    let mut seed = 1_u32;
    for round in 0..3000 {
        let mut text = String::new();
        for _ in 0..12 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let word = words[(seed >> 16) as usize % words.len()];
            let number = if seed >> 31 == 0 { format!("{}ms ", seed >> 22) } else { String::new() };
            text.extend([word, " ", &number]);
        }
        if round % 50 == 7 {
            text.push_str("KIſS 123");
        }
        let mut record = SampleRecord::with_message(text);
        if round % 3 == 0 {
            record = record.escaped().with(Reserved::Service, "web");
        }
        set.batch(&NoConstants, &mut seasoned).record(&record, &mut hits);
        set.batch(&NoConstants, &mut set.scratch()).record(&record, &mut again);
        assert_eq!(hits, again, "record {round}: {record:?}");
    }
}

#[test]
fn findings_report_notable_rules() {
    let queries = [
        "service:web error",
        "service:a service:b",
        "@n:[5 TO 1]",
        "error service:web",
        "x OR -x",
        r"/\d+/",
        "status:bogus",
        "a -a",
    ];
    let rules = rules(&queries.map(str::to_owned));
    let set = RuleSet::compile(&rules, Limits::default()).unwrap();
    let findings = set.findings();
    let never: Vec<usize> = findings
        .iter()
        .filter_map(|finding| match finding {
            Finding::Never { rule, .. } => Some(*rule),
            _ => None,
        })
        .collect();
    assert_eq!(never, [1, 2, 6, 7]);
    assert!(findings.contains(&Finding::Duplicate { rule: 3, of: 0 }));
    assert!(findings.contains(&Finding::Always { rule: 4 }));
    assert!(findings.contains(&Finding::NoLiteral { rule: 5, pattern: r"/\d+/".to_owned() }));
    assert_eq!(findings.len(), 7);
}

#[test]
fn too_large_rule_sets_are_rejected() {
    let rule = |query: &str| Rule { name: "big".to_owned(), when: parse(query).unwrap() };
    let error = RuleSet::compile(&[rule(r"/\w{1000}/")], Limits::default()).unwrap_err();
    assert!(error.to_string().contains("rule \"big\": /\\w{1000}/ takes more than"), "{error}");
    let few = Limits { rules: 1, ..Limits::default() };
    assert!(RuleSet::compile(&[rule("a"), rule("b")], few).is_err());
    let small = Limits { regexp_bytes: 10, ..Limits::default() };
    assert!(RuleSet::compile(&[rule(r"/a\d+c/")], small).is_err());
    assert!(RuleSet::compile(&[], Limits::default()).unwrap().is_empty());
    assert!(Expr::all().normalized().is_always());
}
