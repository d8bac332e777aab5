//! `type = "drain_messages"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use weir_pipeline::config::SourceKind;
use weir_pipeline::source::{DrainMessagesSource, SYSLOG_LISTENER_BYTES};

use super::SourceDefinition;
use super::tags::{self, TAGS};
use crate::config::section::Section;
use crate::config::tables::Component;

pub(super) const DEFINITION: SourceDefinition = SourceDefinition {
    component: Component {
        doc: "Reports problems of an application's [drains](../guide/drains.md) in the \
              application's own log: a drain is invalid, does not accept records, or has lost \
              some. If drains are on and no source of this type is configured, there is one \
              named `drain_messages`.",
        fields: &[&[TAGS]],
    },
    check: |section, diagnostics| tags::check(section, "tags", diagnostics),
    kind: |_, section| Some(SourceKind::DrainMessages(Box::new(settings(section)))),
    memory_bytes: |_| SYSLOG_LISTENER_BYTES,
    endpoint: |_| None,
};

fn settings(section: &Section) -> DrainMessagesSource {
    DrainMessagesSource { tags: tags::default_tags(section) }
}
