//! Decides where records go: once, before a batch is sealed.
//!
//! Without rules every record goes to every output.

use weir_model::BatchBuilder;

/// The routing of one generation of the configuration.
#[derive(Debug, Clone)]
pub struct Router {
    generation: u32,
    /// Bit `i` of word `i / 64`: the output with cursor index `i`.
    default_mask: Vec<u64>,
}

impl Router {
    /// Routes everything to the outputs with these cursor indexes.
    pub fn to_all(generation: u32, cursors: impl IntoIterator<Item = usize>) -> Self {
        let mut default_mask = Vec::new();
        for cursor in cursors {
            if default_mask.len() <= cursor / 64 {
                default_mask.resize(cursor / 64 + 1, 0);
            }
            default_mask[cursor / 64] |= 1_u64 << (cursor % 64);
        }
        Self { generation, default_mask }
    }

    /// Generation of the rules, for the frame header.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Routes the records of a batch; call right before it is sealed.
    pub fn route(&self, builder: &mut BatchBuilder) {
        builder.route_all(&self.default_mask);
    }
}
