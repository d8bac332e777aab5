//! A response body that is sent while it is produced: chunks, and trailers after them.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// The body cannot be completed: the connection is cut, so that no client takes it for complete.
#[derive(Debug, thiserror::Error)]
#[error("the response could not be completed")]
pub(crate) struct IncompleteResponse;

/// The next item to send.
pub(crate) type BodyPart = Result<Frame<Bytes>, IncompleteResponse>;

/// The parts as they are received.
#[derive(Debug)]
pub(crate) struct StreamBody(mpsc::Receiver<BodyPart>);

impl StreamBody {
    /// Creates a body and the sender of its parts, with this many parts waiting at most.
    pub(crate) fn new(waiting_max: usize) -> (mpsc::Sender<BodyPart>, Self) {
        let (sender, receiver) = mpsc::channel(waiting_max);
        (sender, Self(receiver))
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = IncompleteResponse;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<BodyPart>> {
        self.0.poll_recv(context)
    }
}
