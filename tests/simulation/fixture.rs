//! What every schedule of one thread shares: files, keys, policy, and a database that is put back to its beginning after each.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tempfile::TempDir;
use tokio_util::task::TaskTracker;
use writ::app::{self, Outside as AppOutside};
use writ::approval::RecordSigner;
use writ::audit::LogFiles;
use writ::backend::{Backends, Clients, Need, SHIPPED, Wire, relocated};
use writ::broker::{self, Broker};
use writ::config::{self, Config};
use writ::domain::principal::Client;
use writ::domain::secret::Secret;
use writ::policy::Policy;
use writ::proxy::{self, LogTrust, Proxy};
use writ::setup::{self, Approvers, Endpoint, Options};
use writ::store::Store as _;
use writ::store::health::{ClockState, Reserve};
use writ::store::sqlite::SqliteStore;
use writ::token::{KeyRing, KeySet, PUBLIC_KEYS_FILE, Verifier};

use super::bank::{Bank, Habits};
use super::chance::{Bytes, Outside, WallClock};
use super::faulty::{FaultyStore, at_once};
use super::gates::Gates;
use super::mood::Mood;
use super::watch::Watch;
use super::wire::ModelWire;

/// How many processes share the store.
pub const WORKERS: usize = 2;

/// How long the backend's client waits, in milliseconds: `total_timeout` of the shipped file.
pub const PATIENCE: i64 = 30_000;

/// What the backend knows the reader by, and signs its events with.
pub const READER: &str = "sk_reader_of_the_simulation";

/// The people who can sign.
pub const APPROVERS: [&str; 3] = ["usr_mia", "usr_tom", "usr_ann"];

/// A backend file and the habits that it describes, and some that it does not.
pub struct Variant {
    pub name: &'static str,
    pub backends: Arc<Backends>,
    pub habits: Habits,
    /// Whether the file promises a key.
    pub keyed: bool,
}

impl Variant {
    /// Whether a request may arrive after its sender has stopped waiting. Beside a repetition a backend that ignores keys would do both, and nothing
    /// but keys can prevent that.
    pub fn arrives_late(&self) -> bool {
        self.habits.remembers > 0 || !self.keyed
    }
}

/// One process of the machine that is simulated; its connections outlive its lives.
pub struct Process {
    pub store: Arc<SqliteStore>,
    pub clock: Arc<WallClock>,
    pub entropy: Arc<Bytes>,
}

/// Everything that is made once.
pub struct Fixture {
    _made: TempDir,
    _database: TempDir,
    pub variants: Vec<Variant>,
    pub processes: Vec<Process>,
    pub outside: Arc<Outside>,
    pub watch: Arc<Watch>,
    pub agent: Client,
    pub desk: Client,
    pub signers: Vec<RecordSigner>,
    pub audience: String,
    pub threads: tokio::runtime::Runtime,
    config: Config,
    pub policy: Arc<Policy>,
    rule_signer: Arc<RecordSigner>,
    keys: Arc<KeyRing>,
    verifier: Arc<Verifier>,
    cleaner: Connection,
    tables: Vec<String>,
    /// Those that are not empty at the beginning.
    filled: Vec<String>,
    log: LogFiles,
    trust: Arc<LogTrust>,
    /// What the log's head file held at the beginning.
    head: Vec<u8>,
}

/// One life of a process.
pub struct Life {
    pub broker: Arc<Broker>,
    pub proxy: Proxy,
    pub store: Arc<FaultyStore>,
    pub tasks: TaskTracker,
}

fn edited(text: &str, edits: &[(&str, &str)]) -> String {
    edits.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "the shipped file does not hold `{from}`");
        text.replacen(from, to, 1)
    })
}

