//! Approval records that must not count: edited, unsigned, over, handed in before, for something else, by nobody that is known.

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use reqwest::Method;
use serde_json::{Value, json};

use super::deployment::{Draft, Which};
use super::ground::Ground;
use super::outcome::{Amiss, Held, Reply};
use super::settings::{Signatory, Stands};
use super::wire::{Body, By};
use crate::approval::{Card, RECORD_TYPE, RecordSigner};
use crate::domain::approval::{Claims, Decision};
use crate::domain::digest::Digest;
use crate::domain::principal::KeyKind;

/// A draft that waits, its card, and what a person with the authority would say to it.
struct Open<'g> {
    ground: &'g Ground,
    draft: Draft,
    card: Card,
    signatory: &'g Signatory,
    claims: Claims,
}

impl<'g> Open<'g> {
    async fn new(ground: &'g Ground) -> Result<Self, Amiss> {
        let live = &ground.live;
        let signatory = live.signatory(Stands::Counts)?;
        let draft = live.waiting(Which::Asked).await?;
        let card = live.card(&draft.id).await?;
        let claims = live.claims(signatory, &card)?;
        Ok(Self {
            ground,
            draft,
            card,
            signatory,
            claims,
        })
    }

    fn signed(&self, claims: &Claims) -> Result<String, Amiss> {
        self.ground.live.sign(self.signatory, claims)
    }

    /// Holds if the record is refused with one of the codes and the draft still waits.
    async fn refused(&self, what: &str, record: &str, codes: &[&str]) -> Result<(), Amiss> {
        let reply = self.ground.live.hand_in(record).await?;
        reply.refused(what, codes)?;
        self.ground.live.untouched(&self.draft, "awaiting_approval", what).await
    }

    /// Holds if the card is still answered by the record that it is for: what was refused before has closed nothing.
    async fn still_open(&self) -> Result<(), Amiss> {
        let reply = self.ground.live.hand_in(&self.signed(&self.claims)?).await?;
        reply.done("the genuine record, after those that were refused").map(drop)
    }
}

/// The three parts of a compact JWS.
fn parts(record: &str) -> Result<[String; 3], Amiss> {
    let parts: Vec<String> = record.split('.').map(str::to_owned).collect();
    parts
        .try_into()
        .map_err(|_| Amiss::Unclear("a signed record has not three parts".to_owned()))
}

/// A part of JSON, edited.
fn edited(part: &str, edit: impl FnOnce(&mut Value)) -> Result<String, Amiss> {
    let unreadable = || Amiss::Unclear("a part of a signed record is not JSON in base64url".to_owned());
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| unreadable())?;
    let mut value: Value = serde_json::from_slice(&bytes).map_err(|_| unreadable())?;
    edit(&mut value);
    Ok(URL_SAFE_NO_PAD.encode(value.to_string()))
}

fn set(value: &mut Value, pointer: &str, to: Value) {
    if let Some(place) = value.pointer_mut(pointer) {
        *place = to;
    }
}

pub(super) async fn mutated(ground: &Ground) -> Held {
    let open = Open::new(ground).await?;
    let denial = Claims {
        apr: crate::domain::approval::Approval {
            decision: Decision::Deny,
            ..open.claims.apr.clone()
        },
        ..open.claims.clone()
    };
    let [header, payload, signature] = parts(&open.signed(&denial)?)?;
    let turned = edited(&payload, |claims| set(claims, "/apr/decision", json!("approve")))?;
    let record = format!("{header}.{turned}.{signature}");
    let invalid = &["record_signature_invalid"];
    open.refused("a denial edited into an approval", &record, invalid).await?;
    let [header, payload, signature] = parts(&open.signed(&open.claims)?)?;
    let mut bytes = URL_SAFE_NO_PAD.decode(&signature).unwrap_or_default();
    if let Some(byte) = bytes.get_mut(8) {
        *byte ^= 1;
    }
    let record = format!("{header}.{payload}.{}", URL_SAFE_NO_PAD.encode(bytes));
    open.refused("a record with a bit of its signature turned over", &record, invalid)
        .await?;
    open.still_open().await?;
    Ok("edited claims and an edited signature are refused; the genuine record still counts".to_owned())
}

