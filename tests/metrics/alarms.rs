//! The alarms and the dashboard in `deploy/`, read by Prometheus' own tool, and held against a real scrape.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use writ::sandbox::{Fault, FaultKind};

use super::scrape;
use crate::proxy::told::{event, with};
use crate::support::peers::{self, root};
use crate::support::world::{Setup, World};

/// A scrape in which everything stands that can stand there: what waits, what is lost, what was refused.
async fn full_scrape() -> String {
    // Nobody asks the witness here; it is only told of.
    let witness = "[[audit.witness]]\nurl = \"http://127.0.0.1:9\"\nvkey = \"w.example/1+29ca9143+BGrVnuu0mczCCrCPnrKPUX+2mfVszL6C0xEXrnK+gOIh\"\n[policy]";
    let world = World::with(Setup::edit("writ.toml", "[policy]", witness)).await;
    let draft = world.allowed_draft().await;
    let token = world.credential(&draft).await;
    world.sandbox.fault(Fault::once(FaultKind::DropAfter, "POST", "/v1/refunds"));
    world
        .sandbox
        .fault(Fault::times(FaultKind::Error503Before, "GET", "/v1/refunds", 1_000));
    world.execute(&token, &draft).await.expect(202);
    world.held_draft().await;
    world.execute("no-token", &draft).await.refused(401, "credential_malformed");
    let mistaken = with(&event(&world, "refund.failed"), &[("/data/object/amount", json!(1))]);
    assert_eq!(crate::proxy::told::told(&world, &mistaken).await["finding"], "disagrees");
    world.later(Duration::from_secs(90)).await;
    let stop = json!({ "scope": "everything", "reason": "incident 7" });
    world.call("security", "POST", "/v1/stops", Some(stop)).await.expect(201);
    scrape(&world).await
}

/// The names of the samples in a scrape.
fn told(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .filter_map(|line| line.split(['{', ' ']).next().map(str::to_owned))
        .collect()
}

/// Every name of ours in an expression or a file of them.
fn asked(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("writ_")).map(str::to_owned).collect()
}

#[tokio::test]
async fn alarms_and_dashboard_ask_only_for_what_is_told_and_for_all_of_it() {
    let told = told(&full_scrape().await);
    let alarms = std::fs::read_to_string(root().join("deploy/prometheus/alerts.yml")).unwrap();
    let tests = std::fs::read_to_string(root().join("deploy/prometheus/alerts_test.yml")).unwrap();
    let dashboard: Value = serde_json::from_slice(&std::fs::read(root().join("deploy/grafana/writ.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let shown: BTreeSet<String> = targets.flat_map(|target| asked(target["expr"].as_str().unwrap())).collect();
    for names in [asked(&alarms), asked(&tests), shown.clone()] {
        assert!(
            names.is_subset(&told),
            "{:?} is told by nobody",
            names.difference(&told).collect::<Vec<_>>()
        );
    }
    let sums = |name: &&String| !name.ends_with("_sum") && !name.ends_with("_count");
    let unseen: Vec<_> = told.difference(&shown).filter(sums).collect();
    assert!(unseen.is_empty(), "{unseen:?} is on no panel");
}

#[tokio::test]
async fn prometheus_own_tool_finds_no_fault_with_a_scrape() {
    let Some(mut promtool) = peers::promtool() else { return };
    let text = full_scrape().await;
    let mut child = promtool
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.trim().is_empty(), "{said}\n{text}");
}

#[test]
fn every_alarm_fires_on_what_it_is_about_and_none_when_all_is_calm() {
    let Some(mut promtool) = peers::promtool() else { return };
    promtool.current_dir(root().join("deploy/prometheus"));
    let said = peers::output(promtool.args(["test", "rules", "alerts_test.yml"]));
    assert!(said.contains("SUCCESS"), "{said}");
    let alarms = std::fs::read_to_string(root().join("deploy/prometheus/alerts.yml")).unwrap();
    let tests = std::fs::read_to_string(root().join("deploy/prometheus/alerts_test.yml")).unwrap();
    let named = |line: &str| line.trim().strip_prefix("- alert: ").map(str::to_owned);
    let names: Vec<_> = alarms.lines().filter_map(named).collect();
    assert!(names.len() >= 15, "{names:?}");
    for name in names {
        assert!(tests.contains(&name), "no test makes {name} fire");
    }
}

#[tokio::test]
async fn the_page_names_every_metric_and_no_other() {
    let page = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let named: BTreeSet<String> = rows.map(str::to_owned).collect();
    let whole = |name: String| {
        let parts = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        parts.map_or(name.clone(), str::to_owned)
    };
    let told: BTreeSet<String> = told(&full_scrape().await).into_iter().map(whole).collect();
    assert_eq!(named, told);
}
