//! A writ with one of the example backends enabled, an agent that may refund there, and what holds for every refund.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use writ::domain::approval::Decision;
use writ::domain::operation::Stage;
use writ::domain::principal::Permission;

use crate::fakes::server::{Books, Fake};
use crate::support::ManualClock;
use crate::support::world::{Reply, Setup, World};

const AGENT: &str = "refund-agent";

/// A minute and a second: past every lease and every pause.
pub const MINUTE: std::time::Duration = std::time::Duration::from_secs(61);

/// The world, the backend, and the backend's name.
pub struct Desk<B> {
    pub world: World,
    pub fake: Fake<B>,
    backend: &'static str,
}

impl<B: Books> Desk<B> {
    /// A world with this example backend, whose server has these books.
    pub async fn open(backend: &'static str, books: B) -> Self {
        // The world's clock starts where every manual clock does, and the fake is told of it once it is there.
        let clock = Arc::new(ManualClock::new());
        let fake = Fake::start(books, clock).await;
        let setup = Setup {
            examples: vec![(backend, fake.url.clone())],
            ..Setup::default()
        };
        let mut world = World::with(setup).await;
        fake.keep_time_by(Arc::clone(&world.clock));
        let permission = Permission {
            operations: "refund.*".parse().unwrap(),
            stages: BTreeSet::from([Stage::Draft, Stage::Execute]),
        };
        world
            .add_client("support-agent", |client| {
                client.id = AGENT.parse().unwrap();
                client.permissions = vec![permission];
            })
            .await;
        Self { world, fake, backend }
    }

    pub async fn propose(&self, parameters: Value) -> Reply {
        let body = json!({ "operation": format!("refund.{}", self.backend), "case_id": "case-1", "parameters": parameters });
        self.world.call(AGENT, "POST", "/v1/drafts", Some(body)).await
    }

    /// A draft that may run: a rule allowed it, or Mia of finance signed.
    pub async fn approved(&self, parameters: Value) -> String {
        let draft = self.propose(parameters).await.expect(201);
        let id = draft["id"].as_str().unwrap().to_owned();
        if draft["state"] == "awaiting_approval" {
            let record = self.world.record("usr_mia", &id, Decision::Approve).await;
            self.world.hand_in(&record).await.expect(200);
        } else {
            assert_eq!(draft["state"], "approved", "{draft}");
        }
        id
    }

    /// Exchanges and executes, and lets this process do what it can; the execution as it stands then.
    pub async fn execute(&self, draft: &str) -> Value {
        let body = self.credential(draft).await.expect(200);
        self.spend(&body, draft).await
    }

    /// Spends a credential; the execution as it stands then.
    pub async fn spend(&self, credential: &Value, draft: &str) -> Value {
        let token = credential["access_token"].as_str().unwrap();
        self.world.execute(token, draft).await.expect(202);
        self.execution(draft).await
    }

    /// A refund from the proposal to the first answer.
    pub async fn refund(&self, parameters: Value) -> (String, Value) {
        let draft = self.approved(parameters).await;
        let execution = self.execute(&draft).await;
        (draft, execution)
    }

    /// The draft's execution as it stands now.
    pub async fn execution(&self, draft: &str) -> Value {
        let path = format!("/v1/drafts/{draft}");
        let view = self.world.call(AGENT, "GET", &path, None).await.expect(200);
        let id = view["execution"]["id"].as_str().unwrap_or_else(|| panic!("no execution in {view}"));
        let path = format!("/v1/executions/{id}");
        let mut execution = self.world.call(AGENT, "GET", &path, None).await.expect(200);
        // Its receipt names the log's latest head.
        execution.as_object_mut().unwrap().remove("audit");
        execution
    }

    pub async fn draft(&self, draft: &str) -> Value {
        let path = format!("/v1/drafts/{draft}");
        self.world.call(AGENT, "GET", &path, None).await.expect(200)
    }

    /// The facts that the draft holds of its one read.
    pub async fn facts(&self, draft: &str) -> Value {
        let bytes = self.world.app.store.draft_bytes(draft.parse().unwrap()).await.unwrap().unwrap();
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        document["facts"].clone()
    }

    /// The request that the draft holds.
    pub async fn request(&self, draft: &str) -> Value {
        let bytes = self.world.app.store.draft_bytes(draft.parse().unwrap()).await.unwrap().unwrap();
        let document: Value = serde_json::from_slice(&bytes).unwrap();
        document["request"].clone()
    }

    /// A credential for an approved draft.
    pub async fn credential(&self, draft: &str) -> Reply {
        let form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", draft),
            ("subject_token_type", "urn:writ:token-type:draft"),
        ];
        self.world.exchange_form(AGENT, &form).await
    }

    /// Lets the proxy go on, a minute at a time, until the execution has this state.
    pub async fn until(&self, draft: &str, state: &str, most: usize) -> Value {
        for _ in 0..most {
            if self.execution(draft).await["state"] == state {
                break;
            }
            self.world.later(MINUTE).await;
        }
        self.stands(draft, state).await
    }

    /// The execution, which has this state.
    pub async fn stands(&self, draft: &str, state: &str) -> Value {
        let execution = self.execution(draft).await;
        assert_eq!(execution["state"], state, "{execution:#}");
        self.one_key(&execution);
        execution
    }

    /// Holds for every run: one body and so one key on the wire, no more requests than attempts were written down, and one effect at most.
    fn one_key(&self, execution: &Value) {
        let sent = self.fake.writes();
        assert!(sent.windows(2).all(|pair| pair[0] == pair[1]), "{sent:?}");
        let attempts = execution["attempts"].as_array().unwrap().len();
        assert!(sent.len() <= attempts, "{attempts} attempts, {} requests", sent.len());
        assert!(self.fake.effects() <= 1, "{} effects", self.fake.effects());
    }

    /// Asserts that nothing was sent to change anything.
    pub fn nothing_sent(&self) {
        assert_eq!(self.fake.writes(), Vec::<String>::new());
    }
}
