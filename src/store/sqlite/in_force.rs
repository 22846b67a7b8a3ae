//! Which policy decides: told once for each change, not at every start.

use super::failure::Failure;
use super::rows;
use super::step::Step;
use crate::audit::{EventBody, EventKind, Note};
use crate::domain::digest::Digest;
use crate::domain::policy::PolicyRef;

/// `policy.activated`, unless the log names this policy last. Gives whether it was told.
pub(super) fn activate(step: &mut Step<'_>, policy: &PolicyRef) -> Result<bool, Failure> {
    let last = rows::first(
        step.connection,
        "SELECT json_extract(body, '$.activated.sha256') AS rules, json_extract(body, '$.activated.limits_sha256') AS limits
         FROM event WHERE type = ?1 ORDER BY seq DESC LIMIT 1",
        [Note::PolicyActivated.as_str()],
        |row| Ok((rows::opt_word::<Digest>(row, "rules")?, rows::opt_word::<Digest>(row, "limits")?)),
    )?;
    if last == Some((Some(policy.sha256), Some(policy.limits_sha256))) {
        return Ok(false);
    }
    let event = step.event(EventKind::Note(Note::PolicyActivated));
    step.emit(EventBody {
        activated: Some(policy.clone()),
        ..event
    })?;
    Ok(true)
}
