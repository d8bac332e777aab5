//! `weir config test` and `weir config explain`: evaluate the rules without running weir.
//!
//! Invariant: the code is the same as in `weir run`, applied to a record as a source decodes it;
//! nothing is opened except the configuration.

use std::fmt::Write as _;
use std::io::BufRead as _;

use anyhow::Result;
use serde_json::{Map, Value, json};
use weir_codec::{Format, LineDecoder};
use weir_expr::{Status, tag_path};
use weir_host::terminal::printable;
use weir_model::limits::LINE_BYTES_MAX;
use weir_model::{
    BatchBuilder, Facility, LogRecord, NewRecord, Position, RecordFlags, Resource, Severity,
    SourceBook,
};
use weir_pipeline::rule::{Outcome, Reason, Trial};

use crate::cli::{ConfigArgs, ConfigCommand, Output};
use crate::command::config::load_plan;
use crate::config::{Plan, RuleTest, STORE, TestValue};
use crate::exit::{Exit, ExitError};
use crate::term::{ColorChoice, Paint, Style, note, print_json, print_painted};

/// Runs every test of the configuration.
pub(crate) fn test(args: &ConfigArgs, output: Output, color: ColorChoice) -> Result<Exit> {
    let plan = load_plan(args, color)?;
    let mut trial = prepare(&plan, "")?;
    let mut results = Vec::new();
    for test in &plan.tests {
        results.push((test, run_test(test, &mut trial)?));
    }
    let failed = results.iter().filter(|(_, differences)| !differences.is_empty()).count();
    match output {
        Output::Json => print_json(&results_json(&results))?,
        Output::Text => print_painted(&results_text(&results, Paint::for_stdout(color)))?,
    };
    if results.is_empty() {
        note("there are no tests: add [[test]] with a record and the expected result");
    }
    Ok(if failed == 0 { Exit::Ok } else { Exit::Failed })
}

fn results_json(results: &[(&RuleTest, Vec<String>)]) -> String {
    let tests: Vec<Value> = results
        .iter()
        .map(|(test, differences)| {
            json!({ "name": test.name, "passed": differences.is_empty(), "differences": differences })
        })
        .collect();
    format!("{:#}\n", json!({ "schema": "weir.config_test.v1", "tests": tests }))
}

fn results_text(results: &[(&RuleTest, Vec<String>)], paint: Paint) -> String {
    let mut text = String::new();
    for (test, differences) in results {
        let (style, verdict) =
            if differences.is_empty() { (Style::Good, "ok") } else { (Style::Bad, "differs") };
        let _infallible =
            writeln!(text, "{:<8} {}", paint.paint(style, verdict), printable(&test.name));
        for difference in differences {
            let _infallible = writeln!(text, "         {}", printable(difference));
        }
    }
    let failed = results.iter().filter(|(_, differences)| !differences.is_empty()).count();
    if !results.is_empty() {
        let _infallible = writeln!(text, "\n{} passed, {failed} failed", results.len() - failed);
    }
    text
}

/// The differences from the expected result, one line each.
fn run_test(test: &RuleTest, trial: &mut Trial) -> Result<Vec<String>> {
    let source = test.record.iter().find(|(name, _)| name == "source");
    trial.set_source(&source.map(|(_, value)| value.to_string()).unwrap_or_default());
    let (mut batch, resource) = record_of(test)?;
    let outcome = trial.run(&mut batch, &resource);
    let mut differences = Vec::new();
    if let Some(wanted) = &test.rules {
        compare("matches the rules", &sorted(&outcome.rules), &sorted(wanted), &mut differences);
    }
    if let Some(wanted) = &test.to {
        compare("goes to", &sorted(&outcome.to), &sorted(wanted), &mut differences);
    }
    if !test.expect.is_empty() {
        match &outcome.record {
            Some(record) => expect(test, record, &mut differences),
            None => differences.push("is discarded, so there are no values to compare".to_owned()),
        }
    }
    Ok(differences)
}

