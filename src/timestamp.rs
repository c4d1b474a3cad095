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

impl Timestamp {
    /// How long ago this was, as kubectl shows ages: `42s`, `5m10s`, `3d`.
    pub fn age(self, now: Self) -> String {
        let seconds = now.0.saturating_sub(self.0);
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
        let two = |whole: u64, unit: char, rest: u64, small: char| match rest {
            0 => format!("{whole}{unit}"),
            rest => format!("{whole}{unit}{rest}{small}"),
        };
        match (seconds, minutes, hours, days) {
            (..120, ..) => format!("{seconds}s"),
            (_, ..10, ..) => two(minutes, 'm', seconds % 60, 's'),
            (_, ..180, ..) => format!("{minutes}m"),
            (_, _, ..8, _) => two(hours, 'h', minutes % 60, 'm'),
            (_, _, ..48, _) => format!("{hours}h"),
            (.., ..8) => two(days, 'd', hours % 24, 'h'),
            (.., ..730) => format!("{days}d"),
            (.., ..2920) => two(days / 365, 'y', days % 365, 'd'),
            _ => format!("{}y", days / 365),
        }
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
    fn ages_are_those_of_kubectl() {
        let ages = [
            (0, "0s"),
            (42, "42s"),
            (119, "119s"),
            (120, "2m"),
            (130, "2m10s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_700, "3h15m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (64_072_000, "2y11d"),
            (252_288_000, "8y"),
        ];
        for (seconds, age) in ages {
            assert_eq!(Timestamp::from_unix(1000).age(Timestamp::from_unix(1000 + seconds)), age, "{seconds}");
        }
        assert_eq!(Timestamp::from_unix(1000).age(Timestamp::from_unix(1)), "0s", "clocks differ");
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
