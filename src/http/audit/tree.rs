//! The tree over the log: its signed head, proofs, and the hashes it is made of (C2SP tlog-tiles). None of it says what any event holds.

use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::SemaphorePermit;
use utoipa::{IntoParams, ToSchema};

use super::reads;
use crate::audit::Receipt;
use crate::audit::tree::Hash;
use crate::domain::principal::Role;
use crate::http::auth::Authenticated;
use crate::http::body::Params;
use crate::http::{BrokerState, Code, Common, Problem};
use crate::store::log::Tile;

/// A place among those who look at the tree and say nothing of who they are.
fn look(common: &Common) -> Result<SemaphorePermit<'_>, Problem> {
    let place = common.audit.looks.try_acquire();
    place.map_err(|_| Problem::new(Code::Overloaded, "too many look at the log's head at once; try again"))
}

fn not_found() -> Problem {
    Problem::new(
        Code::NotFound,
        "the log is not of that size, or has no such event; GET /v1/audit/checkpoint says how large it is",
    )
}

fn texts(proof: &[Hash]) -> Vec<String> {
    proof.iter().map(ToString::to_string).collect()
}

/// The log's latest signed checkpoint (C2SP tlog-checkpoint). Whoever keeps it can later tell whether history was rewritten.
#[utoipa::path(
    get, path = "/v1/audit/checkpoint", operation_id = "show_checkpoint", tag = "audit",
    responses(
        (status = 200, description = "the checkpoint, a signed note", body = String, content_type = "text/plain"),
    )
)]
pub(in crate::http) async fn checkpoint(State(state): State<BrokerState>) -> Result<Response, Problem> {
    let _place = look(&state.common)?;
    let head = state.common.store.head().await?.ok_or_else(not_found)?;
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    Ok((headers, head.text().to_owned()).into_response())
}

/// Which sizes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ConsistencyQuery {
    /// The size of the checkpoint that you have.
    old: u64,
    /// The size of the one that you compare with; that of the latest if not given.
    new: Option<u64>,
}

/// That the log only grew.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct ConsistencyView {
    /// The smaller size.
    old: u64,
    /// The larger size.
    new: u64,
    /// The hashes, in base64 (RFC 6962 section 2.1.2); none if the sizes are the same, or the smaller is 0.
    proof: Vec<String>,
}

/// The proof that the log of one checkpoint begins with that of an older one.
#[utoipa::path(
    get, path = "/v1/audit/consistency", operation_id = "prove_consistency", tag = "audit", params(ConsistencyQuery),
    responses(
        (status = 200, description = "the proof", body = ConsistencyView),
    )
)]
pub(in crate::http) async fn consistency(
    State(state): State<BrokerState>,
    Params(query): Params<ConsistencyQuery>,
) -> Result<Response, Problem> {
    let _place = look(&state.common)?;
    let found = state.common.store.consistency(query.old, query.new).await?.ok_or_else(not_found)?;
    Ok(axum::Json(ConsistencyView {
        old: found.old,
        new: found.new,
        proof: texts(&found.proof),
    })
    .into_response())
}

/// Which event, and in which log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct ProofQuery {
    /// The event's number.
    seq: u64,
    /// The size of the checkpoint against which it is proven; that of the latest if not given.
    size: Option<u64>,
}

/// That an event is in the log.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct ProofView {
    /// The event's number.
    seq: u64,
    /// The size of the log it is proven in.
    size: u64,
    /// SHA-256 over a zero byte and the event's exact bytes, in hexadecimal.
    leaf_hash: String,
    /// The hashes, in base64, leaf sibling first (RFC 6962 section 2.1.1).
    proof: Vec<String>,
    /// The same with the signed checkpoint of that size, as the text of a `.tlog-proof` file; absent if that checkpoint is not kept here.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
}

/// The proof that an event is in the log.
#[utoipa::path(
    get, path = "/v1/audit/proof", operation_id = "prove_inclusion", tag = "audit", security(("client" = [])), params(ProofQuery),
    responses(
        (status = 200, description = "the proof", body = ProofView),
    )
)]
pub(in crate::http) async fn proof(
    State(state): State<BrokerState>,
    auth: Authenticated,
    uri: Uri,
    Params(query): Params<ProofQuery>,
) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::Auditor]).await?;
    reads::record(&state.common, &caller, "proofs", uri.query().unwrap_or_default()).await?;
    let found = state.common.store.inclusion(query.seq, query.size).await?.ok_or_else(not_found)?;
    let proof = texts(&found.proof);
    let receipt = found.head.map(|head| Receipt {
        index: query.seq,
        proof: found.proof,
        head,
    });
    Ok(axum::Json(ProofView {
        seq: query.seq,
        size: found.size,
        leaf_hash: hex(&found.leaf),
        proof,
        receipt: receipt.map(|receipt| receipt.text()),
    })
    .into_response())
}

