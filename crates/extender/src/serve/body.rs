//! Bodies of requests: whole, in one piece, within bounds.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::{Request, Response};

use super::{Chunks, Server, text};

/// The nodes form of 5,000 nodes has 25 to 64 MB.
pub const MAX_BODY_BYTES: usize = 128 * 1024 * 1024;
/// So much every request may have without asking for room: more than 20,000 names need. Clients that hold room cannot make the
/// scheduler wait, as long as it sends names.
const OWN_ROOM: usize = 1024 * 1024;
/// So long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Room that is taken before the length is known.
const FIRST_GUESS: usize = 64 * 1024;

impl Server {
    /// Reads the body. An error is the answer.
    pub(super) async fn body(&self, request: Request<Incoming>) -> Result<Bytes, Response<Chunks>> {
        let late = |_| text(408, "the body took too long\n");
        tokio::time::timeout(BODY_TIMEOUT, self.whole(request.into_body())).await.map_err(late)?
    }

    async fn whole(&self, mut body: Incoming) -> Result<Bytes, Response<Chunks>> {
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
                let own = self.buffers.room(expected.unwrap_or(MAX_BODY_BYTES)).await;
                let own = own.map_err(|_| text(503, "shutting down\n"))?;
                let mut long = own.buffer(expected.unwrap_or(0));
                long.extend_from_slice(&bytes);
                bytes = long;
                room = Some(own);
            }
            bytes.extend_from_slice(&data);
        }
        Ok(match room {
            None => bytes.into(),
            Some(room) => room.body(bytes),
        })
    }
}
