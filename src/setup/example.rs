//! The example's people and programs: enough to try everything, to be replaced by one's own.

use std::path::Path;
use std::time::Duration;

use super::{LOCAL_ISSUER, write};
use crate::app;
use crate::approval::RecordSigner;
use crate::backend::Backends;
use crate::config::{self, Config};
use crate::domain::name::{KeyId, PrincipalId};
use crate::domain::operation::Stage;
use crate::domain::principal::{Approver, ApproverKey, Authority, Client, KeyKind, Limit, OperationPattern, Permission, Role};
use crate::domain::time::Timestamp;
use crate::store::record::ApproverEntry;

/// The policy's own approver: its key signs what a rule allows.
pub(super) fn policy_approver(config: &Config, now: Timestamp) -> Result<ApproverEntry, String> {
    let made = RecordSigner::generate(KeyKind::Ed25519).map_err(|error| error.to_string())?;
    write(&config.keys.join(config::POLICY_KEY), made.private_pem.expose(), 0o600)?;
    let id = config.policy_approver.clone();
    let key = ApproverKey {
        kid: app::policy_key_id(&id)?,
        approver: id.clone(),
        issuer: config.audience.as_str().to_owned(),
        kind: KeyKind::Ed25519,
        public: made.public,
        not_before: now.minus(Duration::from_secs(5)),
        not_after: None,
        revoked_at: None,
    };
    Ok(ApproverEntry {
        approver: Approver {
            id,
            authority: Vec::new(),
            created_at: now,
            revoked_at: None,
        },
        keys: vec![key],
    })
}

/// An approver of the example: who, for which operations, in which queue, up to how much of the major currencies.
pub(super) struct Example {
    pub(super) id: &'static str,
    operations: &'static str,
    queue: &'static str,
    limits: &'static [(&'static str, i64)],
}

pub(super) const EXAMPLES: &[Example] = &[
    Example {
        id: "usr_mia",
        operations: "refund.*",
        queue: "finance.refunds",
        limits: &[("usd", 500_000), ("eur", 500_000), ("gbp", 400_000), ("jpy", 750_000)],
    },
    Example {
        id: "usr_tom",
        operations: "refund.*",
        queue: "finance.refunds",
        limits: &[("usd", 150_000), ("eur", 150_000)],
    },
    Example {
        id: "usr_ann",
        operations: "refund.*",
        queue: "finance.refunds",
        limits: &[("usd", 500_000)],
    },
    Example {
        id: "usr_ada",
        operations: "email.*",
        queue: "account.admins",
        limits: &[],
    },
];

pub(super) fn example_approver(example: &Example, path: &Path, now: Timestamp) -> Result<ApproverEntry, String> {
    let name = |error: crate::domain::name::NameError| error.to_string();
    let id: PrincipalId = example.id.parse().map_err(name)?;
    let made = RecordSigner::generate(KeyKind::Es256).map_err(|error| error.to_string())?;
    write(path, made.private_pem.expose(), 0o600)?;
    let kid: KeyId = format!("{id}-1").parse().map_err(name)?;
    let operations: OperationPattern = example.operations.parse().map_err(name)?;
    let queue: crate::domain::name::QueueName = example.queue.parse().map_err(name)?;
    let row = |limit: Option<Limit>| -> Result<Authority, String> {
        Ok(Authority {
            operations: operations.clone(),
            queue: queue.clone(),
            limit,
            valid_from: now,
            valid_to: None,
            granted_by: "usr_init".parse().map_err(name)?,
        })
    };
    let mut authority = Vec::new();
    for (currency, max_minor) in example.limits {
        let currency = currency
            .parse()
            .map_err(|error: crate::domain::money::CurrencyError| error.to_string())?;
        authority.push(row(Some(Limit {
            max_minor: *max_minor,
            currency,
        }))?);
    }
    if authority.is_empty() {
        authority.push(row(None)?);
    }
    let key = ApproverKey {
        kid,
        approver: id.clone(),
        issuer: LOCAL_ISSUER.to_owned(),
        kind: KeyKind::Es256,
        public: made.public,
        not_before: now.minus(Duration::from_secs(5)),
        not_after: None,
        revoked_at: None,
    };
    Ok(ApproverEntry {
        approver: Approver {
            id,
            authority,
            created_at: now,
            revoked_at: None,
        },
        keys: vec![key],
    })
}

/// The example's programs; the agent may do what the backends declare and nothing else.
pub(super) fn example_clients(backends: &Backends, now: Timestamp) -> Result<Vec<Client>, String> {
    let name = |error: crate::domain::name::NameError| error.to_string();
    let owner: PrincipalId = "usr_ann".parse().map_err(name)?;
    let (read, write) = (&[Stage::Read][..], &[Stage::Draft, Stage::Execute][..]);
    let all = [
        ("order.read", read),
        ("charge.read", read),
        ("customer.read", read),
        ("refund.create", write),
        ("shipping_address.update", write),
        ("email.update", write),
    ];
    let mut permissions = Vec::new();
    for (operation, stages) in all {
        if backends.operation(&operation.parse().map_err(name)?).is_some() {
            permissions.push(Permission {
                operations: operation.parse().map_err(name)?,
                stages: stages.iter().copied().collect(),
            });
        }
    }
    let rows = [
        ("support-agent", &[Role::Orchestrator][..], Some(owner), permissions),
        ("review-desk", &[Role::ApprovalService], None, Vec::new()),
        ("security", &[Role::Auditor, Role::Security], None, Vec::new()),
        ("operations", &[Role::Operator], None, Vec::new()),
    ];
    rows.into_iter()
        .map(|(id, roles, owner, permissions)| {
            Ok(Client {
                id: id.parse().map_err(name)?,
                tenant: "main".parse().map_err(name)?,
                roles: roles.iter().copied().collect(),
                owner,
                permissions,
                created_at: now,
                revoked_at: None,
            })
        })
        .collect()
}
