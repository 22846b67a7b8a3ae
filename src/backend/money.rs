//! The backend's own view of currencies: which it takes, how many decimals each has, which amounts it rounds.

use std::collections::BTreeMap;

use crate::domain::money::Currency;

/// The closed table of one backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Currencies {
    pub(super) exponents: BTreeMap<Currency, u8>,
    pub(super) multiple_of: BTreeMap<Currency, i64>,
}

impl Currencies {
    /// How many decimals the currency has at this backend; `None` if the backend does not take it.
    #[must_use]
    pub fn exponent(&self, currency: Currency) -> Option<u8> {
        self.exponents.get(&currency).copied()
    }

    /// What every amount in minor units must be a multiple of; 1 for most.
    #[must_use]
    pub fn multiple_of(&self, currency: Currency) -> i64 {
        self.multiple_of.get(&currency).copied().unwrap_or(1)
    }
}
