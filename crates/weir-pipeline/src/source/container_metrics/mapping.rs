//! Determines the application and the instance of a container from its labels.

use super::ContainerMetricsSource;
use super::runtime::Container;

/// The label with the name of a pod.
const POD_NAME: &str = "io.kubernetes.pod.name";

/// Number of digits of the short form of a container's ID, as in docker's own lists.
const SHORT_ID_LEN: usize = 12;

/// Maximum number of digits of an ordinal: anything longer is a part of a random name.
const ORDINAL_DIGITS_MAX: usize = 4;

/// The source and the instance of a container's metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) source_id: String,
    pub(super) instance_id: String,
    pub(super) tags: Vec<(String, String)>,
}

impl Identity {
    pub(super) fn of(id: &str, container: &Container, source: &ContainerMetricsSource) -> Self {
        let short = id.get(..SHORT_ID_LEN).unwrap_or(id);
        let first = |names: &[String]| {
            let mut values = names.iter().filter_map(|name| container.labels.get(name));
            values.find(|value| !value.is_empty()).map(String::as_str)
        };
        let service = Some(container.service.as_str()).filter(|service| !service.is_empty());
        let source_id = first(&source.source_id_labels).or(service).unwrap_or(short);
        let pod = container.labels.get(POD_NAME);
        let ordinal = pod.and_then(|pod| ordinal(pod));
        let instance_id = first(&source.instance_id_labels).or(ordinal).unwrap_or(short);
        let tag = |(tag, label): &(String, String)| {
            Some((tag.clone(), container.labels.get(label)?.clone()))
        };
        Self {
            source_id: source_id.to_owned(),
            instance_id: instance_id.to_owned(),
            tags: source.label_tags.iter().filter_map(tag).collect(),
        }
    }
}

/// Returns the ordinal at the end of the name of a pod in a stateful set: `web-2`.
fn ordinal(pod: &str) -> Option<&str> {
    let (_, ordinal) = pod.rsplit_once('-')?;
    let is_number = ordinal.bytes().all(|byte| byte.is_ascii_digit());
    ((1..=ORDINAL_DIGITS_MAX).contains(&ordinal.len()) && is_number).then_some(ordinal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_numbers_at_the_end_are_ordinals() {
        assert_eq!(ordinal("app-s-3f2a-12"), Some("12"));
        for pod in ["web", "web-", "web-7d9f8", "web-123456", "-"] {
            assert_eq!(ordinal(pod), None, "{pod}");
        }
    }
}
