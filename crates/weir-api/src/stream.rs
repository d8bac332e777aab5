//! A body that is sent while it is made: chunks, and trailers behind them.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// It cannot be completed: the connection is cut, so that nobody takes it for whole.
#[derive(Debug, thiserror::Error)]
#[error("the answer could not be completed")]
pub(crate) struct CutOff;

/// What is sent next.
pub(crate) type Part = Result<Frame<Bytes>, CutOff>;

/// Parts as they come.
#[derive(Debug)]
pub(crate) struct StreamBody(mpsc::Receiver<Part>);

impl StreamBody {
    /// A body, and where its parts go, of which so many may wait.
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
