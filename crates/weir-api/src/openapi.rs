//! The `OpenAPI` document of the API, generated from the types that read requests and write
//! responses.

use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response};
use utoipa::{Modify, OpenApi};
use weir_store::query::Aggregation;

use crate::access::session;
use crate::problem::{DatadogErrors, ProblemDocument, TextRange};
use crate::topology::{self, TopologyChange};
use crate::{cursors, drains, explore, reliability, routes, tail, views};

/// The document; its description is for its readers.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "weir",
        description = "HTTP API of weir: its state, and queries of its store.\n\n\
Paths under `/api/v2/` follow Datadog's API, so that its clients work; their errors have Datadog's \
format, with the problem document in the additional member `weir`. Errors of all other paths are \
problem documents (RFC 9457).\n\n\
With access control (`[api.access]`), all paths except `/health` and those below it need a token \
(`Authorization: Bearer TOKEN`) or the cookie of a session; requests without one are answered with \
401, and those whose token does not suffice with 403.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
        contact(),
    ),
    paths(
        explore::search::get_in_place,
        explore::search::get,
        explore::search::post,
        explore::aggregate::post,
        explore::complete::fields,
        explore::complete::values,
        explore::facets::get,
        explore::context::get,
        explore::path::get,
        explore::patterns::get,
        explore::export::get,
        explore::report::get,
        explore::deletions::get,
        explore::deletions::post,
        explore::deletions::cancel,
        cursors::remove,
        drains::list,
        drains::add,
        drains::remove,
        drains::pause,
        drains::resume,
        drains::test,
        views::list,
        views::save,
        views::remove,
        views::remember,
        views::forget,
        session::show,
        session::begin,
        session::end,
        tail::tail,
        topology::get,
        topology::stream::get,
        reliability::get,
        reliability::steps,
        routes::ledger,
        routes::rules,
        routes::status,
        routes::metrics_page,
        routes::health,
        routes::live,
        routes::ready,
        routes::openapi,
    ),
    components(schemas(ProblemDocument, DatadogErrors<'_>, TextRange, TopologyChange)),
    modifiers(&ErrorResponses, &OperationIds),
    tags(
        (name = "search", description = "Stored records and live tails"),
        (name = "complete", description = "Fields and values that can be queried"),
        (name = "export", description = "Export of records"),
        (name = "store", description = "Contents of the store"),
        (name = "status", description = "Ledger, rules, status and topology"),
        (name = "session", description = "Signing in"),
        (name = "views", description = "Saved views of the page"),
        (name = "metrics", description = "Metrics for Prometheus"),
        (name = "health", description = "Health"),
        (name = "openapi", description = "This document"),
    )
)]
struct Document;

/// Adds the error responses that every operation can return.
struct ErrorResponses;

impl ErrorResponses {
    /// The content type and schema of errors on a path; `None` if the operation defines them.
    fn shape(path: &str) -> Option<(&'static str, &'static str)> {
        match path {
            _ if path.starts_with("/api/") => Some(("application/json", "DatadogErrors")),
            _ if path.starts_with("/weir/") => {
                Some(("application/problem+json", "ProblemDocument"))
            }
            _ => None,
        }
    }
}

impl Modify for ErrorResponses {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        for (path, item) in &mut document.paths.paths {
            let Some((content_type, schema)) = Self::shape(path) else { continue };
            let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
            for operation in operations.into_iter().flatten() {
                let responses = &mut operation.responses.responses;
                let others = [
                    ("4XX", "The request is invalid"),
                    ("5XX", "Temporarily unavailable, retry later"),
                ];
                for (status, description) in others {
                    let response = || RefOr::T(Response::new(description));
                    responses.entry(status.to_owned()).or_insert_with(response);
                }
                for (_, response) in responses.iter_mut().filter(|(s, _)| s.as_str() >= "4") {
                    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(schema)));
                    if let RefOr::T(response) = response {
                        response.content.insert(content_type.to_owned(), content.build().into());
                    }
                }
            }
        }
    }
}

/// Gives every operation a unique id: code generators use it as the name of the function.
struct OperationIds;

impl Modify for OperationIds {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        for (path, item) in &mut document.paths.paths {
            let words = path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
            let of_path = words.collect::<Vec<_>>().join("_");
            let operations = [
                ("get", &mut item.get),
                ("put", &mut item.put),
                ("post", &mut item.post),
                ("delete", &mut item.delete),
            ];
            for (method, operation) in operations {
                if let Some(operation) = operation {
                    operation.operation_id = Some(format!("{method}_{of_path}"));
                }
            }
        }
    }
}

/// The `OpenAPI` document (version 3.1).
pub fn openapi() -> serde_json::Value {
    let mut document = serde_json::to_value(Document::openapi()).unwrap_or_default();
    list_aggregations(&mut document);
    document
}

/// Names every aggregation, so that the document cannot lack one.
fn list_aggregations(document: &mut serde_json::Value) {
    let names: Vec<&str> = Aggregation::NAMED.iter().map(|(name, _)| *name).collect();
    let property = "/components/schemas/ComputeBody/properties/aggregation/description";
    if let Some(description) = document.pointer_mut(property) {
        *description = format!("`{}`, or a percentile such as `pc99`.", names.join("`, `")).into();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn document_lists_exactly_the_served_paths() {
        let document = openapi();
        let known: BTreeSet<&str> =
            document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        let served: BTreeSet<&str> = routes::paths().into_iter().collect();
        assert_eq!(known, served);
    }

    #[test]
    fn operation_ids_are_unique() {
        let document = openapi();
        let paths = document["paths"].as_object().unwrap().values();
        let operations = paths.flat_map(|operations| operations.as_object().unwrap().values());
        let names: Vec<&str> =
            operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        assert!(names.contains(&"post_api_v2_logs_events_search"));
    }

    #[test]
    fn every_error_response_has_a_body() {
        let document = openapi();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for operation in operations.as_object().unwrap().values() {
                let responses = operation["responses"].as_object().unwrap();
                let refusals = responses.iter().filter(|(status, _)| status.as_str() >= "4");
                let has_body = |response: &serde_json::Value| response["content"].is_object();
                let is_health = path.starts_with("/health") || path == "/metrics";
                assert!(is_health || responses.contains_key("4XX"), "{path}");
                assert!(refusals.clone().all(|(_, r)| is_health || has_body(r)), "{path}");
            }
        }
    }

    #[test]
    fn every_schema_reference_exists() {
        let document = openapi();
        let text = document.to_string();
        let names = text.split("\"#/components/schemas/").skip(1);
        for name in names.filter_map(|rest| rest.split('"').next()) {
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
    }
}
