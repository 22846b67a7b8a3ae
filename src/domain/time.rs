//! Points in time as the program keeps them: whole milliseconds since the epoch, UTC.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A moment, in milliseconds since 1970-01-01T00:00:00Z. Written as RFC 3339 with three decimals and `Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since the epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// From whole seconds since the epoch, as JWT and Biscuit dates are written. Saturates.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded towards the past: a deadline written this way is never later than meant.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// This moment plus `duration`. Saturates.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This moment minus `duration`. Saturates.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long from `earlier` to this moment; zero if `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// From RFC 3339 text; `None` if it is not that, or lies outside the years 0 to 9999.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
        i64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok().map(Self)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(at) = OffsetDateTime::from_unix_timestamp(self.seconds()) else {
            return write!(f, "@{}ms", self.0);
        };
        let (date, clock) = (at.date(), at.time());
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            date.year(),
            u8::from(date.month()),
            date.day(),
            clock.hour(),
            clock.minute(),
            clock.second(),
            self.0.rem_euclid(1000)
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("not an RFC 3339 time such as 2026-11-29T12:00:00.000Z"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_back_as_it_was_written() {
        for millis in [0, 999, 1_790_000_000_123, -1] {
            let at = Timestamp::from_millis(millis);
            assert_eq!(Timestamp::parse(&at.to_string()), Some(at));
        }
        assert_eq!(Timestamp::from_millis(1_790_000_000_123).to_string(), "2026-09-21T14:13:20.123Z");
    }

    #[test]
    fn seconds_round_towards_the_past() {
        assert_eq!(Timestamp::from_millis(1_999).seconds(), 1);
        assert_eq!(Timestamp::from_millis(-1).seconds(), -1);
    }
}
