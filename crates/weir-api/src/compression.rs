//! Compression of responses for clients that request it (`Accept-Encoding`): gzip or zstd.
//!
//! Invariants: a response is compressed chunk by chunk as it is produced, so that it starts as
//! early as without compression and is never held in memory as a whole; trailers and aborted
//! responses work as without compression; large chunks are never compressed on the thread of the
//! API.

use std::io::{self, Write as _};

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use flate2::write::GzEncoder;
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use tokio::sync::mpsc;

use crate::stream::{BodyPart, IncompleteResponse, StreamBody};

/// Shorter responses fit into a packet or two without compression.
const BYTES_MIN: u64 = 1024;

/// Larger chunks are compressed on a separate thread.
const INLINE_BYTES_MAX: usize = 8 * 1024;

/// Chunks that may wait for the reader.
const CHUNKS_WAITING: usize = 1;

/// Fast levels: on a slow line they already save most of the time.
const GZIP_LEVEL: u32 = 1;
const ZSTD_LEVEL: i32 = 1;

/// Content types that are worth compressing; not events, each of which must be sent at once, and
/// not Parquet, which is already compressed.
const TYPES: [&str; 7] = [
    "application/json",
    "application/x-ndjson",
    "image/svg+xml",
    "text/css",
    "text/csv",
    "text/html",
    "text/javascript",
];

/// The coding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Zstd,
}

impl Coding {
    /// The best accepted coding (RFC 9110, 12.5.3); `None` means no compression.
    fn accepted(headers: &HeaderMap) -> Option<Self> {
        match (quality(headers, "zstd"), gzip_quality(headers)) {
            (Some(zstd), gzip) if gzip.is_none_or(|gzip| zstd >= gzip) => Some(Self::Zstd),
            (_, Some(_)) => Some(Self::Gzip),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// How much a client wants a coding; `None` if it does not accept it.
fn quality(headers: &HeaderMap, name: &str) -> Option<f32> {
    let lists = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let items = lists.filter_map(|list| list.to_str().ok()).flat_map(|list| list.split(','));
    let mut items = items.map(|item| item.split_once(';').unwrap_or((item, "")));
    let (_, weight) = items.find(|(coding, _)| coding.trim().eq_ignore_ascii_case(name))?;
    let number = weight.trim().strip_prefix("q=").map_or(Some(1.0), |q| q.parse().ok())?;
    (number > 0.0).then_some(number)
}

fn gzip_quality(headers: &HeaderMap) -> Option<f32> {
    quality(headers, "gzip").or_else(|| quality(headers, "x-gzip"))
}

/// Whether a client accepts what is compressed already.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    gzip_quality(headers).is_some()
}

/// A compressor and its pending output.
enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    fn new(coding: Coding) -> io::Result<Self> {
        Ok(match coding {
            Coding::Gzip => {
                Self::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL)))
            }
            Coding::Zstd => Self::Zstd(zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?),
        })
    }

    /// Compresses a chunk and flushes, so that it can be read without what follows.
    fn chunk(&mut self, chunk: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => {
                encoder.write_all(chunk)?;
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Self::Zstd(encoder) => {
                encoder.write_all(chunk)?;
                encoder.flush()?;
                Ok(std::mem::take(encoder.get_mut()))
            }
        }
    }

    /// Finishes the compressed stream.
    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// Middleware that compresses responses.
pub(crate) async fn compress(request: Request, next: Next) -> Response {
    let coding = Coding::accepted(request.headers());
    let is_head = request.method() == Method::HEAD;
    let mut response = next.run(request).await;
    if response.status() != StatusCode::OK || !is_compressible(response.headers()) {
        return response;
    }
    let accept_encoding = HeaderValue::from_static("accept-encoding");
    response.headers_mut().append(header::VARY, accept_encoding);
    let is_short = response.body().size_hint().upper().is_some_and(|bytes| bytes < BYTES_MIN);
    let Some(coding) = coding.filter(|_| !is_head && !is_short) else { return response };
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    let (sender, stream) = StreamBody::new(CHUNKS_WAITING);
    tokio::spawn(async move {
        if compress_body(body, coding, &sender).await.is_err() {
            // The reader may have left.
            let _gone = sender.send(Err(IncompleteResponse)).await;
        }
    });
    Response::from_parts(parts, Body::new(stream))
}

fn is_compressible(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|text| text.to_str().ok());
    let kind = content_type.and_then(|text| text.split(';').next()).unwrap_or_default();
    TYPES.contains(&kind.trim()) && !headers.contains_key(header::CONTENT_ENCODING)
}

/// Sends a compressed body.
///
/// # Errors
/// The body is incomplete, or the reader has left.
async fn compress_body(
    mut body: Body,
    coding: Coding,
    sender: &mpsc::Sender<BodyPart>,
) -> Result<(), IncompleteResponse> {
    let mut encoder = Encoder::new(coding).map_err(|_| IncompleteResponse)?;
    let send = async |compressed: Vec<u8>| {
        let data = Frame::data(Bytes::from(compressed));
        sender.send(Ok(data)).await.map_err(|_| IncompleteResponse)
    };
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = sender.closed() => return Err(IncompleteResponse),
        };
        let Some(frame) = frame else {
            return send(encoder.finish().map_err(|_| IncompleteResponse)?).await;
        };
        match frame.map_err(|_| IncompleteResponse)?.into_data() {
            Ok(chunk) => {
                let compressed;
                (encoder, compressed) = compress_chunk(encoder, chunk).await?;
                send(compressed).await?;
            }
            Err(trailers) => {
                send(encoder.finish().map_err(|_| IncompleteResponse)?).await?;
                return sender.send(Ok(trailers)).await.map_err(|_| IncompleteResponse);
            }
        }
    }
}

async fn compress_chunk(
    mut encoder: Encoder,
    chunk: Bytes,
) -> Result<(Encoder, Vec<u8>), IncompleteResponse> {
    let is_small = chunk.len() <= INLINE_BYTES_MAX;
    let compress_now = move || encoder.chunk(&chunk).map(|compressed| (encoder, compressed));
    let compressed = if is_small {
        compress_now()
    } else {
        tokio::task::spawn_blocking(compress_now).await.map_err(|_| IncompleteResponse)?
    };
    compressed.map_err(|_| IncompleteResponse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_accepted_coding_is_used() {
        let accepted = |text: &'static str| {
            let value = HeaderValue::from_static(text);
            Coding::accepted(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)]))
        };
        for (text, want) in [
            ("gzip", Some(Coding::Gzip)),
            ("gzip, deflate, br, zstd", Some(Coding::Zstd)),
            ("GZIP;q=1.0, zstd;q=0.5", Some(Coding::Gzip)),
            ("gzip;q=0, identity", None),
            ("zstd; q=0, x-gzip", Some(Coding::Gzip)),
            ("gzip;q=x", None),
            ("identity", None),
            ("", None),
        ] {
            assert_eq!(accepted(text), want, "{text}");
        }
        assert_eq!(Coding::accepted(&HeaderMap::new()), None);
    }
}
