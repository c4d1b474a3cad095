//! How long a decision to commit holds. By the clock that goes on while the machine sleeps and by the time of the day: a
//! process that was stopped or a machine that slept must not act on what it knew before.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A commit must happen within some time.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// Time since the machine started, with its sleep, and the time of the day
    began: Option<(Duration, Duration)>,
    within: Duration,
}

impl Deadline {
    /// This long from now on.
    pub fn within(within: Duration) -> Self {
        Self { began: clocks(), within }
    }

    /// Whether the time is over. So it is where a clock cannot be read, or was set back.
    pub fn is_over(&self) -> bool {
        let (Some((boot, real)), Some((boot_now, real_now))) = (self.began, clocks()) else { return true };
        let is_late = |began: Duration, now: Duration| now.checked_sub(began).is_none_or(|past| past >= self.within);
        is_late(boot, boot_now) || is_late(real, real_now)
    }
}

fn clocks() -> Option<(Duration, Duration)> {
    let read = |clock| clock_gettime(clock).ok().map(Duration::from);
    Some((read(ClockId::CLOCK_BOOTTIME)?, read(ClockId::CLOCK_REALTIME)?))
}
