//! The methods of gRPC calls, and how a call ends.

use bytes::Bytes;
use h2::server::SendResponse;
use hyper::Response;
use hyper::header::HeaderMap;
use hyper::http::request;
use weir_codec::{GrpcStatus as Code, write_grpc_message};

use crate::grpc::{self, Refused, Status};

const SERVICE: &str = "loggregator.v2.Ingress";

/// The service of the log-cache, for programs that write to it.
const LOG_CACHE: &str = "logcache.v1.Ingress";

/// The service for envelopes of version 1.
const SERVICE_V1: &str = "plumbing.DopplerIngestor";

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// A stream of envelopes.
    Sender,
    /// A stream of batches.
    BatchSender,
    /// One batch, answered when its records are in the journal.
    Send,
    /// One request with a batch in it, answered when its records are in the journal.
    LogCacheSend,
    /// A stream of envelopes of version 1.
    Pusher,
}

impl Call {
    /// Determines the method that a request calls.
    pub(super) fn of(head: &request::Parts) -> Result<Self, Refused> {
        let call = match grpc::method(head, &[SERVICE, LOG_CACHE, SERVICE_V1])? {
            (SERVICE, "Sender") => Self::Sender,
            (SERVICE, "BatchSender") => Self::BatchSender,
            (SERVICE, "Send") => Self::Send,
            (LOG_CACHE, "Send") => Self::LogCacheSend,
            (SERVICE_V1, "Pusher") => Self::Pusher,
            (service, other) => return Err(Status::unknown_method(service, other).into()),
        };
        let encoding = head.headers.get("grpc-encoding").and_then(|value| value.to_str().ok());
        match encoding {
            None | Some("identity") => Ok(call),
            Some(encoding) => {
                let text = format!("messages compressed with {encoding:?} are not supported");
                Err(Status::new(Code::Unimplemented, text).into())
            }
        }
    }

    /// Returns whether a call has one message, and is answered when its records are in the journal.
    pub(super) fn is_unary(self) -> bool {
        match self {
            Self::Send | Self::LogCacheSend => true,
            Self::Sender | Self::BatchSender | Self::Pusher => false,
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
    grpc::add_headers(headers);
    if status.code != Code::Ok {
        status.write(headers);
        return respond.send_response(response, true).map(drop);
    }
    let mut stream = respond.send_response(response, false)?;
    let mut message = Vec::new();
    write_grpc_message(b"", &mut message);
    stream.send_data(message.into(), false)?;
    let mut trailers = HeaderMap::new();
    status.write(&mut trailers);
    stream.send_trailers(trailers)
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

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
        assert_eq!(call("/logcache.v1.Ingress/Send", &[grpc]), Ok(Call::LogCacheSend));
        assert_eq!(call("/plumbing.DopplerIngestor/Pusher", &[grpc]), Ok(Call::Pusher));
        let message = |path| match call(path, &[grpc]) {
            Err(Refused::Status(status)) if status.code == Code::Unimplemented => status.message,
            other => panic!("{other:?}"),
        };
        assert_eq!(message("/a.B/C"), "unknown service a.B");
        let reader = message("/loggregator.v2.Egress/BatchedReceiver");
        let advice = "readers connect to the port of loggregator.egress";
        assert_eq!(reader, format!("unknown service loggregator.v2.Egress: {advice}"));
        let text = "unknown method Get for service loggregator.v2.Ingress";
        assert_eq!(message("/loggregator.v2.Ingress/Get"), text);
        let unsupported = Err(Refused::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        assert_eq!(call("/loggregator.v2.Ingress/Send", &[]), unsupported);
        let gzip = call("/loggregator.v2.Ingress/Send", &[grpc, ("grpc-encoding", "gzip")]);
        assert!(matches!(gzip, Err(Refused::Status(_))));
    }
}
