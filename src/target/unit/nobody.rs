//! Nobody is asked what runs.

use std::time::Duration;

use crate::target::{Answer, Observation, Observer};

/// Sees nothing.
#[derive(Debug)]
pub(super) struct Nobody;

impl Observer for Nobody {
    fn latest(&mut self) -> (Observation, Duration) {
        (Observation::Unasked, Duration::ZERO)
    }

    fn is_away(&self) -> bool {
        false
    }

    fn changed(&mut self) -> Answer<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn ask(&mut self) -> Answer<'_, Observation> {
        Box::pin(async { Observation::Unasked })
    }

    fn why_stale(&mut self) -> Answer<'_, Option<String>> {
        Box::pin(async { None })
    }
}
