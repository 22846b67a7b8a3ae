//! Arguments of one word, and the words that several answers share.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::ValueEnum;

use crate::domain::lifecycle::DraftState;
use crate::domain::money::Currency;
use crate::domain::operation::Stage;
use crate::domain::principal::{Authority, KeyKind, OperationPattern, Permission, Role};
use crate::domain::time::Timestamp;
use crate::settings::duration;

/// The algorithm of an approver's key.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Algorithm {
    /// ECDSA on P-256.
    #[value(name = "ES256")]
    Es256,
    /// Ed25519.
    #[value(name = "Ed25519")]
    Ed25519,
}

impl Algorithm {
    pub(super) const fn kind(self) -> KeyKind {
        match self {
            Self::Es256 => KeyKind::Es256,
            Self::Ed25519 => KeyKind::Ed25519,
        }
    }
}

const ROLES: [Role; 7] = [
    Role::Orchestrator,
    Role::ApprovalService,
    Role::Proxy,
    Role::Auditor,
    Role::Operator,
    Role::Security,
    Role::Prover,
];

/// A role by its word.
pub(super) fn role(text: &str) -> Result<Role, String> {
    let known = ROLES.map(Role::as_str).join(", ");
    let found = ROLES.into_iter().find(|role| role.as_str() == text);
    found.ok_or_else(|| format!("expected one of {known}"))
}

/// A draft's state by its word.
pub(super) fn draft_state(text: &str) -> Result<DraftState, String> {
    let known: Vec<&str> = DraftState::ALL.iter().map(|state| state.as_str()).collect();
    DraftState::parse(text).ok_or_else(|| format!("expected one of {}", known.join(", ")))
}

const STAGES: [(&str, Stage); 3] = [("read", Stage::Read), ("draft", Stage::Draft), ("execute", Stage::Execute)];

/// `OPERATION:stage,stage`, such as `refund.*:draft,execute`.
pub(super) fn permission(text: &str) -> Result<Permission, String> {
    const EXPECTED: &str = "expected OPERATION:STAGE,STAGE such as `refund.*:draft,execute`; the stages are read, draft and execute";
    let (operations, stages) = text.split_once(':').ok_or(EXPECTED)?;
    let stage = |word: &str| STAGES.iter().find(|(name, _)| *name == word).map(|(_, stage)| *stage);
    let stages: Option<BTreeSet<Stage>> = stages.split(',').map(stage).collect();
    Ok(Permission {
        operations: operations
            .parse()
            .map_err(|error: crate::domain::name::NameError| error.to_string())?,
        stages: stages.ok_or(EXPECTED)?,
    })
}

/// What an approver is to be allowed, without the times and the grantor.
#[derive(Clone)]
pub(super) struct AuthorityArg {
    pub(super) operations: OperationPattern,
    pub(super) queue: crate::domain::name::QueueName,
    pub(super) limit: Option<crate::domain::principal::Limit>,
}

/// `OPERATION:QUEUE` or `OPERATION:QUEUE:CURRENCY:MAX_MINOR`, such as `refund.*:finance.refunds:usd:500000`.
pub(super) fn authority(text: &str) -> Result<AuthorityArg, String> {
    const EXPECTED: &str = "expected OPERATION:QUEUE or OPERATION:QUEUE:CURRENCY:MAX_MINOR such as `refund.*:finance.refunds:usd:500000`";
    let name = |error: crate::domain::name::NameError| error.to_string();
    let parts: Vec<&str> = text.split(':').collect();
    let (operations, queue, limit) = match parts.as_slice() {
        [operations, queue] => (*operations, *queue, None),
        [operations, queue, currency, max] => {
            let currency: Currency = currency
                .parse()
                .map_err(|error: crate::domain::money::CurrencyError| error.to_string())?;
            let max_minor = max.parse::<i64>().ok().filter(|max| *max > 0).ok_or(EXPECTED)?;
            (*operations, *queue, Some(crate::domain::principal::Limit { max_minor, currency }))
        }
        _ => return Err(EXPECTED.to_owned()),
    };
    Ok(AuthorityArg {
        operations: operations.parse().map_err(name)?,
        queue: queue.parse().map_err(name)?,
        limit,
    })
}

/// A moment in RFC 3339, such as `2026-12-31T23:59:59Z`.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "expected a moment in RFC 3339 such as `2026-12-31T23:59:59Z`".to_owned())
}

/// A length of time, such as `30m` or `2h`.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    let span = duration(text).filter(|span| !span.is_zero());
    span.ok_or_else(|| "expected a whole number and a unit such as `90s`, `30m`, `2h` or `1d`".to_owned())
}

/// The words of roles.
pub(super) fn roles(roles: &BTreeSet<Role>) -> Vec<&'static str> {
    roles.iter().map(|role| role.as_str()).collect()
}

/// Permissions as they are given.
pub(super) fn permissions(permissions: &[Permission]) -> Vec<String> {
    let stages = |row: &Permission| {
        let words = STAGES.iter().filter(|(_, stage)| row.stages.contains(stage)).map(|(word, _)| *word);
        words.collect::<Vec<_>>().join(",")
    };
    permissions
        .iter()
        .map(|row| format!("{}:{}", row.operations, stages(row)))
        .collect()
}

/// Authority as it is given, without its dates.
pub(super) fn authority_words(row: &Authority) -> String {
    let limit = row.limit.map(|l| format!(":{}:{}", l.currency, l.max_minor)).unwrap_or_default();
    format!("{}:{}{limit}", row.operations, row.queue)
}
