//! Bodies of answers in pieces: what came in goes out again without being copied.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

/// A body of known length.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    pieces: VecDeque<Bytes>,
    left: u64,
}

impl<T: IntoIterator<Item = Bytes>> From<T> for Chunks {
    fn from(pieces: T) -> Self {
        let pieces: VecDeque<Bytes> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        let left = pieces.iter().map(|piece| u64::try_from(piece.len()).unwrap_or(0)).sum();
        Self { pieces, left }
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.pop_front();
        self.left -= piece.as_ref().map_or(0, |piece| u64::try_from(piece.len()).unwrap_or(0));
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
