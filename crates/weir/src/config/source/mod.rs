//! Sources: what the configuration knows about each type, one file per type.
//!
//! Invariants: as in `check` and `plan`: checks only read, and every value has been read through a
//! field of the type. A type without a definition does not compile.

mod container_metrics;
mod containers;
mod datadog_intake;
mod drain_messages;
mod dropsonde;
mod file;
mod listen;
mod loggregator;
mod loggregator_metrics;
mod multiline;
mod prometheus;
mod rate_limit;
mod statsd;
mod syslog;
mod tags;
mod tail;

use weir_pipeline::config::{ListenEndpoint, SourceKind, SourcePlan, SourceType};

use super::diagnostic::Diagnostics;
use super::section::Section;
use super::sections::{ComponentSection, Sections};
use super::tables::{Component, ComponentType};
pub(crate) use listen::listen_twice;
pub(crate) use tail::read_twice;

/// What the configuration knows about a type of source.
struct SourceDefinition {
    /// Its keys.
    component: Component,
    /// Checks within a source, beyond the types of its keys.
    check: fn(&Section, &mut Diagnostics),
    /// From the name of a source and its keys to its settings; `None` only if something required is
    /// missing, which has been reported.
    kind: fn(&str, &Section) -> Option<SourceKind>,
    /// Memory that is planned for a source alone, in bytes: for its listeners, and for what is
    /// being received.
    memory_bytes: fn(&Section) -> u64,
    /// The socket that a source binds; `None` if it binds none, or its address is missing.
    endpoint: fn(&Section) -> Option<ListenEndpoint>,
}

const fn definition(source_type: SourceType) -> SourceDefinition {
    match source_type {
        SourceType::Containers => containers::DEFINITION,
        SourceType::File => file::DEFINITION,
        SourceType::Syslog => syslog::DEFINITION,
        SourceType::Loggregator => loggregator::DEFINITION,
        SourceType::Dropsonde => dropsonde::DEFINITION,
        SourceType::Statsd => statsd::DEFINITION,
        SourceType::LoggregatorMetrics => loggregator_metrics::DEFINITION,
        SourceType::DrainMessages => drain_messages::DEFINITION,
        SourceType::Prometheus => prometheus::DEFINITION,
        SourceType::ContainerMetrics => container_metrics::DEFINITION,
        SourceType::DatadogIntake => datadog_intake::DEFINITION,
    }
}

impl ComponentType for SourceType {
    const FAMILY: &'static str = "source";
    const FAMILY_DOC: &'static str =
        "Where records come from. Each source has its own name and a `type`.";
    const ALL: &'static [Self] = Self::ALL;

    fn name(self) -> &'static str {
        self.name()
    }

    fn component(self) -> Component {
        definition(self).component
    }

    fn check(named: &ComponentSection<Self>, _: &Sections, diagnostics: &mut Diagnostics) {
        (definition(named.component_type).check)(&named.section, diagnostics);
    }
}

/// The plan of a source; `None` only if something required is missing, which has been reported.
pub(super) fn source(named: &ComponentSection<SourceType>) -> Option<SourcePlan> {
    let kind = (definition(named.component_type).kind)(&named.name, &named.section)?;
    Some(SourcePlan { name: named.name.clone(), kind })
}

/// Memory that is planned for a source alone, in bytes.
pub(super) fn memory_bytes(named: &ComponentSection<SourceType>) -> u64 {
    (definition(named.component_type).memory_bytes)(&named.section)
}

/// Whether a source reads the files that its key `include` matches, whoever writes them.
pub(super) fn reads_included(source_type: SourceType) -> bool {
    match source_type {
        SourceType::File => true,
        SourceType::Containers
        | SourceType::Syslog
        | SourceType::Loggregator
        | SourceType::Dropsonde
        | SourceType::Statsd
        | SourceType::LoggregatorMetrics
        | SourceType::DrainMessages
        | SourceType::Prometheus
        | SourceType::ContainerMetrics
        | SourceType::DatadogIntake => false,
    }
}

/// The socket that a source binds; `None` if it binds none, or its address is missing.
fn endpoint(named: &ComponentSection<SourceType>) -> Option<ListenEndpoint> {
    (definition(named.component_type).endpoint)(&named.section)
}
