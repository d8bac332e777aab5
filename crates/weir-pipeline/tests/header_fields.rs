//! The header of syslog messages: one query finds a received message and a parsed line, in rules
//! and in live tails.

mod harness;

use std::sync::Arc;

use harness::{DEADLINE, Line, Rig};
use weir_host::RealClock;
use weir_model::{
    BatchBuilder, Facility, NewRecord, Position, Resource, Severity, SourceBook, StreamId,
};
use weir_pipeline::config::OutputKind;
use weir_pipeline::live::{LiveEvent, LiveTail};
use weir_pipeline::rule::{
    Action, Keep, Outcome, RulePlan, RuleSwitch, Rules, SetValue, Subject, Target, Template, Trial,
    Workspace,
};
use weir_pipeline::view::PipelineView;

/// Queries that find the message whether it was received or parsed.
const FOUND: [&str; 19] = [
    "facility:auth",
    "facility:(auth OR mail)",
    "app_name:sshd",
    "service:sshd",
    "procid:4711",
    "procid:>4000",
    "msgid:ID47",
    "host:web*",
    "status:notice",
    "@syslog.facility:auth",
    "@syslog.severity:notice",
    "@syslog.hostname:web-1",
    "@syslog.appname:/^ssh/",
    "@syslog.procid:4711",
    "@syslog.msgid:ID*",
    "*:auth",
    "*:4711",
    "*:notice",
    "-facility:mail -procid:4712 -@syslog.msgid:ID48",
];

/// Queries on what only a received message has.
const RECEIVED: [&str; 3] = ["peer:10.0.0.7", "CIDR(peer,10.0.0.0/8)", "peer:10.*"];

/// Queries that find neither.
const NOT_FOUND: [&str; 8] = [
    "facility:mail",
    "-facility:auth",
    "app_name:cron",
    "procid:<4000",
    "-@syslog.hostname:*",
    "@syslog.severity:info",
    "*:mail",
    "CIDR(peer,192.0.2.0/24)",
];

fn all() -> impl Iterator<Item = &'static str> {
    FOUND.into_iter().chain(RECEIVED).chain(NOT_FOUND)
}

fn sender() -> Resource {
    Resource::new()
        .with("host.name", "web-1")
        .with("service.name", "sshd")
        .with("network.peer.address", "10.0.0.7")
}

fn parsed() -> Line {
    Line {
        attributes: r#"{"syslog.facility":"auth","syslog.severity":"notice",
            "syslog.hostname":"web-1","syslog.appname":"sshd","syslog.procid":"4711",
            "syslog.msgid":"ID47"}"#
            .to_owned(),
        severity: Severity::NOTICE,
        ..Line::new("<37>1 - web-1 sshd 4711 ID47 - denied")
    }
}

fn of_file() -> Resource {
    Resource::new().with("log.file.path", "/var/log/messages")
}

fn push(batch: &mut BatchBuilder, line: &Line, resource: u16) {
    let body = batch.append(&line.body).unwrap();
    let attributes = batch.append(line.attributes.as_bytes()).unwrap();
    let process_id = batch.append(line.process_id.as_bytes()).unwrap();
    let message_id = batch.append(line.message_id.as_bytes()).unwrap();
    let record = NewRecord {
        end_offset: batch.arena().len() as u64,
        body,
        attributes,
        severity: line.severity,
        flags: line.flags,
        process_id,
        message_id,
        facility: line.facility,
        resource,
        ..NewRecord::default()
    };
    batch.push(&record).unwrap();
}

fn plan(when: &str, actions: Vec<Action>) -> RulePlan {
    RulePlan {
        name: when.to_owned(),
        when: weir_expr::parse(when).unwrap(),
        to: vec!["out".to_owned()],
        is_final: false,
        keep: Keep::All,
        actions,
    }
}

fn set(target: &str, value: &str) -> Action {
    let template = Template::parse(value).unwrap();
    Action::Set(Target::of(target).unwrap(), SetValue::Template(template))
}

fn outcome(plans: &[RulePlan], line: &Line, resource: &Resource) -> Outcome {
    let mut batch = BatchBuilder::new(Position::default());
    push(&mut batch, line, 0);
    Trial::new(plans, &["out".to_owned()], None, "syslog").unwrap().run(&mut batch, resource)
}

#[test]
fn one_rule_finds_received_messages_and_parsed_lines() {
    let plans: Vec<RulePlan> = all().map(|when| plan(when, Vec::new())).collect();
    let received = outcome(&plans, &Line::syslog("denied"), &sender());
    assert_eq!(received.rules, [&FOUND[..], &RECEIVED].concat());
    assert_eq!(outcome(&plans, &parsed(), &of_file()).rules, FOUND);
}

#[test]
fn a_record_without_a_header_says_nothing_about_it() {
    let paths = ["facility", "severity", "hostname", "appname", "procid", "msgid"];
    let mut plans = paths.map(|name| plan(&format!("@syslog.{name}:*"), Vec::new())).to_vec();
    let keys = ["facility:*", "procid:*", "msgid:*", "peer:*"];
    plans.extend(keys.map(|when| plan(when, Vec::new())));
    let service = Resource::new().with("host.name", "web-1").with("service.name", "shop");
    let line = Line { severity: Severity::ERROR, ..Line::new("an error") };
    assert_eq!(outcome(&plans, &line, &service).rules, [] as [&str; 0]);
}

