//! What rules do to a record: matching, routing, changing, hiding. The same text is read as a raw
//! line, as a CRI line and in docker's JSON, with the same result.

use weir_codec::{Format, LineDecoder};
use weir_model::{
    BatchBuilder, DiscardReason, Position, RecordFlags, Resource, Severity, SourceBook, StreamId,
};
use weir_pipeline::rule::{
    Action, BodyFormat, Keep, Outcome, Pattern, Redaction, Replacement, RulePlan, Rules, Scope,
    SetValue, Subject, Target, Template, Trial, Workspace,
};

const OUTPUTS: [&str; 3] = ["web", "audit", "rest"];

fn rule(name: &str, when: &str, to: &[&str]) -> RulePlan {
    RulePlan {
        name: name.to_owned(),
        when: weir_expr::parse(when).unwrap(),
        to: to.iter().map(|name| (*name).to_owned()).collect(),
        is_final: false,
        keep: Keep::All,
        actions: Vec::new(),
    }
}

fn acting(actions: Vec<Action>) -> Vec<RulePlan> {
    vec![RulePlan { actions, ..rule("act", "*", &["web"]) }]
}

fn set(target: &str, value: &str) -> Action {
    let template = Template::parse(value).unwrap();
    Action::Set(Target::of(target).unwrap(), SetValue::Template(template))
}

fn redact(preset: &str) -> Vec<Action> {
    let with = Replacement::Text("#".to_owned());
    let one = |pattern| {
        Action::Redact(Redaction { pattern, with: with.clone(), scope: Scope::Everything })
    };
    Pattern::preset(preset).unwrap().into_iter().map(one).collect()
}

/// Returns the text in each format in which a container's line may be read.
fn forms(text: &str) -> [(Format, String); 4] {
    let json = serde_json::to_string(&format!("{text}\n")).unwrap();
    // As written by an encoder that escapes more than necessary.
    let wide: Vec<String> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    let wide = wide.concat();
    let time = "2026-01-02T03:04:05.000000006Z";
    [
        (Format::Raw, format!("{text}\n")),
        (Format::Cri, format!("{time} stdout F {text}\n")),
        (
            Format::DockerJson,
            format!("{{\"log\":{json},\"stream\":\"stdout\",\"time\":\"{time}\"}}\n"),
        ),
        (
            Format::DockerJson,
            format!("{{\"log\":\"{wide}\\n\",\"stream\":\"stdout\",\"time\":\"{time}\"}}\n"),
        ),
    ]
}

fn decode(format: Format, line: &str) -> BatchBuilder {
    let mut builder = BatchBuilder::new(Position::default());
    let region = builder.append(line.as_bytes()).unwrap();
    let mut book = SourceBook::default();
    LineDecoder::new(format, 192 * 1024, 0).decode(&mut builder, region, 0, &mut book);
    assert_eq!(builder.record_count(), 1, "{line}");
    builder
}

fn resource() -> Resource {
    Resource::new()
        .with("host.name", "vm")
        .with("service.name", "shop")
        .with("k8s.namespace.name", "prod")
}

/// Returns the outcome for the text, which must be the same in every format.
#[track_caller]
fn outcome(rules: &[RulePlan], text: &str) -> Outcome {
    let outputs = OUTPUTS.map(str::to_owned);
    let default_to = ["rest".to_owned()];
    let mut outcomes = forms(text).into_iter().map(|(format, line)| {
        let mut trial = Trial::new(rules, &outputs, Some(&default_to), "app").unwrap();
        let mut outcome = trial.run(&mut decode(format, &line), &resource());
        if let Some(record) = &mut outcome.record {
            (record.timestamp, record.observed_timestamp) = (0, 0);
        }
        outcome
    });
    let first = outcomes.next().unwrap();
    for other in outcomes {
        assert_eq!(other, first, "{text}");
    }
    first
}

fn message(outcome: &Outcome) -> String {
    String::from_utf8(outcome.record.as_ref().unwrap().body.clone()).unwrap()
}

fn attributes(outcome: &Outcome) -> String {
    outcome.record.as_ref().unwrap().attributes.clone()
}