fn variants() -> Vec<Variant> {
    let (_, shipped) = SHIPPED.iter().find(|(name, _)| *name == "stripe.toml").unwrap();
    let shipped = relocated("stripe.toml", shipped, "http://127.0.0.1:9").unwrap();
    let day = Habits {
        remembers: 86_400_000,
        counts: true,
        retries_refusals: false,
    };
    let short = [
        ("window  = \"24h\"", "window  = \"30m\""),
        ("safety  = \"1h\"", "safety  = \"5m\""),
        ("absent = \"inconclusive\"", "absent = \"proof\"\nsettle = \"120s\"\nrepeats = 2"),
    ];
    let half_hour = Habits {
        remembers: 1_800_000,
        ..day
    };
    let keyless = [
        (
            "place   = \"header\"\nname    = \"idempotency-key\"\nmax_len = 255\nwindow  = \"24h\"\nsafety  = \"1h\"\nreplay  = \"stored\"",
            "place   = \"none\"",
        ),
        ("on              = [\"in_flight\", \"not_executed\"]", "on              = []"),
        ("attempts        = 4", "attempts        = 1"),
        (
            "[[operation.reconcile]]\nname = \"send the same request under the same key\"\nkind = \"replay\"\n",
            "",
        ),
    ];
    let make = |name, edits: &[(&str, &str)], habits, keyed| {
        let text = edited(&shipped, edits);
        let backends = Backends::from_texts([("stripe.toml", text.as_str())], Path::new("."));
        let backends = backends.unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"));
        Variant {
            name,
            backends: Arc::new(backends),
            habits,
            keyed,
        }
    };
    vec![
        make("as shipped", &[], day, true),
        make("a short window, and absence as proof", &short, half_hour, true),
        make(
            "refusals run again",
            &[("replay  = \"stored\"", "replay  = \"reexecutes_failures\"")],
            Habits {
                retries_refusals: true,
                ..day
            },
            true,
        ),
        make("a backend that counts nothing", &[], Habits { counts: false, ..day }, true),
        make(
            "a backend that ignores keys though its file promises them",
            &[],
            Habits { remembers: 0, ..day },
            true,
        ),
        make("no key at all", &keyless, Habits { remembers: 0, ..day }, false),
    ]
}

/// Where a database costs no disk, if there is such a place.
fn quick() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

