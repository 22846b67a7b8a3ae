//! Money: integer minor units and an ISO 4217 code. How many minor units make a major one belongs to the backend.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The largest integer that JSON carries without loss in every language: 2^53 − 1.
pub const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// Three ASCII letters, kept in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// The code in lower case, such as `usd`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Only ASCII letters get in, so this cannot fall back.
        std::str::from_utf8(&self.0).unwrap_or("???")
    }

    /// The code in upper case, such as `USD`.
    #[must_use]
    pub fn to_upper(&self) -> String {
        self.as_str().to_ascii_uppercase()
    }
}

/// The text is not three ASCII letters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a currency: expected three letters such as `usd`")]
pub struct CurrencyError(pub String);

impl FromStr for Currency {
    type Err = CurrencyError;
    /// Accepts either case; keeps lower case.
    fn from_str(text: &str) -> Result<Self, CurrencyError> {
        let wrong = || CurrencyError(text.chars().take(16).collect());
        let bytes: [u8; 3] = text.as_bytes().try_into().map_err(|_| wrong())?;
        if bytes.iter().all(u8::is_ascii_alphabetic) {
            Ok(Self(bytes.map(|b| b.to_ascii_lowercase())))
        } else {
            Err(wrong())
        }
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Currency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// An amount of money, in minor units of its currency: from 1 to 2^53 − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Money {
    minor: i64,
    currency: Currency,
}

/// The amount is not a positive integer that JSON carries without loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} minor units is not an amount: expected a whole number from 1 to 9007199254740991")]
pub struct AmountError(pub i64);

impl Money {
    /// An amount of `minor` units.
    ///
    /// # Errors
    /// [`AmountError`] unless `minor` is between 1 and 2^53 − 1.
    pub const fn new(minor: i64, currency: Currency) -> Result<Self, AmountError> {
        if minor >= 1 && minor <= MAX_SAFE_INTEGER {
            Ok(Self { minor, currency })
        } else {
            Err(AmountError(minor))
        }
    }

    /// Minor units, at least 1.
    #[must_use]
    pub const fn minor(&self) -> i64 {
        self.minor
    }

    /// The currency.
    #[must_use]
    pub const fn currency(&self) -> Currency {
        self.currency
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Raw {
            minor: i64,
            currency: Currency,
        }
        let raw = Raw::deserialize(deserializer)?;
        Self::new(raw.minor, raw.currency).map_err(de::Error::custom)
    }
}

/// `minor` written in major units with `exponent` decimals: `(24000, 2)` is `240.00`.
#[must_use]
pub fn decimal(minor: i64, exponent: u8) -> String {
    let digits = minor.unsigned_abs().to_string();
    let places = usize::from(exponent);
    let sign = if minor < 0 { "-" } else { "" };
    if places == 0 {
        return format!("{sign}{digits}");
    }
    let padded = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = padded.split_at(padded.len() - places);
    format!("{sign}{whole}.{fraction}")
}

/// The minor units of a decimal text such as `240.00` or `240.0`, exactly; `None` if it is no plain decimal or is finer than `exponent` decimals.
#[must_use]
pub fn minor(text: &str, exponent: u8) -> Option<i64> {
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let (sign, plain) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, "0"));
    // A leading zero makes another number of it in some languages.
    let led = whole.len() > 1 && whole.starts_with('0');
    if whole.is_empty() || led || fraction.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let places = usize::from(exponent);
    let (kept, rest) = fraction.split_at_checked(places).unwrap_or((fraction, ""));
    if rest.bytes().any(|b| b != b'0') {
        return None;
    }
    let units: i64 = format!("{whole}{kept:0<places$}").parse().ok()?;
    (units <= MAX_SAFE_INTEGER).then_some(sign * units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_follow_the_exponent() {
        assert_eq!(decimal(24000, 2), "240.00");
        assert_eq!(decimal(5, 2), "0.05");
        assert_eq!(decimal(9000, 0), "9000");
        assert_eq!(decimal(1234, 3), "1.234");
    }

    #[test]
    fn a_decimal_text_is_read_exactly_or_not_at_all() {
        for (text, exponent, units) in [
            ("240.00", 2, 24_000),
            ("240.0", 2, 24_000),
            ("240", 2, 24_000),
            ("0.05", 2, 5),
            ("-1.5", 2, -150),
            ("9000", 0, 9_000),
            ("9000.0", 0, 9_000),
            ("1.234", 3, 1_234),
            ("10.000", 2, 1_000),
        ] {
            assert_eq!(minor(text, exponent), Some(units), "{text}");
        }
        for (text, exponent) in [
            ("240.001", 2),
            ("9000.5", 0),
            ("", 2),
            (".5", 2),
            ("5.", 2),
            ("1e2", 2),
            ("+1", 2),
            ("1,000.00", 2),
            (" 1", 2),
            ("--1", 2),
            // Found by the fuzz target `answers`.
            ("040.00", 2),
            ("00.50", 2),
            ("99999999999999999", 2),
        ] {
            assert_eq!(minor(text, exponent), None, "{text}");
        }
        for units in [1, 99, 100, 24_000, MAX_SAFE_INTEGER] {
            for exponent in 0..=4 {
                assert_eq!(minor(&decimal(units, exponent), exponent), Some(units));
            }
        }
    }

    #[test]
    fn an_amount_is_positive_and_exact() {
        let usd: Currency = "USD".parse().unwrap();
        assert_eq!(usd.as_str(), "usd");
        for minor in [0, -1, MAX_SAFE_INTEGER + 1] {
            assert!(Money::new(minor, usd).is_err(), "{minor}");
        }
        assert!(Money::new(MAX_SAFE_INTEGER, usd).is_ok());
    }
}
