//! `type = "dropsonde"`.
//!
//! Invariant: as in `check`: checks only read, name the place and suggest a fix.

use weir_host::ServerProtocol;
use weir_pipeline::config::SourceKind;
use weir_pipeline::source::DropsondeSource;

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
        doc: "Loggregator v1 envelopes (dropsonde) over UDP, from programs on this machine.",
        fields: &[DROPSONDE, DATAGRAMS],
    },
    check,
    kind: |_, section| Some(SourceKind::Dropsonde(Box::new(settings(section)?))),
    memory_bytes: listen::memory_bytes,
    endpoint: listen::udp,
};

const DROPSONDE: &[Field] = &[listen::address(Value("\"127.0.0.1:3457\"")), TAGS, RECEIVE_BUFFER];

fn check(section: &Section, diagnostics: &mut Diagnostics) {
    tags::check(section, "tags", diagnostics);
    listen::check(section, false, "add allow", diagnostics);
}

fn settings(section: &Section) -> Option<DropsondeSource> {
    Some(DropsondeSource {
        listen: listen::settings(section, listen::udp(section)?, ServerProtocol::Http1),
        tags: tags::default_tags(section),
    })
}
