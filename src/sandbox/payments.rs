//! Charges and refunds, with the provider's rules about how much may go back.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::domain::money::Currency;

use super::answer::{Answer, ErrorAnswer, ErrorType, missing};
use super::endpoint::{Call, Fields, Outcome};
use super::fault::FaultKind;
use super::shop::Shop;
use super::world::fresh_id;

/// The largest amount the provider takes, in minor units.
const LARGEST: i64 = 99_999_999;

/// Where a refund stands at the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundStatus {
    /// Taken in, not finished.
    Pending,
    /// Done.
    Succeeded,
    /// It came back: the money is with the merchant again.
    Failed,
    /// Called off.
    Canceled,
}

/// A refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refund {
    /// Its id, `re_…`.
    pub id: String,
    /// Always `refund`.
    pub object: &'static str,
    /// Minor units.
    pub amount: i64,
    /// The charge it takes from.
    pub charge: String,
    /// The charge's currency, in lower case.
    pub currency: Currency,
    /// When it was made, in seconds since the epoch.
    pub created: i64,
    /// What the caller noted.
    pub metadata: serde_json::Map<String, Value>,
    /// Why, in the provider's words.
    pub reason: Option<String>,
    /// Where it stands.
    pub status: RefundStatus,
}

impl Refund {
    const fn holds_money(&self) -> bool {
        matches!(self.status, RefundStatus::Pending | RefundStatus::Succeeded)
    }
}

/// A charge.
#[derive(Debug, Clone)]
pub(super) struct Charge {
    pub(super) id: String,
    pub(super) amount: i64,
    pub(super) currency: Currency,
    pub(super) customer: Option<String>,
    pub(super) created: i64,
    pub(super) description: Option<String>,
    pub(super) metadata: serde_json::Map<String, Value>,
    pub(super) brand: &'static str,
    pub(super) last4: &'static str,
}

/// The payments side of the books. Newest last.
#[derive(Debug, Default)]
pub(super) struct Payments {
    pub(super) charges: Vec<Charge>,
    pub(super) refunds: Vec<Refund>,
}

type Answered = Result<Outcome, ErrorAnswer>;

impl Payments {
    pub(super) fn refunds_of(&self, charge: &str) -> Vec<Refund> {
        self.refunds
            .iter()
            .rev()
            .filter(|refund| refund.charge == charge)
            .cloned()
            .collect()
    }

    pub(super) fn settle(&mut self, id: &str, status: RefundStatus) -> bool {
        let found = self.refunds.iter_mut().find(|refund| refund.id == id);
        found.map(|refund| refund.status = status).is_some()
    }

    pub(super) fn find_refund(&self, id: &str) -> Option<&Refund> {
        self.refunds.iter().find(|refund| refund.id == id)
    }

    fn amount_refunded(&self, charge: &str) -> i64 {
        let back = self.refunds.iter().filter(|refund| refund.charge == charge && refund.holds_money());
        back.map(|refund| refund.amount).sum()
    }

    pub(super) fn show(&self, charge: &Charge) -> Value {
        let refunded = self.amount_refunded(&charge.id);
        json!({
            "id": charge.id,
            "object": "charge",
            "amount": charge.amount,
            "amount_captured": charge.amount,
            "amount_refunded": refunded,
            "captured": true,
            "created": charge.created,
            "currency": charge.currency,
            "customer": charge.customer,
            "description": charge.description,
            "livemode": false,
            "metadata": charge.metadata,
            "paid": true,
            "payment_method_details": { "type": "card", "card": { "brand": charge.brand, "last4": charge.last4 } },
            "refunded": refunded == charge.amount,
            "status": "succeeded",
        })
    }

    fn find_charge(&self, id: &str, param: &str) -> Result<&Charge, ErrorAnswer> {
        self.charges
            .iter()
            .find(|charge| charge.id == id)
            .ok_or_else(|| missing("charge", id, param))
    }

    pub(super) fn charge(&self, id: &str) -> Answered {
        let charge = self.find_charge(id, "charge")?;
        Ok(Outcome::Unchanged(Answer::ok(self.show(charge))))
    }

    pub(super) fn create_charge(&mut self, call: &Call<'_>, shop: &Shop) -> Answered {
        let mut fields = Fields::parse(call.body)?;
        let amount = amount(&fields.need("amount")?)?;
        let currency = currency(&fields.need("currency")?)?;
        let source = fields.need("source")?;
        let customer = fields.take("customer");
        let description = fields.take("description");
        let metadata = metadata(&mut fields);
        fields.end()?;
        if let Some(id) = customer.as_deref().filter(|id| shop.customer(id).is_none()) {
            return Err(missing("customer", id, "customer"));
        }
        let (brand, last4) = match source.as_str() {
            "tok_visa" => ("visa", "4242"),
            "tok_mastercard" => ("mastercard", "4444"),
            "tok_chargeDeclined" => {
                let declined = ErrorAnswer::new(402, ErrorType::Card, "Your card was declined.").code("card_declined");
                return Ok(Outcome::Unchanged(declined.into()));
            }
            _ => return Err(missing("token", &source, "source")),
        };
        let charge = Charge {
            id: fresh_id(call.entropy, "ch"),
            amount,
            currency,
            customer,
            created: call.now.seconds(),
            description,
            metadata,
            brand,
            last4,
        };
        let shown = self.show(&charge);
        self.charges.push(charge);
        Ok(Outcome::Changed(Answer::ok(shown)))
    }

