//! The settings for commands that only talk to a running weir.

use weir_pipeline::config::OutputType;
use weir_pipeline::drain;

use super::diagnostic::Diagnostics;
use super::plan::STORE;
use super::section;
use super::tables::{ComponentType as _, TABLES, TOP};
use super::tree::{NodeTable, NodeValue};

/// Reads only the data directory, the API address and the names of the outputs and other
/// destinations.
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
        let is_needed =
            |key: &str| if name == "drains" { key == "enabled" } else { key != "access" };
        let entries = node.entries.iter().filter(|entry| is_needed(&entry.key)).cloned();
        let node = NodeTable { entries: entries.collect() };
        Some(section::read(&node, &[table.fields], &[], name, None, diagnostics))
    };
    let (api, store, drains) = (table("api"), table("store"), table("drains"));
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
    let has_drains = tree.get("drains").is_some() || tree.get("drain").is_some();
    if has_drains && drains.is_some_and(|drains| drains.bool("enabled")) {
        outputs.extend([drain::NAME, drain::LAGGING].map(str::to_owned));
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

    #[test]
    fn every_destination_with_a_cursor_is_named() {
        let outputs = |text: &str| {
            let mut texts = Texts::default();
            texts.add("weir.toml", text.to_owned());
            let mut diagnostics = Diagnostics::default();
            let tree = tree::parse(&texts, &mut diagnostics);
            let settings = client_settings(&tree, &mut diagnostics);
            assert!(diagnostics.0.is_empty(), "{:?}", diagnostics.0);
            settings.outputs
        };
        let off = "[store]\nenabled = false\n";
        let one = "[output.one]\ntype = \"stdout\"\n";
        assert_eq!(outputs(&format!("{off}{one}")), ["one"]);
        assert_eq!(outputs(one), ["one", "store"]);
        let drains = "[drains.cloud_controller]\nclient_key = \"/nonexistent\"\n";
        assert_eq!(outputs(&format!("{off}{drains}")), ["drains", "drains/lagging"]);
        let drain = "[[drain]]\nurl = \"syslog://10.0.0.1:514\"\n";
        assert_eq!(outputs(&format!("{off}{drain}")), ["drains", "drains/lagging"]);
        assert_eq!(outputs(&format!("{off}{drain}[drains]\nenabled = false\n")), [""; 0]);
    }
}
