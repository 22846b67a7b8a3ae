//! What a prover found: one event in the log, bound to the report by its hash.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::auth::{Authenticated, note};
use super::body::Strict;
use super::{BrokerState, Code, Problem};
use crate::audit::{EventBody, EventKind, EventOutcome, Note, ProofPart};
use crate::domain::digest::Digest;
use crate::domain::principal::Role;

/// More guarantees than any prover tries.
const MOST: u32 = 10_000;

/// What came of trying what must be refused.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProofBody {
    /// SHA-256 of the report's file, in base64url.
    report_sha256: String,
    /// How many guarantees held.
    passed: u32,
    /// How many did not hold, or could not be tried to their end.
    failed: u32,
    /// In how many of the failed something went through that must be refused.
    passed_through: u32,
    /// How many there was nothing to try with.
    not_applicable: u32,
}

/// The report is in the log.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProofView {
    /// `ok`, or `failed` if any guarantee did not hold.
    outcome: &'static str,
}

impl ProofBody {
    fn read(&self) -> Result<(Digest, ProofPart), Problem> {
        let wrong = |pointer: &str, expected: &str| Problem::at(Code::JsonInvalid, pointer, expected.to_owned());
        let digest = Digest::parse(&self.report_sha256)
            .ok_or_else(|| wrong("/report_sha256", "expected the SHA-256 of the report's file, 32 bytes in base64url"))?;
        for (pointer, count) in [
            ("/passed", self.passed),
            ("/failed", self.failed),
            ("/not_applicable", self.not_applicable),
        ] {
            if count > MOST {
                return Err(wrong(pointer, "expected at most 10000"));
            }
        }
        if self.passed_through > self.failed {
            return Err(wrong("/passed_through", "is more than `failed`, of which it is a part"));
        }
        let part = ProofPart {
            passed: self.passed,
            failed: self.failed,
            passed_through: self.passed_through,
            not_applicable: self.not_applicable,
        };
        Ok((digest, part))
    }
}

/// Report what a prover found. The report itself stays with the prover; the event holds its hash and its counts.
#[utoipa::path(
    post, path = "/v1/proofs", operation_id = "report_proof", tag = "audit", security(("client" = [])),
    request_body = ProofBody,
    responses(
        (status = 201, description = "the report is in the log", body = ProofView),
    )
)]
pub(super) async fn report(
    State(state): State<BrokerState>,
    auth: Authenticated,
    body: Result<Strict<ProofBody>, Problem>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::Prover]).await?;
    let (report, proof) = body?.value.read()?;
    let outcome = if proof.failed == 0 {
        EventOutcome::Ok
    } else {
        tracing::error!(
            client = %caller.client.id, report = %report, failed = proof.failed, passed_through = proof.passed_through,
            "a prover reports that guarantees do not hold here"
        );
        EventOutcome::Failed
    };
    let event = EventBody {
        outcome,
        tenant: Some(caller.client.tenant.clone()),
        request_id: Some(caller.request),
        proof: Some(proof),
        content_sha256: Some(report),
        ..EventBody::new(EventKind::Note(Note::ProofReported), caller.actor())
    };
    note(&state.common, Some(caller.request), event).await?;
    let view = ProofView { outcome: outcome.as_str() };
    Ok((StatusCode::CREATED, axum::Json(view)).into_response())
}
