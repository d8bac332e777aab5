//! Where the values of a field are stored, as columns: equivalent to
//! [`crate::query::StoredFields`].

use weir_expr::{Field, LAG, Reserved, tag_path};

use super::page::{PageReader, Source};
use super::unit::RowLocation;
use crate::embedded::columns::{MESSAGE_PATHS, TIME_PATHS};
use crate::embedded::segment::{Fixed, Role};
use crate::query::CalculatedField;

/// Each inner list holds sources whose values are combined. The first alternative that has a value
/// in a row applies.
pub(super) type Alternatives = Vec<Vec<Source>>;

/// Returns the attributes that may be kept in a column of the record's own.
pub(super) fn promoted_paths() -> impl Iterator<Item = &'static str> {
    let keys = [Reserved::TraceId, Reserved::SpanId];
    let ids = keys.into_iter().flat_map(|key| key.record_paths().iter().copied());
    MESSAGE_PATHS.into_iter().chain(TIME_PATHS).chain(ids)
}

impl PageReader {
    /// Returns where the values of a field are in the current unit; not for messages.
    pub(super) fn sources(
        &mut self,
        field: &Field,
        calculated_fields: &[CalculatedField],
    ) -> Alternatives {
        match field {
            Field::Message => vec![vec![Source::Fixed(Fixed::Message)]],
            Field::Attribute(path) => {
                match calculated_fields.iter().position(|calculated| calculated.path == *path) {
                    Some(number) => vec![vec![Source::CalculatedField(number)]],
                    None if path == LAG => vec![self.attribute_sources(path), vec![Source::Lag]],
                    None => vec![self.attribute_sources(path)],
                }
            }
            Field::Reserved(key) => self.reserved_sources(*key),
            Field::Tag(key) => vec![
                vec![Source::Resource(tag_path(key).to_owned())],
                vec![Source::Tag(key.clone())],
            ],
            Field::Tags => vec![vec![Source::Tags]],
            Field::Any => vec![self.all_sources()],
        }
    }

    fn attribute_sources(&mut self, path: &str) -> Vec<Source> {
        let mut sources = vec![Source::Attribute(path.to_owned())];
        if self.may_be_in_rest(path) {
            sources.push(Source::Rest(path.to_owned()));
        }
        if promoted_paths().any(|promoted| promoted == path) {
            sources.push(Source::Promoted(path.to_owned()));
        }
        sources
    }

    fn reserved_sources(&mut self, key: Reserved) -> Alternatives {
        let first = match key {
            Reserved::Service => return vec![vec![Source::Fixed(Fixed::Service)]],
            Reserved::Host => return vec![vec![Source::Fixed(Fixed::Host)]],
            Reserved::Source => return vec![vec![Source::Fixed(Fixed::Source)]],
            Reserved::Status => return vec![vec![Source::Fixed(Fixed::Status)]],
            Reserved::IoStream => return vec![vec![Source::IoStream]],
            Reserved::TraceId => Some(Source::Fixed(Fixed::TraceId)),
            Reserved::SpanId => Some(Source::Fixed(Fixed::SpanId)),
            _ => None,
        };
        let mut all: Alternatives = first.into_iter().map(|source| vec![source]).collect();
        let resource = key.resource_paths().iter();
        all.extend(resource.map(|path| vec![Source::Resource((*path).to_owned())]));
        all.extend(key.record_paths().iter().map(|path| self.attribute_sources(path)));
        all
    }

    fn all_sources(&mut self) -> Vec<Source> {
        let mut sources = vec![
            Source::AllResource,
            Source::AllRest,
            Source::Fixed(Fixed::Source),
            Source::Fixed(Fixed::Status),
            Source::IoStream,
        ];
        sources.extend(self.attribute_paths().into_iter().map(Source::Attribute));
        sources.extend(promoted_paths().map(|path| Source::Promoted(path.to_owned())));
        sources
    }

    /// Returns the attributes that have a column in the current unit.
    pub(super) fn attribute_paths(&self) -> Vec<String> {
        match &self.unit.location {
            RowLocation::Head(chunk) => {
                chunk.read().paths().iter().map(|column| column.path().to_owned()).collect()
            }
            RowLocation::Group { segment, .. } => {
                let roles = segment.segment.columns().iter().map(|column| &column.role);
                let path = |role: &Role| match role {
                    Role::Attribute(path) => Some(path.clone()),
                    _ => None,
                };
                roles.filter_map(path).collect()
            }
        }
    }

    /// Returns the attributes below the path that may be kept in a column of the record's own.
    pub(super) fn promoted_below(path: &str) -> impl Iterator<Item = &'static str> {
        promoted_paths().filter(move |promoted| is_below(promoted, path))
    }
}

/// Returns whether `path` names an object that contains the attribute.
pub(super) fn is_below(attribute: &str, path: &str) -> bool {
    attribute.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_is_promoted_to_at_most_one_column() {
        let mut paths: Vec<&str> = promoted_paths().collect();
        let count = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), count);
    }
}
