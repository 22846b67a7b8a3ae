//! The books as a whole, and the data the demo starts with.

use serde_json::json;

use crate::domain::clock::{Clock, Entropy};
use crate::domain::money::Currency;

use super::SandboxConfig;
use super::fault::FaultQueue;
use super::idempotency::KeyBook;
use super::payments::{Charge, Payments};
use super::seen::SeenLog;
use super::shop::{Address, Customer, Shop};

/// The ids of the demo's data.
pub mod demo {
    /// The order with the damaged blender.
    pub const ORDER: &str = "4821";
    /// Its customer.
    pub const CUSTOMER: &str = "cus_88";
    /// Its charge: 400.00 USD.
    pub const CHARGE: &str = "ch_3Rw4821blender";
    /// Another charge of the same customer: 129.00 EUR.
    pub const CHARGE_EUR: &str = "ch_3Rw4822lamp";
    /// A charge in a currency without minor units: 9000 JPY.
    pub const CHARGE_JPY: &str = "ch_3Rw4823kettle";
    /// A charge of another customer: 600.00 USD.
    pub const CHARGE_OTHER: &str = "ch_3Rw4830chair";
    /// A charge that provers take cents from: 10,000.00 USD of nobody in particular.
    pub const CHARGE_PROOFS: &str = "ch_3Rw4840proofs";
    /// Another, in a currency for which the example policy has no limits: 1,000.00 CAD.
    pub const CHARGE_PROOFS_CAD: &str = "ch_3Rw4841proofs";
    /// The other customer.
    pub const CUSTOMER_OTHER: &str = "cus_89";
}

/// Everything the sandbox knows.
pub(super) struct World {
    pub(super) payments: Payments,
    pub(super) shop: Shop,
    pub(super) keys: KeyBook,
    pub(super) faults: FaultQueue,
    pub(super) seen: SeenLog,
}

impl World {
    /// The books as the demo finds them.
    pub(super) fn seeded(config: &SandboxConfig) -> Self {
        Self {
            payments: charges(config.clock.as_ref()),
            shop: shop(),
            keys: KeyBook::new(config.idempotency_window),
            faults: FaultQueue::default(),
            seen: SeenLog::default(),
        }
    }
}

/// `prefix_` and 24 letters and digits.
pub(super) fn fresh_id(entropy: &dyn Entropy, prefix: &str) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut bytes = [0; 24];
    entropy.fill(&mut bytes);
    let text = bytes
        .iter()
        .filter_map(|byte| ALPHABET.get(usize::from(*byte) % ALPHABET.len()))
        .map(|letter| char::from(*letter));
    format!("{prefix}_{}", text.collect::<String>())
}

fn charges(clock: &dyn Clock) -> Payments {
    let mut payments = Payments::default();
    let seeds = [
        // Of no customer: a prover's refunds count towards nobody's.
        (demo::CHARGE_PROOFS_CAD, 100_000, "cad", None, "4841"),
        (demo::CHARGE_PROOFS, 1_000_000, "usd", None, "4840"),
        (demo::CHARGE_OTHER, 60_000, "usd", Some(demo::CUSTOMER_OTHER), "4830"),
        (demo::CHARGE_JPY, 9_000, "jpy", Some(demo::CUSTOMER), "4823"),
        (demo::CHARGE_EUR, 12_900, "eur", Some(demo::CUSTOMER), "4822"),
        (demo::CHARGE, 40_000, "usd", Some(demo::CUSTOMER), demo::ORDER),
    ];
    for (id, amount, code, customer, order) in seeds {
        let Ok(currency) = code.parse::<Currency>() else { continue };
        let mut metadata = serde_json::Map::new();
        metadata.insert("order".to_owned(), order.into());
        payments.charges.push(Charge {
            id: id.to_owned(),
            amount,
            currency,
            customer: customer.map(str::to_owned),
            created: clock.now().seconds(),
            description: Some(format!("order {order}")),
            metadata,
            brand: "visa",
            last4: "4242",
        });
    }
    payments
}

fn shop() -> Shop {
    let mut shop = Shop::default();
    shop.orders.insert(
        demo::ORDER.to_owned(),
        json!({
            "id": demo::ORDER,
            "object": "order",
            "version": 1,
            "status": "delivered",
            "customer": demo::CUSTOMER,
            "charge": demo::CHARGE,
            "currency": "usd",
            "total": 40_000,
            "items": [
                { "sku": "BL-900", "name": "blender", "quantity": 1, "amount": 24_000 },
                { "sku": "GL-12", "name": "set of glasses", "quantity": 1, "amount": 12_000 },
                { "sku": "SHIP", "name": "express delivery", "quantity": 1, "amount": 4_000 },
            ],
            "complaint": { "sku": "BL-900", "text": "The blender arrived with a cracked jug." },
        }),
    );
    let people = [
        (
            demo::CUSTOMER,
            "Ada Moreno",
            "ada.moreno@example.com",
            "12 Harbour Street",
            "Portland",
            "97201",
        ),
        (
            demo::CUSTOMER_OTHER,
            "Jonas Weiss",
            "jonas.weiss@example.com",
            "3 Mill Lane",
            "Salem",
            "97301",
        ),
    ];
    for (id, name, email, line1, city, postal_code) in people {
        shop.customers.insert(
            id.to_owned(),
            Customer {
                id: id.to_owned(),
                object: "customer",
                version: 1,
                name: name.to_owned(),
                email: email.to_owned(),
                shipping_address: Address {
                    line1: line1.to_owned(),
                    line2: None,
                    city: city.to_owned(),
                    postal_code: postal_code.to_owned(),
                    country: "US".to_owned(),
                },
            },
        );
    }
    shop
}
