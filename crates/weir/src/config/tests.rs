//! The configuration as a whole: the tables, the built-in default, and the format of diagnostics.

use super::field::{Field, FieldDefault, ValueType};
use super::output::DELIVERY;
use super::tables::{Component, ComponentType, TABLES, TOP};
use super::{
    DEFAULT, Diagnostics, Level, Loaded, Texts, check, load, load_texts, output, reference, schema,
    sections, source, tree,
};
use crate::term::Paint;
use weir_pipeline::config::{OutputType, SourceType};

pub(super) fn loaded(text: &str) -> Loaded {
    let mut texts = Texts::default();
    texts.add("weir.toml", text.to_owned());
    load_texts(texts)
}

fn rendered(text: &str) -> String {
    let loaded = loaded(text);
    loaded.diagnostics.render(&loaded.texts, Paint::off())
}

/// A valid source and output, for mistakes in other places; 7 lines.
pub(super) const REST: &str = "\
[source.ok]
type = \"file\"
include = [\"/var/log/weir-test/*.log\"]
[output.ok]
type = \"blackhole\"


";

#[test]
fn built_in_default_is_valid() {
    let loaded = load(None).unwrap();
    assert!(loaded.diagnostics.0.is_empty(), "{}", rendered(DEFAULT));
    let plan = loaded.plan.unwrap();
    assert_eq!(plan.pipeline.sources.len(), 3);
    assert_eq!(plan.pipeline.outputs.len(), 1);
    assert_eq!(plan.api.unwrap().queries, weir_api::QueryLimits::default());
    assert!(plan.pipeline.journal_bytes_max > 0 && plan.pipeline.disk_free_bytes_min > 0);
}

/// The built-in default must match the tables, so that a change of one shows in the other.
#[test]
fn built_in_default_has_the_default_values() {
    for table in TABLES {
        let header = format!("\n[{}]\n", table.name);
        let Some(section) = DEFAULT.split(&header).nth(1) else {
            let is_off = ["drains", "loggregator"].contains(&table.name);
            assert!(is_off, "{} is on by default", table.name);
            continue;
        };
        let section = section.split("\n[").next().unwrap();
        for line in section.lines().filter(|line| !line.starts_with('#') && line.contains('=')) {
            let code = line.split(" #").next().unwrap().trim();
            let (key, value) = code.split_once(" = ").unwrap();
            let field = table.fields.iter().find(|field| field.name == key).unwrap();
            let FieldDefault::Value(default) = field.default else { panic!("{key}") };
            assert_eq!(value, default, "[{}] {key}", table.name);
        }
    }
}

/// Every type of source and output.
fn components() -> impl Iterator<Item = (&'static str, Component)> {
    fn of<T: ComponentType>() -> impl Iterator<Item = (&'static str, Component)> {
        T::ALL.iter().map(|known| (known.name(), known.component()))
    }
    of::<SourceType>().chain(of::<OutputType>())
}

fn all_fields() -> Vec<&'static Field> {
    let mut fields: Vec<&Field> = TOP.iter().collect();
    fields.extend(TABLES.iter().flat_map(|table| table.fields));
    for (_, component) in components() {
        fields.extend(component.fields.iter().flat_map(|group| group.iter()));
    }
    let inner = fields.iter().filter_map(|field| match &field.value_type {
        ValueType::Table(inner) | ValueType::ChoiceOrTable(_, inner) => Some(*inner),
        _ => None,
    });
    let inner: Vec<&Field> = inner.flatten().collect();
    fields.extend(inner);
    fields
}

