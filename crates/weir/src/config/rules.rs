//! Rules and their tests, from sections to a plan.
//!
//! Invariants: an invalid expression, pattern or template is shown at its exact place in the text;
//! what cannot be intended (two actions that exclude each other, an output that does not exist) is
//! an error; what is probably not intended (a rule that never matches, or one that is costly for
//! every record) is a warning.

use std::collections::BTreeMap;

use weir_codec::{LineFormat, LineFormatError};
use weir_expr::{Expr, Finding, Formula, Limits, ParseError, RuleSet, Status, Units};
use weir_pipeline::rule::{
    Action, BodyFormat, Keep, Pattern, RulePlan, SetValue, Target, Template,
};

use super::diagnostic::{Diagnostics, nearest};
use super::field::list_or;
use super::plan::STORE;
use super::redaction;
use super::section::Section;
use super::sections::Sections;
use super::text::SourceLocation;
use super::tree::{Entry, Node, NodeValue};

/// What `parse` accepts in addition to templates.
const PARSE_FORMATS: [&str; 7] =
    ["json", "logfmt", "syslog", "text", "common", "combined", "nginx"];

/// A record and the expected result.
#[derive(Debug, Clone)]
pub(crate) struct RuleTest {
    pub(crate) name: String,
    /// Keys and values of the record.
    pub(crate) record: Vec<(String, TestValue)>,
    pub(crate) rules: Option<Vec<String>>,
    pub(crate) to: Option<Vec<String>>,
    /// Keys and values that are expected afterwards.
    pub(crate) expect: Vec<(String, TestValue)>,
}

/// A value in a test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TestValue {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl TestValue {
    /// `None` for a value that a record cannot have.
    fn of(value: &NodeValue) -> Option<Self> {
        Some(match value {
            NodeValue::Text(text) => Self::Text(text.clone()),
            NodeValue::Integer(Some(number)) => Self::Int(*number),
            NodeValue::Float(number) => Self::Float(*number),
            NodeValue::Bool(truth) => Self::Bool(*truth),
            _ => return None,
        })
    }

    /// The value as JSON.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Int(number) => (*number).into(),
            Self::Float(number) => (*number).into(),
            Self::Bool(truth) => (*truth).into(),
        }
    }
}

impl std::fmt::Display for TestValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Int(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Bool(truth) => write!(f, "{truth}"),
        }
    }
}

/// Reads all rules and checks them individually and as a set.
pub(crate) fn rules(
    sections: &Sections,
    units: &Units,
    diagnostics: &mut Diagnostics,
) -> Vec<RulePlan> {
    let plans: Vec<Option<RulePlan>> =
        sections.rules.iter().map(|section| rule(section, sections, units, diagnostics)).collect();
    same_names(sections, diagnostics);
    destinations(sections, diagnostics);
    let all_right = plans.iter().all(Option::is_some);
    let plans: Vec<RulePlan> = plans.into_iter().flatten().collect();
    if all_right {
        check_set(&plans, sections, diagnostics);
    }
    plans
}

fn rule(
    section: &Section,
    sections: &Sections,
    units: &Units,
    diagnostics: &mut Diagnostics,
) -> Option<RulePlan> {
    let mut reader = Reader { section, units, diagnostics, is_right: true };
    let when = reader.expression("when");
    let keep = reader.keep();
    let mut actions = Vec::new();
    reader.parse(&mut actions);
    reader.extract(&mut actions);
    reader.set(&mut actions);
    reader.remove(&mut actions);
    reader.redact(&mut actions);
    reader.outputs("to", sections);
    let is_right = reader.is_right;
    let plan = RulePlan {
        name: section.text("name")?.to_owned(),
        when: when?,
        to: section.list("to").iter().map(|(name, _)| name.clone()).collect(),
        is_final: section.bool("final"),
        keep,
        actions,
    };
    is_right.then_some(plan)
}