/// Some of the tree's hashes, 32 bytes each. Full tiles never change. What the events hold is not served so: `writ audit export` has it.
#[utoipa::path(
    get, path = "/v1/audit/tile/{level}/{index}", operation_id = "show_tile", tag = "audit", security(("client" = [])),
    params(
        ("level" = String, Path, description = "the level, 0 to 7"),
        ("index" = String, Path, description = "the rest of the path as C2SP tlog-tiles has it, slashes included: `067`, `x001/x234/067`, `067.p/112`"),
    ),
    responses(
        (status = 200, description = "the hashes", body = Vec<u8>, content_type = "application/octet-stream"),
    )
)]
pub(in crate::http) async fn tile(State(state): State<BrokerState>, auth: Authenticated, uri: Uri) -> Result<Response, Problem> {
    let caller = auth.with_role(&[Role::Auditor]).await?;
    let tile = uri
        .path()
        .strip_prefix("/v1/audit/tile/")
        .and_then(parse_tile)
        .ok_or_else(not_found)?;
    reads::record(&state.common, &caller, "tiles", uri.path()).await?;
    let hashes = state.common.store.tile(tile).await?.ok_or_else(not_found)?;
    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.0).collect();
    let cache = if tile.width == Tile::FULL {
        "private, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let headers = [(header::CONTENT_TYPE, "application/octet-stream"), (header::CACHE_CONTROL, cache)];
    Ok((headers, bytes).into_response())
}

/// `<level>/<index>[.p/<width>]`, the index in groups of three digits, all but the last with an `x` before them.
fn parse_tile(path: &str) -> Option<Tile> {
    let (level, rest) = path.split_once('/')?;
    let level = plain(level)?.try_into().ok()?;
    let (index, width) = match rest.split_once(".p/") {
        None => (rest, Tile::FULL),
        Some((index, width)) => (index, plain(width)?.try_into().ok().filter(|width| *width < Tile::FULL)?),
    };
    let mut groups = index.split('/').rev();
    let last = groups.next()?;
    let groups: Vec<&str> = groups.map(|group| group.strip_prefix('x')).collect::<Option<_>>()?;
    let mut number: u64 = 0;
    for (place, group) in groups.into_iter().rev().chain([last]).enumerate() {
        let digits = group.len() == 3 && group.bytes().all(|b| b.is_ascii_digit());
        // One number, one path: no leading group of zeros.
        let is_padded = place == 0 && group == "000" && last != group;
        if !digits || is_padded {
            return None;
        }
        number = number.checked_mul(1000)?.checked_add(group.parse().ok()?)?;
    }
    (width > 0).then_some(Tile {
        level,
        index: number,
        width,
    })
}

/// A number in decimal digits without a leading zero.
fn plain(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// A hash in hexadecimal.
pub(in crate::http) fn hex(hash: &Hash) -> String {
    hash.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(level: u8, index: u64, width: u16) -> Option<Tile> {
        Some(Tile { level, index, width })
    }

    #[test]
    fn a_tile_has_one_path_and_every_other_is_none() {
        assert_eq!(parse_tile("0/000"), tile(0, 0, 256));
        assert_eq!(parse_tile("1/067.p/112"), tile(1, 67, 112));
        assert_eq!(parse_tile("0/x001/x234/067"), tile(0, 1_234_067, 256));
        assert_eq!(parse_tile("0/x001/000.p/1"), tile(0, 1_000, 1));
        for wrong in [
            "",
            "0",
            "0/",
            "0/67",
            "0/0067",
            "0/x000/067",
            "0/x000/000",
            "0/001/067",
            "00/067",
            "+0/067",
            "0/x067",
            "0/067.p/0",
            "0/067.p/256",
            "0/067.p/01",
            "0/067.p/",
            "0/067/",
            "0/+67",
            "entries/000",
            "0/x001/x234/067.p/1/2",
            "0/x999/x999/x999/x999/x999/x999/999",
            "256/000",
        ] {
            assert_eq!(parse_tile(wrong), None, "{wrong}");
        }
    }
}
