//! How often the agent commits, whatever the reason: every commit restarts a scheduler. Pure.

use std::collections::VecDeque;
use std::time::Duration;

/// So many commits are made within [`WINDOW`]; the next one waits.
const MAX: usize = 20;
const WINDOW: Duration = Duration::from_mins(1);

/// When the agent committed.
#[derive(Clone, Debug, Default)]
pub(super) struct Brake(VecDeque<Duration>);

impl Brake {
    /// How long the next commit has to wait.
    pub fn wait(&mut self, now: Duration) -> Option<Duration> {
        while self.0.front().is_some_and(|first| now.saturating_sub(*first) >= WINDOW) {
            self.0.pop_front();
        }
        let first = self.0.front().filter(|_| self.0.len() >= MAX)?;
        Some((*first + WINDOW).saturating_sub(now))
    }

    /// Notes a commit.
    pub fn note(&mut self, now: Duration) {
        self.0.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_twenty_commits_at_most() {
        let mut brake = Brake::default();
        let at = Duration::from_secs;
        for second in 0..20 {
            assert_eq!(brake.wait(at(second)), None, "{second}");
            brake.note(at(second));
        }
        assert_eq!(brake.wait(at(20)), Some(at(40)));
        assert_eq!(brake.wait(at(60)), None, "the first is a minute ago");
        brake.note(at(60));
        assert_eq!(brake.wait(at(60)), Some(at(1)));
    }
}
