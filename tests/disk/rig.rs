//! One `writ serve` whose disk the test can break, before a sandbox that it can stop in the middle of a request.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use writ::app::{Outside, SystemClock, SystemEntropy};
use writ::domain::secret::Secret;
use writ::sandbox::{RunningSandbox, Sandbox, SandboxConfig, demo};
use writ::setup::{self, Approvers, Created, Endpoint, Options};

use crate::cli::support::Server;

/// How long a start, an answer or a recovery may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The library that makes the disk fail, built once.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disk-faults-{}.so", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disk/faults.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&built).arg(source).arg("-ldl");
        let done = compiler.status().expect("a C compiler is needed, as for the store itself");
        assert!(done.success(), "tests/disk/faults.c does not compile");
        built
    })
}

/// What is different from an ordinary installation.
#[derive(Default)]
pub struct Wish {
    /// Where the store lies, if not in the working directory.
    pub data: Option<PathBuf>,
    /// Further lines of the store's section.
    pub lines: &'static str,
}

/// The answer to a call.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<String>,
    pub body: Value,
}

impl Answer {
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }
}

pub struct Rig {
    pub sandbox: RunningSandbox,
    pub server: Option<Server>,
    pub database: PathBuf,
    config: PathBuf,
    faults: PathBuf,
    made: Created,
    client: reqwest::Client,
    dir: TempDir,
}

impl Rig {
    pub async fn start() -> Self {
        Self::with(Wish::default()).await
    }

