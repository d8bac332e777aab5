//! Bodies of responses: each part is computed when the client can accept it.
//!
//! Invariant: a body that is dropped, because its client has left, ends its stream at once.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// The next part of a body, and the function that computes the parts after it.
pub(super) type Step = Pin<Box<dyn Future<Output = Option<(Frame<Bytes>, Box<dyn Parts>)>> + Send>>;

/// Computes the parts of a body.
pub(super) trait Parts: Send {
    /// Computes the next part; `None` ends the body.
    fn next(self: Box<Self>) -> Step;
}

/// The body of a response.
pub(super) enum ServiceBody {
    /// Known from the beginning.
    Whole(Option<Bytes>),
    /// Computed part by part.
    Stream(Option<Step>),
}

impl ServiceBody {
    pub(super) fn empty() -> Self {
        Self::Whole(None)
    }

    pub(super) fn stream(parts: impl Parts + 'static) -> Self {
        Self::Stream(Some(Box::new(parts).next()))
    }
}

impl Body for ServiceBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(step) => {
                let Some(next) = step else { return Poll::Ready(None) };
                let Poll::Ready(part) = next.as_mut().poll(context) else { return Poll::Pending };
                *step = None;
                Poll::Ready(part.map(|(frame, parts)| {
                    *step = Some(parts.next());
                    Ok(frame)
                }))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None) | Self::Stream(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
