//! A stream whose peer must read what it is sent within a time.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Fails writes once the peer has not taken all that was written for the given time. A peer that reads slowly or not at all would
/// hold the memory of its answer for ever.
#[derive(Debug)]
pub struct Patience<S> {
    stream: S,
    most: Duration,
    /// Runs from the first write that has to wait until everything is written
    left: Option<Pin<Box<Sleep>>>,
}

impl<S> Patience<S> {
    /// Gives the peer this time to take what is written.
    pub fn new(stream: S, most: Duration) -> Self {
        Self { stream, most, left: None }
    }

    /// An error if a write that waits has waited too long.
    fn limited<T>(&mut self, context: &mut Context<'_>, written: Poll<Result<T>>) -> Poll<Result<T>> {
        if written.is_ready() {
            return written;
        }
        let most = self.most;
        let left = self.left.get_or_insert_with(|| Box::pin(sleep(most)));
        match left.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the peer does not read its answer"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patience<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patience<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limited(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.limited(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.left = None;
        }
        self.limited(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.limited(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_fails_the_write_and_a_peer_that_reads_does_not() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = Patience::new(near, Duration::from_secs(30));
        let reader = tokio::spawn(async move {
            let mut read = vec![0; 64];
            tokio::time::sleep(Duration::from_secs(20)).await;
            far.read_exact(&mut read).await.expect("written");
            far
        });
        near.write_all(&[1; 64]).await.expect("read in time");
        near.flush().await.expect("read in time");
        let _far = reader.await.expect("it ends");
        let began = tokio::time::Instant::now();
        let error = near.write_all(&[1; 64]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_a_byte_now_and_then_gains_no_time() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = Patience::new(near, Duration::from_secs(30));
        tokio::spawn(async move {
            while far.read_u8().await.is_ok() {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        });
        assert!(near.write_all(&[1; 64]).await.is_err());
    }
}
