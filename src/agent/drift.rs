//! How often somebody else rewrote the target. Pure.

use std::collections::VecDeque;
use std::time::Duration;

/// More than this many within [`WINDOW`] is somebody who manages the file.
const MAX: usize = 3;
const WINDOW: Duration = Duration::from_hours(1);

/// When it happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Drifts(VecDeque<Duration>);

impl Drifts {
    /// How long to keep quiet, if there were too many.
    pub fn too_many(&mut self, now: Duration) -> Option<Duration> {
        while self.0.front().is_some_and(|first| now.saturating_sub(*first) >= WINDOW) {
            self.0.pop_front();
        }
        let first = self.0.front().filter(|_| self.0.len() >= MAX)?;
        Some((*first + WINDOW).saturating_sub(now))
    }

    /// Notes one that was put right.
    pub fn note(&mut self, now: Duration) {
        self.0.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_an_hour_are_put_right_and_the_fourth_is_not() {
        let mut drifts = Drifts::default();
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        for minute in [0, 10, 20] {
            assert_eq!(drifts.too_many(minutes(minute)), None);
            drifts.note(minutes(minute));
        }
        assert_eq!(drifts.too_many(minutes(30)), Some(minutes(30)));
        assert_eq!(drifts.too_many(minutes(60)), None, "the first is an hour ago");
        drifts.note(minutes(60));
        assert_eq!(drifts.too_many(minutes(61)), Some(minutes(9)));
    }
}
