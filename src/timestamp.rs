//! A moment, to the second, as people and machines read it: `2026-11-16T18:31:08Z`.
//!
//! Only for telling since when something is so. Nothing is ever decided by it: clocks jump.

use std::fmt;

use serde::{Deserialize, Serialize};

const SECONDS_PER_DAY: u64 = 86_400;
/// Days from 1 March of the year 0 to 1 January 1970.
const DAYS_BEFORE_EPOCH: u64 = 719_468;
/// In the Gregorian calendar everything comes again after 400 years.
const DAYS_PER_ERA: u64 = 146_097;

/// Seconds since 1970 in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
        // years begin in March here, so that the leap day is the last
        let days = self.0 / SECONDS_PER_DAY + DAYS_BEFORE_EPOCH;
        let (era, day) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
        let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let (hour, minute, second) = (self.0 / 3_600 % 24, self.0 / 60 % 60, self.0 % 60);
        write!(f, "{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl From<Timestamp> for String {
    fn from(stamp: Timestamp) -> Self {
        stamp.to_string()
    }
}

impl TryFrom<String> for Timestamp {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let parts: Option<Vec<u64>> = text
            .strip_suffix('Z')
            .filter(|text| text.len() == 19)
            .and_then(|text| text.split(['-', 'T', ':']).map(|part| part.parse().ok()).collect());
        let Some([year @ 1970..=9999, month @ 1..=12, day @ 1..=31, hour, minute, second]) = parts.as_deref() else {
            return Err(format!("{text:?} is no time like 2026-11-16T18:31:08Z"));
        };
        let (year, month_from_march) = if *month > 2 { (*year, month - 3) } else { (year - 1, month + 9) };
        let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month_from_march + 2) / 5 + day - 1;
        Ok(Self((days - DAYS_BEFORE_EPOCH) * SECONDS_PER_DAY + hour * 3_600 + minute * 60 + second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for seconds in [0, 951_782_399, 951_782_400, 951_868_800, 1_794_853_868, 4_107_542_399, 253_402_300_799] {
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
        for text in ["", "2026-11-16", "2026-11-16T18:31:08", "2026-13-16T18:31:08Z", "yesterday at six o'clock"] {
            assert!(Timestamp::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
