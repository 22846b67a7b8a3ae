//! Who may call and who may approve.

use rusqlite::{Connection, Row, named_params};

use super::failure::Failure;
use super::rows::{self, at, json, opt_at, opt_word, to_json, word};
use super::step::Step;
use crate::audit::scan::scan;
use crate::audit::{EventBody, EventKind, Note};
use crate::domain::client_certificate::ClientCertificate;
use crate::domain::digest::Digest;
use crate::domain::name::{ClientId, KeyId, PrincipalId};
use crate::domain::principal::{Approver, ApproverKey, Authority, Client, Permission};
use crate::domain::time::Timestamp;
use crate::store::Rejection;
use crate::store::record::{ApproverEntry, ClientEntry};

fn tell(step: &mut Step<'_>, note: Note, subject: &str) -> Result<(), Failure> {
    tell_content(step, note, subject, None)
}

fn tell_content(step: &mut Step<'_>, note: Note, subject: &str, content: Option<Digest>) -> Result<(), Failure> {
    let event = step.event(EventKind::Note(note));
    step.emit(EventBody {
        subject: Some(subject.to_owned()),
        content_sha256: content,
        ..event
    })
}

/// SHA-256 over everything that a client is registered with, whether it is revoked or not.
pub(super) fn client_content(entry: &ClientEntry) -> Result<Digest, Failure> {
    let mut entry = entry.clone();
    entry.client.revoked_at = None;
    Ok(Digest::of(to_json(&entry)?.as_bytes()))
}

/// SHA-256 over an approver's authority and keys, whether they are revoked or not.
pub(super) fn approver_content(entry: &ApproverEntry) -> Result<Digest, Failure> {
    let mut entry = entry.clone();
    entry.approver.revoked_at = None;
    entry.keys.iter_mut().for_each(|key| key.revoked_at = None);
    entry.keys.sort_by(|a, b| a.kid.cmp(&b.kid));
    Ok(Digest::of(to_json(&entry)?.as_bytes()))
}

/// Tells what a client is registered with now.
fn tell_client(step: &mut Step<'_>, note: Note, id: &ClientId) -> Result<(), Failure> {
    let entry = client(step.connection, id)?.ok_or(Rejection::NotFound)?;
    let event = step.event(EventKind::Note(note));
    step.emit(EventBody {
        tenant: (note == Note::ClientAdded).then(|| entry.client.tenant.clone()),
        subject: Some(id.to_string()),
        content_sha256: Some(client_content(&entry)?),
        ..event
    })
}

/// Tells what an approver is registered with now.
fn tell_approver(step: &mut Step<'_>, note: Note, id: &PrincipalId) -> Result<(), Failure> {
    let entry = approver(step.connection, id)?.ok_or(Rejection::NotFound)?;
    tell_content(step, note, id.as_str(), Some(approver_content(&entry)?))
}

/// Refuses an id that no event could name.
fn keepable(id: &impl std::fmt::Display) -> Result<(), Failure> {
    match scan(&id.to_string()) {
        Some(hit) => Err(Rejection::MustNotBeKept(hit).into()),
        None => Ok(()),
    }
}

/// Registers a client.
pub(super) fn add_client(step: &mut Step<'_>, entry: &ClientEntry) -> Result<(), Failure> {
    let client = &entry.client;
    keepable(&client.id)?;
    only_one_client_has(step, &client.id, entry.certificate.as_ref())?;
    step.insert(
        "INSERT INTO client (id, tenant, roles, owner, permissions, secret_sha256, certificate, created_at, revoked_at)
         VALUES (:id, :tenant, :roles, :owner, :permissions, :secret_sha256, :certificate, :created_at, :revoked_at)",
        &client.id,
        named_params! {
            ":id": client.id.as_str(), ":tenant": client.tenant.as_str(), ":roles": to_json(&client.roles)?,
            ":owner": client.owner.as_ref().map(|p| p.as_str()), ":permissions": to_json(&client.permissions)?,
            ":secret_sha256": entry.secret_sha256.to_string(),
            ":certificate": entry.certificate.as_ref().map(ToString::to_string), ":created_at": client.created_at.millis(),
            ":revoked_at": client.revoked_at.map(Timestamp::millis),
        },
    )?;
    tell_client(step, Note::ClientAdded, &client.id)
}