/// A place inside a value: exact if the text is in the file verbatim, otherwise the whole value.
pub(super) fn inside(
    location: &SourceLocation,
    text: &str,
    span: weir_expr::Span,
) -> SourceLocation {
    let quotes = (location.span.end - location.span.start).saturating_sub(text.len());
    if quotes != 2 && quotes != 6 {
        return location.clone();
    }
    let start = location.span.start + quotes / 2;
    let end = span.end.max(span.start + 1);
    SourceLocation { file: location.file, span: start + span.start..start + end }
}

/// Reads the keys of one rule.
struct Reader<'a> {
    section: &'a Section,
    units: &'a Units,
    diagnostics: &'a mut Diagnostics,
    is_right: bool,
}

impl Reader<'_> {
    fn error(
        &mut self,
        location: Option<SourceLocation>,
        key: &str,
        message: impl Into<String>,
    ) -> &mut super::diagnostic::Diagnostic {
        self.is_right = false;
        let key_path = self.section.key_path(key);
        self.diagnostics.error(location, &key_path, message)
    }

    fn parse_error(&mut self, location: Option<SourceLocation>, key: &str, error: &ParseError) {
        let location = location.map(|location| inside(&location, &error.text, error.span));
        let mut message = format!("{}: {}", self.section.key_path(key), error.message);
        if let Some(expected) = &error.expected {
            message = format!("{message}; expected {expected}");
        }
        let diagnostic = self.error(location, key, message);
        if let Some(suggestion) = &error.suggestion {
            diagnostic.help(format!("did you mean: {suggestion}"));
        }
    }

    fn expression(&mut self, key: &str) -> Option<Expr> {
        let text = self.section.text(key)?;
        match weir_expr::parse(text) {
            Ok(expression) => {
                for lint in expression.lints(text) {
                    let location = self.section.location(key);
                    let location = location.map(|location| inside(&location, text, lint.span));
                    let message = format!("{}: {}", self.section.key_path(key), lint.message);
                    self.diagnostics
                        .warn(location, &self.section.key_path(key), message)
                        .help(lint.help);
                }
                Some(expression.in_units(self.units, &[]))
            }
            Err(error) => {
                self.parse_error(self.section.location(key), key, &error);
                None
            }
        }
    }

    fn keep(&mut self) -> Keep {
        let share = self.section.share("sample");
        if !self.section.bool("drop") {
            if share == Some(0.0) {
                self.error(self.section.location("sample"), "sample", "rule.sample keeps nothing")
                    .help("to discard all of them, write drop = true");
            }
            return share.map_or(Keep::All, Keep::Share);
        }
        for key in ["to", "sample", "parse", "extract", "set", "remove", "redact"] {
            if self.section.is_set(key) {
                let message = format!("rule.{key} has no effect together with drop = true");
                self.error(self.section.location(key), key, message)
                    .help("the records are discarded; remove one of them");
            }
        }
        Keep::None
    }

    fn outputs(&mut self, key: &str, sections: &Sections) {
        for (name, location) in self.section.list(key) {
            known_output(name, location, &self.section.key_path(key), sections, self.diagnostics);
        }
    }

    fn parse(&mut self, actions: &mut Vec<Action>) {
        let mut formats = Vec::new();
        for (name, location) in self.section.list("parse") {
            let format = match name.as_str() {
                "json" => Ok(BodyFormat::Json),
                "logfmt" => Ok(BodyFormat::Logfmt),
                "syslog" => Ok(BodyFormat::Syslog),
                "text" => Ok(BodyFormat::Text),
                name if name.contains('$') => LineFormat::parse(name).map(BodyFormat::Line),
                name => LineFormat::preset(name).map(BodyFormat::Line),
            };
            match format {
                Ok(format) => formats.push(format),
                Err(LineFormatError::UnknownPreset(_)) => {
                    let message = format!("unknown format {name:?}");
                    let diagnostic = self.error(Some(location.clone()), "parse", message);
                    diagnostic
                        .help(format!("formats are {}", list_or(PARSE_FORMATS.into_iter())))
                        .help("a template of your own has variables: \"$host $message\"")
                        .nearest(name, PARSE_FORMATS.into_iter());
                }
                Err(error) => {
                    self.error(Some(location.clone()), "parse", format!("{name:?}: {error}"));
                }
            }
        }
        if !formats.is_empty() {
            actions.push(Action::Parse(formats));
        }
    }

    fn extract(&mut self, actions: &mut Vec<Action>) {
        let Some(pattern) = self.section.text("extract") else { return };
        match Pattern::new(pattern) {
            Ok(compiled) if !compiled.has_names() => {
                self.error(
                    self.section.location("extract"),
                    "extract",
                    "rule.extract has no named group",
                )
                .help("a named group is written (?<name>...)");
            }
            Ok(compiled) => actions.push(Action::Extract(compiled)),
            Err(error) => self.pattern_error(self.section.location("extract"), "extract", &error),
        }
    }

    fn pattern_error(
        &mut self,
        location: Option<SourceLocation>,
        key: &str,
        error: &impl std::fmt::Display,
    ) {
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let message =
            format!("{} is not a valid regular expression: {reason}", self.section.key_path(key));
        self.error(location, key, message);
    }

    fn set(&mut self, actions: &mut Vec<Action>) {
        for entry in self.section.values("set") {
            let Some(target) = Target::of(&entry.key) else {
                let message = format!("{:?} cannot be set", entry.key);
                let help = format!(
                    "write \"@{}\" for an attribute; message, status, service, host and parts of a \
                     syslog header such as facility can also be set",
                    entry.key
                );
                self.error(Some(entry.key_location.clone()), "set", message).help(help);
                continue;
            };
            if let Some(value) = self.set_value(entry, &target) {
                actions.push(Action::Set(target, value));
            }
        }
    }

    fn set_value(&mut self, entry: &Entry, target: &Target) -> Option<SetValue> {
        let location = Some(entry.node.location.clone());
        let value = match &entry.node.value {
            NodeValue::Text(text) => match Template::parse(text) {
                Ok(template) => SetValue::Template(template),
                Err(error) => {
                    self.error(location, "set", format!("{text:?}: {error}"));
                    return None;
                }
            },
            NodeValue::Integer(Some(number)) => SetValue::Int(*number),
            NodeValue::Float(number) if number.is_finite() => SetValue::Float(*number),
            NodeValue::Bool(truth) => SetValue::Bool(*truth),
            NodeValue::Table(table) => match table.entries.as_slice() {
                [Entry { key, node: Node { location, value: NodeValue::Text(text) }, .. }]
                    if key == "calculated" =>
                {
                    match Formula::parse(text) {
                        Ok(formula) => SetValue::Formula(formula.in_units(self.units)),
                        Err(error) => {
                            self.parse_error(Some(location.clone()), "set", &error);
                            return None;
                        }
                    }
                }
                _ => {
                    self.error(
                        location,
                        "set",
                        "a table here must have exactly one key, calculated",
                    )
                    .help("write { calculated = \"@request_time - @upstream_response_time\" }");
                    return None;
                }
            },
            other => {
                let found = other.type_name();
                self.error(location, "set", format!("{:?} cannot be {found}", entry.key));
                return None;
            }
        };
        if !matches!(target, Target::Attribute(_)) && !matches!(value, SetValue::Template(_)) {
            self.error(location, "set", format!("{} must be text", entry.key));
            return None;
        }
        if let (Target::Status, SetValue::Template(template)) = (target, &value)
            && let Some(text) = template.constant()
            && Status::parse(text.as_bytes()).is_none()
        {
            self.error(location, "set", format!("{text:?} is not a status"))
                .help("write emergency, alert, critical, error, warn, notice, info, debug or ok");
            return None;
        }
        Some(value)
    }

    fn remove(&mut self, actions: &mut Vec<Action>) {
        for (name, location) in self.section.list("remove") {
            match name.strip_prefix('@') {
                Some(path) if !path.is_empty() => actions.push(Action::Remove(path.to_owned())),
                _ => {
                    self.error(
                        Some(location.clone()),
                        "remove",
                        format!("{name:?} is not an attribute"),
                    )
                    .help(format!("write \"@{}\"", name.trim_start_matches('@')));
                }
            }
        }
    }

    fn redact(&mut self, actions: &mut Vec<Action>) {
        for node in self.section.items("redact") {
            match redaction::read(node, self.diagnostics) {
                Some(redactions) => actions.extend(redactions.into_iter().map(Action::Redact)),
                None => self.is_right = false,
            }
        }
    }
}

