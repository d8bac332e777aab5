//! Saved views of the page, and the queries that were last run in it.
//!
//! Invariants: a view is a name and the query string of the page, and nothing here interprets
//! either; a change is on stable storage before it is answered; the file is replaced as a whole,
//! and one that cannot be read is reported and never overwritten; its size is limited. The file is
//! read and written on another thread, so that a disk that hangs does not keep the API from
//! answering.

use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_host::Disk;
use weir_host::units::format_rfc3339;

use crate::access::Permission::{Change, Everything};
use crate::access::{Routes, needs};
use crate::problem::Problem;
use crate::response::{json_response, starting};
use crate::state::ApiState;

/// Maximum number of views: a list that a person still reads.
const VIEWS_MAX: usize = 200;
/// Maximum length of a name: what fits into a menu.
const NAME_CHARS_MAX: usize = 80;
/// Maximum length of a view or a query, bytes: browsers and proxies do not accept longer addresses.
const TEXT_BYTES_MAX: usize = 8 * 1024;
/// Maximum number of queries that are kept.
const QUERIES_MAX: usize = 50;
/// Maximum size of the file, bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// All views and queries of the maximum length fit, even if JSON needs six bytes for each of their
/// bytes.
const _: () =
    assert!((VIEWS_MAX + QUERIES_MAX) * (TEXT_BYTES_MAX + 1024) * 6 < FILE_BYTES_MAX as usize);

/// Name of the file in the data directory.
const FILE: &str = "views.json";
const SCHEMA: &str = "weir.views.v1";

/// The paths.
pub(crate) const PATHS: [&str; 3] = ["/weir/v1/views", "/weir/v1/views/{name}", "/weir/v1/queries"];

/// The routes.
pub(crate) fn routes() -> Routes {
    Routes::default()
        .on("/weir/v1/views", [needs(Everything, get(list))])
        .on("/weir/v1/views/{name}", [needs(Change, put(save).delete(remove))])
        .on("/weir/v1/queries", [needs(Change, post(remember).delete(forget))])
}

/// Everything that is kept for the page; also the content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ViewsDocument {
    /// `weir.views.v1`.
    pub schema: String,
    /// The views, the last saved one first.
    pub views: Vec<SavedView>,
    /// The queries that were last run, the latest first.
    pub queries: Vec<String>,
}

/// A saved view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SavedView {
    /// Its name.
    pub name: String,
    /// The query string of the page, starting with `?`.
    pub search: String,
    /// When it was saved, RFC 3339.
    pub saved: String,
}

/// A view to be saved.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewView {
    /// The query string of the page, starting with `?`.
    pub search: String,
}

/// A query that was run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunQuery {
    /// The query.
    pub query: String,
}

impl Default for ViewsDocument {
    fn default() -> Self {
        Self { schema: SCHEMA.to_owned(), views: Vec::new(), queries: Vec::new() }
    }
}

impl ViewsDocument {
    fn save(&mut self, name: &str, search: String, now_ns: i64) -> Result<(), Problem> {
        self.views.retain(|view| view.name != name);
        if self.views.len() >= VIEWS_MAX {
            let title = format!("there are already {VIEWS_MAX} views: delete one first");
            return Err(Problem::new(StatusCode::CONFLICT, title));
        }
        let saved = format_rfc3339(now_ns);
        self.views.insert(0, SavedView { name: name.to_owned(), search, saved });
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), Problem> {
        let before = self.views.len();
        self.views.retain(|view| view.name != name);
        if self.views.len() == before {
            return Err(Problem::new(StatusCode::NOT_FOUND, "there is no view of that name"));
        }
        Ok(())
    }

    fn remember(&mut self, query: String) {
        self.queries.retain(|known| *known != query);
        self.queries.insert(0, query);
        self.queries.truncate(QUERIES_MAX);
    }
}

/// The file of the views.
#[derive(Debug, Default)]
pub(crate) struct Views(Mutex<Option<(Arc<dyn Disk>, PathBuf)>>);

impl Views {
    /// Keeps views in this directory from now on.
    pub(crate) fn set_dir(&self, disk: Arc<dyn Disk>, dir: &FilePath) {
        *self.file() = Some((disk, dir.join(FILE)));
    }

