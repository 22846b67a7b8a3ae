//! Where a backend's three secrets come from, and which of them a role holds: the broker never has one that can execute.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};

use super::headers::header_name;
use crate::domain::secret::{Secret, constant_time_eq};
use crate::settings::{Mistake, Section, why_not};

/// Which of a backend's secrets a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Credential {
    /// The broker's: reads the facts of a draft.
    Facts,
    /// The proxy's for reads and look-ups.
    Read,
    /// The proxy's for writes.
    Write,
}

impl Credential {
    const ALL: [Self; 3] = [Self::Facts, Self::Read, Self::Write];

    /// The word used in files and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Facts => "facts",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Whose secrets are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Those of the broker.
    Broker,
    /// Those of the proxy.
    Proxy,
    /// Both, where one process is both.
    All,
}

impl Need {
    const fn covers(self, credential: Credential) -> bool {
        match self {
            Self::Broker => matches!(credential, Credential::Facts),
            Self::Proxy => matches!(credential, Credential::Read | Credential::Write),
            Self::All => true,
        }
    }
}

/// How the process reads an environment variable; only the composition root has one that asks the system.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Where one secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Env(String),
    File(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Scheme {
    Bearer,
    Basic,
    Header(HeaderName),
    None,
}

/// Whether a backend file reads anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    Something,
    Nothing,
}

/// How requests to a backend are authenticated.
#[derive(Debug, Clone)]
pub(super) struct Auth {
    scheme: Scheme,
    sources: BTreeMap<Credential, Source>,
}

/// The authentication headers a role holds, by credential.
pub(super) type Headers = BTreeMap<Credential, Option<(HeaderName, HeaderValue)>>;

impl Auth {
    /// Reads the table. Where the file reads nothing, `facts` and `read` may be left out.
    pub(super) fn read(section: Section<'_>, dir: &Path, reads: Reads) -> Option<Self> {
        #[derive(Clone, Copy)]
        enum Kind {
            Bearer,
            Basic,
            Header,
            None,
        }
        let kind = section.word(
            "kind",
            &[
                ("bearer", Kind::Bearer),
                ("basic", Kind::Basic),
                ("header", Kind::Header),
                ("none", Kind::None),
            ],
        );
        let scheme = match kind {
            Some(Kind::Header) => section
                .text("name", "the header's name")
                .and_then(|name| header_name(&section, "name", name))
                .map(Scheme::Header),
            Some(Kind::Bearer) => Some(Scheme::Bearer),
            Some(Kind::Basic) => Some(Scheme::Basic),
            Some(Kind::None) => Some(Scheme::None),
            None => None,
        };
        let mut sources = BTreeMap::new();
        for credential in Credential::ALL {
            let unused = reads == Reads::Nothing && credential != Credential::Write && section.maybe(credential.as_str()).is_none();
            if unused || matches!(kind, Some(Kind::None)) {
                continue;
            }
            if let Some(source) = source(&section, credential.as_str(), dir) {
                sources.insert(credential, source);
            }
        }
        let write = sources.get(&Credential::Write);
        if write.is_some() && write == sources.get(&Credential::Facts) {
            section.wrong(
                "facts",
                "is the same secret as `write`, so the broker would hold what can execute: give it one that can only read",
            );
        }
        section.close();
        Some(Self { scheme: scheme?, sources })
    }

    /// The header that carries the secret, with the setting that says so; `None` where there is none.
    pub(super) fn header(&self) -> Option<(&'static str, &str)> {
        match &self.scheme {
            Scheme::Bearer | Scheme::Basic => Some(("auth.kind", http::header::AUTHORIZATION.as_str())),
            Scheme::Header(name) => Some(("auth.name", name.as_str())),
            Scheme::None => None,
        }
    }

    /// One secret, or why there is none; [`Scheme::None`] has none at all.
    pub(super) fn secret(&self, credential: Credential, env: Environment<'_>) -> Result<Secret, String> {
        let source = self.sources.get(&credential).ok_or_else(|| "is missing".to_owned())?;
        source.fetch(env)
    }

