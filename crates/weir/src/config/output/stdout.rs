//! `type = "stdout"`.
//!
//! Invariant: at most one output has this type (`check`).

use weir_pipeline::config::OutputKind;

use super::{DELIVERY, ENCODING, OutputDefinition};
use crate::config::tables::Component;

pub(super) const DEFINITION: OutputDefinition = OutputDefinition {
    component: Component {
        doc: "Standard output, one line per record. At most one output can have this type.",
        fields: &[&[ENCODING], DELIVERY],
    },
    check: |_, _, _| {},
    kind: |section| Some(OutputKind::Stdout(section.choice("encoding"))),
    written_path: |_| None,
};