    /// Reads the file, changes its content, and writes it if it is different.
    fn change(
        &self,
        change: impl FnOnce(&mut ViewsDocument) -> Result<(), Problem>,
    ) -> Result<Option<ViewsDocument>, Problem> {
        // Held until the file is written: changes of two clients are applied one after the other.
        let file = self.file();
        let Some((disk, path)) = file.as_ref() else { return Ok(None) };
        let before = read(&**disk, path).map_err(|error| failed("read", &error))?;
        let mut document = before.clone();
        change(&mut document)?;
        if document != before {
            serde_json::to_vec_pretty(&document)
                .map_err(io::Error::from)
                .and_then(|bytes| weir_host::replace_file(&**disk, path, &bytes))
                .map_err(|error| failed("write", &error))?;
        }
        Ok(Some(document))
    }

    fn file(&self) -> std::sync::MutexGuard<'_, Option<(Arc<dyn Disk>, PathBuf)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(disk: &dyn Disk, path: &FilePath) -> io::Result<ViewsDocument> {
    let bytes = match weir_host::read_file(disk, path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(ViewsDocument::default());
        }
        other => other?,
    };
    let document: ViewsDocument = serde_json::from_slice(&bytes)?;
    if document.schema != SCHEMA {
        return Err(io::Error::other(format!("unknown schema {:?}", document.schema)));
    }
    Ok(document)
}

fn failed(what: &str, error: &io::Error) -> Problem {
    let title = format!("cannot {what} {FILE} in data_dir: {error}");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, title)
}

/// Saved views and the queries that were last run
#[utoipa::path(
    get, path = "/weir/v1/views", tag = "views",
    responses((status = 200, description = "The views", body = ViewsDocument))
)]
pub(crate) async fn list(State(state): State<Arc<ApiState>>) -> Response {
    changed(&state, |_| Ok(())).await
}

/// Saves a view; one of the same name is replaced
#[utoipa::path(
    put, path = "/weir/v1/views/{name}", tag = "views", request_body = NewView,
    params(("name" = String, Path, description = "Name of the view, at most 80 characters")),
    responses((status = 200, description = "The views after the change", body = ViewsDocument))
)]
pub(crate) async fn save(
    State(state): State<Arc<ApiState>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Response {
    let checked = valid_name(&name).and_then(|()| {
        let NewView { search } = parsed(&body)?;
        valid_search(&search)?;
        Ok(search)
    });
    let search = match checked {
        Ok(search) => search,
        Err(problem) => return problem.into_response(),
    };
    let now_ns = state.view().map_or(0, |view| view.now_unix_ns());
    changed(&state, move |document| document.save(&name, search, now_ns)).await
}

/// Deletes a view
#[utoipa::path(
    delete, path = "/weir/v1/views/{name}", tag = "views",
    params(("name" = String, Path, description = "Name of the view")),
    responses((status = 200, description = "The views after the change", body = ViewsDocument))
)]
pub(crate) async fn remove(
    State(state): State<Arc<ApiState>>,
    Path(name): Path<String>,
) -> Response {
    changed(&state, move |document| document.remove(&name)).await
}

/// Adds a query to those that were last run
#[utoipa::path(
    post, path = "/weir/v1/queries", tag = "views", request_body = RunQuery,
    responses((status = 200, description = "The views after the change", body = ViewsDocument))
)]
pub(crate) async fn remember(State(state): State<Arc<ApiState>>, body: Bytes) -> Response {
    let checked = parsed(&body).and_then(|RunQuery { query }| {
        valid_text("query", &query)?;
        Ok(query)
    });
    match checked {
        Ok(query) => {
            changed(&state, move |document| {
                document.remember(query);
                Ok(())
            })
            .await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Deletes the queries that were last run
#[utoipa::path(
    delete, path = "/weir/v1/queries", tag = "views",
    responses((status = 200, description = "The views after the change", body = ViewsDocument))
)]
pub(crate) async fn forget(State(state): State<Arc<ApiState>>) -> Response {
    changed(&state, |document| {
        document.queries.clear();
        Ok(())
    })
    .await
}

async fn changed(
    state: &ApiState,
    change: impl FnOnce(&mut ViewsDocument) -> Result<(), Problem> + Send + 'static,
) -> Response {
    let views = state.views.clone();
    match tokio::task::spawn_blocking(move || views.change(change)).await {
        Ok(Ok(Some(document))) => json_response(StatusCode::OK, &document),
        Ok(Ok(None)) => starting(),
        Ok(Err(problem)) => problem.into_response(),
        Err(error) => {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
        }
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("body: {error}")))
}