    pub(super) fn refund(&self, id: &str) -> Answered {
        match self.find_refund(id) {
            Some(refund) => Ok(Outcome::Unchanged(Answer::ok(json!(refund)))),
            None => Err(missing("refund", id, "refund")),
        }
    }

    pub(super) fn create_refund(&mut self, call: &Call<'_>) -> Answered {
        let mut fields = Fields::parse(call.body)?;
        let charge = fields.need("charge")?;
        let asked = fields.take("amount").map(|text| amount(&text)).transpose()?;
        let reason = fields.take("reason");
        let metadata = metadata(&mut fields);
        fields.end()?;
        if reason
            .as_deref()
            .is_some_and(|reason| !["duplicate", "fraudulent", "requested_by_customer"].contains(&reason))
        {
            let message = "Invalid reason: must be one of duplicate, fraudulent, or requested_by_customer";
            return Err(ErrorAnswer::new(400, ErrorType::InvalidRequest, message).param("reason"));
        }
        let charge = self.find_charge(&charge, "charge")?;
        let left = charge.amount - self.amount_refunded(&charge.id);
        if left == 0 {
            let message = format!("Charge {} has already been refunded.", charge.id);
            let done = ErrorAnswer::new(400, ErrorType::InvalidRequest, message).code("charge_already_refunded");
            return Ok(Outcome::Unchanged(done.into()));
        }
        let amount = asked.unwrap_or(left);
        if call.fault == Some(FaultKind::Refuse) {
            let refused = ErrorAnswer::new(400, ErrorType::InvalidRequest, "This charge cannot be refunded.").param("charge");
            return Ok(Outcome::Unchanged(refused.into()));
        }
        if amount > left {
            let message = format!("Refund amount ({amount}) is greater than unrefunded amount on charge ({left}), in minor units");
            let over = ErrorAnswer::new(400, ErrorType::InvalidRequest, message).param("amount");
            return Ok(Outcome::Unchanged(over.into()));
        }
        let refund = Refund {
            id: fresh_id(call.entropy, "re"),
            object: "refund",
            amount,
            charge: charge.id.clone(),
            currency: charge.currency,
            created: call.now.seconds(),
            metadata,
            reason,
            status: if matches!(call.fault, Some(FaultKind::Pending | FaultKind::PendingUnanswered)) {
                RefundStatus::Pending
            } else {
                RefundStatus::Succeeded
            },
        };
        let shown = json!(refund);
        self.refunds.push(refund);
        Ok(Outcome::Changed(Answer::ok(shown)))
    }

    /// Newest first, paged by the last id of the page before.
    pub(super) fn list_refunds(&self, call: &Call<'_>) -> Answered {
        let mut fields = Fields::parse(call.query.as_bytes())?;
        let charge = fields.take("charge");
        let limit = match fields.take("limit") {
            None => 10,
            Some(text) => text
                .parse::<usize>()
                .ok()
                .filter(|limit| (1..=100).contains(limit))
                .ok_or_else(|| invalid_integer(&text, "limit"))?,
        };
        let after = fields.take("starting_after");
        fields.end()?;
        let mut rest: Vec<&Refund> = self
            .refunds
            .iter()
            .rev()
            .filter(|refund| charge.as_deref().is_none_or(|charge| refund.charge == charge))
            .collect();
        if let Some(id) = after {
            let at = rest.iter().position(|refund| refund.id == id);
            rest.drain(..=at.ok_or_else(|| missing("refund", &id, "starting_after"))?);
        }
        let page: Vec<&Refund> = rest.iter().take(limit).copied().collect();
        Ok(Outcome::Unchanged(Answer::ok(json!({
            "object": "list",
            "url": "/v1/refunds",
            "has_more": rest.len() > page.len(),
            "data": page,
        }))))
    }
}

fn metadata(fields: &mut Fields) -> serde_json::Map<String, Value> {
    fields
        .take_map("metadata")
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect()
}

fn invalid_integer(text: &str, param: &str) -> ErrorAnswer {
    ErrorAnswer::new(400, ErrorType::InvalidRequest, format!("Invalid integer: {text}"))
        .code("parameter_invalid_integer")
        .param(param)
}

/// Plain digits only, from 1 to the largest amount.
fn amount(text: &str) -> Result<i64, ErrorAnswer> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let amount: i64 = text
        .parse()
        .ok()
        .filter(|amount| digits && *amount > 0)
        .ok_or_else(|| invalid_integer(text, "amount"))?;
    if amount > LARGEST {
        let message = format!("Amount must be no more than {LARGEST} minor units");
        return Err(ErrorAnswer::new(400, ErrorType::InvalidRequest, message)
            .code("amount_too_large")
            .param("amount"));
    }
    Ok(amount)
}

fn currency(text: &str) -> Result<Currency, ErrorAnswer> {
    text.parse()
        .map_err(|_| ErrorAnswer::new(400, ErrorType::InvalidRequest, format!("Invalid currency: {text}")).param("currency"))
}
