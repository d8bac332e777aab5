//! A body that is sent while it is made.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// It cannot be completed: the connection is cut, so that nobody takes it for whole.
#[derive(Debug, thiserror::Error)]
#[error("the answer could not be completed")]
pub(super) struct CutOff;

/// Chunks as they come.
#[derive(Debug)]
pub(super) struct StreamBody(mpsc::Receiver<Result<Bytes, CutOff>>);

impl StreamBody {
    /// A body, and where its chunks go, of which so many may wait.
    pub(super) fn new(waiting_max: usize) -> (mpsc::Sender<Result<Bytes, CutOff>>, Self) {
        let (sender, receiver) = mpsc::channel(waiting_max);
        (sender, Self(receiver))
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}
