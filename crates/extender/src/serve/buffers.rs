//! Memory for long bodies: bounded, and kept for a moment after the last one. The system takes as long to hand out 27 MB of fresh
//! memory as the extender takes to read a body of that length.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// All long bodies together, in KiB; a request that finds no room waits for it.
const ROOM_KIB: usize = 132 * 1024;
/// A longer buffer than this is not kept.
const MAX_KEPT_BYTES: usize = 64 * 1024 * 1024;
/// So long a buffer is kept that nobody uses: longer than the pauses of a scheduler that has work.
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Room and memory for long bodies.
#[derive(Debug)]
pub struct Buffers {
    room: Arc<Semaphore>,
    kept: Mutex<Kept>,
    returned: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    /// How often one was returned
    returns: u64,
}

/// Room for a body, which is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Room {
    buffers: Arc<Buffers>,
    _permit: OwnedSemaphorePermit,
}

/// A body in a buffer that goes back when the last part of the body is dropped.
struct Lent {
    bytes: Vec<u8>,
    room: Room,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(ROOM_KIB)), kept: Mutex::default(), returned: Notify::new() }
    }
}

impl Buffers {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room for so many bytes.
    pub(super) async fn room(self: &Arc<Self>, bytes: usize) -> Result<Room, AcquireError> {
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.room).acquire_many_owned(kib).await?;
        Ok(Room { buffers: Arc::clone(self), _permit: permit })
    }

    fn keep(&self, mut bytes: Vec<u8>) {
        let mut kept = self.kept();
        kept.returns += 1;
        if (kept.bytes.capacity()..=MAX_KEPT_BYTES).contains(&bytes.capacity()) {
            bytes.clear();
            kept.bytes = bytes;
            drop(kept);
            self.returned.notify_one();
        }
    }

    /// Gives the memory that nobody used for a while back to the system, for ever.
    pub(super) async fn forget_unused(self: Arc<Self>) {
        loop {
            self.returned.notified().await;
            loop {
                let returns = self.kept().returns;
                sleep(KEPT_FOR).await;
                let mut kept = self.kept();
                if kept.returns == returns {
                    kept.bytes = Vec::new();
                    break;
                }
            }
        }
    }
}

impl Room {
    /// An empty buffer with this capacity.
    pub(super) fn buffer(&self, capacity: usize) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.buffers.kept().bytes);
        if bytes.capacity() < capacity {
            // the old one first, so that there are never both
            drop(bytes);
            bytes = Vec::with_capacity(capacity);
        }
        bytes
    }

    /// The body in this buffer.
    pub(super) fn body(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Lent { bytes, room: self })
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.room.buffers.keep(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 2 * 1024 * 1024;

    async fn body(buffers: &Arc<Buffers>, length: usize) -> Bytes {
        let room = buffers.room(length).await.expect("open");
        let mut bytes = room.buffer(length);
        assert!(bytes.is_empty(), "nothing of another body is left");
        bytes.resize(length, b'x');
        room.body(bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_used_again_once_the_last_part_of_a_body_is_gone_and_goes_back_after_a_while() {
        let buffers = Arc::new(Buffers::default());
        tokio::spawn(Arc::clone(&buffers).forget_unused());
        let first = body(&buffers, LONG).await;
        let (place, part) = (first.as_ptr(), first.slice(7..9));
        drop(first);
        let second = body(&buffers, LONG).await;
        assert_ne!(second.as_ptr(), place, "a part of the first is still in use");
        assert_eq!(&part[..], b"xx");
        drop(second);
        drop(part);
        for _ in 0..5 {
            sleep(KEPT_FOR / 2).await;
            drop(body(&buffers, LONG - 5).await);
            assert!(buffers.kept().bytes.capacity() >= LONG, "it is in use");
        }
        sleep(KEPT_FOR * 2).await;
        assert_eq!(buffers.kept().bytes.capacity(), 0, "it is forgotten");
        drop(body(&buffers, LONG).await);
        assert!(buffers.kept().bytes.capacity() >= LONG);
        sleep(KEPT_FOR * 2).await;
        assert_eq!(buffers.kept().bytes.capacity(), 0, "and so is every further one");
    }

    #[tokio::test(start_paused = true)]
    async fn room_is_given_back_with_the_last_part_of_a_body_and_very_long_buffers_are_not_kept() {
        let buffers = Arc::new(Buffers::default());
        let first = body(&buffers, MAX_KEPT_BYTES + 1).await;
        let part = first.slice(1..2);
        drop(first);
        let waiting = tokio::time::timeout(Duration::from_secs(1), buffers.room(100 * 1024 * 1024));
        assert!(waiting.await.is_err(), "a part of the first is still in use");
        drop(part);
        assert_eq!(buffers.kept().bytes.capacity(), 0);
        assert!(buffers.room(100 * 1024 * 1024).await.is_ok());
    }
}
