//! What one process knows of the rollout, from one look to the next.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;

use crate::apply::Deadline;
use crate::cluster::{Followed, Known, LEASE_NAME, LeaseNow, RolloutLease};
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
    /// Until when nothing is begun, because the last try came to nothing
    pub(super) backs_off_until: Option<Duration>,
    /// A change that was taken back without blame: what was asked for, and why
    pub(super) stopped: Option<(Digest, String)>,
    /// How often in a row that happened
    pub(super) stops: u32,
    /// When the own turn was written last
    pub(super) written: Option<Duration>,
    /// How often in a row this node had to wait
    pub(super) waits: u32,
    /// The last record that this process wrote
    pub(super) last_written: Option<Record>,
}

impl Member {
    /// Begins to follow the Lease.
    pub fn new(client: &Client) -> Self {
        let lease = RolloutLease::new(client.clone());
        let followed = Followed::begin(lease.api(), LEASE_NAME);
        let (memory, deadline, backs_off_until, stopped) = (Memory::default(), None, None, None);
        Self {
            lease,
            followed,
            memory,
            deadline,
            backs_off_until,
            stopped,
            stops: 0,
            written: None,
            waits: 0,
            last_written: None,
        }
    }

    /// A change could not be made here, and nobody is to blame: tried again, less and less often.
    pub fn stop(&mut self, digest: Option<Digest>, words: &str, now: Duration) {
        self.stops = if self.stopped.as_ref().map(|(known, _)| *known) == digest { self.stops + 1 } else { 0 };
        self.stopped = digest.map(|digest| (digest, words.to_owned()));
        let pause = (FIRST_BACK_OFF * 2_u32.pow(self.stops.min(4))).min(LAST_BACK_OFF);
        self.backs_off_until = Some(now + pause);
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