impl Fixture {
    pub fn new() -> Self {
        let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outside = Arc::new(Outside::default());
        outside.reset();
        let first = AppOutside {
            clock: Arc::new(WallClock::new(outside.clone())),
            entropy: Arc::new(Bytes::new(7)),
        };
        let made = tempfile::tempdir().unwrap();
        let endpoint = Endpoint {
            name: "stripe",
            url: "http://127.0.0.1:9".to_owned(),
            facts: Secret::new(READER.to_owned()),
            read: Secret::new(READER.to_owned()),
            write: Secret::new("sk_writer".to_owned()),
        };
        let options = Options {
            dir: made.path().join("writ"),
            broker_listen: "127.0.0.1:8700".to_owned(),
            proxy_listen: "127.0.0.1:8701".to_owned(),
            public_url: None,
            audience: None,
            endpoints: vec![endpoint],
            approvers: Approvers::Examples,
        };
        let created = threads.block_on(setup::create(&options, &first)).unwrap();
        let config = Config::load(&created.config).unwrap();
        let database = quick();
        let path = database.path().join("writ.db");
        let template = database.path().join("template.db");
        for to in [&path, &template] {
            Connection::open(&config.store)
                .unwrap()
                .execute("VACUUM INTO ?1", [to.to_str().unwrap()])
                .unwrap();
        }
        let made_log = app::log_files(&config);
        let head = std::fs::read(&made_log.head).unwrap();
        // Flushed with every commit, so it lies where that costs nothing, as the database does.
        let log = LogFiles {
            head: database.path().join("writ.head"),
            ..made_log
        };
        std::fs::write(&log.head, &head).unwrap();
        let processes: Vec<Process> = (0..WORKERS)
            .map(|_| {
                let clock = Arc::new(WallClock::new(outside.clone()));
                let entropy = Arc::new(Bytes::new(0));
                let store = SqliteStore::open(&path, &Reserve::default(), log.clone(), clock.clone(), entropy.clone()).unwrap();
                Process {
                    store: Arc::new(store),
                    clock,
                    entropy,
                }
            })
            .collect();
        let cleaner = cleaner(&path, &template);
        let tables = tables(&cleaner);
        let is_filled = |table: &&String| {
            let sql = format!("SELECT 1 FROM template.{table}");
            cleaner.prepare(&sql).unwrap().exists([]).unwrap()
        };
        let filled = tables.iter().filter(is_filled).map(|table| fill(&cleaner, table)).collect();
        let client = |id: &str| created.clients.iter().find(|(c, _)| c.id.as_str() == id).unwrap().0.clone();
        let signer = |id: &&str| {
            let (_, path) = created.approvers.iter().find(|(who, _)| who.as_str() == *id).unwrap();
            let pem = Secret::new(std::fs::read_to_string(path).unwrap());
            RecordSigner::from_pkcs8_pem(&pem, format!("{id}-1").parse().unwrap()).unwrap()
        };
        let rule_key = app::read_private(&config.keys.join(config::POLICY_KEY)).unwrap();
        let kid = app::policy_key_id(&config.policy_approver).unwrap();
        let published = std::fs::read(config.keys.join(PUBLIC_KEYS_FILE)).unwrap();
        let reader = Connection::open(&path).unwrap();
        Self {
            variants: variants(),
            processes,
            outside,
            watch: Arc::new(Watch::new(reader, PATIENCE)),
            agent: client("support-agent"),
            desk: client("review-desk"),
            signers: APPROVERS.iter().map(signer).collect(),
            audience: config.audience.to_string(),
            policy: Arc::new(Policy::load(&config.policy).unwrap()),
            rule_signer: Arc::new(RecordSigner::from_pkcs8_pem(&rule_key, kid).unwrap()),
            keys: Arc::new(KeyRing::load(&config.keys).unwrap()),
            verifier: Arc::new(Verifier::new(KeySet::from_json(&published).unwrap(), config.proxy_audience.clone())),
            config,
            threads,
            cleaner,
            tables,
            filled,
            trust: Arc::new(LogTrust::read(log.clone()).unwrap()),
            log,
            head,
            _made: made,
            _database: database,
        }
    }

    /// Puts everything back to the beginning.
    pub fn reset(&self, seed: u64, traced: bool) {
        self.watch.reset(traced);
        for process in &self.processes {
            // A clock that ended behind must have caught up before its times are taken away.
            process.clock.set_ahead(10_000);
            if !matches!(process.store.health().clock, ClockState::Steady) {
                self.beat(process);
            }
        }
        self.outside.reset();
        for (n, process) in (0_u64..).zip(&self.processes) {
            process.clock.set_ahead(0);
            process.entropy.reseed(seed.wrapping_mul(31).wrapping_add(n + 1));
        }
        self.cleaner.execute_batch("BEGIN IMMEDIATE").unwrap();
        for table in &self.tables {
            self.cleaner
                .prepare_cached(&format!("DELETE FROM main.{table}"))
                .unwrap()
                .execute([])
                .unwrap();
        }
        for fill in &self.filled {
            self.cleaner.prepare_cached(fill).unwrap().execute([]).unwrap();
        }
        self.cleaner.execute_batch("COMMIT").unwrap();
        std::fs::write(&self.log.head, &self.head).unwrap();
        for process in &self.processes {
            process.store.reread_log();
        }
        for process in &self.processes {
            self.beat(process);
        }
    }

    /// Lets the store look at its clock and at what is written down.
    fn beat(&self, process: &Process) {
        at_once(self.threads.handle(), process.store.probe()).unwrap();
    }

