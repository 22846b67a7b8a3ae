//! A working directory with a prover, its sandbox and its server, all real processes.

use std::path::Path;

use serde_json::Value;

use crate::cli::support::{Ran, Server, writ};

/// A deployment that `writ init` made for a sandbox, running.
pub struct Stage {
    pub temp: tempfile::TempDir,
    pub config: String,
    pub sandbox: Server,
    pub server: Server,
}

impl Stage {
    pub fn new() -> Self {
        let sandbox = Server::start(&["sandbox", "--port", "0"]);
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("work").display().to_string();
        writ(&["init", &dir, "--json", "--listen", "127.0.0.1:0", "--sandbox-url", &sandbox.url]).json();
        // This sandbox has keys of its own, and its port was not known before.
        for (file, key) in [("facts", "read_key"), ("read", "read_key"), ("write", "write_key")] {
            for backend in ["stripe", "shop"] {
                let path = temp.path().join("work/secrets").join(format!("{backend}-{file}"));
                std::fs::write(path, sandbox.said[key].as_str().unwrap()).unwrap();
            }
        }
        let config = format!("{dir}/writ.toml");
        let server = Server::start(&["serve", "--config", &config]);
        Self {
            temp,
            config,
            sandbox,
            server,
        }
    }

    /// A path in the working directory.
    pub fn path(&self, below: &str) -> String {
        self.temp.path().join("work").join(below).display().to_string()
    }

    /// Runs `writ prove` against this broker and proxy.
    pub fn prove(&self, url: &str, arguments: &[&str]) -> Ran {
        let config = self.path("prove.toml");
        writ(&[&["prove", "--config", &config, "--broker", url], arguments].concat())
    }

    /// Every event in the log, oldest first.
    pub fn events(&self) -> Vec<Value> {
        let text = writ(&["events", "--config", &self.config]).ok();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Changes the settings file.
    pub fn settings(&self, change: impl FnOnce(&mut toml::Table)) {
        let path = self.path("prove.toml");
        let mut table: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        change(table["prove"].as_table_mut().unwrap());
        std::fs::write(path, table.to_string()).unwrap();
    }

    /// The only report that was left.
    pub fn report(&self) -> std::path::PathBuf {
        let files: Vec<_> = std::fs::read_dir(Path::new(&self.path("proofs"))).unwrap().collect();
        assert_eq!(files.len(), 1);
        files[0].as_ref().unwrap().path()
    }
}

/// What a run said of each guarantee: its result and whether something passed through.
pub fn findings(said: &Value) -> Vec<(String, String, bool, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let found = said["report"]["guarantees"].as_array().unwrap().iter();
    found
        .map(|g| {
            (
                text(&g["name"]),
                text(&g["result"]),
                g["passed_through"].as_bool().unwrap(),
                text(&g["reason"]),
            )
        })
        .collect()
}
