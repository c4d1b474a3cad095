//! Bodies of requests: whole, in one piece, within bounds.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::{Request, Response};
use tokio::sync::OwnedSemaphorePermit;

use super::{Chunks, Server, text};

/// The nodes form of 5,000 nodes has 25 to 64 MB.
pub const MAX_BODY_BYTES: usize = 128 * 1024 * 1024;
/// So much every request may have without asking for room: more than 20,000 names need. Clients that hold room cannot make the
/// scheduler wait, as long as it sends names.
const OWN_ROOM: usize = 1024 * 1024;
/// All longer bodies together, in KiB; a request that finds no room waits for it.
pub const BUFFER_KIB: usize = 160 * 1024;
/// So long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// A body, and its room if it needs any.
type Read = (Bytes, Option<OwnedSemaphorePermit>);

/// Room that is taken before the length is known.
const FIRST_GUESS: usize = 64 * 1024;

impl Server {
    /// Reads the body; the permit is its room, if it needs any. An error is the answer.
    pub(super) async fn body(&self, request: Request<Incoming>) -> Result<Read, Response<Chunks>> {
        let late = |_| text(408, "the body took too long\n");
        tokio::time::timeout(BODY_TIMEOUT, self.whole(request.into_body())).await.map_err(late)?
    }

    async fn whole(&self, mut body: Incoming) -> Result<Read, Response<Chunks>> {
        let too_long = || text(413, format!("a body may have {MAX_BODY_BYTES} bytes; set nodeCacheCapable: true\n"));
        let expected = body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        if expected.is_some_and(|bytes| bytes > MAX_BODY_BYTES) {
            return Err(too_long());
        }
        let mut room = None;
        let mut bytes = Vec::with_capacity(expected.unwrap_or(FIRST_GUESS).min(OWN_ROOM));
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| text(400, format!("the body broke off: {error}\n")))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > MAX_BODY_BYTES {
                return Err(too_long());
            }
            if room.is_none() && bytes.len() + data.len() > OWN_ROOM {
                // only now, since a length is easily claimed; without a length it may be the longest
                room = Some(self.room(expected.unwrap_or(MAX_BODY_BYTES)).await?);
                bytes.reserve_exact(expected.map_or(0, |expected| expected - bytes.len()));
            }
            bytes.extend_from_slice(&data);
        }
        Ok((bytes.into(), room))
    }

    async fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Response<Chunks>> {
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
        let room = std::sync::Arc::clone(&self.buffers).acquire_many_owned(kib).await;
        room.map_err(|_| text(503, "shutting down\n"))
    }
}
