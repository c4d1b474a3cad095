//! A moment, to the second, as people and machines read it: `2026-11-16T18:31:08Z`.
//!
//! Only for telling since when something is so. Nothing is ever decided by it: clocks jump.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Seconds since 1970 in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Timestamp(u64);

impl Timestamp {
    /// From seconds since 1970.
    pub fn from_unix(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Seconds since 1970.
    pub fn as_unix(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = i64::try_from(self.0).unwrap_or(i64::MAX).min(jiff::Timestamp::MAX.as_second());
        jiff::Timestamp::from_second(seconds).map_err(|_| fmt::Error)?.fmt(f)
    }
}

impl From<Timestamp> for String {
    fn from(stamp: Timestamp) -> Self {
        stamp.to_string()
    }
}

impl TryFrom<String> for Timestamp {
    type Error = String;

    /// Only the one spelling that is written.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let stamp = text.parse().ok().and_then(|time: jiff::Timestamp| u64::try_from(time.as_second()).ok()).map(Self);
        stamp
            .filter(|stamp| stamp.to_string() == text)
            .ok_or_else(|| format!("{text:?} is no time like 2026-11-16T18:31:08Z"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for seconds in [0, 951_782_399, 951_782_400, 951_868_800, 1_794_853_868, 4_107_542_399, 253_402_207_200] {
            let stamp = Timestamp::from_unix(seconds);
            assert_eq!(Timestamp::try_from(stamp.to_string()), Ok(stamp), "{stamp}");
        }
    }

    #[test]
    fn known_moments_are_told_right() {
        assert_eq!(Timestamp::from_unix(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(Timestamp::from_unix(951_827_696).to_string(), "2000-02-29T12:34:56Z");
        assert_eq!(Timestamp::from_unix(1_794_853_868).to_string(), "2026-11-16T18:31:08Z");
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in [
            "",
            "2026-11-16",
            "2026-11-16T18:31:08",
            "2026-13-16T18:31:08Z",
            "2026-11-16T18:31:08.5Z",
            "2026-11-16T19:31:08+01:00",
            "2026-11-16 18:31:08Z",
            "1969-12-31T00:00:00Z",
            "yesterday at six o'clock",
        ] {
            assert!(Timestamp::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