    pub async fn with(wish: Wish) -> Self {
        let outside = Outside {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy::new()),
        };
        let sandbox = Sandbox::start(SandboxConfig::new(outside.clock.clone(), outside.entropy.clone()))
            .await
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let key = |secret: &Secret| Secret::new(secret.expose().to_owned());
        let options = Options {
            dir: dir.path().join("writ"),
            broker_listen: "127.0.0.1:0".to_owned(),
            proxy_listen: "127.0.0.1:0".to_owned(),
            public_url: None,
            audience: None,
            endpoints: vec![Endpoint {
                name: "stripe",
                url: sandbox.url.clone(),
                facts: key(sandbox.read_key()),
                read: key(sandbox.read_key()),
                write: key(sandbox.write_key()),
            }],
            approvers: Approvers::Examples,
        };
        let made = setup::create(&options, &outside).await.unwrap();
        let config = made.config.clone();
        let change = |path: &Path, from: &str, to: &str| {
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains(from), "{} does not hold `{from}`", path.display());
            std::fs::write(path, text.replacen(from, to, 1)).unwrap();
        };
        // The shortest lease there is, so that the test need not wait long for a take-over.
        change(&config, "lease    = \"60s\"", "lease    = \"5s\"");
        let backend = options.dir.join("policies/backends/stripe.toml");
        change(&backend, "total_timeout   = \"30s\"", "total_timeout   = \"4s\"");
        change(&config, "low_water = \"256MiB\"\n", "");
        change(&config, "ballast   = \"8MiB\"\n", wish.lines);
        let mut database = options.dir.join("data/writ.db");
        if let Some(data) = wish.data {
            let there = data.join("writ.db");
            // Its last transactions may lie in the log beside it still.
            let made = rusqlite::Connection::open(&database).unwrap();
            made.execute("VACUUM INTO ?1", [there.display().to_string()]).unwrap();
            change(&config, "path = \"data/writ.db\"", &format!("path = \"{}\"", there.display()));
            database = there;
        }
        // Another test of this process may have installed it already; either way it is there.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().http1_only().timeout(PATIENCE);
        let mut rig = Self {
            sandbox,
            server: None,
            database,
            config,
            faults: dir.path().join("faults"),
            made,
            client: client.build().unwrap(),
            dir,
        };
        rig.serve();
        rig
    }

    /// Starts the process, whose disk is well.
    pub fn serve(&mut self) {
        self.fault("none");
        let config = self.config.display().to_string();
        let environment = [
            ("LD_PRELOAD", library().to_str().unwrap()),
            ("WRIT_DISK_FAULTS", self.faults.to_str().unwrap()),
        ];
        self.server = Some(Server::start_with(&["serve", "--config", &config], &environment));
    }

    /// SIGKILL: no destructor runs, nothing is flushed.
    pub fn kill(&mut self) {
        drop(self.server.take());
    }

    pub fn process(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// From now on this is wrong with the disk, in the words of `faults.c`.
    pub fn fault(&self, what: &str) {
        let next = self.faults.with_extension("next");
        std::fs::write(&next, what).unwrap();
        std::fs::rename(&next, &self.faults).unwrap();
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join("writ").join(below)
    }

    async fn answer(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").map(|v| v.to_str().unwrap().to_owned());
        let bytes = response.bytes().await.unwrap();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Answer { status, retry_after, body }
    }

    fn agent(&self, request: reqwest::RequestBuilder, kind: &str) -> reqwest::RequestBuilder {
        let (_, secret) = self.made.secret("support-agent").unwrap();
        request
            .basic_auth("support-agent", Some(secret.expose()))
            .header("content-type", kind)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.process().url)
    }

    pub async fn get(&self, path: &str) -> Answer {
        let request = self.agent(self.client.get(self.url(path)), "application/json");
        self.answer(request).await
    }

    /// A refund of so many cents that a rule allows.
    pub async fn propose(&self, amount: u32) -> Answer {
        let proposal = json!({
            "operation": "refund.create", "parameters": { "charge": demo::CHARGE, "amount": amount, "currency": "usd" },
        });
        let request = self.agent(self.client.post(self.url("/v1/drafts")), "application/json");
        self.answer(request.body(proposal.to_string())).await
    }

    pub async fn exchange(&self, draft: &str) -> Answer {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
            .append_pair("subject_token", draft)
            .append_pair("subject_token_type", "urn:writ:token-type:draft")
            .finish();
        let request = self.agent(self.client.post(self.url("/oauth2/token")), "application/x-www-form-urlencoded");
        self.answer(request.body(form)).await
    }

    pub async fn execute(&self, token: &str, draft: &str) -> Answer {
        let request = self.client.post(self.url("/v1/executions")).bearer_auth(token);
        let request = request.header("content-type", "application/json");
        self.answer(request.body(json!({ "draft_id": draft }).to_string())).await
    }

    /// A draft that a rule approved, and its credential.
    pub async fn held(&self, amount: u32) -> (String, String) {
        let draft = self.propose(amount).await.expect(201)["id"].as_str().unwrap().to_owned();
        let issued = self.exchange(&draft).await.expect(200);
        (issued["access_token"].as_str().unwrap().to_owned(), draft)
    }

    /// Asks until the answer is as wished, or for too long.
    pub async fn until(&self, path: &str, what: &str, wished: impl Fn(&Answer) -> bool) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.get(path).await;
            if wished(&answer) {
                return answer;
            }
            assert!(Instant::now() < deadline, "{path} never became {what}: {answer:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn ready(&self) {
        self.until("/readyz", "ready", |answer| answer.status == 200).await;
    }

    /// Readiness says so; the process lives.
    pub async fn red(&self, why: &str) {
        self.until("/readyz", why, |answer| {
            answer.status == 503 && answer.body["detail"].as_str().is_some_and(|detail| detail.contains(why))
        })
        .await;
        self.get("/healthz").await.expect(200);
    }

    /// The execution, once it is over.
    pub async fn applied(&self, execution: &str) -> Value {
        let path = format!("/v1/executions/{execution}");
        self.until(&path, "applied", |answer| answer.body["state"] == "applied").await.body
    }

    /// Every event, read from the file by another program.
    pub fn events(&self) -> Vec<Value> {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let file = rusqlite::Connection::open_with_flags(&self.database, flags).unwrap();
        let mut statement = file.prepare("SELECT body FROM event ORDER BY seq").unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(|body| serde_json::from_str(&body.unwrap()).unwrap()).collect()
    }

    pub fn told(&self, kind: &str) -> usize {
        self.events().iter().filter(|event| event["type"] == kind).count()
    }

    /// Every row has its event and every event its row, none is missing and the file is sound.
    pub fn whole(&self) {
        let events = self.events();
        for (n, event) in events.iter().enumerate() {
            assert_eq!(event["seq"], json!(n), "a gap");
        }
        let mut told: BTreeMap<&str, usize> = BTreeMap::new();
        for event in &events {
            *told.entry(event["type"].as_str().unwrap()).or_default() += 1;
        }
        let file = rusqlite::Connection::open(&self.database).unwrap();
        let count = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        for (rows, event) in [
            ("SELECT count(*) FROM draft", "draft.propose"),
            ("SELECT count(*) FROM credential", "credential.issue"),
            ("SELECT count(*) FROM credential WHERE state = 'redeemed'", "credential.redeem"),
            ("SELECT count(*) FROM execution", "execution.claim"),
            ("SELECT count(*) FROM attempt", "execution.dispatch"),
            (
                "SELECT count(*) FROM execution WHERE state = 'applied'",
                "execution.confirm_applied",
            ),
        ] {
            let told = told.get(event).copied().unwrap_or(0);
            assert_eq!(usize::try_from(count(rows)).unwrap(), told, "{event}");
        }
        let sound: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }

    pub fn posts(&self) -> usize {
        self.sandbox.requests().iter().filter(|r| r.method == "POST").count()
    }
}