    /// Starts a process: what it was before is gone, but for what is stored.
    pub fn live(&self, worker: usize, variant: &Variant, mood: Mood, gates: &Arc<Gates>, bank: &Arc<Mutex<Bank>>) -> Life {
        let process = &self.processes[worker];
        let life = gates.life(worker);
        let store = Arc::new(FaultyStore {
            worker,
            life,
            inner: process.store.clone(),
            clock: process.clock.clone(),
            gates: gates.clone(),
            watch: self.watch.clone(),
            threads: self.threads.handle().clone(),
        });
        let connect = |_: &Arc<writ::backend::Backend>| {
            let wire: Box<dyn Wire> = Box::new(ModelWire {
                worker,
                life,
                gates: gates.clone(),
                bank: bank.clone(),
                outside: self.outside.clone(),
                watch: self.watch.clone(),
                clock: process.clock.clone(),
                patience: PATIENCE,
                arrives_late: variant.arrives_late(),
            });
            Ok(wire)
        };
        let env = |name: &str| Some(if name.contains("WRITE") { "sk_writer" } else { READER }.to_owned());
        let clients = |need| Arc::new(Clients::over(&variant.backends, need, &env, &connect).unwrap());
        let tasks = TaskTracker::new();
        let broker = Arc::new(Broker {
            store: store.clone(),
            clock: process.clock.clone(),
            entropy: process.entropy.clone(),
            policy: self.policy.clone(),
            backends: variant.backends.clone(),
            facts: clients(Need::Broker),
            rule_signer: self.rule_signer.clone(),
            keys: RwLock::new(self.keys.clone()),
            key_files_ok: AtomicBool::new(true),
            settings: broker::Settings {
                audience: self.config.audience.clone(),
                proxies: vec![self.config.proxy_audience.clone()],
                draft_lifetime: if mood.short_lived {
                    Duration::from_secs(150)
                } else {
                    self.config.draft_lifetime
                },
                card_lifetime: if mood.short_lived {
                    Duration::from_secs(100)
                } else {
                    self.config.card_lifetime
                },
                execution_window: self.config.execution_window,
                policy_approver: self.config.policy_approver.clone(),
            },
        });
        let proxy = Proxy::new(proxy::Parts {
            store: store.clone(),
            clock: process.clock.clone(),
            entropy: process.entropy.clone(),
            backends: variant.backends.clone(),
            clients: clients(Need::Proxy),
            verifier: self.verifier.clone(),
            log: self.trust.clone(),
            settings: proxy::Settings {
                audience: self.config.proxy_audience.clone(),
                holder: format!("proxy-{worker}-{life}"),
                lease: Duration::from_secs(60),
                require_receipt: false,
            },
            tasks: tasks.clone(),
        });
        Life {
            broker,
            proxy,
            store,
            tasks,
        }
    }
}

/// A connection that may take rows back out: nothing of the program can.
fn cleaner(path: &Path, template: &Path) -> Connection {
    let cleaner = Connection::open(path).unwrap();
    cleaner.set_prepared_statement_cache_capacity(128);
    cleaner.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    cleaner.pragma_update(None, "foreign_keys", false).unwrap();
    cleaner.busy_timeout(Duration::from_secs(5)).unwrap();
    cleaner.execute("ATTACH ?1 AS template", [template.to_str().unwrap()]).unwrap();
    cleaner
}

/// The statement that takes a table's rows from the template; columns that follow from others are not written.
fn fill(connection: &Connection, table: &str) -> String {
    let sql = "SELECT group_concat(name) FROM pragma_table_info(?1)";
    let columns: String = connection.query_row(sql, [table], |row| row.get(0)).unwrap();
    format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM template.{table}")
}

/// Every table that a schedule can change.
fn tables(connection: &Connection) -> Vec<String> {
    let mut statement = connection
        .prepare("SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'lifecycle'")
        .unwrap();
    let names = statement.query_map([], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}
