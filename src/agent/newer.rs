//! A scheduler of another image must not be newer than the API server that it talks to.

use super::preflight::Gate;
use super::{Agent, ClientHandle, RETRY, Rest, Seen};
use crate::cluster;
use crate::compose::Version;
use crate::phase::{NodeState, Phase};

impl Agent {
    /// Closes the way for an image that is newer than the API server. An upgrade of the cluster opens it.
    pub(super) async fn judge_release(&self, seen: &Seen) -> Gate {
        let is_asked = self.settings.overrides.image.is_some() && seen.plan.commit().is_some();
        let (true, Some(known), Some(ClientHandle(client))) = (is_asked, &seen.plan.scheduler, &self.outside.client)
        else {
            return Gate::Open;
        };
        let of_api = match cluster::release(client).await {
            Ok(text) => text,
            Err(why) => {
                let message =
                    format!("the API does not say which release it is, and the scheduler must not be newer: {why}");
                return Gate::Closed(Rest {
                    node_state: NodeState::new(Phase::Waiting, "ApiAway", message),
                    after: RETRY / 6,
                });
            }
        };
        match Version::parse(&of_api) {
            Some(api) if known.version > api => {
                let message = format!(
                    "the scheduler of --scheduler-image is {}, newer than the API server ({of_api}), which Kubernetes does not support; \
                     upgrade the API server first, or use an older image",
                    known.version
                );
                let node_state = NodeState::new(Phase::Blocked, "SchedulerNewer", message);
                Gate::Closed(Rest { node_state, after: RETRY })
            }
            _ => Gate::Open,
        }
    }
}