#[test]
fn attributes_in_the_body_do_not_set_the_header() {
    let plans = ["facility:auth", "facility:mail", "@syslog.procid:1", "@syslog.procid:4711"]
        .map(|when| plan(when, Vec::new()));
    let line = Line::syslog(r#"{"syslog":{"facility":"mail","procid":"1"}}"#);
    assert_eq!(outcome(&plans, &line, &sender()).rules, ["facility:auth", "@syslog.procid:4711"]);
    // Structured data may have an element of that name.
    let line =
        Line { attributes: r#"{"syslog.procid.x":"1"}"#.to_owned(), ..Line::syslog("denied") };
    assert_eq!(outcome(&plans, &line, &sender()).rules, ["facility:auth", "@syslog.procid:4711"]);
}

#[test]
fn header_fields_set_by_a_rule_apply_to_later_rules() {
    let actions = vec![
        set("facility", "local0"),
        set("facility", "no such facility"),
        set("app_name", "login"),
        set("msgid", &"é".repeat(20)),
        set("@was", "{facility}/{app_name}/{procid}/{@syslog.hostname}/{peer}"),
    ];
    let rules = [plan("*", actions)];
    let received = outcome(&rules, &Line::syslog("denied"), &sender()).record.unwrap();
    assert_eq!(received.attributes, r#"{"was":"local0/login/4711/web-1/10.0.0.7"}"#);
    assert_eq!(received.facility, Some(16));
    assert_eq!(received.process_id, "4711");
    assert_eq!(received.message_id, "é".repeat(16));
    assert_eq!(received.resource.text("service.name"), Some("login"));
    // In place of what was parsed from the line.
    let parsed = outcome(&rules, &parsed(), &of_file()).record.unwrap();
    assert_eq!(parsed.facility, Some(16));
    let attributes: serde_json::Value = serde_json::from_str(&parsed.attributes).unwrap();
    assert_eq!(attributes["was"], "local0/login/4711/web-1/");
    assert_eq!(attributes["syslog.procid"], "4711");
    assert!(attributes.get("syslog.facility").is_none());
    let attribute = [plan("*", vec![set("@syslog.facility", "x"), set("@was", "{facility}")])];
    let record = outcome(&attribute, &Line::syslog("denied"), &sender()).record.unwrap();
    assert_eq!(record.attributes, r#"{"syslog.facility":"x","was":"x"}"#);
}

#[test]
fn a_resource_is_changed_for_each_of_several_in_a_batch() {
    let plans = [plan("app_name:(a OR b)", vec![set("host", "{@h}")])];
    let rules = Rules::new(1, &plans, &[], |_| Some(0)).unwrap();
    let mut batch = BatchBuilder::new(Position::default());
    let names = ["a", "b", "c"];
    let resources = names.map(|name| {
        let resource = Resource::new().with("service.name", name).with("host.name", "old");
        batch.resource(7, &resource.encode()).unwrap()
    });
    for round in 0..6 {
        for resource in resources {
            let attributes = format!(r#"{{"h":"h{}"}}"#, round / 2);
            push(&mut batch, &Line { attributes, ..Line::syslog("x") }, resource);
        }
    }
    let mut book = SourceBook { lines: 18, records: 18, ..SourceBook::default() };
    let mut work = Workspace::new("syslog");
    let mut subject = Subject {
        observed_ns: 0,
        batch: &mut batch,
        stream: StreamId(1),
        book: &mut book,
        clock: &RealClock::new(),
        must_fit: true,
    };
    rules.apply(&mut work, &mut subject).unwrap();
    // Those of c are not routed.
    assert_eq!((batch.record_count(), book.records), (12, 12));
    for index in 0..12 {
        let view = batch.record(index);
        let resource = Resource::decode(batch.resource_at(view.resource()).encoded);
        assert_eq!(resource.text("service.name"), Some(names[index % 2]));
        assert_eq!(resource.text("host.name"), Some(&*format!("h{}", index / 4)));
        assert_eq!(view.facility(), Facility::of_code(4));
        assert_eq!(view.process_id(), b"4711");
    }
}

#[test]
fn a_live_tail_finds_and_shows_received_messages_and_parsed_lines() {
    let mut rig = Rig::start(OutputKind::Blackhole);
    let rules = Arc::new(RuleSwitch::new(Rules::to_all(1, [0]), 0));
    let clock = Arc::new(RealClock::new());
    let view = PipelineView::new(rig.journal.clone(), Vec::new(), Vec::new(), rules, clock);
    let queries: Vec<String> = all().map(|query| format!("({query}) denied")).collect();
    let mut tails: Vec<LiveTail> = queries
        .iter()
        .map(|query| LiveTail::new(&view, &weir_expr::parse(query).unwrap()).unwrap())
        .collect();
    let (received, read) = (sender(), of_file());
    rig.append_from(1, &[(&received, Line::syslog("denied")), (&read, parsed())]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for (tail, query) in tails.iter_mut().zip(all()) {
        if NOT_FOUND.contains(&query) {
            continue;
        }
        let event = runtime.block_on(async { tokio::time::timeout(DEADLINE, tail.next()).await });
        let Ok(Some(LiveEvent::Rows(rows))) = event else { panic!("{query}: {event:?}") };
        let mut found = Vec::new();
        let row = |json: &[u8]| found.push(serde_json::from_slice(json).unwrap());
        rows.for_each(|| true, |_, _, _| String::new(), row);
        let found: Vec<serde_json::Value> = found;
        assert_eq!(found.len(), if RECEIVED.contains(&query) { 1 } else { 2 }, "{query}");
        let attributes = &found[0]["attributes"];
        assert_eq!(attributes["syslog.facility"], "auth");
        assert_eq!(attributes["syslog.procid"], "4711");
        assert_eq!(attributes["syslog.msgid"], "ID47");
        assert_eq!(found[0]["resource"]["network.peer.address"], "10.0.0.7");
    }
    drop(tails);
    rig.drain();
    rig.finish();
}