/// Checks that an output of that name exists.
fn known_output(
    name: &str,
    location: &SourceLocation,
    key_path: &str,
    sections: &Sections,
    diagnostics: &mut Diagnostics,
) {
    let names = || sections.destinations();
    if names().any(|known| known == name) {
        return;
    }
    let diagnostic =
        diagnostics.error(Some(location.clone()), key_path, format!("there is no output {name:?}"));
    if name == STORE {
        diagnostic.help("the store is disabled: set enabled = true in [store]");
        return;
    }
    match nearest(name, names()) {
        Some(near) => diagnostic.help(format!("did you mean {near:?}?")),
        None => diagnostic.help(format!("available outputs: {}", list_or(names()))),
    };
}

fn same_names(sections: &Sections, diagnostics: &mut Diagnostics) {
    let mut seen: BTreeMap<&str, &Section> = BTreeMap::new();
    for section in &sections.rules {
        let Some(name) = section.text("name") else { continue };
        if let Some(first) = seen.insert(name, section) {
            diagnostics
                .error(
                    section.location("name"),
                    "rule.name",
                    format!("two rules are called {name:?}"),
                )
                .other(first.location("name"), "the other is at")
                .help("names must be unique, since they identify rules in metrics and messages");
        }
    }
}

/// Every record must have somewhere to go or be discarded deliberately; every output should receive
/// something.
fn destinations(sections: &Sections, diagnostics: &mut Diagnostics) {
    let top = &sections.top;
    for (name, location) in top.list("default_to") {
        known_output(name, location, "default_to", sections, diagnostics);
    }
    let routing = sections.rules.iter().find(|rule| !rule.list("to").is_empty());
    // An output that does not exist has its own error.
    let is_reported = diagnostics.0.iter().any(|d| d.key_path == "rule.to");
    let is_set = top.is_set("default_to") || sections.has_store();
    let Some(routing) = routing.filter(|_| !is_set && !is_reported) else {
        if !is_reported {
            unused_outputs(sections, diagnostics);
        }
        return;
    };
    diagnostics
        .error(
            routing.location("to"),
            "default_to",
            "default_to is missing: it names the outputs for records that no rule routes",
        )
        .help(
            "write default_to = [\"NAME\"] before the first table, with the outputs for these \
             records",
        )
        .help("with default_to = [] they are discarded and counted as unrouted");
}