/// Replaces the secret of a client that is not revoked.
pub(super) fn replace_secret(step: &mut Step<'_>, input: &(ClientId, Digest)) -> Result<(), Failure> {
    let (client, secret) = input;
    let changed = step.change(
        "UPDATE client SET secret_sha256 = :secret WHERE id = :id AND revoked_at IS NULL",
        named_params! { ":id": client.as_str(), ":secret": secret.to_string() },
    )?;
    if changed == 0 {
        return Err(Rejection::NotFound.into());
    }
    tell_client(step, Note::ClientSecretReplaced, client)
}

/// Replaces the certificate of a client that is not revoked.
pub(super) fn replace_certificate(step: &mut Step<'_>, input: &(ClientId, Option<ClientCertificate>)) -> Result<(), Failure> {
    let (client, certificate) = input;
    only_one_client_has(step, client, certificate.as_ref())?;
    let text = certificate.as_ref().map(ToString::to_string);
    let changed = step.change(
        "UPDATE client SET certificate = :certificate WHERE id = :id AND revoked_at IS NULL",
        named_params! { ":id": client.as_str(), ":certificate": text },
    )?;
    if changed == 0 {
        return Err(Rejection::NotFound.into());
    }
    tell_client(step, Note::ClientCertificateReplaced, client)
}

/// Replaces what a client may do that is not revoked.
pub(super) fn replace_permissions(step: &mut Step<'_>, input: &(ClientId, Vec<Permission>)) -> Result<(), Failure> {
    let (client, permissions) = input;
    let text = to_json(permissions)?;
    let changed = step.change(
        "UPDATE client SET permissions = :permissions WHERE id = :id AND revoked_at IS NULL",
        named_params! { ":id": client.as_str(), ":permissions": text },
    )?;
    if changed == 0 {
        return Err(Rejection::NotFound.into());
    }
    tell_client(step, Note::ClientPermissionsReplaced, client)
}

/// A certificate that two clients had would prove neither. Also one of a revoked client stays taken.
fn only_one_client_has(step: &Step<'_>, client: &ClientId, certificate: Option<&ClientCertificate>) -> Result<(), Failure> {
    let Some(certificate) = certificate else { return Ok(()) };
    let holders = certificate_holders(step.connection, std::slice::from_ref(certificate))?;
    match holders.into_iter().find(|holder| holder != client) {
        Some(holder) => Err(Rejection::Exists(format!("the certificate of client {holder}")).into()),
        None => Ok(()),
    }
}

/// The clients that are registered with one of these certificates.
pub(super) fn certificate_holders(connection: &Connection, certificates: &[ClientCertificate]) -> Result<Vec<ClientId>, Failure> {
    let sql = "SELECT id FROM client WHERE certificate IN (SELECT value FROM json_each(?1)) ORDER BY id";
    rows::all(connection, sql, [to_json(&certificates)?], |row| word(row, "id"))
}

/// Revokes a client; one that is revoked already stays as it is.
pub(super) fn revoke_client(step: &mut Step<'_>, id: &ClientId) -> Result<(), Failure> {
    let changed = step.change(
        "UPDATE client SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL",
        named_params! { ":id": id.as_str(), ":now": step.now.millis() },
    )?;
    match changed {
        0 if client(step.connection, id)?.is_none() => Err(Rejection::NotFound.into()),
        0 => Ok(()),
        _ => tell(step, Note::ClientRevoked, id.as_str()),
    }
}

