//! One `writ serve`, told where to die.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// SIGKILL.
const KILLED: i32 = 9;

/// A process that serves; killed when dropped.
pub struct Process {
    child: Child,
    /// Where it answers.
    pub url: String,
}

impl Process {
    /// Starts one, which dies at `point` if one is named. `None` if it died before it listened.
    pub async fn start(config: &Path, point: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_writ"));
        command.args(["serve", "--config"]).arg(config);
        match point {
            Some(point) => command.env("WRIT_CRASH_AT", point),
            None => command.env_remove("WRIT_CRASH_AT"),
        };
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).unwrap();
            line
        });
        let line = line.await.unwrap();
        let url = line.split(' ').find(|word| word.starts_with("http://")).unwrap_or_default();
        Self {
            child,
            url: url.to_owned(),
        }
    }

    /// Whether it has died of SIGKILL, which nobody but itself sends it.
    pub fn killed_itself(&mut self) -> bool {
        let ended = self.child.try_wait().unwrap();
        ended.is_some_and(|status| status.signal() == Some(KILLED))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