#[test]
fn fields_have_docs_and_keys_are_unique() {
    for field in all_fields() {
        assert!(field.doc.len() > 10 && field.doc.ends_with('.'), "{}: {}", field.name, field.doc);
        assert!(!field.doc.contains('|'), "{}", field.name);
    }
    for (type_name, component) in components() {
        let mut names: Vec<_> =
            component.fields.iter().flat_map(|group| group.iter()).map(|f| f.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{type_name}");
    }
}

#[test]
fn every_output_has_the_keys_of_deliveries() {
    for output in OutputType::ALL {
        let has = |key: &Field| {
            output.component().fields.iter().copied().flatten().any(|field| field.name == key.name)
        };
        assert!(DELIVERY.iter().all(has), "add DELIVERY to {}", output.name());
    }
}

/// A type that reads a key without having it fails here, in a debug assertion.
#[test]
fn every_type_has_the_keys_that_it_reads() {
    let sources = SourceType::ALL.iter().map(|of| ("source", of.name()));
    let outputs = OutputType::ALL.iter().map(|of| ("output", of.name()));
    for (family, name) in sources.chain(outputs) {
        let mut texts = Texts::default();
        texts.add("weir.toml", format!("[{family}.a]\ntype = \"{name}\"\n"));
        let mut diagnostics = Diagnostics::default();
        let tree = tree::parse(&texts, &mut diagnostics);
        let sections = sections::sections(&tree, &mut diagnostics);
        assert_eq!(sections.sources.len() + sections.outputs.len(), 1, "{family} {name}");
        check::check(&sections, &mut diagnostics);
        let planned = sections.sources.iter().filter_map(source::source).count()
            + sections.outputs.iter().filter_map(output::output).count();
        let is_incomplete =
            diagnostics.0.iter().any(|d| d.key_path.starts_with(&format!("{family}.a.")));
        assert!(planned == 1 || is_incomplete, "{family} {name}");
    }
}

#[test]
fn schema_and_reference_name_every_field() {
    let (schema, reference) = (schema().to_string(), reference());
    for field in all_fields() {
        assert!(schema.contains(&format!("\"{}\"", field.name)), "{}", field.name);
        assert!(
            reference.contains(&format!("{}`", field.name)),
            "{} is not in the reference",
            field.name
        );
    }
}

#[test]
fn valid_configuration_has_no_diagnostics() {
    let text = format!(
        "{REST}
[api]
listen = \"[::1]:0\"
[output.hec]
type = \"splunk_hec\"
endpoint = \"https://splunk.example:8088/prefix/\"
token = {{ env = \"PATH\" }}
rate = 1
"
    );
    let found = rendered(&text);
    assert!(found.contains("unknown key \"rate\""), "{found}");
    let found = rendered(&text.replace("rate = 1\n", ""));
    assert_eq!(found, "");
}

#[test]
fn no_message_shows_a_secret() {
    for line in [
        "token = \"hidden\"",
        "tokn = \"hidden\"",
        "token = { value = \"hidden\" }",
        "token = { env = \"PATH\", value = \"hidden\" }",
        "token = \"hidden",
        "token = hidden",
        "token = [\"hidden\"]",
        "hec_token = \"hidden\"",
        "password = \"hidden\"",
    ] {
        let text = format!(
            "[output.x]\ntype = \"splunk_hec\"\nendpoint = \"https://x\"\n{line}\n[source.a]\ntype = \"containers\"\n"
        );
        let loaded = loaded(&text);
        assert!(loaded.diagnostics.has_errors(), "{line}");
        let shown = loaded.diagnostics.render(&loaded.texts, Paint::off());
        assert!(!shown.contains("hidden"), "{line}:\n{shown}");
        let json = loaded.diagnostics.to_json(&loaded.texts).to_string();
        assert!(!json.contains("hidden"), "{line}:\n{json}");
    }
}

#[test]
fn certificate_files_are_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    let body = "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n";
    std::fs::write(&ca_file, body).unwrap();
    let shown = rendered(&format!(
        "{REST}[output.hec]\ntype = \"splunk_hec\"\nendpoint = \"https://splunk.example:8088\"\n\
         token = {{ env = \"PATH\" }}\ntls = {{ ca_file = {ca_file:?} }}\n"
    ));
    assert!(shown.starts_with("error: output.hec.tls cannot be used: "), "{shown}");
    assert!(shown.contains("--> weir.toml:12:7  output.hec.tls"), "{shown}");
    assert!(shown.contains("ca.pem"), "{shown}");
}

#[test]
fn patterns_are_absolute() {
    let text = REST.replace("include =", "exclude = [\"*.old\"]\ninclude =");
    let plan = loaded(&text.replace("/var/log/", "/var/../var/log/")).plan.unwrap();
    let weir_pipeline::config::SourceKind::File(source) = &plan.pipeline.sources[0].kind else {
        panic!("it is of type file");
    };
    assert_eq!(source.include, ["/var/log/weir-test/*.log"]);
    assert_eq!(source.exclude, ["**/*.old"]);
}

#[test]
fn directory_is_merged_and_duplicates_are_errors() {
    let mut texts = Texts::default();
    texts.add("10.toml", format!("{REST}[journal]\nring = \"8MiB\"\n"));
    texts.add("20.toml", "[journal]\nring = \"9MiB\"\nsize_max = \"1GiB\"\n".to_owned());
    texts.add("30.toml", "[source.ok]\ntype = \"containers\"\n".to_owned());
    let loaded = load_texts(texts);
    let shown = loaded.diagnostics.render(&loaded.texts, Paint::off());
    for part in [
        "journal.ring is defined twice",
        "--> 20.toml:2:1",
        "= it is also defined at: 10.toml:9:1",
        "source.ok is defined twice",
        "--> 30.toml:1:9",
        "= it is also defined at: 10.toml:1:9",
    ] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
    assert_eq!(loaded.diagnostics.count(Level::Error), 2, "{shown}");
}

#[test]
fn all_errors_are_reported_in_text_order() {
    let text = "data_dri = 1\n[api]\nlisten = 5\nx =\n[source.a]\n[output.b]\ntype = \"nope\"\n";
    let loaded = loaded(text);
    let lines: Vec<usize> = loaded
        .diagnostics
        .0
        .iter()
        .filter_map(|d| d.location.as_ref())
        .map(|location| loaded.texts.line(location).number)
        .collect();
    // Line 4 has no value; that its key is unknown too is not worth reporting.
    assert_eq!(lines, [1, 3, 4, 5, 7]);
}

#[test]
fn diagnostic_is_rendered() {
    let shown = rendered(&format!("{REST}[journal]\nrnig = \"64MiB\"\n"));
    let expected = "\
error: unknown key \"rnig\" in [journal]
 --> weir.toml:9:1  journal.rnig
  |
9 | rnig = \"64MiB\"
  | ^^^^
  = did you mean \"ring\"?

";
    assert_eq!(shown, expected);
}