fn unused_outputs(sections: &Sections, diagnostics: &mut Diagnostics) {
    let mut routes = sections.rules.iter().flat_map(|rule| rule.list("to")).peekable();
    if !sections.top.is_set("default_to") && routes.peek().is_none() {
        return;
    }
    let used: Vec<&str> =
        routes.chain(sections.top.list("default_to")).map(|(name, _)| name.as_str()).collect();
    for output in sections.outputs.iter().filter(|output| !used.contains(&output.name.as_str())) {
        let message = format!("output {:?} receives no records", output.name);
        diagnostics
            .warn(Some(output.name_location.clone()), &format!("output.{}", output.name), message)
            .help("no rule names it in `to`, and it is not in default_to");
    }
}

/// Checks the rules as a set: its size, and conflicts between rules.
fn check_set(plans: &[RulePlan], sections: &Sections, diagnostics: &mut Diagnostics) {
    let rules: Vec<weir_expr::Rule> = plans
        .iter()
        .map(|plan| weir_expr::Rule { name: plan.name.clone(), when: plan.when.clone() })
        .collect();
    let location =
        |rule: usize| sections.rules.get(rule).and_then(|section| section.location("when"));
    let set = match RuleSet::compile(&rules, Limits::default()) {
        Ok(set) => set,
        Err(error) => {
            diagnostics.error(
                sections.rules.first().and_then(|s| s.location("when")),
                "rule.when",
                error.to_string(),
            );
            return;
        }
    };
    let ends = |rule: usize| plans[rule].is_final || plans[rule].keep == Keep::None;
    let mut closed: Option<usize> = None;
    for finding in set.findings() {
        match finding {
            Finding::Never { rule, reason } => {
                let message = format!("rule {:?} can never match: {reason}", plans[rule].name);
                diagnostics.warn(location(rule), "rule.when", message);
            }
            Finding::Always { rule } if ends(rule) => {
                closed = Some(closed.map_or(rule, |at| at.min(rule)));
            }
            Finding::Always { .. } => {}
            Finding::Duplicate { rule, of } => {
                let effect = if ends(of) { "and is never reached" } else { "" };
                let message = format!(
                    "rule {:?} matches the same records as {:?} {effect}",
                    plans[rule].name, plans[of].name
                );
                diagnostics
                    .warn(location(rule), "rule.when", message.trim_end())
                    .other(location(of), "the other is at")
                    .help("a single rule can have several outputs and actions");
            }
            Finding::NoLiteral { rule, pattern } => {
                let message = format!(
                    "rule {:?} is costly: {pattern} contains no required literal, so every record \
                     is searched",
                    plans[rule].name
                );
                diagnostics
                    .warn(location(rule), "rule.when", message)
                    .help("add a word that is always present: `word AND /.../`");
            }
        }
    }
    if let Some(last) = closed.filter(|last| last + 1 < plans.len()) {
        let message = format!(
            "rule {:?} and all rules after it are never reached: {:?} matches every record and no \
             later rule applies",
            plans[last + 1].name,
            plans[last].name
        );
        diagnostics
            .warn(location(last + 1), "rule.when", message)
            .other(location(last), "that rule is at");
    }
}

