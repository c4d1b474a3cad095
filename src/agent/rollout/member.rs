//! What one process knows of the rollout, from one look to the next.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;

use crate::apply::Deadline;
use crate::cluster::{Followed, Known, LEASE_NAME, LeaseNow, RolloutLease};
use crate::journal::StoppedChange;
use crate::revision::Digest;
use crate::rollout::{Memory, REQUESTS, Record};

/// First and longest pause after a change that could not be made.
const FIRST_BACK_OFF: Duration = Duration::from_mins(2);
const LAST_BACK_OFF: Duration = Duration::from_mins(10);

/// What this process knows of the rollout.
#[derive(Debug)]
pub(in crate::agent) struct Member {
    pub(super) lease: RolloutLease,
    pub(super) followed: Followed<Lease>,
    pub(super) memory: Memory,
    /// Until when the commit of the own turn may happen
    pub(super) deadline: Option<Deadline>,
    /// Until when nothing is begun, because the last commit did not happen
    pub(super) backs_off_until: Option<Duration>,
    /// Why the last commit did not happen
    pub(super) refused: Option<String>,
    /// Until when what was taken back without blame is not begun: the digest, how often that had happened before, and when
    pub(super) pause: Option<(Digest, u32, Duration)>,
    /// When the own turn was written last
    pub(super) written: Option<Duration>,
    /// Since when the API answers nothing, and when it was asked last
    pub(super) away: Option<(Duration, Duration)>,
    /// How often in a row this node had to wait
    pub(super) waits: u32,
    /// Whether this node was to be restored when the API answered last
    pub(super) must_restore: bool,
    /// The last record that this process wrote
    pub(super) last_written: Option<Record>,
}

impl Member {
    /// Begins to follow the Lease.
    pub fn new(client: &Client) -> Self {
        let lease = RolloutLease::new(client.clone());
        let followed = Followed::begin(lease.api(), LEASE_NAME);
        Self {
            lease,
            followed,
            memory: Memory::default(),
            deadline: None,
            backs_off_until: None,
            refused: None,
            pause: None,
            written: None,
            away: None,
            waits: 0,
            must_restore: false,
            last_written: None,
        }
    }

    /// The digest that is not begun yet, because it was taken back a moment ago. A new process waits as long as the one before.
    pub(super) fn too_soon_for(&mut self, stopped: Option<&StoppedChange>, now: Duration) -> Option<Digest> {
        let Some(StoppedChange { digest, times, .. }) = stopped else {
            self.pause = None;
            return None;
        };
        let known = self.pause.filter(|(known, known_times, _)| (known, known_times) == (digest, times));
        let pause = (FIRST_BACK_OFF * 2_u32.pow((*times).min(4))).min(LAST_BACK_OFF);
        let (.., until) = *self.pause.insert(known.unwrap_or((*digest, *times, now + pause)));
        (now < until).then_some(*digest)
    }

    /// Waits for news of the rollout. What this process wrote itself is none.
    pub async fn changed(&mut self) {
        loop {
            self.followed.changed().await;
            let record = self.known_record();
            if record.is_none() || record != self.last_written {
                self.waits = 0;
                return;
            }
        }
    }

    /// The record as the watch showed it last, where nobody asks for anything.
    pub(super) fn known_record(&mut self) -> Option<Record> {
        let Known::Object(lease) = self.followed.latest().0 else { return None };
        let lease = LeaseNow::new(*lease);
        let is_asked = REQUESTS.iter().any(|key| lease.annotations().contains_key(*key));
        lease.record().ok().flatten().filter(|_| !is_asked)
    }
}
