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
    /// Notes one, unless there were too many; then says how long to keep quiet.
    pub fn note(&mut self, now: Duration) -> Result<(), Duration> {
        while self.0.front().is_some_and(|first| now.saturating_sub(*first) >= WINDOW) {
            self.0.pop_front();
        }
        match self.0.front() {
            Some(first) if self.0.len() >= MAX => Err((*first + WINDOW).saturating_sub(now)),
            _ => {
                self.0.push_back(now);
                Ok(())
            }
        }
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
            assert_eq!(drifts.note(minutes(minute)), Ok(()));
        }
        assert_eq!(drifts.note(minutes(30)), Err(minutes(30)));
        assert_eq!(drifts.note(minutes(60)), Ok(()), "the first is an hour ago");
        assert_eq!(drifts.note(minutes(61)), Err(minutes(9)));
    }
}
