//! The rule set, compared with the naive evaluator. The last line of the input is a message, all
//! others are rules. The message is matched as it is, as escaped by an encoder, and as if it were
//! escaped itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use weir_expr::{
    Constants, Field, Fields, Hits, Limits, NoConstants, Reserved, Rule, RuleSet, SampleRecord,
    Visitor, naive, parse,
};

/// The service is the same in all records.
struct Service<'a>(&'a SampleRecord);

impl Constants for Service<'_> {
    fn constant(&self, field: &Field, visit: &mut Visitor<'_>) -> bool {
        let is_constant = *field == Field::Reserved(Reserved::Service);
        if is_constant {
            self.0.visit(field, visit);
        }
        is_constant
    }
}

fuzz_target!(|input: &[u8]| {
    let cut = input.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let (queries, message) = input.split_at(cut);
    let Ok(queries) = std::str::from_utf8(queries) else { return };
    let rules: Vec<Rule> = queries
        .lines()
        .filter(|line| line.len() < 200)
        .filter_map(|line| Some(Rule { name: String::new(), when: parse(line).ok()? }))
        .take(8)
        .collect();
    let Ok(set) = RuleSet::compile(&rules, Limits::default()) else { return };
    let mut scratch = set.scratch();
    let mut hits = Hits::default();
    let complete = |record: SampleRecord| {
        record.with(Reserved::Service, "web").with_tag("env:prod").with_attributes(
            json!({"a": {"b": "x"}, "n": 42, "s": "error", "d": "300ms", "ip": "10.0.0.1"}),
        )
    };
    let plain = complete(SampleRecord::with_message(message));
    let mut records = vec![complete(SampleRecord::with_escaped_message(message))];
    if std::str::from_utf8(message).is_ok() {
        records.push(plain.escaped());
    }
    records.push(plain);
    for record in &records {
        let matching = rules.iter().enumerate().filter(|(_, r)| naive::matches(&r.when, record));
        let want: Vec<usize> = matching.map(|(index, _)| index).collect();
        set.batch(&Service(record), &mut scratch).record(record, &mut hits);
        assert_eq!(hits.iter().collect::<Vec<_>>(), want, "{record:?}");
        set.batch(&NoConstants, &mut scratch).record(record, &mut hits);
        assert_eq!(hits.iter().collect::<Vec<_>>(), want, "{record:?}");
    }
});
