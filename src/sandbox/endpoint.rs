//! From a request to the endpoint that answers it, and what an endpoint may say.

use crate::domain::clock::Entropy;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;

use super::answer::{Answer, ErrorAnswer, ErrorType};
use super::fault::FaultKind;
use super::world::World;

/// A request that is authenticated and read whole.
pub(super) struct Call<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) body: &'a [u8],
    pub(super) if_match: Option<&'a str>,
    pub(super) now: Timestamp,
    pub(super) entropy: &'a dyn Entropy,
    pub(super) fault: Option<FaultKind>,
}

/// What an endpoint says.
pub(super) enum Outcome {
    /// The request was refused before it began to run; a key does not remember this.
    Refused(Answer),
    /// It ran and changed nothing; a key remembers the answer.
    Unchanged(Answer),
    /// It ran and changed the books; a key remembers the answer.
    Changed(Answer),
}

impl<E: Into<Answer>> From<Result<Self, E>> for Outcome {
    fn from(result: Result<Self, E>) -> Self {
        result.unwrap_or_else(|refused| Self::Refused(refused.into()))
    }
}

/// Hands the call to its endpoint.
pub(super) fn route(world: &mut World, call: &Call<'_>) -> Outcome {
    let segments: Vec<&str> = call.path.trim_start_matches('/').split('/').collect();
    let result = match (call.method, segments.as_slice()) {
        ("POST", ["v1", "charges"]) => world.payments.create_charge(call, &world.shop),
        ("GET", ["v1", "charges", id]) => world.payments.charge(id),
        ("POST", ["v1", "refunds"]) => world.payments.create_refund(call),
        ("GET", ["v1", "refunds"]) => world.payments.list_refunds(call),
        ("GET", ["v1", "refunds", id]) => world.payments.refund(id),
        ("GET", ["orders", id]) => world.shop.show_order(id),
        ("GET", ["customers", id]) => world.shop.show_customer(id),
        ("PATCH", ["customers", id]) => world.shop.patch_customer(id, call),
        (method, _) => Err(ErrorAnswer::new(
            404,
            ErrorType::InvalidRequest,
            format!("There is nothing at {method} {}.", call.path),
        )),
    };
    result.into()
}

impl Call<'_> {
    /// The hash by which two requests under one key are compared: method, path and parameters, whatever their order.
    pub(super) fn parameters(&self) -> Digest {
        let body = match Json::parse(self.body) {
            Ok(json) => json.canonical(),
            Err(_) => {
                let mut pairs: Vec<_> = form_urlencoded::parse(self.body).collect();
                pairs.sort();
                form_urlencoded::Serializer::new(String::new())
                    .extend_pairs(pairs)
                    .finish()
                    .into_bytes()
            }
        };
        let mut bytes = format!("{} {}?{}\n", self.method, self.path, self.query).into_bytes();
        bytes.extend(body);
        Digest::tagged("sandbox.parameters", &bytes)
    }
}

/// The fields of a form or a query, each taken out by name so that what is left is unknown.
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ErrorAnswer> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(bytes).into_owned() {
            if fields.iter().any(|(seen, _)| *seen == name) {
                return Err(ErrorAnswer::new(400, ErrorType::InvalidRequest, format!("{name} is given twice.")).param(&name));
            }
            fields.push((name, value));
        }
        Ok(Self(fields))
    }

    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(field, _)| field == name)?;
        Some(self.0.remove(at).1)
    }

    pub(super) fn need(&mut self, name: &str) -> Result<String, ErrorAnswer> {
        self.take(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            ErrorAnswer::new(400, ErrorType::InvalidRequest, format!("Missing required param: {name}."))
                .code("parameter_missing")
                .param(name)
        })
    }

    /// The members of `name[...]`.
    pub(super) fn take_map(&mut self, name: &str) -> Vec<(String, String)> {
        let inner = |field: &str| Some(field.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']')?.to_owned());
        let (taken, rest) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(field, _)| inner(field).is_some());
        self.0 = rest;
        let taken: Vec<(String, String)> = taken;
        taken
            .into_iter()
            .filter_map(|(field, value)| Some((inner(&field)?, value)))
            .collect()
    }

    /// Refuses whatever has not been taken.
    pub(super) fn end(self) -> Result<(), ErrorAnswer> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(
                ErrorAnswer::new(400, ErrorType::InvalidRequest, format!("Received unknown parameter: {name}"))
                    .code("parameter_unknown")
                    .param(name),
            ),
        }
    }
}
