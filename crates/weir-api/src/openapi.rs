//! The document of the API for programs: what can be asked and what is answered, made from the
//! types that read requests and write answers.

use utoipa::OpenApi;

use crate::problem::{Place, ProblemDocument};
use crate::{explore, routes, tail};

/// What weir says over HTTP, and what can be asked of its store.
///
/// Paths under `/api/v2/` are Datadog's, so that its clients work; their errors are Datadog's,
/// with the problem document beside, under `weir`. Errors of all other paths are problem
/// documents (RFC 9457).
#[derive(OpenApi)]
#[openapi(
    info(title = "weir", license(name = "Apache-2.0", identifier = "Apache-2.0"), contact()),
    paths(
        explore::search::get_in_place,
        explore::search::get,
        explore::search::post,
        explore::aggregate::post,
        explore::complete::fields,
        explore::complete::values,
        explore::context::get,
        explore::patterns::get,
        explore::export::get,
        explore::report::get,
        explore::deletions::get,
        explore::deletions::post,
        explore::deletions::cancel,
        tail::tail,
        routes::ledger,
        routes::rules,
        routes::status,
        routes::metrics_page,
        routes::health,
        routes::live,
        routes::ready,
        routes::openapi,
    ),
    components(schemas(ProblemDocument, Place)),
    tags(
        (name = "search", description = "Records that are stored, and as they come in"),
        (name = "complete", description = "What can be searched for"),
        (name = "export", description = "All records as a file"),
        (name = "store", description = "What is stored"),
        (name = "figures", description = "What weir does"),
        (name = "health", description = "Whether it does it"),
    )
)]
struct Document;

/// The document (`OpenAPI` 3.1).
pub fn openapi() -> serde_json::Value {
    serde_json::to_value(Document::openapi()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_path_is_in_the_document_and_no_other() {
        let document = openapi();
        let known: BTreeSet<&str> =
            document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        let served: BTreeSet<&str> = routes::paths().into_iter().collect();
        assert_eq!(known, served);
    }

    #[test]
    fn every_reference_has_its_target() {
        let document = openapi();
        let text = document.to_string();
        let names = text.split("\"#/components/schemas/").skip(1);
        for name in names.filter_map(|rest| rest.split('"').next()) {
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
    }
}
