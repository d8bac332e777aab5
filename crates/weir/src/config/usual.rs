//! Parts that are enabled by default, as if they were configured: the usual set of sources and
//! services if `[loggregator]` is empty, and the messages of drains.
//!
//! Invariants: what is configured stays as it is; a part that is configured is not added a second
//! time; errors in what was added are reported at the table that has added it.

use weir_pipeline::config::SourceType;
use weir_pipeline::live::ReaderService;

use super::diagnostic::Diagnostics;
use super::field::list_or;
use super::text::SourceLocation;
use super::tree::{Entry, Node, NodeTable, NodeValue};

/// The table that enables it.
const TABLE: &str = "loggregator";

/// Default memory for envelopes that wait for readers: it fits with all parts into the default
/// `limits.memory`.
const BUFFER_MAX: &str = "64MiB";

/// Parts of the usual set other than sources and services.
const HEALTH: &str = "health";

/// The sources, each named as its type.
const SOURCES: [SourceType; 3] =
    [SourceType::Loggregator, SourceType::Dropsonde, SourceType::LoggregatorMetrics];

/// The names of all parts. The source of type `loggregator` is what agents and programs send to.
fn parts() -> impl Iterator<Item = &'static str> {
    let sources = SOURCES.into_iter().map(SourceType::name);
    sources.chain(ReaderService::ALL.into_iter().map(ReaderService::name)).chain([HEALTH])
}

/// Returns the tree with all parts that are enabled by default.
pub(crate) fn completed(tree: &NodeTable, diagnostics: &mut Diagnostics) -> NodeTable {
    with_drain_messages(with_usual_set(tree.clone(), diagnostics))
}

/// Returns the tree with the source for messages of drains, if there are drains.
fn with_drain_messages(mut tree: NodeTable) -> NodeTable {
    let Some(entry) = tree.get("drains").or_else(|| tree.get("drain")) else { return tree };
    if !["enabled", "messages"].iter().any(|key| is_off(&tree, "drains", key)) {
        let at = entry.key_location.clone();
        add_source(&mut tree, SourceType::DrainMessages, &at);
    }
    tree
}

/// Returns the tree with the parts that `[loggregator]` enables.
fn with_usual_set(mut tree: NodeTable, diagnostics: &mut Diagnostics) -> NodeTable {
    let Some(entry) = tree.get(TABLE) else { return tree };
    let NodeValue::Table(table) = &entry.node.value else { return tree };
    let without = without(table, diagnostics);
    if !is_wanted(table) {
        return tree;
    }
    let at = entry.key_location.clone();
    let is_wanted = |part: &str| !without.iter().any(|name| name == part);
    for source_type in SOURCES.into_iter().filter(|source_type| is_wanted(source_type.name())) {
        add_source(&mut tree, source_type, &at);
    }
    let has_store = !is_off(&tree, "store", "enabled");
    let Some(table) = table_mut(&mut tree, TABLE, &at) else { return tree };
    for service in ReaderService::ALL.into_iter().filter(|service| is_wanted(service.name())) {
        // It answers from the store.
        if service != ReaderService::LogCache || has_store {
            table_mut(table, service.name(), &at);
        }
    }
    if table.get("buffer_max").is_none() {
        table.entries.push(added("buffer_max", NodeValue::Text(BUFFER_MAX.to_owned()), &at));
    }
    if is_wanted(HEALTH) {
        table_mut(table, HEALTH, &at);
    }
    tree
}

/// Whether the usual set is enabled: the value of the key, or otherwise whether no part is
/// configured.
fn is_wanted(table: &NodeTable) -> bool {
    match table.get("usual_set").map(|entry| &entry.node.value) {
        Some(NodeValue::Bool(is_wanted)) => *is_wanted,
        _ => !parts().any(|part| table.get(part).is_some()),
    }
}

/// The parts that are disabled.
fn without(table: &NodeTable, diagnostics: &mut Diagnostics) -> Vec<String> {
    let Some(entry) = table.get("without") else { return Vec::new() };
    let NodeValue::Array(items) = &entry.node.value else { return Vec::new() };
    let mut names = Vec::new();
    for item in items {
        let NodeValue::Text(name) = &item.value else { continue };
        if !parts().any(|part| part == name) {
            let message = format!("{name:?} is not a part of the usual set");
            diagnostics
                .error(Some(item.location.clone()), "loggregator.without", message)
                .help(format!("write {}", list_or(parts())));
        }
        names.push(name.clone());
    }
    names
}

