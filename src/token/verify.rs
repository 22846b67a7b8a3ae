//! Verifying: the proxy's side, offline, with public keys only.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use biscuit_auth::builder::{Fact, Rule};
use biscuit_auth::macros::{authorizer, rule};
use biscuit_auth::{AuthorizerBuilder, AuthorizerLimits, Biscuit, UnverifiedBiscuit, error};

use crate::domain::name::Audience;
use crate::domain::time::Timestamp;

use super::facts::{RequestFacts, date, fact, read_grant, request_fact};
use super::grant::Grant;
use super::key_set::{KeySet, RootKeyId};
use super::{CLOCK_SKEW, CONTEXT, MAX_LIFETIME, MAX_TOKEN_CHARS, TokenError};

/// Verifies credentials for one audience. The key set can be replaced while it is in use.
pub struct Verifier {
    keys: RwLock<Arc<KeySet>>,
    audience: Audience,
    /// Parsed once, cloned for each token; holds no facts, above all no time.
    template: AuthorizerBuilder,
    /// Parsed once: reads the grant out of the signed block and no other.
    read_out: Rule,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("audience", &self.audience)
            .field("keys", &self.keys())
            .finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier for `audience` that knows `keys`.
    #[must_use]
    pub fn new(keys: KeySet, audience: Audience) -> Self {
        Self {
            keys: RwLock::new(Arc::new(keys)),
            audience,
            template: template(),
            read_out: read_out(),
        }
    }

    /// The keys in use.
    #[must_use]
    pub fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other keys in their place, from the next token on.
    pub fn replace_keys(&self, keys: KeySet) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Whom this verifier takes credentials for.
    #[must_use]
    pub const fn audience(&self) -> &Audience {
        &self.audience
    }

    /// Reads a token up to its signature. Junk is refused before any curve arithmetic, and before any Datalog of a stranger runs.
    ///
    /// # Errors
    /// [`TokenError`]; only [`TokenError::BudgetExhausted`] is worth another try.
    pub fn read(&self, token: &str, now: Timestamp) -> Result<SignedCredential, TokenError> {
        let keys = self.keys();
        guarded(|| {
            let (unverified, kid) = unsigned(token)?;
            let (kid, key) = keys.verifying(kid, now)?;
            let biscuit = unverified.verify(key.inner()).map_err(|_| TokenError::SignatureInvalid(kid))?;
            self.signed(biscuit, kid)
        })
    }

    fn signed(&self, biscuit: Biscuit, kid: RootKeyId) -> Result<SignedCredential, TokenError> {
        if biscuit.context() != [Some(CONTEXT.to_owned())] {
            return Err(TokenError::ContextWrong);
        }
        if biscuit.container().proof.is_sealed() {
            return Err(TokenError::Sealed);
        }
        let mut reader = AuthorizerBuilder::new().set_limits(limits()).build(&biscuit).map_err(refusal)?;
        let facts: Vec<Fact> = reader.query(self.read_out.clone()).map_err(refusal)?;
        let [fact] = facts.as_slice() else {
            return Err(TokenError::GrantMalformed);
        };
        let grant = read_grant(fact).ok_or(TokenError::GrantMalformed)?;
        Ok(SignedCredential { biscuit, grant, kid })
    }

    /// Decides whether a signed credential covers the request, twice over: by comparing its grant here, for a reason that can be told, and by the
    /// Datalog of the token and of this verifier. Both must agree.
    ///
    /// # Errors
    /// [`TokenError`]; only [`TokenError::BudgetExhausted`] is worth another try.
    pub fn authorize(
        &self,
        credential: SignedCredential,
        request: &RequestFacts,
        now: Timestamp,
    ) -> Result<VerifiedCredential, TokenError> {
        let SignedCredential { biscuit, grant, kid } = credential;
        self.compare(&grant, request, now)?;
        guarded(|| {
            let moment = |at| date(at).ok_or(TokenError::NotYetValid);
            let facts = [
                request_fact(request, &self.audience),
                fact("time", vec![moment(now)?]),
                fact("latest", vec![moment(latest(now))?]),
            ];
            let mut builder = self.template.clone().set_limits(limits());
            for fact in facts {
                builder = builder.fact(fact).map_err(refusal)?;
            }
            let mut authorizer = builder.build(&biscuit).map_err(refusal)?;
            // The policy at index 0 is the only one; anything else that is called success is not.
            if authorizer.authorize().map_err(refusal)? == 0 {
                Ok(())
            } else {
                Err(TokenError::ChecksFailed)
            }
        })?;
        Ok(VerifiedCredential { grant, kid })
    }

