//! What a command needs that only talks to a running weir.

use weir_pipeline::config::OutputType;

use super::diagnostic::Diagnostics;
use super::plan::STORE;
use super::section;
use super::tables::{ComponentType as _, TABLES, TOP};
use super::tree::{NodeTable, NodeValue};

/// Reads only the data directory, the API address and the names of the outputs.
pub(crate) fn client_settings(
    tree: &NodeTable,
    diagnostics: &mut Diagnostics,
) -> super::ClientSettings {
    let others: Vec<&str> = tree.entries.iter().map(|entry| entry.key.as_str()).collect();
    let top = section::read(tree, &[TOP], &others, "", None, diagnostics);
    let mut table = |name: &str| {
        let table = TABLES.iter().find(|table| table.name == name)?;
        let empty = NodeTable::default();
        let node = match tree.get(name).map(|entry| &entry.node.value) {
            Some(NodeValue::Table(node)) => node,
            _ => &empty,
        };
        // Secrets may be readable only for the running weir.
        let entries = node.entries.iter().filter(|entry| entry.key != "access").cloned();
        let node = NodeTable { entries: entries.collect() };
        Some(section::read(&node, &[table.fields], &[], name, None, diagnostics))
    };
    let (api, store) = (table("api"), table("store"));
    let mut outputs: Vec<String> = match tree.get(OutputType::FAMILY).map(|entry| &entry.node.value)
    {
        Some(NodeValue::Table(outputs)) => {
            outputs.entries.iter().map(|entry| entry.key.clone()).collect()
        }
        _ => Vec::new(),
    };
    if store.is_some_and(|store| store.bool("enabled")) {
        outputs.push(STORE.to_owned());
    }
    super::ClientSettings {
        data_dir: top.file("data_dir").unwrap_or_default(),
        api_listen: api
            .as_ref()
            .filter(|api| api.bool("enabled"))
            .and_then(|api| api.listen("listen")),
        api_cert_file: api.as_ref().and_then(|api| api.table("tls")?.file("cert_file")),
        outputs,
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Texts, tree};

    use super::*;

    #[test]
    fn secrets_of_the_running_weir_are_not_needed() {
        let mut texts = Texts::default();
        let text = "[api]\nlisten = \"127.0.0.1:7081\"\n\
                    [api.access]\ntokens = { file = \"/nonexistent/tokens\" }\n";
        texts.add("weir.toml", text.to_owned());
        let mut diagnostics = Diagnostics::default();
        let tree = tree::parse(&texts, &mut diagnostics);
        let settings = client_settings(&tree, &mut diagnostics);
        assert!(diagnostics.0.is_empty(), "{:?}", diagnostics.0);
        assert_eq!(settings.api_listen, Some("127.0.0.1:7081".parse().unwrap()));
    }
}
