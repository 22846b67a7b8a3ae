//! Tests of policy.

mod answers;
mod cases;
mod loading;

use std::path::{Path, PathBuf};

use writ::domain::money::Money;
use writ::domain::policy::{Answer, Question, Signature};
use writ::policy::Policy;

pub fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/cedar")
}

/// A copy of the shipped policy to spoil.
pub struct Copy(tempfile::TempDir);

impl Copy {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in ["policy.toml", "schema.cedarschema", "rules.cedar", "limits.toml"] {
            std::fs::copy(shipped().join(file), dir.path().join(file)).unwrap();
        }
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Replaces `old`, which must stand in the file exactly once.
    pub fn edit(self, file: &str, old: &str, new: &str) -> Self {
        let path = self.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches(old).count(), 1, "`{old}` in {file}");
        std::fs::write(path, text.replace(old, new)).unwrap();
        self
    }

    pub fn append(self, file: &str, more: &str) -> Self {
        let path = self.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, text + more).unwrap();
        self
    }

    pub fn load(&self) -> Policy {
        Policy::load(self.path()).unwrap()
    }

    /// What is wrong, one line a mistake.
    pub fn refused(&self) -> Vec<String> {
        Policy::load(self.path()).unwrap_err().0.iter().map(ToString::to_string).collect()
    }
}

pub fn question(operation: &str) -> Question {
    Question {
        operation: operation.parse().unwrap(),
        client: "support-agent".parse().unwrap(),
        owner: Some("usr_ann".parse().unwrap()),
        amount: None,
        fields: std::collections::BTreeSet::new(),
        recent: 1,
    }
}

pub fn refund(minor: i64, currency: &str) -> Question {
    Question {
        amount: Some(Money::new(minor, currency.parse().unwrap()).unwrap()),
        ..question("refund.create")
    }
}

pub fn signed(who: &str, queues: &[&str]) -> Signature {
    Signature {
        approver: who.parse().unwrap(),
        queues: queues.iter().map(|queue| queue.parse().unwrap()).collect(),
        step_up: false,
    }
}

pub fn ids(answer: &Answer) -> Vec<&str> {
    answer.rules.iter().map(|rule| rule.id.as_str()).collect()
}
