//! Outputs: what the configuration knows about each type, one file per type.
//!
//! Invariants: as in `check` and `plan`: checks only read, and every value has been read through a
//! field of the type. A type without a definition does not compile.

mod blackhole;
mod datadog_metrics;
mod file;
mod http;
mod loggregator;
mod requests;
mod socket;
mod splunk_hec;
mod stdout;
mod syslog;

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_pipeline::config::{Encoding, FilePath, OutputKind, OutputPlan, OutputType};

use super::choices::{Choice as _, WhenFull};
use super::diagnostic::Diagnostics;
use super::field::FieldDefault::Value;
use super::field::{Field, ValueType, field};
use super::glob;
use super::section::Section;
use super::sections::{ComponentSection, Sections};
use super::tables::{BUFFER_BYTES_MIN, Component, ComponentType, WINDOW_BYTES_MIN};

/// What the configuration knows about a type of output.
struct OutputDefinition {
    /// Its keys.
    component: Component,
    /// Checks within an output, beyond the types of its keys.
    check: fn(&Section, &Sections, &mut Diagnostics),
    /// From its keys to its settings; `None` only if something required is missing or invalid,
    /// which has been reported.
    kind: fn(&Section) -> Option<OutputKind>,
    /// The path of the files that an output writes, which no other may write and no source may
    /// read; `None` if it writes none, or the path is not valid.
    written_path: fn(&Section) -> Option<FilePath>,
}

const fn definition(output_type: OutputType) -> OutputDefinition {
    match output_type {
        OutputType::SplunkHec => splunk_hec::DEFINITION,
        OutputType::Http => http::DEFINITION,
        OutputType::Socket => socket::DEFINITION,
        OutputType::Loggregator => loggregator::DEFINITION,
        OutputType::DatadogMetrics => datadog_metrics::DEFINITION,
        OutputType::Syslog => syslog::DEFINITION,
        OutputType::File => file::DEFINITION,
        OutputType::Stdout => stdout::DEFINITION,
        OutputType::Blackhole => blackhole::DEFINITION,
    }
}

/// Keys of every output.
pub(crate) const DELIVERY: &[Field] = &[
    field(
        "when_full",
        ValueType::Choice(WhenFull::WORDS),
        Value("\"block\""),
        "What to do when `buffer_max` is reached.",
    ),
    field(
        "buffer_max",
        ValueType::Size { min: BUFFER_BYTES_MIN, max: u64::MAX },
        Value("\"1GiB\""),
        "Maximum bytes that wait for this output, in memory and on disk together.",
    ),
    field(
        "window",
        ValueType::Size { min: WINDOW_BYTES_MIN, max: 4 << 30 },
        Value("\"16MiB\""),
        "Maximum bytes in flight, that is, sent but not acknowledged. After a crash at most this \
         much is sent again. All outputs share the memory for records in flight: when it is used \
         up, each has one batch in flight.",
    ),
    field(
        "dead_letter",
        ValueType::Bool,
        Value("true"),
        "Whether to keep records that the destination rejects permanently in a file, together \
         with the reason (see `weir dead-letter`). Otherwise they are discarded and counted.",
    ),
];

/// The key of the encoding of lines.
const ENCODING: Field = field(
    "encoding",
    ValueType::Choice(Encoding::WORDS),
    Value("\"raw\""),
    "How a record is written as a line.",
);

impl ComponentType for OutputType {
    const FAMILY: &'static str = "output";
    const FAMILY_DOC: &'static str = "Where records go. Each output has its own name and a `type`, and receives every record \
          unless rules route them. The name also identifies its position in the journal: an output \
          with a new name receives only records that are read after it was added.";
    const ALL: &'static [Self] = Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }

    fn component(self) -> Component {
        definition(self).component
    }

    fn check(named: &ComponentSection<Self>, sections: &Sections, diagnostics: &mut Diagnostics) {
        (definition(named.component_type).check)(&named.section, sections, diagnostics);
    }
}

/// The plan of an output; `None` only if a required secret or path is missing, which has been
/// reported.
pub(super) fn output(named: &ComponentSection<OutputType>) -> Option<OutputPlan> {
    let section = &named.section;
    Some(OutputPlan {
        name: named.name.clone(),
        when_full: section.choice::<WhenFull>("when_full").into(),
        buffer_bytes_max: section.size("buffer_max"),
        window_bytes: section.size("window"),
        dead_letter: section.bool("dead_letter"),
        kind: (definition(named.component_type).kind)(section)?,
    })
}

/// The path of the files that an output writes; `None` if it writes none, or the path is not valid.
pub(super) fn written_path(named: &ComponentSection<OutputType>) -> Option<FilePath> {
    (definition(named.component_type).written_path)(&named.section)
}

/// Two outputs must not write to the same file. Where fields could expand to the file of another
/// output, that is for the operator to know.
pub(crate) fn written_twice(sections: &Sections, diagnostics: &mut Diagnostics) {
    let written =
        sections.outputs.iter().filter_map(|output| Some((output, written_path(output)?)));
    let paths: Vec<_> = written.collect();
    let trees: Vec<_> = paths.iter().filter(|(_, path)| path.is_template()).collect();
    let mut seen: BTreeMap<PathBuf, &ComponentSection<OutputType>> = BTreeMap::new();
    for (output, path) in &paths {
        let example = path.example();
        let location = glob::resolved(&example);
        let (section, key_path) = (&output.section, output.section.key_path("path"));
        let place = section.location("path");
        if let Some(first) = seen.get(&location) {
            let written = format!("{} is already written by", example.display());
            diagnostics
                .error(place, &key_path, format!("{written} output {:?}", first.name))
                .other(first.section.location("path"), "it is also named at")
                .help("use a different file for each output");
        } else if !path.is_template()
            && let Some((tree, _)) = trees.iter().find(|(_, tree)| tree.covers(&location))
        {
            let written = format!("{} could also be written by", example.display());
            diagnostics
                .warn(place, &key_path, format!("{written} output {:?}", tree.name))
                .other(tree.section.location("path"), "its fields could expand to that path:")
                .help("use a different directory, unless rules ensure that this does not happen");
        }
        seen.insert(location, output);
    }
}