    /// Reads the secrets that are needed. A mistake never holds any of their text.
    pub(super) fn resolve(&self, file: &str, need: Need, env: Environment<'_>) -> Result<Headers, Vec<Mistake>> {
        let mut headers = Headers::new();
        let mut mistakes = Vec::new();
        for credential in Credential::ALL.into_iter().filter(|credential| need.covers(*credential)) {
            // The loader has seen to it that only what nothing uses is left out.
            if self.scheme == Scheme::None || !self.sources.contains_key(&credential) {
                headers.insert(credential, None);
                continue;
            }
            if let Some(Source::File(path)) = self.sources.get(&credential) {
                warn_if_readable(path);
            }
            match self.secret(credential, env) {
                Ok(secret) => match self.scheme.header(&secret) {
                    Some(header) => {
                        headers.insert(credential, Some(header));
                    }
                    None => mistakes.push((
                        credential,
                        "holds characters a header cannot carry: expected visible ASCII".to_owned(),
                    )),
                },
                Err(problem) => mistakes.push((credential, problem)),
            }
        }
        if mistakes.is_empty() {
            return Ok(headers);
        }
        let mistake = |(credential, problem): (Credential, String)| Mistake {
            file: file.to_owned(),
            place: format!("auth.{}", credential.as_str()),
            problem,
        };
        Err(mistakes.into_iter().map(mistake).collect())
    }
}

impl Scheme {
    fn header(&self, secret: &Secret) -> Option<(HeaderName, HeaderValue)> {
        let (name, text) = match self {
            Self::Bearer => (http::header::AUTHORIZATION, Secret::new(format!("Bearer {}", secret.expose()))),
            Self::Basic => (
                http::header::AUTHORIZATION,
                Secret::new(format!("Basic {}", STANDARD.encode(secret.expose()))),
            ),
            Self::Header(name) => (name.clone(), Secret::new(secret.expose().to_owned())),
            Self::None => return None,
        };
        let mut value = HeaderValue::from_str(text.expose()).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    }
}

impl Source {
    /// The text, without the white space around it.
    pub(super) fn fetch(&self, env: Environment<'_>) -> Result<Secret, String> {
        let text = match self {
            Self::Env(name) => {
                env(name).ok_or_else(|| format!("the environment variable `{name}` is not set: set it, or use `{{ file = \"…\" }}`"))?
            }
            Self::File(path) => from_file(path)?,
        };
        let secret = Secret::new(text);
        let trimmed = secret.expose().trim();
        if trimmed.is_empty() {
            return Err(match self {
                Self::Env(name) => format!("the environment variable `{name}` is empty: set it to the secret"),
                Self::File(path) => format!("the file `{}` is empty: write the secret into it", path.display()),
            });
        }
        Ok(Secret::new(trimmed.to_owned()))
    }
}

/// Whether two secrets are the same text, in time that does not depend on where they differ.
pub(super) fn same_value(one: &Secret, other: &Secret) -> bool {
    constant_time_eq(one.expose().as_bytes(), other.expose().as_bytes())
}

/// Says so if any account can read the file. A link is left alone: where secrets are mounted, what it leads to belongs to the mount.
pub(super) fn warn_if_readable(path: &Path) {
    let open = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o004 != 0);
    if open {
        tracing::warn!(file = %path.display(), "every account of this machine can read this file with a secret: run `chmod 600` on it");
    }
}

fn from_file(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| {
        if error.kind() == std::io::ErrorKind::PermissionDenied {
            return format!("the file `{}` cannot be read: {}", path.display(), why_not(path, &error));
        }
        format!(
            "the file `{}` cannot be read ({error}): create it with the secret alone in it, for the user who runs this to read",
            path.display()
        )
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & 0o022 != 0 {
        return Err(format!(
            "the file `{}` can be changed by other accounts (mode {:03o}): run `chmod go-w` on it, better `chmod 600`",
            path.display(),
            mode & 0o777
        ));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// Reads where a secret comes from; a secret that stands in the file itself is a mistake.
pub(super) fn source(section: &Section<'_>, key: &str, dir: &Path) -> Option<Source> {
    const EXPECTED: &str = "`{ env = \"NAME\" }` or `{ file = \"path\" }`";
    let value = section.value(key, EXPECTED)?;
    if value.is_str() {
        section.wrong(
            key,
            format!("holds the secret itself: take it out of the file, replace it at the backend, and write {EXPECTED}"),
        );
        return None;
    }
    let sub = section.maybe_sub(key)?;
    let source = match (sub.maybe_text("env", "a variable's name"), sub.maybe_text("file", "a path")) {
        (Some(env), None) if !env.is_empty() => Some(Source::Env(env.to_owned())),
        (None, Some(file)) if !file.is_empty() => Some(Source::File(dir.join(file))),
        _ => {
            sub.wrong("", format!("expected {EXPECTED}"));
            None
        }
    };
    sub.close();
    source
}
