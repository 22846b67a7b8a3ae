//! Credentials that must not be spent: edited, copied, widened, forged, over, taken back, for something else.

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use reqwest::Method;
use serde_json::json;

use super::deployment::{Draft, Which, soon};
use super::ground::Ground;
use super::outcome::{Amiss, Held};
use super::settings::Stands;
use super::wire::{Body, By};
use crate::domain::secret::Secret;
use crate::setup::TempDir;
use crate::token::{self, KeyRing, With};

/// Where a bit is turned over, in hundredths of the token's length: in the grant, in the signature and in the key behind it.
const TURNED: [usize; 5] = [20, 40, 60, 90, 97];

/// How a token is refused whose signature does not hold, or that is none. A code of what comes after the signature would say that it held.
const UNSIGNED: &[&str] = &[
    "credential_signature_invalid",
    "credential_malformed",
    "credential_grant_malformed",
    "credential_context_wrong",
    "credential_key_unknown",
    "credential_key_id_missing",
    "credential_sealed",
    "credential_extra_blocks",
    "credential_verifier_failed",
];

/// A draft that may be executed, and a credential for it.
async fn held(ground: &Ground) -> Result<(Draft, Secret), Amiss> {
    let live = &ground.live;
    let draft = live.approved(Which::Once).await?;
    let token = live.credential(&draft).await?;
    Ok((draft, token))
}

fn bytes(token: &Secret) -> Result<Vec<u8>, Amiss> {
    URL_SAFE
        .decode(token.expose())
        .map_err(|_| Amiss::Unclear("a credential was issued that is not base64url".to_owned()))
}

pub(super) async fn missing(ground: &Ground) -> Held {
    let live = &ground.live;
    let draft = live.approved(Which::Once).await?;
    for proxy in &live.settings.proxies {
        let reply = live.attempt(proxy, By::Nobody, &draft.id).await?;
        reply.refused("an execution without a credential", &["credential_missing"])?;
    }
    live.untouched(&draft, "approved", "an execution without a credential").await?;
    Ok("refused at every proxy".to_owned())
}

pub(super) async fn mutated(ground: &Ground) -> Held {
    let live = &ground.live;
    let (draft, token) = held(ground).await?;
    let good = bytes(&token)?;
    for hundredth in TURNED {
        let mut edited = good.clone();
        let at = good.len() * hundredth / 100;
        if let Some(byte) = edited.get_mut(at) {
            *byte ^= 1;
        }
        let what = format!("a credential with bit 0 of byte {at} turned over");
        let reply = live.attempt(live.proxy(), By::Bearer(&URL_SAFE.encode(edited)), &draft.id).await?;
        reply.refused(&what, UNSIGNED)?;
    }
    live.untouched(&draft, "approved", "an edited credential").await?;
    Ok(format!("{} edits refused; the draft is still approved", TURNED.len()))
}

pub(super) async fn widened(ground: &Ground) -> Held {
    let live = &ground.live;
    let (draft, token) = held(ground).await?;
    let wide = token::widened(token.expose()).map_err(|error| Amiss::Unclear(format!("no block could be appended: {error}")))?;
    let reply = live.attempt(live.proxy(), By::Bearer(&wide), &draft.id).await?;
    reply.refused("a credential with a properly signed second block", &["credential_extra_blocks"])?;
    live.untouched(&draft, "approved", "a widened credential").await?;
    Ok("a properly signed second block is refused".to_owned())
}

pub(super) async fn reencoded(ground: &Ground) -> Held {
    let live = &ground.live;
    let (draft, token) = held(ground).await?;
    let good = bytes(&token)?;
    let first = live.execute(&token, &draft.id).await?;
    let copies = [
        ("a copy without padding", URL_SAFE_NO_PAD.encode(&good)),
        // Field 1023, length-delimited, empty: no reader knows it, and the signature does not cover it.
        (
            "a copy with an unknown field",
            URL_SAFE.encode([good.as_slice(), &[0xfa, 0x3f, 0x00]].concat()),
        ),
        // The last of two counts.
        (
            "a copy with its key id written twice",
            URL_SAFE.encode([&[0x08, 0x63], good.as_slice()].concat()),
        ),
    ];
    for (what, copy) in &copies {
        let again = live.attempt(live.proxy(), By::Bearer(copy), &draft.id).await?;
        let same = again.is_done() && again.text("/id") == first.text("/id");
        let refused = again.status == 401 || again.status == 403 || again.status == 409;
        if again.is_done() && !same {
            return Err(Amiss::Through(format!("{what} began another execution, {}", again.text("/id"))));
        }
        if !same && !refused {
            return Err(Amiss::Unclear(format!("{what} was answered {} {}", again.status, again.code())));
        }
    }
    once(ground, &draft, first.text("/id")).await?;
    Ok(format!(
        "{} spellings of a spent credential lead to the one execution",
        copies.len()
    ))
}

