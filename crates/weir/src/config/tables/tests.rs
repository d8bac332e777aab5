//! What components of a family have in common is in their tables.

use super::*;

fn has_all(component: &Component, shared: &[Field]) -> bool {
    let names: Vec<&str> =
        component.fields.iter().flat_map(|of| of.iter()).map(|f| f.name).collect();
    shared.iter().all(|field| names.contains(&field.name))
}

#[test]
fn every_output_has_the_keys_of_deliveries() {
    for output in OutputType::ALL {
        assert!(has_all(&output.component(), DELIVERY), "add DELIVERY to {}", output.name());
    }
}

#[test]
fn every_source_that_follows_files_has_the_keys_of_tailing() {
    for source in SourceType::ALL {
        let follows = match source {
            SourceType::Containers | SourceType::File => true,
            SourceType::Syslog
            | SourceType::Loggregator
            | SourceType::Dropsonde
            | SourceType::Statsd
            | SourceType::LoggregatorMetrics
            | SourceType::DrainMessages
            | SourceType::Prometheus
            | SourceType::ContainerMetrics
            | SourceType::DatadogIntake => false,
        };
        assert_eq!(has_all(&source.component(), TAIL), follows, "TAIL of {}", source.name());
    }
}

#[test]
fn no_component_has_a_key_twice() {
    let outputs = OutputType::ALL.iter().map(|output| (output.name(), output.component()));
    let sources = SourceType::ALL.iter().map(|source| (source.name(), source.component()));
    for (name, component) in outputs.chain(sources) {
        let mut keys: Vec<&str> =
            component.fields.iter().flat_map(|of| of.iter()).map(|field| field.name).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{name}: {keys:?}");
    }
}