/// Reads all tests.
pub(crate) fn tests(sections: &Sections, diagnostics: &mut Diagnostics) -> Vec<RuleTest> {
    let rules: Vec<&str> = sections.rules.iter().filter_map(|rule| rule.text("name")).collect();
    for section in &sections.tests {
        for (name, location) in section.list("to") {
            known_output(name, location, "test.to", sections, diagnostics);
        }
        for (name, location) in section.list("rules") {
            if !rules.contains(&name.as_str()) {
                diagnostics
                    .error(
                        Some(location.clone()),
                        "test.rules",
                        format!("there is no rule {name:?}"),
                    )
                    .nearest(name, rules.iter().copied());
            }
        }
        for key in ["record", "expect"] {
            for entry in section.values(key) {
                scalar(entry, key, diagnostics);
            }
        }
    }
    sections.tests.iter().filter_map(test).collect()
}

fn scalar(entry: &Entry, key: &str, diagnostics: &mut Diagnostics) {
    if TestValue::of(&entry.node.value).is_none() {
        let found = entry.node.value.type_name();
        diagnostics
            .error(
                Some(entry.node.location.clone()),
                &format!("test.{key}"),
                format!("{:?} cannot be {found}", entry.key),
            )
            .help("write text, a number, true or false");
    }
}

fn test(section: &Section) -> Option<RuleTest> {
    let pairs = |key| {
        let pair = |entry: &Entry| Some((entry.key.clone(), TestValue::of(&entry.node.value)?));
        section.values(key).iter().filter_map(pair).collect()
    };
    let names = |key| {
        let list = || section.list(key).iter().map(|(name, _)| name.clone()).collect();
        section.is_set(key).then(list)
    };
    Some(RuleTest {
        name: section.text("name")?.to_owned(),
        record: pairs("record"),
        rules: names("rules"),
        to: names("to"),
        expect: pairs("expect"),
    })
}
