//! The story, chapter by chapter. Each file is a group of chapters; a chapter says what happens and checks it.

mod account;
mod approvals;
mod books;
mod credentials;
mod lost;
mod proposals;
mod refunds;
mod time;

use serde_json::{Value, json};

use super::DemoError;
use super::checks::{Check, Summary};
use super::page::{Page, Voice};
use super::stage::{Reply, Stage, seen};

pub(super) use books::audit;

/// The story while it is told: who is on stage, what is written, what was checked.
pub(super) struct Script<'a> {
    pub(super) stage: &'a Stage,
    page: Page<'a>,
    chapter: usize,
    checks: Vec<Check>,
}

/// Tells the whole story.
pub(super) async fn tell(script: &mut Script<'_>) -> Result<(), DemoError> {
    refunds::reads(script).await?;
    refunds::allowed(script).await?;
    refunds::asked(script).await?;
    proposals::refused(script).await?;
    approvals::refused(script).await?;
    approvals::races(script).await?;
    approvals::quorum(script).await?;
    credentials::wrong(script).await?;
    credentials::replayed(script).await?;
    time::over(script).await?;
    lost::answer(script).await?;
    lost::request(script).await?;
    account::resumed(script).await?;
    account::email(script).await?;
    books::closed(script)
}

impl<'a> Script<'a> {
    pub(super) fn new(stage: &'a Stage, page: Page<'a>) -> Self {
        Self {
            stage,
            page,
            chapter: 0,
            checks: Vec::new(),
        }
    }

    /// The page and what was proved.
    pub(super) fn close(self) -> (Page<'a>, Summary) {
        (self.page, Summary { checks: self.checks })
    }

    fn chapter(&mut self, title: &str) {
        self.chapter += 1;
        self.page.chapter(self.chapter, title);
    }

    fn prose(&mut self, text: &str) {
        self.page.prose(text);
    }

    fn agent(&mut self, text: &str) {
        self.page.says(Voice::Agent, text);
    }

    fn writ(&mut self, text: &str) {
        self.page.says(Voice::Writ, text);
    }

    /// What the policy made of a draft, and which rule said so.
    fn answered(&mut self, draft: &Value) {
        self.writ(&format!(
            "{}: \"{}\"",
            seen(draft, "/state"),
            seen(draft, "/verdict/rules/0/reason")
        ));
    }

    fn person(&mut self, text: &str) {
        self.page.says(Voice::Person, text);
    }

    fn backend(&mut self, text: &str) {
        self.page.says(Voice::Backend, text);
    }

    /// Writes a check down; one that does not hold is said at once.
    pub(super) fn check(&mut self, name: &str, expected: impl ToString, got: impl ToString) {
        let check = Check::new(self.chapter, name, expected, got);
        if !check.ok {
            let text = format!("{}: expected `{}`, got `{}`", check.name, check.expected, check.got);
            self.page.says(Voice::Wrong, &text);
        }
        self.checks.push(check);
    }

    /// Makes a call that must be refused with this status and code, and must send nothing to the backend.
    async fn refused(
        &mut self,
        name: &str,
        status: u16,
        code: &str,
        call: impl Future<Output = Result<Reply, DemoError>>,
    ) -> Result<Reply, DemoError> {
        let before = self.stage.sent();
        let reply = call.await?;
        let sent = self.stage.sent() - before;
        let got = format!("{} {}, {} sent", reply.status, reply.code(), sent);
        let line = format!("{name} -> {} {}: {}", reply.status, reply.code(), reply.words());
        self.page.says(Voice::Refused, &line);
        self.check(name, format!("{status} {code}, 0 sent"), got);
        Ok(reply)
    }
}

/// The body that proposes a refund.
fn refund(charge: &str, amount: i64, currency: &str, case: &str) -> Value {
    json!({
        "operation": "refund.create", "case_id": case, "reason_code": "damaged",
        "parameters": { "charge": charge, "amount": amount, "currency": currency },
    })
}