pub(super) async fn replayed(ground: &Ground) -> Held {
    let live = &ground.live;
    let (draft, token) = held(ground).await?;
    let first = live.execute(&token, &draft.id).await?;
    let other = live.approved(Which::Once).await?;
    let reply = live.attempt(live.proxy(), By::Bearer(token.expose()), &other.id).await?;
    reply.refused(
        "a spent credential, for another draft",
        &["credential_draft_mismatch", "credential_resource_mismatch"],
    )?;
    live.untouched(&other, "approved", "a spent credential").await?;
    let reply = live.exchange(&draft.id, None).await?;
    reply.refused("a second credential under a spent approval", &["draft_not_approved"])?;
    once(ground, &draft, first.text("/id")).await?;
    Ok("neither the credential nor its approval works twice".to_owned())
}

/// Holds if the draft has this execution, and it was sent once.
async fn once(ground: &Ground, draft: &Draft, execution: &str) -> Result<(), Amiss> {
    let live = &ground.live;
    let now = live.look(&draft.id).await?;
    if now.text("/execution/id") != execution {
        return Err(Amiss::Through(format!(
            "the draft's execution was {execution} and is {}",
            now.text("/execution/id")
        )));
    }
    super::effects::sent_once(ground, execution).await
}

pub(super) async fn other_draft(ground: &Ground) -> Held {
    let live = &ground.live;
    let (draft, token) = held(ground).await?;
    let other = live.approved(Which::Once).await?;
    let reply = live.attempt(live.proxy(), By::Bearer(token.expose()), &other.id).await?;
    let codes = ["credential_draft_mismatch", "credential_resource_mismatch"];
    reply.refused("a credential, at another approved draft", &codes)?;
    let url = live.at(&format!("/v1/drafts/{}/bytes", draft.id));
    let agent = By::Client(&live.settings.agent);
    let document = live
        .wire
        .call(Method::GET, &url, agent, Body::Nothing)
        .await?
        .done("the bytes of a draft")?;
    let mut edited = document.body;
    let Some(salt) = edited.pointer_mut("/salt") else {
        return Err(Amiss::Unclear("the draft's bytes hold no salt".to_owned()));
    };
    *salt = json!("AAAAAAAAAAAAAAAAAAAAAA");
    let url = format!("{}/v1/executions", live.proxy());
    let body = Body::Json(json!({ "draft": edited }));
    let reply = live.wire.call(Method::POST, &url, By::Bearer(token.expose()), body).await?;
    reply.refused("a credential, with an edited document of its draft", &["credential_draft_mismatch"])?;
    live.untouched(&draft, "approved", "an edited document").await?;
    live.untouched(&other, "approved", "a credential for another draft").await?;
    Ok("refused for another draft, and for an edited one".to_owned())
}

pub(super) async fn forged(ground: &Ground) -> Held {
    let live = &ground.live;
    let (draft, token) = held(ground).await?;
    let clock = &*live.outside.clock;
    let failed = |error: &dyn std::fmt::Display| Amiss::Unclear(format!("no forgery could be made: {error}"));
    let now = clock.now();
    let seen = token::inspect(token.expose(), With::Nothing, now).map_err(|error| failed(&error))?;
    let grant = seen.grant.ok_or_else(|| failed(&"the credential's grant cannot be read"))?;
    let dir = TempDir::new(&ground.parent, "forger", &*live.outside.entropy).map_err(|error| failed(&error))?;
    let minute = std::time::Duration::from_secs(60);
    let ring = KeyRing::generate(&dir.path().join("keys"), now, minute, &*live.outside.entropy).map_err(|error| failed(&error))?;
    let minter = ring.signing(now).map_err(|error| failed(&error))?;
    let forged = minter.mint(&grant, &*live.outside.entropy).map_err(|error| failed(&error))?;
    let reply = live.attempt(live.proxy(), By::Bearer(forged.expose()), &draft.id).await?;
    let codes = ["credential_signature_invalid", "credential_key_unknown", "credential_key_retired"];
    reply.refused("the same grant, word for word, under a forger's key", &codes)?;
    live.untouched(&draft, "approved", "a forged credential").await?;
    Ok("the same grant under another key is refused".to_owned())
}

