//! What a request calls, and how a call ends.

use bytes::Bytes;
use h2::server::SendResponse;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request;
use hyper::{Response, StatusCode};
use weir_codec::{GrpcStatus as Code, write_grpc_message};

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// A stream of envelopes.
    Sender,
    /// A stream of batches.
    BatchSender,
    /// One batch, answered when its records are in the journal.
    Send,
}

/// How a call ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: Code,
    pub(super) message: String,
}

/// Why a request is not served.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is not gRPC.
    Http(StatusCode),
    /// It cannot be served.
    Status(Status),
}

impl Status {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn ok() -> Self {
        Self::new(Code::Ok, "")
    }
}

impl Call {
    /// Determines what a request calls.
    pub(super) fn of(head: &request::Parts) -> Result<Self, Refused> {
        let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        if head.method != hyper::Method::POST {
            return Err(Refused::Http(StatusCode::METHOD_NOT_ALLOWED));
        }
        if !header("content-type").is_some_and(|kind| kind.starts_with("application/grpc")) {
            return Err(Refused::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let call = Self::named(head.uri.path()).map_err(Refused::Status)?;
        match header("grpc-encoding") {
            None | Some("identity") => Ok(call),
            Some(encoding) => {
                let text = format!("messages compressed with {encoding:?} are not supported");
                Err(Refused::Status(Status::new(Code::Unimplemented, text)))
            }
        }
    }

    fn named(path: &str) -> Result<Self, Status> {
        let (service, method) =
            path.strip_prefix('/').and_then(|path| path.rsplit_once('/')).unwrap_or((path, ""));
        if service != "loggregator.v2.Ingress" {
            return Err(Status::new(Code::Unimplemented, format!("unknown service {service}")));
        }
        match method {
            "Sender" => Ok(Self::Sender),
            "BatchSender" => Ok(Self::BatchSender),
            "Send" => Ok(Self::Send),
            _ => {
                let text = format!("unknown method {method} for service {service}");
                Err(Status::new(Code::Unimplemented, text))
            }
        }
    }
}

/// Ends a call, with an empty message if it succeeded.
pub(super) fn respond_with(
    mut respond: SendResponse<Bytes>,
    ended: &Result<Status, Refused>,
) -> Result<(), h2::Error> {
    let mut response = Response::new(());
    let status = match ended {
        Err(Refused::Http(status)) => {
            *response.status_mut() = *status;
            return respond.send_response(response, true).map(drop);
        }
        Err(Refused::Status(status)) | Ok(status) => status,
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity"));
    if status.code != Code::Ok {
        write_status(status, headers);
        return respond.send_response(response, true).map(drop);
    }
    let mut stream = respond.send_response(response, false)?;
    let mut message = Vec::new();
    write_grpc_message(b"", &mut message);
    stream.send_data(message.into(), false)?;
    let mut trailers = HeaderMap::new();
    write_status(status, &mut trailers);
    stream.send_trailers(trailers)
}

fn write_status(status: &Status, headers: &mut HeaderMap) {
    headers.insert("grpc-status", HeaderValue::from(status.code as u16));
    if let Ok(message) = HeaderValue::from_str(&Code::percent_encoded(&status.message)) {
        headers.insert("grpc-message", message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(path: &str, headers: &[(&str, &str)]) -> Result<Call, Refused> {
        let mut request = hyper::Request::post(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Call::of(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn only_methods_that_exist_are_called() {
        let grpc = ("content-type", "application/grpc+proto");
        assert_eq!(call("/loggregator.v2.Ingress/Sender", &[grpc]), Ok(Call::Sender));
        assert_eq!(call("/loggregator.v2.Ingress/BatchSender", &[grpc]), Ok(Call::BatchSender));
        assert_eq!(call("/loggregator.v2.Ingress/Send", &[grpc]), Ok(Call::Send));
        let message = |path| match call(path, &[grpc]) {
            Err(Refused::Status(status)) if status.code == Code::Unimplemented => status.message,
            other => panic!("{other:?}"),
        };
        assert_eq!(message("/a.B/C"), "unknown service a.B");
        let text = "unknown method Get for service loggregator.v2.Ingress";
        assert_eq!(message("/loggregator.v2.Ingress/Get"), text);
        let unsupported = Err(Refused::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        assert_eq!(call("/loggregator.v2.Ingress/Send", &[]), unsupported);
        let gzip = call("/loggregator.v2.Ingress/Send", &[grpc, ("grpc-encoding", "gzip")]);
        assert!(matches!(gzip, Err(Refused::Status(_))));
    }
}
