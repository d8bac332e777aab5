//! `type = "blackhole"`.
//!
//! Invariant: it has no keys other than those of every output.

use weir_pipeline::config::OutputKind;

use super::{DELIVERY, OutputDefinition};
use crate::config::tables::Component;

pub(super) const DEFINITION: OutputDefinition = OutputDefinition {
    component: Component { doc: "Discards all records and counts them.", fields: &[DELIVERY] },
    check: |_, _, _| {},
    kind: |_| Some(OutputKind::Blackhole),
    written_path: |_| None,
};
