//! Named groups of the regular expressions of one rule.

use regex_automata::Input;
use regex_automata::meta::Regex;

use super::plan::{Node, Plan};
use crate::ast::Field;
use crate::fields::Fields;
use crate::value::canonical;

/// Calls `visit` for each named group of each regexp that matches, outside of negations.
pub(super) fn of(
    plan: &Plan,
    node: &Node,
    record: &dyn Fields,
    visit: &mut dyn FnMut(&str, &[u8]),
) {
    for_each_regexp(plan, node, &mut |field, regexp| {
        let mut is_first = true;
        let mut on_text = |text: &[u8]| {
            if is_first {
                is_first = !groups(regexp, text, visit);
            }
        };
        if matches!(field, Field::Message | Field::Any) {
            let body = record.body();
            if body.json_escaped {
                on_text(&weir_model::unescape_json(body.bytes));
            } else {
                on_text(body.bytes);
            }
        }
        if *field != Field::Message {
            let mut buffer = Vec::new();
            record.visit(field, &mut |value| {
                if let Some(text) = canonical(field, value).text(&mut buffer) {
                    on_text(text);
                }
            });
        }
    });
}

/// Whether there is a named group outside of negations.
pub(super) fn are_in(plan: &Plan, node: &Node) -> bool {
    let mut any = false;
    for_each_regexp(plan, node, &mut |_, _| any = true);
    any
}

/// Calls `each` for each regexp with a named group.
fn for_each_regexp(plan: &Plan, node: &Node, each: &mut dyn FnMut(&Field, &Regex)) {
    match node {
        Node::Constant(_) | Node::Not(_) => {}
        Node::And(parts) | Node::Or(parts) => {
            for part in parts {
                for_each_regexp(plan, part, each);
            }
        }
        Node::Atom(atom) => {
            let atom = &plan.atoms[*atom as usize];
            if let Some(regexp) = &atom.regexp
                && regexp.group_info().all_names().any(|(_, _, name)| name.is_some())
            {
                each(&atom.term.field, regexp);
            }
        }
    }
}

/// Whether the text matches; if so, `visit` got its groups.
fn groups(regexp: &Regex, text: &[u8], visit: &mut dyn FnMut(&str, &[u8])) -> bool {
    let mut captures = regexp.create_captures();
    regexp.search_captures(&Input::new(text), &mut captures);
    for (_, index, name) in regexp.group_info().all_names() {
        if let (Some(name), Some(span)) = (name, captures.get_group(index)) {
            visit(name, &text[span.range()]);
        }
    }
    captures.is_match()
}