pub(super) async fn unsigned(ground: &Ground) -> Held {
    let open = Open::new(ground).await?;
    let [header, payload, _] = parts(&open.signed(&open.claims)?)?;
    let none = edited(&header, |header| set(header, "/alg", json!("none")))?;
    open.refused(
        "an unsigned record (alg: none)",
        &format!("{none}.{payload}."),
        &["record_algorithm_none"],
    )
    .await?;
    let hs256 = edited(&header, |header| set(header, "/alg", json!("HS256")))?;
    let message = format!("{hs256}.{payload}");
    let public = URL_SAFE_NO_PAD
        .decode(ground.live.signer(open.signatory)?.public())
        .unwrap_or_default();
    let tag = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &public), message.as_bytes());
    let record = format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag));
    open.refused(
        "a record under HS256 with the public key as its secret",
        &record,
        &["record_algorithm_refused"],
    )
    .await?;
    Ok("neither `none` nor a MAC over the public key is a signature".to_owned())
}

pub(super) async fn forged(ground: &Ground) -> Held {
    let open = Open::new(ground).await?;
    let made = RecordSigner::generate(KeyKind::Es256).map_err(|error| Amiss::Unclear(error.to_string()))?;
    let sign = |kid: &str| {
        let kid = kid.parse().map_err(|_| Amiss::Unclear("a key id cannot be read".to_owned()))?;
        let signer = RecordSigner::from_pkcs8_pem(&made.private_pem, kid).map_err(|error| Amiss::Unclear(error.to_string()))?;
        signer.sign(&open.claims).map_err(|error| Amiss::Unclear(error.to_string()))
    };
    let record = sign(open.signatory.kid.as_str())?;
    let codes = &["record_signature_invalid", "record_algorithm_not_for_key"];
    open.refused("a record under another key with a known key's id", &record, codes)
        .await?;
    let record = sign("prove-of-nobody")?;
    open.refused("a record under a key that is not registered", &record, &["approver_key_unknown"])
        .await?;
    Ok("refused under a known key's id and under its own".to_owned())
}

pub(super) async fn reencoded(ground: &Ground) -> Held {
    let open = Open::new(ground).await?;
    let [header, payload, signature] = parts(&open.signed(&open.claims)?)?;
    let bytes = URL_SAFE_NO_PAD.decode(&payload).unwrap_or_default();
    let spaced = [b" ".as_slice(), &bytes].concat();
    let record = format!("{header}.{}.{signature}", URL_SAFE_NO_PAD.encode(spaced));
    open.refused("a record with a space before its claims", &record, &["record_signature_invalid"])
        .await?;
    let padded = URL_SAFE.encode(URL_SAFE_NO_PAD.decode(&signature).unwrap_or_default());
    let record = format!("{header}.{payload}.{padded}");
    open.refused("a record with a padded signature", &record, &["record_malformed"])
        .await?;
    Ok("the same claims in other bytes are refused".to_owned())
}

pub(super) async fn widened(ground: &Ground) -> Held {
    let open = Open::new(ground).await?;
    let mut claims = serde_json::to_value(&open.claims).map_err(|error| Amiss::Unclear(error.to_string()))?;
    if let Some(members) = claims.pointer_mut("/apr").and_then(Value::as_object_mut) {
        members.insert("also".to_owned(), json!("every other draft"));
    }
    let signer = ground.live.signer(open.signatory)?;
    let signed = signer.sign_bytes(RECORD_TYPE, claims.to_string().as_bytes());
    let record = signed.map_err(|error| Amiss::Unclear(error.to_string()))?;
    open.refused(
        "a properly signed record with one more member",
        &record,
        &["record_claims_malformed"],
    )
    .await?;
    Ok("a member that nobody knows is refused, however well signed".to_owned())
}

pub(super) async fn replayed(ground: &Ground) -> Held {
    let open = Open::new(ground).await?;
    let live = &ground.live;
    let record = open.signed(&open.claims)?;
    live.hand_in(&record).await?.done("a genuine record")?;
    let again = live.hand_in(&record).await?;
    again.refused(
        "a record that was handed in before",
        &["approval_answered", "approval_decided", "record_reused"],
    )?;
    let other = Open::new(ground).await?;
    let mut claims = other.claims.clone();
    claims.jti = open.claims.jti;
    let record = other.signed(&claims)?;
    other
        .refused(
            "a record for another draft under an id that was used before",
            &record,
            &["record_reused"],
        )
        .await?;
    Ok("neither the record nor its id counts twice".to_owned())
}