/// Registers an approver, or adds keys and authority to one that is not revoked.
pub(super) fn add_approver(step: &mut Step<'_>, entry: &ApproverEntry) -> Result<(), Failure> {
    let new = &entry.approver;
    keepable(&new.id)?;
    entry.keys.iter().try_for_each(|key| keepable(&key.kid))?;
    let known = approver(step.connection, &new.id)?;
    match &known {
        Some(old) if old.approver.revoked_at.is_some() => return Err(Rejection::Exists(format!("{} (revoked)", new.id)).into()),
        Some(old) => {
            let mut authority = old.approver.authority.clone();
            authority.extend(new.authority.iter().filter(|row| !old.approver.authority.contains(row)).cloned());
            step.change(
                "UPDATE approver SET authority = :authority WHERE id = :id",
                named_params! { ":id": new.id.as_str(), ":authority": to_json(&authority)? },
            )?;
        }
        None => step.insert(
            "INSERT INTO approver (id, authority, created_at, revoked_at) VALUES (:id, :authority, :created_at, :revoked_at)",
            &new.id,
            named_params! {
                ":id": new.id.as_str(), ":authority": to_json(&new.authority)?, ":created_at": new.created_at.millis(),
                ":revoked_at": new.revoked_at.map(Timestamp::millis),
            },
        )?,
    }
    for key in &entry.keys {
        let is_known = known.as_ref().is_some_and(|old| old.keys.contains(key));
        if !is_known {
            insert_key(step, &new.id, key)?;
        }
    }
    tell_approver(step, Note::ApproverAdded, &new.id)
}

/// Replaces the authority of an approver who is not revoked.
pub(super) fn replace_authority(step: &mut Step<'_>, input: &(PrincipalId, Vec<Authority>)) -> Result<(), Failure> {
    let (approver, authority) = input;
    let changed = step.change(
        "UPDATE approver SET authority = :authority WHERE id = :id AND revoked_at IS NULL",
        named_params! { ":id": approver.as_str(), ":authority": to_json(authority)? },
    )?;
    if changed == 0 {
        return Err(Rejection::NotFound.into());
    }
    tell_approver(step, Note::ApproverAuthorityReplaced, approver)
}

fn insert_key(step: &Step<'_>, approver: &PrincipalId, key: &ApproverKey) -> Result<(), Failure> {
    if key.approver != *approver {
        return Err(Rejection::NotFound.into());
    }
    // A key under two names could fill two places where two people must sign. Also one that was revoked stays taken.
    if let Some(holder) = key_of_public(step.connection, &key.public)? {
        return Err(Rejection::Exists(holder.kid.to_string()).into());
    }
    let kind = serde_json::to_value(key.kind)
        .ok()
        .and_then(|kind| kind.as_str().map(str::to_owned));
    step.insert(
        "INSERT INTO approver_key (kid, approver, issuer, kind, public, not_before, not_after, revoked_at)
         VALUES (:kid, :approver, :issuer, :kind, :public, :not_before, :not_after, :revoked_at)",
        &key.kid,
        named_params! {
            ":kid": key.kid.as_str(), ":approver": key.approver.as_str(), ":issuer": key.issuer, ":kind": kind, ":public": key.public,
            ":not_before": key.not_before.millis(), ":not_after": key.not_after.map(Timestamp::millis),
            ":revoked_at": key.revoked_at.map(Timestamp::millis),
        },
    )
}

/// Revokes an approver and all their keys; one that is revoked already stays as it is.
pub(super) fn revoke_approver(step: &mut Step<'_>, id: &PrincipalId) -> Result<(), Failure> {
    let now = step.now.millis();
    let changed = step.change(
        "UPDATE approver SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL",
        named_params! { ":id": id.as_str(), ":now": now },
    )?;
    if changed == 0 {
        return if approver(step.connection, id)?.is_none() {
            Err(Rejection::NotFound.into())
        } else {
            Ok(())
        };
    }
    step.change(
        "UPDATE approver_key SET revoked_at = :now WHERE approver = :id AND revoked_at IS NULL",
        named_params! { ":id": id.as_str(), ":now": now },
    )?;
    tell(step, Note::ApproverRevoked, id.as_str())
}

