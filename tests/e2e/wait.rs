//! Waiting with words: for what, for how long, and what was seen last.

use std::time::{Duration, Instant};

const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// Looks again and again until `look` is satisfied; fails with what it saw last.
#[track_caller]
pub fn wait_until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if begin.elapsed() > limit => {
                panic!("waited {} s for {what}; last seen: {seen}", limit.as_secs())
            }
            Err(_) => std::thread::sleep(BETWEEN_LOOKS),
        }
    }
}

/// Looks again and again for all of `time`; fails as soon as `look` does.
#[track_caller]
pub fn stays(what: &str, time: Duration, mut look: impl FnMut() -> Result<(), String>) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        if let Err(seen) = look() {
            panic!(
                "{what} for {} s was expected; after {:.1} s: {seen}",
                time.as_secs(),
                begin.elapsed().as_secs_f64()
            );
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

pub const fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}