/// Adds a source that is named as its type, unless there is one of that type.
fn add_source(tree: &mut NodeTable, source_type: SourceType, at: &SourceLocation) {
    let name = source_type.name();
    let Some(sources) = table_mut(tree, "source", at) else { return };
    let is_there = sources.entries.iter().any(|entry| match &entry.node.value {
        NodeValue::Table(source) => matches!(
            source.get("type").map(|entry| &entry.node.value),
            Some(NodeValue::Text(text)) if text == name
        ),
        _ => false,
    });
    if is_there || sources.get(name).is_some() {
        return;
    }
    if let Some(source) = table_mut(sources, name, at) {
        source.entries.push(added("type", NodeValue::Text(name.to_owned()), at));
    }
}

/// Whether a key of a table is `false`.
fn is_off(tree: &NodeTable, table: &str, key: &str) -> bool {
    let Some(NodeValue::Table(table)) = tree.get(table).map(|entry| &entry.node.value) else {
        return false;
    };
    matches!(table.get(key).map(|entry| &entry.node.value), Some(NodeValue::Bool(false)))
}

fn added(key: &str, value: NodeValue, at: &SourceLocation) -> Entry {
    let node = Node { location: at.clone(), value };
    Entry { key: key.to_owned(), key_location: at.clone(), node }
}

/// Returns a table within another, which is added if it is missing; `None` if it is something else.
fn table_mut<'t>(
    table: &'t mut NodeTable,
    key: &str,
    at: &SourceLocation,
) -> Option<&'t mut NodeTable> {
    if table.get(key).is_none() {
        table.entries.push(added(key, NodeValue::Table(NodeTable::default()), at));
    }
    let found = table.entries.iter_mut().find(|entry| entry.key == key)?;
    match &mut found.node.value {
        NodeValue::Table(table) => Some(table),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use weir_api::HealthOf;

    use super::super::tests::loaded;
    use crate::config::Plan;

    fn planned(text: &str) -> Plan {
        let loaded = loaded(text);
        let wrong = format!("{:?}", loaded.diagnostics.0);
        loaded.plan.unwrap_or_else(|| panic!("{text}: {wrong}"))
    }

    fn names(plan: &Plan) -> (Vec<&str>, Vec<&str>, usize) {
        let sources = plan.pipeline.sources.iter().map(|source| source.name.as_str()).collect();
        let services = plan.reader_services.iter().map(|settings| settings.service.name());
        (sources, services.collect(), plan.health.len())
    }

    #[test]
    fn an_empty_table_enables_everything_without_a_clash() {
        let plan = planned("[loggregator]\n");
        let sources = vec!["loggregator", "dropsonde", "loggregator_metrics"];
        let services = vec!["egress", "gateway", "traffic_controller", "log_cache"];
        assert_eq!(names(&plan), (sources, services, 3));
        assert!(plan.reader_services.iter().any(|service| service.has_health_of_drains));
        assert!(plan.reader_services.iter().all(|service| service.listen.ip().is_loopback()));
    }

    #[test]
    fn parts_are_moved_left_out_and_not_added_twice() {
        let plan = planned(
            "[loggregator]\nusual_set = true\nwithout = [\"dropsonde\", \"log_cache\"]\n\
             [loggregator.gateway]\nlisten = \"127.0.0.1:18088\"\n\
             [source.cf]\ntype = \"loggregator\"\nlisten = \"127.0.0.1:13458\"\n",
        );
        let services = vec!["egress", "gateway", "traffic_controller"];
        assert_eq!(names(&plan), (vec!["cf", "loggregator_metrics"], services, 4));
        assert!(plan.health.iter().any(|health| health.of == HealthOf::Drains));
        let one = planned(
            "[loggregator.egress]\n[source.cf]\ntype = \"loggregator\"\n\
             [output.none]\ntype = \"blackhole\"\n",
        );
        assert_eq!(names(&one), (vec!["cf"], vec!["egress"], 0));
    }

    #[test]
    fn only_parts_of_the_set_can_be_left_out() {
        let loaded = loaded("[loggregator]\nwithout = [\"doppler\"]\n");
        let is_it = |message: &str| message.contains("is not a part of the usual set");
        assert!(loaded.diagnostics.0.iter().any(|diagnostic| is_it(&diagnostic.message)));
    }
}
