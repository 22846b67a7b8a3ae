//! From checked parameters to the exact outgoing request, byte for byte the same every time.

use super::facts::Facts;
use super::operation::{Body, Checked, Encoding, Operation};
use super::template::{Context, Reference, plain_text};
use crate::domain::digest::Digest;
use crate::domain::draft::{CompiledRequest, KEY_PLACEHOLDER};
use crate::domain::id::DraftId;
use crate::domain::json::Json;

/// The request cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The operation only looks.
    #[error("the operation only looks and sends nothing: use it as a read")]
    Read,
    /// A hole of the path stays open or would be read as another path.
    #[error("the path cannot be written with these parameters: check the ids for `.` and `..`")]
    Path,
    /// A header's value is missing or unfit.
    #[error("the header `{0}` cannot be written: the backend's fact for it is missing or not visible ASCII")]
    Header(String),
    /// The key's placeholder stands somewhere else as well.
    #[error(
        "the body holds the text that marks the idempotency key's place in {found} places instead of {meant}: a fact or parameter contains it"
    )]
    Placeholder {
        /// How often it stands in the body.
        found: usize,
        /// How often the file puts it there.
        meant: usize,
    },
}

impl Operation {
    /// The exact request for a draft.
    ///
    /// # Errors
    /// [`CompileError`] if a place of it cannot be filled.
    pub fn compile(&self, draft: &DraftId, checked: &Checked, facts: &Facts) -> Result<CompiledRequest, CompileError> {
        let request = &self.write().ok_or(CompileError::Read)?.request;
        let context = Context {
            params: Some(checked.params()),
            facts: Some(&facts.json),
            draft: Some(draft),
            key: Some(KEY_PLACEHOLDER),
            version: facts.resource_version.as_deref(),
            exponent: self.exponent_of(checked.amount()),
            found: None,
        };
        let path = request.path.render(&context).ok_or(CompileError::Path)?;
        let mut headers = self.backend.headers.clone();
        for (name, value) in &request.headers {
            let text = value.render(&context).as_ref().and_then(plain_text);
            let fit = text.filter(|text| !text.is_empty() && text.bytes().all(|b| matches!(b, b' '..=b'~')) && text.trim() == text);
            headers.insert(name.clone(), fit.ok_or_else(|| CompileError::Header(name.clone()))?);
        }
        let (kind, body) = match request.encoding {
            Encoding::Form => ("application/x-www-form-urlencoded", form(&request.body, &context)),
            Encoding::Json => ("application/json", json(&request.body, &context).unwrap_or_else(|| "{}".to_owned())),
        };
        headers.insert("content-type".to_owned(), kind.to_owned());
        let key_offsets: Vec<u32> = body
            .match_indices(KEY_PLACEHOLDER)
            .filter_map(|(offset, _)| u32::try_from(offset).ok())
            .collect();
        let meant = request.body.keys();
        if key_offsets.len() != meant {
            return Err(CompileError::Placeholder {
                found: key_offsets.len(),
                meant,
            });
        }
        Ok(CompiledRequest {
            backend: self.backend.name.clone(),
            method: request.method.clone(),
            url: self.backend.url(&path, ""),
            headers,
            body_sha256: Digest::of(body.as_bytes()),
            body,
            idempotency_key: request.placement.clone(),
            key_offsets,
        })
    }
}

impl Body {
    /// How often the idempotency key stands in it.
    pub(super) fn keys(&self) -> usize {
        self.count(&|reference| *reference == Reference::Key)
    }

    /// How many of its holes satisfy `wanted`.
    pub(super) fn count(&self, wanted: &dyn Fn(&Reference) -> bool) -> usize {
        match self {
            Self::Value(value) => value.references().filter(|reference| wanted(reference)).count(),
            Self::Object(members) => members.iter().map(|(_, body)| body.count(wanted)).sum(),
            Self::Array(items) => items.iter().map(|body| body.count(wanted)).sum(),
        }
    }
}

/// `name=value` pairs sorted by name; absent optional values are left out.
fn form(body: &Body, context: &Context<'_>) -> String {
    let mut out = form_urlencoded::Serializer::new(String::new());
    if let Body::Object(members) = body {
        for (name, member) in members {
            if let Body::Value(value) = member
                && let Some(text) = value.render(context).as_ref().and_then(plain_text)
            {
                out.append_pair(name, &text);
            }
        }
    }
    out.finish()
}

/// JSON without blanks, members sorted by name; absent optional values are left out.
fn json(body: &Body, context: &Context<'_>) -> Option<String> {
    match body {
        Body::Value(value) => value.render(context).map(|value| scalar(&value)),
        Body::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .filter_map(|(name, member)| Some(format!("{}:{}", scalar(&Json::String(name.clone())), json(member, context)?)))
                .collect();
            Some(format!("{{{}}}", members.join(",")))
        }
        Body::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(|item| json(item, context)).collect();
            Some(format!("[{}]", items.join(",")))
        }
    }
}

fn scalar(value: &Json) -> String {
    value.to_value().to_string()
}