/// Revokes one key; one that is revoked already stays as it is.
pub(super) fn revoke_key(step: &mut Step<'_>, kid: &KeyId) -> Result<(), Failure> {
    let changed = step.change(
        "UPDATE approver_key SET revoked_at = :now WHERE kid = :kid AND revoked_at IS NULL",
        named_params! { ":kid": kid.as_str(), ":now": step.now.millis() },
    )?;
    match changed {
        0 if key(step.connection, kid)?.is_none() => Err(Rejection::NotFound.into()),
        0 => Ok(()),
        _ => tell(step, Note::ApproverKeyRevoked, kid.as_str()),
    }
}

/// A client.
pub(super) fn client(connection: &Connection, id: &ClientId) -> Result<Option<ClientEntry>, Failure> {
    rows::first(connection, "SELECT * FROM client WHERE id = ?1", [id.as_str()], client_row)
}

/// Every client.
pub(super) fn clients(connection: &Connection) -> Result<Vec<ClientEntry>, Failure> {
    rows::all(connection, "SELECT * FROM client ORDER BY id", [], client_row)
}

fn client_row(row: &Row<'_>) -> Result<ClientEntry, Failure> {
    Ok(ClientEntry {
        client: Client {
            id: word(row, "id")?,
            tenant: word(row, "tenant")?,
            roles: json(row, "roles")?,
            owner: opt_word(row, "owner")?,
            permissions: json(row, "permissions")?,
            created_at: at(row, "created_at")?,
            revoked_at: opt_at(row, "revoked_at")?,
        },
        secret_sha256: word(row, "secret_sha256")?,
        certificate: opt_word(row, "certificate")?,
    })
}

/// An approver with their keys.
pub(super) fn approver(connection: &Connection, id: &PrincipalId) -> Result<Option<ApproverEntry>, Failure> {
    let found = rows::first(connection, "SELECT * FROM approver WHERE id = ?1", [id.as_str()], approver_row)?;
    found.map(|approver| with_keys(connection, approver)).transpose()
}

/// Every approver with their keys.
pub(super) fn approvers(connection: &Connection) -> Result<Vec<ApproverEntry>, Failure> {
    let found = rows::all(connection, "SELECT * FROM approver ORDER BY id", [], approver_row)?;
    found.into_iter().map(|approver| with_keys(connection, approver)).collect()
}

fn with_keys(connection: &Connection, approver: Approver) -> Result<ApproverEntry, Failure> {
    let sql = "SELECT * FROM approver_key WHERE approver = ?1 ORDER BY kid";
    let keys = rows::all(connection, sql, [approver.id.as_str()], key_row)?;
    Ok(ApproverEntry { approver, keys })
}

fn approver_row(row: &Row<'_>) -> Result<Approver, Failure> {
    Ok(Approver {
        id: word(row, "id")?,
        authority: json(row, "authority")?,
        created_at: at(row, "created_at")?,
        revoked_at: opt_at(row, "revoked_at")?,
    })
}

/// One key.
pub(super) fn key(connection: &Connection, kid: &KeyId) -> Result<Option<ApproverKey>, Failure> {
    rows::first(connection, "SELECT * FROM approver_key WHERE kid = ?1", [kid.as_str()], key_row)
}

fn key_of_public(connection: &Connection, public: &str) -> Result<Option<ApproverKey>, Failure> {
    rows::first(connection, "SELECT * FROM approver_key WHERE public = ?1", [public], key_row)
}

fn key_row(row: &Row<'_>) -> Result<ApproverKey, Failure> {
    Ok(ApproverKey {
        kid: word(row, "kid")?,
        approver: word(row, "approver")?,
        issuer: rows::text(row, "issuer")?,
        kind: word(row, "kind")?,
        public: rows::text(row, "public")?,
        not_before: at(row, "not_before")?,
        not_after: opt_at(row, "not_after")?,
        revoked_at: opt_at(row, "revoked_at")?,
    })
}
