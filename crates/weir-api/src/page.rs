//! The web page: the files built from `page/`, embedded in the binary.
//!
//! Invariants: a build without Node.js embeds no files, and a notice is served instead; names of
//! assets contain a hash of their content, so they are cached forever and nothing else is cached
//! without being checked; files are compressed when the page is built, not when they are requested;
//! the content security policy allows nothing that is not served by weir.

use std::borrow::Cow;
use std::fmt::Write as _;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use rust_embed::{EmbeddedFile, RustEmbed};

use crate::access::Permission::Public;
use crate::access::{Routes, needs};
use crate::compression::accepts_gzip;
use crate::response::{NO_STORE, problem};

#[derive(RustEmbed)]
#[folder = "../../page/dist"]
#[allow_missing = true]
struct Files;

/// Paths of the page's screens. All of them serve the same document.
pub(crate) const SCREENS: [&str; 5] =
    ["/live", "/pipeline", "/drains", "/reliability", "/capacity"];

/// Served if the page was not built.
const NOT_BUILT: &str = include_str!("page/not_built.html");

const CONTENT_POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every file.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::VARY, "Accept"),
];

const IMMUTABLE: &str = "public, max-age=31536000, immutable";
const CHECKED: &str = "no-cache";

/// The routes of the page. Its files contain no data, and whoever signs in needs them.
pub(crate) fn routes() -> Routes {
    let screens = SCREENS.into_iter().fold(Routes::default(), |routes, path| {
        let shown = get(|headers: HeaderMap| async move { screen(&headers) });
        routes.on(path, [needs(Public, shown)])
    });
    screens
        .on("/favicon.svg", [needs(Public, get(icon))])
        .on("/assets/{*name}", [needs(Public, get(asset))])
        .compressed()
}

/// Whether the client is a browser that opens a page.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

async fn icon(headers: HeaderMap) -> Response {
    file("favicon.svg", CHECKED, &headers).unwrap_or_else(missing)
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    file(&format!("assets/{name}"), IMMUTABLE, &headers).unwrap_or_else(missing)
}

fn missing() -> Response {
    problem(StatusCode::NOT_FOUND, "the page does not have this file")
}

/// The page, or a notice that it was not built.
pub(crate) fn screen(headers: &HeaderMap) -> Response {
    file("index.html", CHECKED, headers).unwrap_or_else(|| {
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        (StatusCode::OK, HEADERS, [(header::CONTENT_TYPE, html)], [NO_STORE], NOT_BUILT)
            .into_response()
    })
}

/// A file of the page, or 304 if the client has it.
fn file(name: &str, caching: &'static str, headers: &HeaderMap) -> Option<Response> {
    let EmbeddedFile { data, metadata } = Files::get(name)?;
    // Weak, since the same file is sent in several codings.
    let mut tag = String::from("W/\"");
    for byte in metadata.sha256_hash().iter().take(16) {
        // Writing to a string cannot fail.
        let _written = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    let caching = [(header::CACHE_CONTROL, caching.to_owned()), (header::ETAG, tag.clone())];
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| {
        known.to_str().is_ok_and(|known| known.split(',').any(|known| known.trim() == tag))
    });
    if is_known {
        return Some((StatusCode::NOT_MODIFIED, HEADERS, caching).into_response());
    }
    let content_type = [(header::CONTENT_TYPE, content_type(name))];
    let compressed = || Files::get(&format!("{name}.gz"));
    let Some(compressed) = accepts_gzip(headers).then(compressed).flatten() else {
        return Some((StatusCode::OK, HEADERS, caching, content_type, body(data)).into_response());
    };
    let mut response =
        (StatusCode::OK, HEADERS, caching, content_type, body(compressed.data)).into_response();
    let (coding, vary) = ("gzip", "accept-encoding");
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    response.headers_mut().append(header::VARY, HeaderValue::from_static(vary));
    Some(response)
}

fn body(data: Cow<'static, [u8]>) -> Bytes {
    match data {
        Cow::Borrowed(embedded) => Bytes::from_static(embedded),
        Cow::Owned(read) => Bytes::from(read),
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Without Node.js there are no files, and nothing to compare.
    #[test]
    fn files_are_sent_as_the_build_has_compressed_them() {
        let gzip = HeaderMap::from_iter([(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("gzip, deflate"),
        )]);
        for compressed in Files::iter().filter(|name| name.ends_with(".gz")) {
            let name = compressed.trim_end_matches(".gz");
            let [plain, sent] = [name, &compressed].map(|name| Files::get(name).unwrap().data);
            let mut decompressed = Vec::new();
            flate2::read::GzDecoder::new(&*sent).read_to_end(&mut decompressed).unwrap();
            assert_eq!(decompressed, *plain, "{name}");
            let coding = |headers: &HeaderMap| {
                let response = file(name, CHECKED, headers).unwrap();
                response.headers().get(header::CONTENT_ENCODING).cloned()
            };
            assert_eq!(coding(&gzip), Some(HeaderValue::from_static("gzip")), "{name}");
            assert_eq!(coding(&HeaderMap::new()), None, "{name}");
        }
    }
}
