//! The protected header: exactly `typ`, `alg` and `kid`.

use serde::Deserialize;

use crate::domain::json::{Json, JsonError};
use crate::domain::name::KeyId;
use crate::domain::principal::KeyKind;

use super::{RECORD_TYPE, RecordError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Es256,
    /// `Ed25519` (RFC 9864) and its older name `EdDSA` mean the same signature.
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

#[derive(Debug)]
pub(super) struct Header {
    pub(super) algorithm: Algorithm,
    pub(super) kid: KeyId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Members {
    typ: String,
    alg: String,
    kid: KeyId,
}

impl Header {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, RecordError> {
        let json = Json::parse(bytes).map_err(RecordError::HeaderMalformed)?;
        let Json::Object(members) = &json else {
            return Err(RecordError::HeaderMalformed(JsonError {
                pointer: String::new(),
                reason: "not an object".to_owned(),
            }));
        };
        members.keys().try_for_each(|name| admit(name))?;
        let Members { typ, alg, kid } = json.decode().map_err(RecordError::HeaderMalformed)?;
        if typ != RECORD_TYPE {
            return Err(RecordError::TypeRefused);
        }
        let algorithm = match alg.as_str() {
            "ES256" => Algorithm::Es256,
            "Ed25519" | "EdDSA" => Algorithm::Ed25519,
            _ if alg.eq_ignore_ascii_case("none") => return Err(RecordError::AlgorithmNone),
            _ => return Err(RecordError::AlgorithmRefused),
        };
        Ok(Self { algorithm, kid })
    }
}

/// Names the members that verifiers have been fooled with, so that whoever signs learns what to leave out.
fn admit(name: &str) -> Result<(), RecordError> {
    match name {
        "typ" | "alg" | "kid" => Ok(()),
        "crit" => Err(RecordError::HeaderCritical),
        "b64" => Err(RecordError::HeaderUnencoded),
        "jwk" | "jku" | "x5u" | "x5c" | "x5t" | "x5t#S256" => Err(RecordError::HeaderEmbedsKey { name: name.to_owned() }),
        _ => Err(RecordError::HeaderUnknownMember {
            name: name.chars().take(80).collect(),
        }),
    }
}
