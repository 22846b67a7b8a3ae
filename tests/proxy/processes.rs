//! Two real processes on one SQLite file, and the death of one of them.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use writ::app::{Outside, SystemClock, SystemEntropy};
use writ::domain::secret::Secret;
use writ::sandbox::{Fault, FaultKind, RunningSandbox, Sandbox, SandboxConfig, demo};
use writ::setup::{self, Approvers, Created, Endpoint, Options};

/// How long a start, an answer or a take-over may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One `writ serve`.
struct Process {
    child: Child,
    url: String,
}

impl Process {
    fn start(config: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_writ"))
            .args(["serve", "--config"])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split(' ').find(|word| word.starts_with("http://"));
        let url = url.unwrap_or_else(|| panic!("no address in `{line}`")).to_owned();
        Self { child, url }
    }

    /// SIGKILL: no destructor runs, nothing is flushed.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A sandbox in this process, and two processes on one store.
struct Pair {
    sandbox: RunningSandbox,
    made: Created,
    first: Process,
    second: Process,
    client: reqwest::Client,
    _dir: TempDir,
}

impl Pair {
    async fn start() -> Self {
        let outside = Outside {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy::new()),
        };
        let config = SandboxConfig::new(outside.clock.clone(), outside.entropy.clone());
        let sandbox = Sandbox::start(config).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            dir: dir.path().join("writ"),
            broker_listen: "127.0.0.1:0".to_owned(),
            proxy_listen: "127.0.0.1:0".to_owned(),
            public_url: None,
            audience: None,
            endpoints: vec![Endpoint {
                name: "stripe",
                url: sandbox.url.clone(),
                facts: Secret::new(sandbox.read_key().expose().to_owned()),
                read: Secret::new(sandbox.read_key().expose().to_owned()),
                write: Secret::new(sandbox.write_key().expose().to_owned()),
            }],
            approvers: Approvers::Examples,
        };
        let made = setup::create(&options, &outside).await.unwrap();
        let change = |path: &std::path::Path, from: &str, to: &str| {
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains(from), "{} does not hold `{from}`", path.display());
            std::fs::write(path, text.replacen(from, to, 1)).unwrap();
        };
        // The shortest lease there is, so that the test need not wait long for a take-over.
        change(&made.config, "lease    = \"60s\"", "lease    = \"5s\"");
        let backend = options.dir.join("policies/backends/stripe.toml");
        change(&backend, "total_timeout   = \"30s\"", "total_timeout   = \"4s\"");
        let other = options.dir.join("second.toml");
        std::fs::copy(&made.config, &other).unwrap();
        change(&other, "name     = \"proxy-1\"", "name     = \"proxy-2\"");
        let paths = (made.config.clone(), other);
        let start = tokio::task::spawn_blocking(move || (Process::start(&paths.0), Process::start(&paths.1)));
        let (first, second) = start.await.unwrap();
        // Another test of this process may have installed it already; either way it is there.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            sandbox,
            made,
            first,
            second,
            client: reqwest::Client::builder()
                .no_proxy()
                .http1_only()
                .timeout(PATIENCE)
                .build()
                .unwrap(),
            _dir: dir,
        }
    }

    fn secret(&self) -> &str {
        self.made.secret("support-agent").unwrap().1.expose()
    }

    async fn read(&self, response: reqwest::Response, status: u16) -> Value {
        let got = response.status().as_u16();
        let body: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        assert_eq!(got, status, "{body}");
        body
    }

    /// 40.00 USD, proposed at the first process and exchanged at the second.
    async fn held(&self) -> (String, String) {
        let proposal = json!({
            "operation": "refund.create", "parameters": { "charge": demo::CHARGE, "amount": 4_000, "currency": "usd" },
        });
        let request = self.client.post(format!("{}/v1/drafts", self.first.url));
        let request = request
            .basic_auth("support-agent", Some(self.secret()))
            .header("content-type", "application/json");
        let draft = self.read(request.body(proposal.to_string()).send().await.unwrap(), 201).await;
        let draft = draft["id"].as_str().unwrap().to_owned();
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
            .append_pair("subject_token", &draft)
            .append_pair("subject_token_type", "urn:writ:token-type:draft")
            .finish();
        let request = self.client.post(format!("{}/oauth2/token", self.second.url));
        let request = request
            .basic_auth("support-agent", Some(self.secret()))
            .header("content-type", "application/x-www-form-urlencoded");
        let issued = self.read(request.body(form).send().await.unwrap(), 200).await;
        (issued["access_token"].as_str().unwrap().to_owned(), draft)
    }

    fn execute(&self, process: &Process, token: &str, draft: &str) -> reqwest::RequestBuilder {
        let request = self.client.post(format!("{}/v1/executions", process.url));
        let request = request.bearer_auth(token).header("content-type", "application/json");
        request.body(json!({ "draft_id": draft }).to_string())
    }

    /// The execution, asked of the second process until it is over.
    async fn over(&self, id: &str) -> Value {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let request = self.client.get(format!("{}/v1/executions/{id}?wait=10", self.second.url));
            let request = request.basic_auth("support-agent", Some(self.secret()));
            let execution = self.read(request.send().await.unwrap(), 200).await;
            if execution["state"] == "applied" || tokio::time::Instant::now() > deadline {
                return execution;
            }
        }
    }

    fn posts(&self) -> usize {
        self.sandbox.requests().iter().filter(|r| r.method == "POST").count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_redeems_of_one_token_at_two_processes_are_one_request() {
    let pair = Pair::start().await;
    let (token, draft) = pair.held().await;
    let calls: Vec<_> = (0..64)
        .map(|n| {
            let process = if n % 2 == 0 { &pair.first } else { &pair.second };
            tokio::spawn(pair.execute(process, &token, &draft).send())
        })
        .collect();
    let mut ids = BTreeSet::new();
    for call in calls {
        let response = call.await.unwrap().unwrap();
        let status = response.status().as_u16();
        assert!([200, 202].contains(&status), "{status} {}", response.text().await.unwrap());
        let body: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        ids.insert(body["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), 1);
    let execution = pair.over(ids.first().unwrap()).await;
    assert_eq!(execution["state"], "applied", "{execution}");
    assert_eq!(execution["attempts"].as_array().unwrap().len(), 1);
    assert_eq!((pair.posts(), pair.sandbox.refunds(demo::CHARGE).len()), (1, 1));
}

/// `Hold`: nothing has happened yet when the process dies. `Hang`: the refund is made when it dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_with_the_request_open_leaves_one_effect() {
    for kind in [FaultKind::Hold, FaultKind::Hang] {
        let mut pair = Pair::start().await;
        let (token, draft) = pair.held().await;
        pair.sandbox.fault(Fault::once(kind, "POST", "/v1/refunds"));
        let accepted = pair.execute(&pair.first, &token, &draft).send().await.unwrap();
        let accepted = pair.read(accepted, 202).await;
        let arrived = async {
            while !pair.sandbox.requests().iter().any(|r| r.method == "POST") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, arrived).await.unwrap();
        pair.first.kill();
        let again = pair.execute(&pair.second, &token, &draft).send().await.unwrap();
        assert_eq!(
            pair.read(again, 202).await["state"],
            "dispatched",
            "the other one does not know better yet"
        );
        let execution = pair.over(accepted["id"].as_str().unwrap()).await;
        assert_eq!(execution["state"], "applied", "{kind:?} {execution}");
        assert_eq!(pair.sandbox.refunds(demo::CHARGE).len(), 1, "{kind:?}");
        let keys: BTreeSet<_> = pair.sandbox.requests().into_iter().filter_map(|r| r.idempotency_key).collect();
        assert_eq!(keys.len(), 1);
        assert_eq!(pair.posts(), if kind == FaultKind::Hold { 2 } else { 1 }, "{kind:?}");
        assert_eq!(execution["attempts"].as_array().unwrap().len(), pair.posts());
    }
}
