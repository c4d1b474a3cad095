//! At most so many within some time: commits, repairs of drift, commits of another agent. Pure.

use std::collections::VecDeque;
use std::time::Duration;

/// A limit, and when the last of what it limits happened.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    most: usize,
    within: Duration,
    times: VecDeque<Duration>,
}

impl Limit {
    /// At most `most` within this time.
    pub fn new(most: usize, within: Duration) -> Self {
        Self { most, within, times: VecDeque::new() }
    }

    /// How long the next one has to wait, if the limit is reached.
    pub fn wait(&mut self, now: Duration) -> Option<Duration> {
        while self.times.front().is_some_and(|first| now.saturating_sub(*first) >= self.within) {
            self.times.pop_front();
        }
        let first = self.times.front().filter(|_| self.times.len() >= self.most)?;
        Some((*first + self.within).saturating_sub(now))
    }

    /// Notes one.
    pub fn note(&mut self, now: Duration) {
        self.times.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_an_hour_pass_and_the_fourth_waits() {
        let mut limit = Limit::new(3, Duration::from_hours(1));
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        for minute in [0, 10, 20] {
            assert_eq!(limit.wait(minutes(minute)), None);
            limit.note(minutes(minute));
        }
        assert_eq!(limit.wait(minutes(30)), Some(minutes(30)));
        assert_eq!(limit.wait(minutes(60)), None, "the first is an hour ago");
        limit.note(minutes(60));
        assert_eq!(limit.wait(minutes(61)), Some(minutes(9)));
    }
}
