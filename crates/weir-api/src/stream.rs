//! A response body that is sent while it is produced: chunks, and trailers after them.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// The body cannot be completed: the connection is cut, so that no client takes it for complete.
#[derive(Debug, thiserror::Error)]
#[error("the response could not be completed")]
pub(crate) struct CutOff;

/// The next item to send.
pub(crate) type Part = Result<Frame<Bytes>, CutOff>;

/// The parts as they are received.
#[derive(Debug)]
pub(crate) struct StreamBody(mpsc::Receiver<Part>);

impl StreamBody {
    /// Creates a body and the sender of its parts, with this many parts waiting at most.
    pub(crate) fn new(waiting_max: usize) -> (mpsc::Sender<Part>, Self) {
        let (sender, receiver) = mpsc::channel(waiting_max);
        (sender, Self(receiver))
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Part>> {
        self.0.poll_recv(context)
    }
}