fn sorted(names: &[String]) -> String {
    let mut names = names.to_vec();
    names.sort();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn compare(what: &str, got: &str, wanted: &str, differences: &mut Vec<String>) {
    if got != wanted {
        differences.push(format!("{what} {got}; expected {wanted}"));
    }
}

fn expect(test: &RuleTest, record: &LogRecord, differences: &mut Vec<String>) {
    let attributes: Value = serde_json::from_str(&record.attributes).unwrap_or_default();
    for (key, wanted) in &test.expect {
        let (got, wanted) = match key.as_str() {
            "message" => (json!(String::from_utf8_lossy(&record.body)), json!(wanted.to_string())),
            "status" => {
                let status = Status::parse(wanted.to_string().as_bytes());
                let wanted = status.map_or(Severity::UNSPECIFIED, Status::severity);
                (json!(record.severity_number.text()), json!(wanted.text()))
            }
            path => {
                let got = &attributes[path.trim_start_matches('@')];
                let is_gone = matches!(wanted, TestValue::Bool(false)) && got.is_null();
                (got.clone(), if is_gone { Value::Null } else { wanted.to_json() })
            }
        };
        compare(&format!("{key} is"), &got.to_string(), &wanted.to_string(), differences);
    }
}

/// The record of a test, as a batch with one record.
fn record_of(test: &RuleTest) -> Result<(BatchBuilder, Resource)> {
    let mut resource = Resource::new();
    let mut attributes = Map::new();
    let mut record = NewRecord {
        timestamp_ns: 0,
        end_offset: 1,
        body: 0..0,
        severity: Severity::UNSPECIFIED,
        flags: RecordFlags::default(),
        ..NewRecord::default()
    };
    let (mut message, mut process_id, mut message_id) =
        (String::new(), String::new(), String::new());
    for (key, value) in &test.record {
        let text = value.to_string();
        match key.as_str() {
            "message" => message = text,
            "source" => {}
            "service" | "app_name" => resource.set("service.name", text),
            "host" => resource.set("host.name", text),
            "facility" => record.facility = Facility::of_name(&text),
            "procid" => process_id = text,
            "msgid" => message_id = text,
            "status" => {
                let status = Status::parse(text.as_bytes());
                record.severity = status.map_or(Severity::UNSPECIFIED, Status::severity);
            }
            "iostream" if text == "stderr" => record.flags = RecordFlags::STDERR,
            "iostream" => record.flags = RecordFlags::STDOUT,
            key => match key.strip_prefix('@') {
                Some(path) => drop(attributes.insert(path.to_owned(), value.to_json())),
                None => resource.set(tag_path(key), text),
            },
        }
    }
    let mut batch = BatchBuilder::new(Position::default());
    let too_long = |_| {
        ExitError::with(Exit::ConfigInvalid, format!("the record of {:?} is too long", test.name))
    };
    record.body = batch.append(message.as_bytes()).map_err(too_long)?;
    record.process_id = batch.append(process_id.as_bytes()).map_err(too_long)?;
    record.message_id = batch.append(message_id.as_bytes()).map_err(too_long)?;
    if !attributes.is_empty() {
        let attributes = Value::Object(attributes).to_string();
        record.attributes = batch.append(attributes.as_bytes()).map_err(too_long)?;
    }
    batch.push(&record).map_err(too_long)?;
    Ok((batch, resource))
}

fn prepare(plan: &Plan, source: &str) -> Result<Trial> {
    let mut outputs: Vec<String> = plan.pipeline.outputs.iter().map(|o| o.name.clone()).collect();
    outputs.extend(plan.store.is_some().then(|| STORE.to_owned()));
    let drains = plan.pipeline.drains.as_ref().map(|_| weir_pipeline::drain::NAME.to_owned());
    outputs.extend(drains);
    let default_to = plan.pipeline.default_to.as_deref();
    Ok(Trial::new(&plan.pipeline.rules, &outputs, default_to, source)?)
}

/// Shows the result for a line, or for each line of standard input.
pub(crate) fn explain(command: &ConfigCommand, color: ColorChoice) -> Result<Exit> {
    let ConfigCommand::Explain { line, config, format, source, resource, all, output } = command
    else {
        return Ok(Exit::Usage);
    };
    let plan = load_plan(config, color)?;
    let format = format_of(format)?;
    let mut trial = prepare(&plan, source)?;
    let mut known = Resource::new();
    for (key, value) in resource {
        known.set(key, value.as_str());
    }
    let mut show = |line: &[u8]| -> Result<()> {
        let mut batch = decode(line, format)?;
        let reasons = trial.explain(&batch, &known);
        let outcome = trial.run(&mut batch, &known);
        match output {
            Output::Json => print_json(&format!("{}\n", explanation_json(&reasons, &outcome)))?,
            Output::Text => print_painted(&explanation_text(
                &reasons,
                &outcome,
                *all,
                Paint::for_stdout(color),
            ))?,
        };
        Ok(())
    };
    match line {
        Some(line) => show(line.as_bytes())?,
        None => {
            for line in std::io::stdin().lock().split(b'\n') {
                let line = line?;
                show(line.strip_suffix(b"\r").unwrap_or(&line))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn format_of(name: &str) -> Result<Option<Format>> {
    let format = Format::from_text(name);
    if format.is_none() && name != "auto" {
        let message =
            format!("unknown format {name:?}: write auto, raw, docker_json, cri, json or logfmt");
        return Err(ExitError::with(Exit::Usage, message));
    }
    Ok(format)
}

fn decode(line: &[u8], format: Option<Format>) -> Result<BatchBuilder> {
    let text = [line, b"\n"].concat();
    let format = format.or_else(|| weir_codec::detect(&text)).unwrap_or(Format::Raw);
    let mut batch = BatchBuilder::new(Position::default());
    let region = batch.append(&text).map_err(|_| no_record("the line is too long"))?;
    let mut decoder = LineDecoder::new(format, LINE_BYTES_MAX, 0);
    let mut book = SourceBook::default();
    decoder.decode(&mut batch, region, 0, &mut book);
    if batch.record_count() == 0 {
        let _left_open = decoder.flush_partials(&mut batch, &mut book);
    }
    if batch.record_count() == 0 {
        return Err(no_record("the line does not produce a record"));
    }
    Ok(batch)
}

fn no_record(message: &str) -> anyhow::Error {
    ExitError::with(Exit::Failed, message)
}

fn reason_json(reason: &Reason) -> Value {
    let parts: Vec<Value> = reason.parts.iter().map(reason_json).collect();
    json!({ "expression": reason.text, "holds": reason.holds, "parts": parts })
}

fn explanation_json(reasons: &[(String, Reason)], outcome: &Outcome) -> Value {
    let rules: Vec<Value> = reasons
        .iter()
        .map(|(name, reason)| json!({ "name": name, "when": reason_json(reason) }))
        .collect();
    json!({
        "schema": "weir.config_explain.v1",
        "rules": rules,
        "to": outcome.to,
        "discarded": outcome.discarded.map(weir_model::DiscardReason::text),
        "record": outcome.record.as_ref().map(|record| json!({
            "message": String::from_utf8_lossy(&record.body),
            "status": record.severity_number.text(),
            "attributes": serde_json::from_str::<Value>(&record.attributes).unwrap_or_default(),
        })),
    })
}

fn explanation_text(
    reasons: &[(String, Reason)],
    outcome: &Outcome,
    all: bool,
    paint: Paint,
) -> String {
    let mut text = String::new();
    for (name, reason) in reasons.iter().filter(|(_, reason)| all || reason.holds) {
        let _infallible = writeln!(text, "rule {}", paint.paint(Style::Strong, name));
        write_reason(&mut text, reason, 1, paint);
    }
    if !reasons.iter().any(|(_, reason)| reason.holds) {
        text.push_str("no rule matches\n");
    }
    match (outcome.discarded, &outcome.record) {
        (Some(reason), _) => {
            let _infallible =
                writeln!(text, "{} ({})", paint.paint(Style::Bad, "discarded"), reason.text());
        }
        (None, Some(record)) => {
            let to =
                if outcome.to.is_empty() { "nowhere".to_owned() } else { outcome.to.join(", ") };
            let _infallible = writeln!(text, "goes to   {}", printable(&to));
            let body = String::from_utf8_lossy(&record.body);
            let _infallible = writeln!(text, "message   {}", printable(&body));
            for (label, value) in
                [("status    ", record.severity_number.text()), ("attributes", &record.attributes)]
            {
                if !value.is_empty() {
                    let _infallible = writeln!(text, "{label} {}", printable(value));
                }
            }
        }
        (None, None) => {}
    }
    text
}

fn write_reason(text: &mut String, reason: &Reason, depth: usize, paint: Paint) {
    let (style, mark) = if reason.holds { (Style::Good, "yes") } else { (Style::Bad, "no ") };
    let indent = "  ".repeat(depth);
    let _infallible =
        writeln!(text, "{indent}{} {}", paint.paint(style, mark), printable(&reason.text));
    for part in &reason.parts {
        write_reason(text, part, depth + 1, paint);
    }
}