pub(super) async fn revoked(ground: &Ground) -> Held {
    let live = &ground.live;
    let (draft, token) = held(ground).await?;
    let form = [("token", token.expose())];
    let agent = By::Client(&live.settings.agent);
    let url = live.at("/oauth2/revoke");
    live.wire
        .call(Method::POST, &url, agent, Body::Form(&form))
        .await?
        .done("the revocation of a credential")?;
    for proxy in &live.settings.proxies {
        let reply = live.attempt(proxy, By::Bearer(token.expose()), &draft.id).await?;
        reply.refused("a revoked credential", &["credential_not_live"])?;
    }
    live.untouched(&draft, "approved", "a revoked credential").await?;
    Ok("refused at every proxy from the answer on".to_owned())
}

pub(super) async fn replaced(ground: &Ground) -> Held {
    let live = &ground.live;
    let (draft, token) = held(ground).await?;
    live.credential(&draft).await?;
    let reply = live.attempt(live.proxy(), By::Bearer(token.expose()), &draft.id).await?;
    reply.refused("a credential that a newer one has replaced", &["credential_not_live"])?;
    live.untouched(&draft, "approved", "a replaced credential").await?;
    Ok("only the newest credential of a draft is good".to_owned())
}

pub(super) async fn expired(ground: &Ground) -> Held {
    let live = &ground.live;
    let signatory = live.signatory(Stands::Counts)?;
    // A record that narrows the time of its approval makes a credential that is soon over. A busy machine may need a second try.
    for seconds in [3, 10, 30] {
        let draft = live.waiting(Which::Asked).await?;
        let mut claims = live.claims(signatory, &live.card(&draft.id).await?)?;
        let until = live.outside.clock.now().seconds() + seconds;
        claims.apr.execute_by = Some(until);
        let record = live.sign(signatory, &claims)?;
        live.hand_in(&record).await?.done("the approval of a draft")?;
        let reply = live.exchange(&draft.id, None).await?;
        if reply.code() == "execution_window_over" || reply.code() == "draft_not_approved" {
            continue;
        }
        let token = Secret::new(reply.done("an exchange")?.text("/access_token").to_owned());
        // The deployment's clock may be behind this one's: it says itself when the credential is over.
        let over = async || Ok(live.outside.clock.now().seconds() > until);
        soon("the credential is over", over).await?;
        let reply = live.attempt(live.proxy(), By::Bearer(token.expose()), &draft.id).await?;
        reply.refused(
            &format!("a credential that ended at second {until}"),
            &["credential_expired", "execution_window_over"],
        )?;
        let late = live.exchange(&draft.id, None).await?;
        late.refused(
            "an exchange after the approval's time",
            &["execution_window_over", "draft_not_approved"],
        )?;
        return Ok(format!("refused after its {seconds} s, and so is a new one"));
    }
    Err(Amiss::Unclear(
        "the deployment took longer than 30 s to approve and exchange".to_owned(),
    ))
}

pub(super) async fn audience(ground: &Ground) -> Held {
    let live = &ground.live;
    let draft = live.approved(Which::Once).await?;
    let reply = live.exchange(&draft.id, Some("urn:writ:proxy:of-nobody")).await?;
    reply.refused("a credential for an audience that does not exist", &["audience_unknown"])?;
    Ok("none is issued for an unknown audience".to_owned())
}

pub(super) async fn wrong_audience(ground: &Ground) -> Held {
    let private = ground.private().await?;
    let deployment = private.deployment();
    let draft = deployment.approved(Which::Once).await?;
    let token = deployment.credential(&draft).await?;
    let reply = deployment
        .attempt(private.elsewhere(), By::Bearer(token.expose()), &draft.id)
        .await?;
    reply.refused("a credential, at a proxy of another audience", &["credential_audience_mismatch"])?;
    deployment
        .untouched(&draft, "approved", "a credential for another audience")
        .await?;
    Ok("refused at a proxy of another audience on the same store".to_owned())
}