#[test]
fn records_go_where_the_rules_say_and_else_where_none_says() {
    let rules = [
        rule("shop", "service:shop error", &["web"]),
        rule("denied", "\"access denied\" kube_namespace:prod", &["audit"]),
        rule("all", "source:app /^GET/", &["web"]),
    ];
    let to = |text: &str| outcome(&rules, text).to;
    assert_eq!(to("an error"), ["web"]);
    assert_eq!(to("Error: access denied"), ["web", "audit"]);
    assert_eq!(to("GET /"), ["web"]);
    assert_eq!(to("nothing special"), ["rest"]);
}

#[test]
fn a_final_rule_stops_evaluation_and_a_drop_discards_the_record() {
    let rules = [
        RulePlan { is_final: true, ..rule("final", "one", &["web"]) },
        rule("later", "one OR two", &["audit"]),
        RulePlan { keep: Keep::None, ..rule("drop", "two three", &[]) },
    ];
    assert_eq!(outcome(&rules, "one two three").to, ["web"]);
    assert_eq!(outcome(&rules, "two").to, ["audit"]);
    let dropped = outcome(&rules, "two three");
    assert_eq!((dropped.discarded, dropped.to.len()), (Some(DiscardReason::Rule), 0));
    assert_eq!(dropped.rules, ["later", "drop"]);
}

#[test]
fn without_anywhere_to_go_a_record_is_discarded_by_that_name() {
    let rules = [rule("web", "web", &["web"])];
    let outputs = OUTPUTS.map(str::to_owned);
    let mut trial = Trial::new(&rules, &outputs, Some(&[]), "app").unwrap();
    let outcome = trial.run(&mut decode(Format::Raw, "other\n"), &resource());
    assert_eq!((outcome.discarded, outcome.to.len()), (Some(DiscardReason::Unrouted), 0));
}

#[test]
fn every_when_sees_the_record_as_it_was_read() {
    let rules = [
        RulePlan {
            actions: vec![set("message", "changed"), set("status", "error")],
            ..rule("a", "first", &[])
        },
        rule("b", "first -status:error", &["audit"]),
        rule("c", "changed OR status:error", &["web"]),
    ];
    let outcome = outcome(&rules, "the first");
    assert_eq!(
        (outcome.to.as_slice(), message(&outcome).as_str()),
        (&["audit".to_owned()][..], "changed")
    );
    assert_eq!(outcome.record.unwrap().severity_number.text(), "ERROR");
}

