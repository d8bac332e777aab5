//! The sections of the configuration: every table, read against its fields.
//!
//! Invariant: a section has a value for every field of its table, so whatever is read from it later
//! exists.

use weir_pipeline::config::{OutputType, SourceType};

use super::diagnostic::Diagnostics;
use super::disk;
use super::drains;
use super::field::list_or;
use super::plan::STORE;
use super::readers;
use super::section::{self, Section};
use super::source;
use super::tables::{
    BASE_BYTES, BATCH_BYTES_MAX, ComponentType, HEAD_BYTES, HEAD_BYTES_MIN, LISTS, STORE_PER_HEAD,
    TABLES, TOP,
};
use super::text::SourceLocation;
use super::tree::{Entry, Node, NodeTable, NodeValue};

/// A source or output as a section, before it becomes part of a plan.
#[derive(Debug)]
pub(crate) struct ComponentSection<T> {
    pub(crate) name: String,
    pub(crate) component_type: T,
    pub(crate) section: Section,
    pub(crate) name_location: SourceLocation,
}

/// All sections.
#[derive(Debug)]
pub(crate) struct Sections {
    pub(crate) top: Section,
    pub(crate) tables: Vec<Section>,
    pub(crate) sources: Vec<ComponentSection<SourceType>>,
    pub(crate) outputs: Vec<ComponentSection<OutputType>>,
    pub(crate) rules: Vec<Section>,
    pub(crate) tests: Vec<Section>,
    pub(crate) drains: Vec<Section>,
}

impl Sections {
    /// The section of one of [`TABLES`].
    pub(crate) fn table(&self, name: &str) -> &Section {
        let index = TABLES.iter().position(|table| table.name == name).unwrap_or_default();
        &self.tables[index]
    }

    /// Whether records are stored.
    pub(crate) fn has_store(&self) -> bool {
        self.table("store").bool("enabled")
    }

    /// The names of everything that a rule can route to.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = &str> {
        let store = self.has_store().then_some(STORE);
        let drains = drains::are_enabled(self).then_some(weir_pipeline::drain::NAME);
        self.outputs.iter().map(|output| output.name.as_str()).chain(store).chain(drains)
    }

    /// Memory of all sources that listen or collect, bytes.
    pub(crate) fn listeners_bytes(&self) -> u64 {
        self.sources.iter().map(source::memory_bytes).sum()
    }

    /// Memory planned for everything except the store.
    pub(crate) fn memory_beside_store(&self) -> u64 {
        let listeners =
            self.listeners_bytes() + readers::memory_bytes(self) + drains::memory_bytes(self);
        let ring = self.table("journal").size("ring");
        let windows = self.windows_bytes();
        ring.saturating_add(windows).saturating_add(listeners).saturating_add(BASE_BYTES)
    }

    /// Memory for the records in flight of all outputs: an eighth of the budget, but at least the
    /// largest window, and one batch for each output. It changes with the number of outputs only in
    /// large steps, so that most outputs can be added to a running weir without changing anything
    /// else.
    pub(crate) fn windows_bytes(&self) -> u64 {
        let largest = self.outputs.iter().map(|o| o.section.size("window")).max();
        let outputs = (self.outputs.len() as u64).next_power_of_two();
        let share = self.table("limits").size("memory") / 8;
        share.max(largest.unwrap_or_default()).max(outputs.saturating_mul(BATCH_BYTES_MAX))
    }

    /// Memory of the store's head: as configured, or what fits.
    pub(crate) fn head_bytes(&self) -> u64 {
        let store = self.table("store");
        if store.is_set("head") {
            return store.size("head");
        }
        let left = self.table("limits").size("memory").saturating_sub(self.memory_beside_store());
        let most = HEAD_BYTES.min(disk::head_bytes_max(&self.data_dir()));
        (left / STORE_PER_HEAD).clamp(HEAD_BYTES_MIN, most)
    }

    /// The journal's directory.
    pub(crate) fn data_dir(&self) -> std::path::PathBuf {
        self.top.file("data_dir").unwrap_or_default()
    }
}

/// Stage one: reads every table against its fields.
pub(super) fn sections(tree: &NodeTable, diagnostics: &mut Diagnostics) -> Sections {
    let tables: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    let families =
        [SourceType::FAMILY, OutputType::FAMILY].into_iter().chain(LISTS.iter().map(|l| l.name));
    let others: Vec<&str> = tables.iter().copied().chain(families).collect();
    let top = section::read(tree, &[TOP], &others, "", None, diagnostics);
    let empty = NodeTable::default();
    let tables = TABLES
        .iter()
        .map(|table| {
            let entry = tree.get(table.name);
            let (node, location) = match entry.map(|entry| (entry, &entry.node.value)) {
                Some((entry, NodeValue::Table(node))) => (node, Some(entry.key_location.clone())),
                Some((entry, other)) => {
                    let message =
                        format!("{} must be a table, not {}", table.name, other.type_name());
                    diagnostics
                        .error(Some(entry.key_location.clone()), table.name, message)
                        .help(format!("write [{}], followed by its keys", table.name));
                    (&empty, None)
                }
                None => (&empty, None),
            };
            section::read(node, &[table.fields], &[], table.name, location, diagnostics)
        })
        .collect();
    Sections {
        top,
        tables,
        sources: family(tree, diagnostics),
        outputs: family(tree, diagnostics),
        rules: list(tree, "rule", diagnostics),
        tests: list(tree, "test", diagnostics),
        drains: list(tree, "drain", diagnostics),
    }
}