pub(super) async fn expired(ground: &Ground) -> Held {
    let open = Open::new(ground).await?;
    let mut claims = open.claims.clone();
    claims.iat -= 600;
    claims.nbf = claims.iat;
    claims.exp = claims.iat + 300;
    let record = open.signed(&claims)?;
    open.refused(
        "a record that ended five minutes ago",
        &record,
        &["record_expired", "record_key_not_yet_valid"],
    )
    .await?;
    Ok("refused after its end".to_owned())
}

pub(super) async fn from_the_future(ground: &Ground) -> Held {
    let open = Open::new(ground).await?;
    let mut claims = open.claims.clone();
    claims.iat += 120;
    claims.nbf = claims.iat;
    claims.exp = claims.iat + 300;
    let record = open.signed(&claims)?;
    open.refused(
        "a record that was signed two minutes from now",
        &record,
        &["record_issued_in_future"],
    )
    .await?;
    Ok("a signer's clock that runs ahead is named".to_owned())
}

pub(super) async fn wrong_audience(ground: &Ground) -> Held {
    let open = Open::new(ground).await?;
    let mut claims = open.claims.clone();
    claims.aud = "https://broker.of-nobody.example".to_owned();
    let record = open.signed(&claims)?;
    open.refused("a record for another broker", &record, &["record_audience_wrong"])
        .await?;
    Ok("refused for another broker".to_owned())
}

pub(super) async fn other_draft(ground: &Ground) -> Held {
    let (open, other) = (Open::new(ground).await?, Open::new(ground).await?);
    let mut claims = open.claims.clone();
    claims.apr.draft_hash = other.card.hash;
    let record = open.signed(&claims)?;
    open.refused("a record with another draft's hash", &record, &["draft_hash_mismatch"])
        .await?;
    let mut claims = open.claims.clone();
    claims.apr.request_nonce.clone_from(&other.card.nonce);
    let record = open.signed(&claims)?;
    open.refused("a record with another card's nonce", &record, &["request_nonce_mismatch"])
        .await?;
    open.still_open().await?;
    Ok("refused with another draft's hash, and with another card's nonce".to_owned())
}

pub(super) async fn unactivated_policy(ground: &Ground) -> Held {
    let open = Open::new(ground).await?;
    let mut claims = open.claims.clone();
    claims.apr.policy.sha256 = Digest::of(b"a policy that nobody activated");
    let record = open.signed(&claims)?;
    let codes = &["verdict_mismatch"];
    open.refused("a record under a policy that nobody activated", &record, codes)
        .await?;
    let mut claims = open.claims.clone();
    claims.apr.policy.version += 1;
    let record = open.signed(&claims)?;
    open.refused("a record under a policy's next version", &record, codes).await?;
    Ok("a record that names another policy than the one that asked is refused".to_owned())
}

pub(super) async fn revoked(ground: &Ground) -> Held {
    let open = Open::new(ground).await?;
    let live = &ground.live;
    let accepted = live.hand_in(&open.signed(&open.claims)?).await?.done("a genuine record")?;
    let token = live.credential(&open.draft).await?;
    let approval = accepted.text("/draft/approval/id").to_owned();
    let url = live.at(&format!("/v1/approvals/{approval}/revoke"));
    let body = Body::Json(json!({ "reason": "a test by writ prove" }));
    let revoked: Reply = live.wire.call(Method::POST, &url, By::Client(&live.settings.desk), body).await?;
    revoked.done("taking an approval back")?;
    let reply = live.attempt(live.proxy(), By::Bearer(token.expose()), &open.draft.id).await?;
    reply.refused(
        "a credential whose approval was taken back",
        &["credential_not_live", "draft_not_executable"],
    )?;
    let reply = live.exchange(&open.draft.id, None).await?;
    reply.refused("an exchange of an approval that was taken back", &["draft_not_approved"])?;
    Ok("neither its credential nor a new one is good".to_owned())
}

pub(super) async fn missing(ground: &Ground) -> Held {
    let open = Open::new(ground).await?;
    let reply = ground.live.exchange(&open.draft.id, None).await?;
    reply.refused("an exchange before anybody signed", &["approval_pending"])?;
    ground
        .live
        .untouched(&open.draft, "awaiting_approval", "an exchange before anybody signed")
        .await?;
    Ok("no credential before a person has signed".to_owned())
}