    fn compare(&self, grant: &Grant, request: &RequestFacts, now: Timestamp) -> Result<(), TokenError> {
        if grant.audience != self.audience {
            return Err(TokenError::AudienceMismatch);
        }
        if now < grant.not_before {
            return Err(TokenError::NotYetValid);
        }
        if now >= grant.expires_at {
            return Err(TokenError::Expired);
        }
        if grant.expires_at > latest(now) {
            return Err(TokenError::LifetimeTooLong);
        }
        if grant.operation != request.operation {
            return Err(TokenError::OperationMismatch);
        }
        if grant.resource.tenant != request.resource.tenant {
            return Err(TokenError::TenantMismatch);
        }
        if grant.resource != request.resource {
            return Err(TokenError::ResourceMismatch);
        }
        if grant.draft_hash != request.draft_hash {
            return Err(TokenError::DraftMismatch);
        }
        Ok(())
    }
}

/// The latest end that a credential seen at `now` can have.
fn latest(now: Timestamp) -> Timestamp {
    now.plus(MAX_LIFETIME).plus(CLOCK_SKEW)
}

/// A credential whose signature is right. What it says can be believed; whether it covers a request is still open.
pub struct SignedCredential {
    biscuit: Biscuit,
    grant: Grant,
    kid: RootKeyId,
}

impl SignedCredential {
    /// What it grants.
    #[must_use]
    pub const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The root key that signed it.
    #[must_use]
    pub const fn kid(&self) -> RootKeyId {
        self.kid
    }
}

impl fmt::Debug for SignedCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignedCredential")
            .field("grant", &self.grant)
            .field("kid", &self.kid)
            .finish_non_exhaustive()
    }
}

/// A credential that covers the request it was checked against. Only [`Verifier::authorize`] makes one; it has not been spent yet.
#[derive(Debug)]
pub struct VerifiedCredential {
    grant: Grant,
    kid: RootKeyId,
}

impl VerifiedCredential {
    /// What it grants.
    #[must_use]
    pub const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The root key that signed it.
    #[must_use]
    pub const fn kid(&self) -> RootKeyId {
        self.kid
    }
}

/// A token of one block, and the key id it names; nothing of it is signed yet.
pub(super) fn unsigned(token: &str) -> Result<(UnverifiedBiscuit, Option<u32>), TokenError> {
    if token.is_empty() {
        return Err(TokenError::Empty);
    }
    if token.len() > MAX_TOKEN_CHARS {
        return Err(TokenError::TooLong);
    }
    let unverified = UnverifiedBiscuit::from_base64(token).map_err(|error| match error {
        error::Token::Base64(_) => TokenError::NotBase64,
        _ => TokenError::Malformed,
    })?;
    // The library looks at its clock only between rules: one appended block can burn seconds under a limit of milliseconds.
    if unverified.block_count() != 1 {
        return Err(TokenError::ExtraBlocks);
    }
    if !is_spelled_out(&unverified, token) {
        return Err(TokenError::Malformed);
    }
    let kid = unverified.root_key_id();
    Ok((unverified, kid))
}

/// Whether the bytes are the one way to write this token: no member twice, none that nobody knows, no other order. The signature is not over any
/// of that.
pub(super) fn is_spelled_out(unverified: &UnverifiedBiscuit, token: &str) -> bool {
    let bare = |text: &str| text.trim_end_matches('=').to_owned();
    unverified.to_base64().is_ok_and(|spelled| bare(&spelled) == bare(token))
}

/// A panic of the library over somebody's token must not take the request's thread with it.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, TokenError>) -> Result<T, TokenError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(TokenError::VerifierFailed))
}

/// Every error of the library is a refusal, except running out of the budget that we set. Its text quotes the token and stays here.
fn refusal(error: error::Token) -> TokenError {
    match error {
        error::Token::RunLimit(_) => TokenError::BudgetExhausted,
        _ => TokenError::ChecksFailed,
    }
}

/// The library's default of one millisecond fails one check in five hundred on a busy machine; this is a backstop, not a schedule.
fn limits() -> AuthorizerLimits {
    AuthorizerLimits {
        max_facts: 64,
        max_iterations: 8,
        max_time: Duration::from_millis(250),
    }
}

fn template() -> AuthorizerBuilder {
    authorizer!(
        "check if grant($o, $r, $d, $a, $c, $j, $n, $e), latest($l), $e <= $l;
         allow if grant($o, $r, $d, $a, $c, $j, $n, $e), request($o, $r, $d, $a);"
    )
}

fn read_out() -> Rule {
    rule!("read_out($o, $r, $d, $a, $c, $j, $n, $e) <- grant($o, $r, $d, $a, $c, $j, $n, $e)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_library_is_a_refusal() {
        let answer: Result<(), TokenError> = guarded(|| panic!("a test of what happens when the library panics"));
        assert_eq!(answer, Err(TokenError::VerifierFailed));
        assert!(!TokenError::VerifierFailed.is_ours());
    }
}
