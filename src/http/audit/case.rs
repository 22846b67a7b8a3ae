//! What the log has of one support case: its events with their proofs, and whether any is missing.

use serde::Serialize;
use utoipa::ToSchema;

use super::events::{EventLine, HeadView};
use crate::audit::{CaseGap, CasePruned};
use crate::domain::name::CaseId;
use crate::domain::principal::Client;
use crate::http::Problem;
use crate::store::Store;
use crate::store::case::look_at_case;
use crate::store::log::{EventQuery, With};

/// How many events of a case come with it.
const MOST: u32 = 500;

/// What the log has of a case.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct CaseLog {
    /// The case's events, oldest first, at most 500.
    events: Vec<CaseEvent>,
    /// Where they do not follow each other by their own counts and hashes; none is as it should be.
    gaps: Vec<GapView>,
    /// What was pruned before the first of them, as the log says; absent if they are there from the case's first on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pruned: Vec<PrunedView>,
    /// Whether these are all that there are.
    complete: bool,
    /// Go on with `GET /v1/audit/events?case_id=…&after_seq=` this; absent if they are all.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after_seq: Option<u64>,
    /// The head by which they are proven.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<HeadView>,
}

/// An event of a case.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct CaseEvent {
    #[serde(flatten)]
    line: EventLine,
    /// The way from its leaf hash to the head's root, in base64, leaf sibling first.
    proof: Vec<String>,
}

/// A place where something is missing, or was put there.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct GapView {
    /// Before the event with this number.
    seq: u64,
    /// Which of its case's events it should be.
    expected: u64,
    /// Which it says it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<u64>,
}

/// Events that the log says were pruned; the bundle of that time has them.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct PrunedView {
    /// The last of the case's events that is gone; 0 where they were not counted yet.
    n: u64,
    /// The first event of the log that was pruned then.
    from: u64,
    /// The last.
    to: u64,
    /// When.
    at: String,
    /// The number of the event that tells of it.
    seq: u64,
    /// SHA-256 of the bundle's list of files.
    bundle_sha256: String,
}

impl From<CasePruned> for PrunedView {
    fn from(pruned: CasePruned) -> Self {
        Self {
            n: pruned.n,
            from: pruned.from,
            to: pruned.to,
            at: pruned.at,
            seq: pruned.seq,
            bundle_sha256: pruned.bundle_sha256,
        }
    }
}

impl From<CaseGap> for GapView {
    fn from(gap: CaseGap) -> Self {
        Self {
            seq: gap.seq,
            expected: gap.expected,
            found: gap.found,
        }
    }
}

impl CaseLog {
    /// Of this case, as far as the client may see it.
    pub(in crate::http) async fn read(store: &dyn Store, case: &CaseId, viewer: &Client) -> Result<Self, Problem> {
        let query = EventQuery {
            viewer: Some(viewer.tenant.clone()),
            case_id: Some(case.clone()),
            limit: MOST,
            with: With::Proofs,
            ..EventQuery::default()
        };
        let page = store.search(query.clone()).await?;
        // A case's events count within its tenant; those of no tenant count by themselves and are of no case here.
        let look = look_at_case(store, &page.events).await?;
        if let Some(gap) = look.gaps.first() {
            tracing::error!(case.id = %case, event.seq = gap.seq, "events of a case are missing from the log, or were changed: run `writ audit verify`");
        }
        let proofs = page.receipts.iter().map(|receipt| &receipt.proof);
        let events = page.events.iter().zip(proofs).map(|(event, proof)| CaseEvent {
            line: event.into(),
            proof: proof.iter().map(ToString::to_string).collect(),
        });
        Ok(Self {
            events: events.collect(),
            gaps: look.gaps.into_iter().map(GapView::from).collect(),
            pruned: look.pruned.into_iter().map(PrunedView::from).collect(),
            complete: page.complete,
            next_after_seq: page.next(&query).filter(|_| !page.complete),
            head: page.head.as_ref().map(HeadView::from),
        })
    }
}
