//! `type = "http"`: requests with JSON objects to any endpoint that accepts them.
//!
//! The content of requests and the meaning of responses; `post` sends the requests.

mod answer;

use std::sync::Arc;

use hyper::Method;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::post::{Encoder, Endpoint, Protocol, Sender, SenderSettings};
use super::{OutputContext, OutputError};
use crate::config::{Framing, HttpAuth, OutputPlan, RequestSettings};
use crate::stats::OutputStats;

/// `type = "http"`.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpOutput {
    /// `http://` or `https://`, with path and query.
    pub url: String,
    /// Method of every request.
    pub method: HttpMethod,
    /// How records are combined into a request body.
    pub framing: Framing,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    /// Credentials.
    pub auth: HttpAuth,
    /// Batching, concurrency, retries and TLS.
    pub requests: RequestSettings,
}

/// Method of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
}

/// Checks the settings and reads the certificate files.
pub(super) fn sender(
    plan: &OutputPlan,
    http: &HttpOutput,
    context: &OutputContext,
    stats: &Arc<OutputStats>,
) -> Result<Sender, OutputError> {
    let output = plan.name.clone();
    let endpoint = Endpoint::url(&http.url).map_err(|problem| OutputError::Endpoint {
        output: output.clone(),
        endpoint: http.url.clone(),
        problem,
    })?;
    let headers = headers(&endpoint, http)
        .map_err(|name| OutputError::Header { output: output.clone(), name })?;
    let sending = SenderSettings {
        protocol: Protocol::Status,
        method: match http.method {
            HttpMethod::Post => Method::POST,
            HttpMethod::Put => Method::PUT,
        },
        path: endpoint.target(),
        endpoints: vec![endpoint],
        headers,
        send_channel: false,
        acks: None,
        requests: http.requests.clone(),
    };
    Sender::new(plan, sending, Encoder::Json(http.framing), context, stats)
}

/// Returns the headers of every request; the error is the name of a header that cannot be sent.
fn headers(endpoint: &Endpoint, http: &HttpOutput) -> Result<HeaderMap, String> {
    let mut headers = endpoint.headers().ok_or_else(|| "host".to_owned())?;
    let content_type = match http.framing {
        Framing::Lines => "application/x-ndjson",
        Framing::Array => "application/json",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(credentials) = credentials(&http.auth) {
        let value = HeaderValue::from_str(&credentials);
        let mut value = value.map_err(|_| "authorization".to_owned())?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
    }
    for (name, value) in &http.headers {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(value.parse().ok());
        let (parsed, value): (HeaderName, HeaderValue) = parsed.ok_or_else(|| name.clone())?;
        headers.insert(parsed, value);
    }
    Ok(headers)
}

/// Returns the value of the header `Authorization`.
pub(crate) fn credentials(auth: &HttpAuth) -> Option<String> {
    match auth {
        HttpAuth::None => None,
        HttpAuth::Bearer(token) => Some(format!("Bearer {}", token.expose())),
        HttpAuth::Basic { user, password } => {
            let pair = format!("{user}:{}", password.expose());
            Some(format!("Basic {}", base64(pair.as_bytes())))
        }
    }
}

/// Encodes in base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let n = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(n >> (18 - 6 * at)) as usize & 63];
            out.push(if at > chunk.len() { '=' } else { char::from(digit) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_that_of_the_standard() {
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, packed) in pairs {
            assert_eq!(base64(plain.as_bytes()), packed);
        }
        assert_eq!(base64(b"\xff\xfe\xfd"), "//79");
    }
}
