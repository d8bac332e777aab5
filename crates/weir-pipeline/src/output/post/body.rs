//! The body of a request, which can be sent any number of times: finished bytes, or events that are
//! encoded piece by piece while they are sent.
//!
//! Invariants: the length is known before the first byte; a piece is created when the kernel has
//! accepted the previous one, and in the same buffer, so that it never leaves the processor cache
//! and no request is ever held in memory as a whole.

use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use weir_host::Compression;

use super::request::Renderer;
use crate::output::pending::PendingBatch;

/// Length at which a piece of events ends: large enough for few system calls, and small enough that
/// its input and output fit into the second-level cache together.
const PIECE_BYTES: usize = 256 * 1024;

/// The content of a request.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// Finished.
    Bytes { bytes: Bytes, compression: Compression },
    /// Encoded while being sent.
    Events(Events),
}

/// Records whose encoded length is known.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    pub(crate) batches: Arc<[PendingBatch]>,
    /// Numbers of batches and of their records, in order.
    pub(crate) parts: Arc<[(usize, Range<usize>)]>,
    pub(crate) len: usize,
    pub(crate) renderer: Arc<Mutex<Renderer>>,
}

impl Body {
    /// Creates a body of bytes that need no compression.
    pub(crate) fn plain(bytes: Bytes) -> Self {
        Self::Bytes { bytes, compression: Compression::None }
    }

    /// Returns the length in bytes as sent.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes { bytes, .. } => bytes.len(),
            Self::Events(events) => events.len,
        }
    }

    pub(crate) fn compression(&self) -> Compression {
        match self {
            Self::Bytes { compression, .. } => *compression,
            Self::Events(_) => Compression::None,
        }
    }

    /// Returns a transmission of the body, from its beginning.
    pub(crate) fn outgoing(&self) -> Outgoing {
        Outgoing { body: self.clone(), left: self.len(), part: 0, record: 0 }
    }
}

/// One transmission of a body.
#[derive(Debug)]
pub(crate) struct Outgoing {
    body: Body,
    /// Bytes not handed over yet.
    left: usize,
    /// The next event: number of the part, and of the record within it.
    part: usize,
    record: usize,
}

/// A piece was longer, or the events shorter, than announced before they were encoded. This is a
/// bug: the connection must not be used any further.
#[derive(Debug, thiserror::Error)]
#[error("internal error: the encoded length of events differs from the announced length")]
pub(crate) struct WrongLength;

impl hyper::body::Body for Outgoing {
    type Data = Bytes;
    type Error = WrongLength;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, WrongLength>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let piece = self.piece();
        if piece.is_empty() || piece.len() > self.left {
            debug_assert!(false, "{} bytes in a piece, {} left", piece.len(), self.left);
            return Poll::Ready(Some(Err(WrongLength)));
        }
        self.left -= piece.len();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

impl Outgoing {
    /// Returns the next bytes; none if nothing is left.
    fn piece(&mut self) -> Bytes {
        let events = match &self.body {
            Body::Bytes { bytes, .. } => return bytes.clone(),
            Body::Events(events) => events,
        };
        let mut renderer = events.renderer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut piece = renderer.buffer();
        while piece.len() < PIECE_BYTES
            && let Some((pending, part)) = events.parts.get(self.part)
        {
            let from = part.start + self.record;
            let pending = &events.batches[*pending];
            let count =
                renderer.encoder.encode_checked(pending, from..part.end, PIECE_BYTES, &mut piece);
            self.record += count;
            if from + count >= part.end {
                (self.part, self.record) = (self.part + 1, 0);
            }
        }
        renderer.lend(piece)
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