fn valid_name(name: &str) -> Result<(), Problem> {
    let is_valid = !name.trim().is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
        && !name.chars().any(char::is_control);
    if is_valid {
        return Ok(());
    }
    let expected = format!("1 to {NAME_CHARS_MAX} characters without control characters");
    Err(Problem::parameter("name", format!("expected {expected}")))
}

fn valid_search(search: &str) -> Result<(), Problem> {
    if search.is_empty() || search.starts_with('?') {
        return valid_text("search", search);
    }
    Err(Problem::parameter("search", "expected a query string that starts with ?"))
}

fn valid_text(name: &str, text: &str) -> Result<(), Problem> {
    if text.len() <= TEXT_BYTES_MAX && !text.contains('\0') {
        return Ok(());
    }
    Err(Problem::parameter(name, format!("expected at most {TEXT_BYTES_MAX} bytes without NUL")))
}

#[cfg(test)]
mod tests {
    use weir_host::RealDisk;

    use super::*;

    fn views(dir: &FilePath) -> Views {
        let views = Views::default();
        views.set_dir(Arc::new(RealDisk), dir);
        views
    }

    fn kept(views: &Views) -> ViewsDocument {
        views.change(|_| Ok(())).unwrap().unwrap()
    }

    #[test]
    fn saved_views_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let first = views(dir.path());
        first.change(|document| document.save("errors", "?q=a".to_owned(), 0)).unwrap();
        first.change(|document| document.save("slow", "?q=b".to_owned(), 0)).unwrap();
        first.change(|document| document.save("errors", "?q=c".to_owned(), 1)).unwrap();
        for query in ["a", "b", "a"] {
            let remember = |document: &mut ViewsDocument| {
                document.remember(query.to_owned());
                Ok(())
            };
            first.change(remember).unwrap();
        }
        let found = kept(&views(dir.path()));
        let names: Vec<_> = found.views.iter().map(|view| (&*view.name, &*view.search)).collect();
        assert_eq!(names, [("errors", "?q=c"), ("slow", "?q=b")]);
        assert_eq!(found.queries, ["a", "b"]);
        first.change(|document| document.remove("slow")).unwrap();
        assert!(first.change(|document| document.remove("slow")).is_err());
        assert_eq!(kept(&first).views.len(), 1);
    }

    #[test]
    fn there_is_a_limit_to_everything() {
        let mut document = ViewsDocument::default();
        for at in 0..VIEWS_MAX {
            document.save(&at.to_string(), String::new(), 0).unwrap();
        }
        assert!(document.clone().save("one more", String::new(), 0).is_err());
        document.save("7", "?q=again".to_owned(), 0).unwrap();
        for at in 0..QUERIES_MAX + 9 {
            document.remember(at.to_string());
        }
        assert_eq!(document.queries.len(), QUERIES_MAX);
        for name in ["", "  ", "a\nb", &"x".repeat(NAME_CHARS_MAX + 1)] {
            assert!(valid_name(name).is_err(), "{name:?}");
        }
        assert!(valid_name(&"ä".repeat(NAME_CHARS_MAX)).is_ok());
        assert!(valid_search("q=a").is_err() && valid_search("?q=a").is_ok());
        assert!(valid_text("query", &"x".repeat(TEXT_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn a_damaged_file_is_reported_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        std::fs::write(&path, "{").unwrap();
        let views = views(dir.path());
        assert!(views.change(|_| Ok(())).is_err());
        assert!(views.change(|document| document.save("a", String::new(), 0)).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"{");
    }
}
