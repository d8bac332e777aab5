//! `type = "statsd"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use weir_host::ServerProtocol;
use weir_pipeline::config::SourceKind;
use weir_pipeline::source::StatsdSource;

use super::SourceDefinition;
use super::listen::{self, DATAGRAMS, RECEIVE_BUFFER};
use super::tags::{self, TAGS};
use crate::config::diagnostic::Diagnostics;
use crate::config::field::Field;
use crate::config::field::FieldDefault::Value;
use crate::config::section::Section;
use crate::config::tables::Component;

pub(super) const DEFINITION: SourceDefinition = SourceDefinition {
    component: Component {
        doc: "statsd metrics over UDP, including the tags of Datadog's clients: counters, gauges, \
              timers, histograms and distributions. Each becomes a Loggregator envelope.",
        fields: &[STATSD, DATAGRAMS],
    },
    check,
    kind: |_, section| Some(SourceKind::Statsd(Box::new(settings(section)?))),
    memory_bytes: listen::memory_bytes,
    endpoint: listen::udp,
};

const STATSD: &[Field] = &[listen::address(Value("\"127.0.0.1:8125\"")), TAGS, RECEIVE_BUFFER];

fn check(section: &Section, diagnostics: &mut Diagnostics) {
    tags::check(section, "tags", diagnostics);
    listen::check(section, false, "add allow", diagnostics);
}

fn settings(section: &Section) -> Option<StatsdSource> {
    Some(StatsdSource {
        listen: listen::settings(section, listen::udp(section)?, ServerProtocol::Http1),
        tags: tags::default_tags(section),
    })
}