#[test]
fn later_actions_see_what_earlier_ones_did() {
    let rules = acting(vec![
        Action::Parse(vec![BodyFormat::Json]),
        set("@who", "{@user.name} on {host}"),
        set("message", "{@who}: {message}"),
        Action::Remove("user".to_owned()),
    ]);
    let outcome = outcome(&rules, r#"{"user":{"name":"joe","id":7},"n":1}"#);
    assert_eq!(message(&outcome), r#"joe on vm: {"user":{"name":"joe","id":7},"n":1}"#);
    assert_eq!(attributes(&outcome), r#"{"n":1,"who":"joe on vm"}"#);
}

#[test]
fn host_and_service_that_rules_set_are_those_of_the_record() {
    let rules = acting(vec![
        Action::Parse(vec![BodyFormat::Json]),
        set("host", "{@machine}"),
        set("service", "{service} on {host}"),
        set("message", "{host}"),
    ]);
    let outcome = outcome(&rules, r#"{"machine":"web1"}"#);
    let record = outcome.record.as_ref().unwrap();
    assert_eq!(record.resource.text("host.name"), Some("web1"));
    assert_eq!(record.resource.text("service.name"), Some("shop on web1"));
    assert_eq!(record.resource.text("k8s.namespace.name"), Some("prod"));
    assert_eq!(message(&outcome), "web1");
    assert_eq!(attributes(&outcome), r#"{"machine":"web1"}"#);
}

#[test]
fn attributes_of_a_json_body_can_be_asked_for_and_removed() {
    let rules = [RulePlan {
        actions: vec![Action::Remove("secret".to_owned())],
        ..rule("r", "@http.status:>=500", &["web"])
    }];
    let hit = outcome(&rules, r#"{"http":{"status":503},"secret":"x","rest":[1,2]}"#);
    assert_eq!(
        (hit.to.as_slice(), message(&hit).as_str()),
        (&["web".to_owned()][..], r#"{"http":{"status":503},"rest":[1,2]}"#)
    );
    assert_eq!(outcome(&rules, r#"{"http":{"status":200},"secret":"x"}"#).to, ["rest"]);
}

#[test]
fn an_access_log_gives_typed_attributes_and_a_derived_time() {
    let format = weir_codec::LineFormat::parse(
        r#"$remote_addr [$time_local] "$request" $status $request_time $upstream_response_time"#,
    )
    .unwrap();
    let delay = weir_expr::Formula::parse("@duration - @upstream_response_time").unwrap();
    let rules = acting(vec![
        Action::Parse(vec![BodyFormat::Line(format)]),
        Action::Set(Target::of("@queueing_delay").unwrap(), SetValue::Formula(delay)),
    ]);
    let text = r#"1.2.3.4 [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 200 0.300 0.120"#;
    let hit = outcome(&rules, text);
    assert_eq!(message(&hit), text);
    assert_eq!(
        attributes(&hit),
        r#"{"network.client.ip":"1.2.3.4","http.method":"GET","http.url":"/a","http.version":"1.1","http.status_code":200,"duration":300000000,"upstream_response_time":0.12,"queueing_delay":180000000}"#
    );
    // A text that is not in this format stays as it is, without the calculated field.
    let other = outcome(&rules, "not an access log");
    assert_eq!((message(&other).as_str(), attributes(&other).as_str()), ("not an access log", ""));
}

#[test]
fn a_line_wrapped_by_an_agent_is_read_like_the_line_alone() {
    let wrap = |line: &str| {
        let line = line.replace('"', "\\\"");
        format!(r#"{{"message":"{line}","status":"info","service":"agent","ddtags":"a:b"}}"#)
    };
    let rules = acting(vec![Action::Parse(vec![BodyFormat::Json, BodyFormat::Logfmt])]);
    let body = wrap(r#"{"level":"error","n":1,"service":"app","message":"failed"}"#);
    let hit = outcome(&rules, &body);
    assert_eq!(message(&hit), body, "it stays unchanged");
    assert_eq!(
        attributes(&hit),
        r#"{"status":"info","ddtags":"a:b","level":"error","n":1,"service":"app"}"#
    );
    assert_eq!(hit.record.unwrap().severity_number, Severity::ERROR);
    let hit = outcome(&rules, &wrap("status=warn took=5ms"));
    assert_eq!(
        attributes(&hit),
        r#"{"service":"agent","ddtags":"a:b","status":"warn","took":"5ms"}"#
    );
    // A text in no format leaves the agent's values unchanged.
    let hit = outcome(&rules, &wrap("it failed"));
    assert_eq!(attributes(&hit), r#"{"status":"info","service":"agent","ddtags":"a:b"}"#);
    let rules = acting(vec![Action::Parse(vec![BodyFormat::Line(
        weir_codec::LineFormat::parse("$remote_addr $status").unwrap(),
    )])]);
    let hit = outcome(&rules, &wrap("1.2.3.4 503"));
    assert_eq!(attributes(&hit), r#"{"network.client.ip":"1.2.3.4","http.status_code":503}"#);
}

#[test]
fn a_level_in_the_head_of_a_text_is_its_status() {
    let rules =
        vec![rule("errors", "status:error", &["web"]), rule("none", "-status:*", &["audit"])];
    assert_eq!(outcome(&rules, "2026-01-31 12:00:00 ERROR \"quoted\"").to, ["web"]);
    assert_eq!(outcome(&rules, "\u{1b}[31m[error]\u{1b}[0m\tfailed").to, ["web"]);
    assert_eq!(outcome(&rules, "no ERROR found").to, ["audit"]);
    // What the record states takes precedence.
    let stated = r#"{"level":"info","message":"ERROR is in the text"}"#;
    assert_eq!(outcome(&rules, stated).to, ["rest"]);
    // If a rule changed the message, later values are taken from the new one.
    let rules = acting(vec![set("message", "WARN changed"), set("@was", "{status}")]);
    assert_eq!(attributes(&outcome(&rules, "ERROR failed")), r#"{"was":"warn"}"#);
}

#[test]
fn the_head_of_a_text_gives_time_and_severity_when_a_rule_asks() {
    let rules = acting(vec![Action::Parse(vec![BodyFormat::Json, BodyFormat::Text])]);
    let mut trial = Trial::new(&rules, &OUTPUTS.map(str::to_owned), None, "app").unwrap();
    let line = "2026-01-31 12:00:00,123 ERROR failed\n";
    let record = trial.run(&mut decode(Format::Raw, line), &resource()).record.unwrap();
    assert_eq!(record.timestamp, 1_769_860_800_123_000_000);
    assert_eq!(record.severity_number, Severity::ERROR);
    // The time at which it was read is kept.
    assert_eq!((record.observed_timestamp, record.attributes.as_str()), (0, ""));
}

#[test]
fn groups_of_a_pattern_become_attributes() {
    let pattern = Pattern::new(r"took (?<time__ms>\d+)ms by (?<who>\w+)").unwrap();
    let rules = acting(vec![Action::Extract(pattern)]);
    let hit = outcome(&rules, "query took 42ms by \"joe\" took 43ms by ann");
    assert_eq!(attributes(&hit), r#"{"time.ms":43,"who":"ann"}"#);
}

#[test]
fn secrets_are_hidden_behind_every_kind_of_escape() {
    let rules = acting([redact("card"), redact("token"), redact("email")].concat());
    let check =
        |text: &str, want: &str| assert_eq!(message(&outcome(&rules, text)), want, "{text}");
    check("card 4111 1111 1111 1111, \"quoted\"", "card #, \"quoted\"");
    check("password=\"hunt\\er\" next", "password=\"#\\er\" next");
    check("mail to jö+x@example.org\tnow", "mail to jö+#\tnow");
    check(
        r#"{"a":{"card":"\u0034111 1111 1111 1111"},"n":4111111111111111}"#,
        r##"{"a":{"card":"#"},"n":"#"}"##,
    );
    check("nothing to hide here", "nothing to hide here");
}

#[test]
fn numbers_and_names_of_attributes_are_hidden_too() {
    let parse = vec![Action::Parse(vec![BodyFormat::Json])];
    let rules = acting([parse, redact("card"), redact("email"), redact("token")].concat());
    let hit = outcome(
        &rules,
        r#"{"pan":4111111111111111,"by":{"joe@example.org":1},"password":1234,"n":12}"#,
    );
    assert_eq!(message(&hit), r##"{"pan":"#","by":{"#":1},"password":"#","n":12}"##);
    assert_eq!(attributes(&hit), r##"{"pan":"#","#":1,"password":"#","n":12}"##);
}

/// Applies rules to a batch that cannot be read again in smaller pieces.
fn apply_to_fit(rules: &[RulePlan], batch: &mut BatchBuilder, book: &mut SourceBook) {
    let rules = Rules::new(1, rules, &[0], |_| Some(0)).unwrap();
    batch.resource(0, &resource().encode()).unwrap();
    let mut subject = Subject {
        observed_ns: 0,
        batch,
        stream: StreamId(1),
        book,
        clock: &weir_host::RealClock::new(),
        must_fit: true,
    };
    rules.apply(&mut Workspace::new("app"), &mut subject).unwrap();
}

#[test]
fn a_truncated_record_is_marked_and_is_not_an_object() {
    let redaction = Redaction {
        pattern: Pattern::new("x").unwrap(),
        with: Replacement::Text("a good deal longer".to_owned()),
        scope: Scope::Everything,
    };
    let text = format!("{{\"a\":\"{}\"}}\n", "é x".repeat(45_000));
    let mut batch = decode(Format::Json, &text);
    assert!(batch.record(0).flags.contains(RecordFlags::JSON_OBJECT));
    let mut book = SourceBook { lines: 1, records: 1, ..SourceBook::default() };
    apply_to_fit(&acting(vec![Action::Redact(redaction)]), &mut batch, &mut book);
    let record = batch.record(0);
    assert!(record.flags.contains(RecordFlags::TRUNCATED) && book.truncated == 1);
    assert!(!record.flags.contains(RecordFlags::JSON_OBJECT));
    assert!(std::str::from_utf8(record.body).is_ok() && record.body.len() > 300_000);
}

#[test]
fn no_escape_is_split_where_a_record_is_cut() {
    for head in ["", "a"] {
        let body = format!("{head}{}", r"\n".repeat(95_000));
        let time = "2026-01-02T03:04:05.000000006Z";
        let line = format!("{{\"log\":\"{body}\",\"stream\":\"stdout\",\"time\":\"{time}\"}}\n");
        let mut batch = decode(Format::DockerJson, &line);
        batch.reserve_state(weir_model::limits::STATE_BYTES_MAX);
        let mut book = SourceBook { lines: 1, records: 1, ..SourceBook::default() };
        let rules = acting(vec![set("@a", &"y".repeat(60_000))]);
        apply_to_fit(&rules, &mut batch, &mut book);
        let record = batch.record(0);
        assert!(record.flags.contains(RecordFlags::TRUNCATED.with(RecordFlags::JSON_ESCAPED)));
        assert_eq!((record.body.len() - head.len()) % 2, 0, "{}", record.body.len());
        assert!(record.attributes.len() > 60_000);
    }
}

#[test]
fn records_that_do_not_all_fit_are_cut_and_none_is_lost() {
    let mut batch = BatchBuilder::new(Position::default());
    let text = "a line that is not so short\n".repeat(2_000);
    let region = batch.append(text.as_bytes()).unwrap();
    let mut book = SourceBook::default();
    LineDecoder::new(Format::Raw, 192 * 1024, 0).decode(&mut batch, region, 0, &mut book);
    apply_to_fit(&acting(vec![set("@a", &"y".repeat(500))]), &mut batch, &mut book);
    assert_eq!((batch.record_count(), book.records), (2_000, 2_000));
    let whole = (0..2_000).filter(|index| !batch.record(*index).attributes.is_empty()).count();
    assert!(whole > 300 && book.truncated >= 2_000 - whole as u64, "{whole}");
    let last = batch.record(1_999);
    assert_eq!(last.body, b"a line that is not so short");
}

#[test]
fn records_that_no_rule_changes_are_unchanged() {
    let rules = acting(redact("card"));
    for (format, line) in forms("a \"quoted\" line \\ with é and \t") {
        let mut builder = decode(format, &line);
        let body = builder.record(0).body.to_vec();
        let flags = builder.record(0).flags;
        let outputs = OUTPUTS.map(str::to_owned);
        Trial::new(&rules, &outputs, None, "app").unwrap().run(&mut builder, &resource());
        // The builder was sealed: the comparison is with the input of the trial.
        let again = decode(format, &line);
        assert_eq!((again.record(0).body, again.record(0).flags), (body.as_slice(), flags));
    }
}

#[test]
fn records_that_a_rule_cannot_parse_are_unchanged_and_counted_for_it() {
    let line = weir_codec::LineFormat::parse("$remote_addr - $status").unwrap();
    let parse = |name: &str, formats: Vec<BodyFormat>| RulePlan {
        actions: vec![Action::Parse(formats), set("@rule", name)],
        ..rule(name, "-ignored", &[])
    };
    let plans = [
        parse("json", vec![BodyFormat::Json]),
        parse("either", vec![BodyFormat::Line(line), BodyFormat::Json]),
        RulePlan { actions: vec![set("@a", "b")], ..rule("none", "*", &[]) },
    ];
    let rules = Rules::new(1, &plans, &[0], |_| Some(0)).unwrap();
    let mut work = Workspace::new("app");
    for text in ["10.0.0.1 - 200", "no access log", "{\"status\":200}", "{broken", "ignored"] {
        let mut batch = decode(Format::Raw, &format!("{text}\n"));
        batch.resource(0, &resource().encode()).unwrap();
        let mut book = SourceBook { lines: 1, records: 1, ..SourceBook::default() };
        let clock = weir_host::RealClock::new();
        let mut subject = Subject {
            observed_ns: 0,
            batch: &mut batch,
            stream: StreamId(1),
            book: &mut book,
            clock: &clock,
            must_fit: true,
        };
        rules.apply(&mut work, &mut subject).unwrap();
        assert_eq!((batch.record(0).body, book.unaccounted_lines()), (text.as_bytes(), 0));
    }
    let metrics = rules.stats().metrics().into_iter();
    let counts: Vec<_> = metrics.map(|rule| (rule.name, rule.hits, rule.unparsed)).collect();
    let want = [("json", 4, 3), ("either", 4, 2), ("none", 5, 0)];
    assert_eq!(counts, want.map(|(name, hits, unparsed)| (name.to_owned(), hits, unparsed)));
}

#[test]
fn hostile_values_are_kept_as_plain_values() {
    let rules = acting(vec![set("@path", "/log/{@file}/{host}"), set("@n", "{@n}")]);
    for value in ["../../etc", "a\u{0}b", "line\nbreak", &"x".repeat(30_000)] {
        let body = serde_json::json!({ "file": value }).to_string();
        let hit = outcome(&rules, &body);
        let read: serde_json::Value = serde_json::from_str(&attributes(&hit)).unwrap_or_default();
        assert_eq!(read["path"], format!("/log/{value}/vm"));
        assert_eq!(message(&hit), body);
    }
}

#[test]
fn a_trial_explains_its_result() {
    let rules = [rule("r", "service:shop (error OR -@a:1)", &["web"])];
    let outputs = OUTPUTS.map(str::to_owned);
    let mut trial = Trial::new(&rules, &outputs, None, "app").unwrap();
    let builder = decode(Format::Raw, "fine\n");
    let (name, reason) = trial.explain(&builder, &resource()).remove(0);
    assert_eq!((name.as_str(), reason.holds, reason.parts.len()), ("r", true, 2));
    let holds: Vec<bool> = reason.parts[1].parts.iter().map(|part| part.holds).collect();
    assert_eq!(holds, [false, true]);
}

/// Returns whether a rule matches a line of this time that arrives at `observed_ns`.
fn matches_at(when: &str, line: &str, observed_ns: i64) -> bool {
    let plans = [RulePlan { actions: vec![set("@hit", "yes")], ..rule("lag", when, &[]) }];
    let rules = Rules::new(1, &plans, &[0], |_| Some(0)).unwrap();
    let mut batch = decode(Format::Json, line);
    batch.resource(0, &resource().encode()).unwrap();
    let mut book = SourceBook { lines: 1, records: 1, ..SourceBook::default() };
    let clock = weir_host::RealClock::new();
    let mut subject = Subject {
        observed_ns,
        batch: &mut batch,
        stream: StreamId(1),
        book: &mut book,
        clock: &clock,
        must_fit: true,
    };
    rules.apply(&mut Workspace::new("app"), &mut subject).unwrap();
    assert_eq!(book.unaccounted_lines(), 0);
    rules.stats().metrics()[0].hits == 1
}

#[test]
fn a_rule_sees_how_late_a_record_arrives() {
    const TIME_NS: i64 = 1_767_323_045_000_000_000;
    let line = "{\"time\":\"2026-01-02T03:04:05Z\",\"message\":\"m\"}\n";
    for (when, lag_ns, is_match) in [
        ("@lag:>=5s", 5_000_000_000, true),
        ("@lag:>=5s", 4_999_999_999, false),
        ("@lag:5000000000", 5_000_000_000, true),
        ("@lag:<0", -1, true),
        ("@lag:*", 0, true),
        ("-@lag:>5s", 5_000_000_000, true),
    ] {
        assert_eq!(matches_at(when, line, TIME_NS + lag_ns), is_match, "{when} of {lag_ns}");
    }
    let own = "{\"time\":\"2026-01-02T03:04:05Z\",\"lag\":7}\n";
    assert!(matches_at("@lag:7", own, TIME_NS) && !matches_at("@lag:>5s", own, i64::MAX));
    let null = "{\"time\":\"2026-01-02T03:04:05Z\",\"lag\":null}\n";
    assert!(matches_at("@lag:3", null, TIME_NS + 3), "a null is no value");
}