/// The sections of one of [`LISTS`], in order.
fn list(tree: &NodeTable, name: &str, diagnostics: &mut Diagnostics) -> Vec<Section> {
    let Some(list) = LISTS.iter().find(|list| list.name == name) else { return Vec::new() };
    let Some(entry) = tree.get(name) else { return Vec::new() };
    let mut items: &[Node] = &[];
    let mut all_tables = false;
    if let NodeValue::Array(nodes) = &entry.node.value {
        items = nodes;
        all_tables = items.iter().all(|node| matches!(node.value, NodeValue::Table(_)));
    }
    if !all_tables {
        diagnostics
            .error(
                Some(entry.key_location.clone()),
                name,
                format!("{name} must be a list of tables"),
            )
            .help(format!("write [[{name}]], in double brackets, followed by its keys"));
        return Vec::new();
    }
    let mut sections = Vec::new();
    for node in items {
        if let NodeValue::Table(table) = &node.value {
            let location = Some(node.location.clone());
            sections.push(section::read(table, &[list.fields], &[], name, location, diagnostics));
        }
    }
    sections
}

/// Maximum length of the name of a source or output: it is part of file names and of metrics.
const NAME_CHARS_MAX: usize = 64;

fn family<T: ComponentType>(
    tree: &NodeTable,
    diagnostics: &mut Diagnostics,
) -> Vec<ComponentSection<T>> {
    let Some(entry) = tree.get(T::FAMILY) else { return Vec::new() };
    let NodeValue::Table(named) = &entry.node.value else {
        let message = format!("{} must be a table of tables", T::FAMILY);
        diagnostics
            .error(Some(entry.key_location.clone()), T::FAMILY, message)
            .help(format!("write [{}.NAME], with a name of your choice", T::FAMILY));
        return Vec::new();
    };
    named.entries.iter().filter_map(|entry| component(entry, diagnostics)).collect()
}

fn component<T: ComponentType>(
    entry: &Entry,
    diagnostics: &mut Diagnostics,
) -> Option<ComponentSection<T>> {
    let path = format!("{}.{}", T::FAMILY, entry.key);
    let location = Some(entry.key_location.clone());
    let NodeValue::Table(table) = &entry.node.value else {
        diagnostics
            .error(
                location,
                &path,
                format!("{path} must be a table, not {}", entry.node.value.type_name()),
            )
            .help(format!("{} has its own name: [{}.NAME]", T::with_article(), T::FAMILY));
        return None;
    };
    check_name::<T>(entry, &path, diagnostics);
    let component_type: T = component_type(table, &path, location.as_ref(), diagnostics)?;
    let fields = component_type.component().fields;
    let section = section::read(table, fields, &["type"], &path, location, diagnostics);
    Some(ComponentSection {
        name: entry.key.clone(),
        component_type,
        section,
        name_location: entry.key_location.clone(),
    })
}

fn check_name<T: ComponentType>(entry: &Entry, path: &str, diagnostics: &mut Diagnostics) {
    let name = &entry.key;
    let location = Some(entry.key_location.clone());
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(allowed) || name.len() > NAME_CHARS_MAX {
        diagnostics
            .error(location, path, format!("{name:?} cannot be the name of {}", T::with_article()))
            .help("names consist of 1 to 64 of the characters A-Z, a-z, 0-9, _ and -");
    } else if T::FAMILY == OutputType::FAMILY && name == STORE {
        diagnostics
            .error(location, path, "the name \"store\" is reserved for weir's own store")
            .help("choose another name");
    } else if T::FAMILY == OutputType::FAMILY && name == weir_pipeline::drain::NAME {
        diagnostics
            .error(location, path, "the name \"drains\" is reserved for drains")
            .help("choose another name");
    }
}

/// The component type that `type` names.
fn component_type<T: ComponentType>(
    table: &NodeTable,
    path: &str,
    location: Option<&SourceLocation>,
    diagnostics: &mut Diagnostics,
) -> Option<T> {
    let names = || T::ALL.iter().map(|known| known.name());
    let key_path = format!("{path}.type");
    let Some(entry) = table.get("type") else {
        let near = table
            .entries
            .iter()
            .find(|entry| super::diagnostic::nearest(&entry.key, ["type"].into_iter()).is_some());
        let at = near.map(|entry| entry.key_location.clone()).or_else(|| location.cloned());
        let diagnostic = diagnostics.error(at, &key_path, format!("{key_path} is missing"));
        if let Some(entry) = near {
            diagnostic.help(format!("did you mean \"type\" instead of {:?}?", entry.key));
        }
        diagnostic.help(format!("the type of {} is {}", T::with_article(), list_or(names())));
        return None;
    };
    let NodeValue::Text(written) = &entry.node.value else {
        diagnostics
            .error(Some(entry.node.location.clone()), &key_path, format!("{key_path} must be text"))
            .help(format!("write {}", list_or(names())));
        return None;
    };
    let found = T::ALL.iter().copied().find(|known| known.name() == written);
    if found.is_none() {
        let near = super::diagnostic::nearest(written, names()).or_else(|| {
            names().find(|name| written.len() > 3 && name.starts_with(written.as_str()))
        });
        let message = format!("unknown type {written:?} of {}", T::FAMILY);
        let diagnostic = diagnostics.error(Some(entry.node.location.clone()), &key_path, message);
        match near {
            Some(near) => diagnostic.help(format!("did you mean {near:?}?")),
            None => diagnostic.help(format!("write {}", list_or(names()))),
        };
    }
    found
}

pub(crate) fn texts(section: &Section, name: &str) -> Vec<String> {
    section.list(name).iter().map(|(text, _)| text.clone()).collect()
}
