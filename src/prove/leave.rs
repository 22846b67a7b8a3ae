//! What a run leaves behind: a signed report in a file, and one event in the deployment's log that holds its hash.

use std::fs;
use std::path::PathBuf;

use reqwest::Method;
use serde_json::json;

use super::deployment::Deployment;
use super::outcome::Amiss;
use super::report::Report;
use super::wire::{Body, By};
use crate::approval::RecordSigner;
use crate::domain::digest::Digest;
use crate::setup::write;

/// The `typ` of a signed report: no approval record passes for one, and none of these for an approval.
pub const REPORT_TYPE: &str = "writ-proof+jws";

/// Where a report was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The file: a compact JWS (RFC 7515) whose payload is the report.
    pub file: PathBuf,
    /// SHA-256 of the file.
    pub sha256: Digest,
    /// Whether it is in the deployment's log; or why not.
    pub logged: Result<(), String>,
}

/// Writes the report and tells the deployment of it, in this order: what the log names exists.
pub(super) async fn leave(deployment: &Deployment, report: &Report) -> Result<Left, String> {
    let settings = &deployment.settings;
    let payload = serde_json::to_vec(report).map_err(|error| format!("the report cannot be written: {error}"))?;
    let signed =
        RecordSigner::from_pkcs8_pem(&settings.key.key, settings.key.kid.clone()).and_then(|s| s.sign_bytes(REPORT_TYPE, &payload));
    let signed = signed.map_err(|error| format!("the report cannot be signed: {error}"))?;
    fs::create_dir_all(&settings.reports).map_err(|error| format!("{}: {error}", settings.reports.display()))?;
    let stamp: String = report.started_at.to_string().chars().filter(char::is_ascii_alphanumeric).collect();
    let file = settings.reports.join(format!("{stamp}-{}.jws", report.run));
    write(&file, &signed, 0o644)?;
    let sha256 = Digest::of(signed.as_bytes());
    let logged = match &settings.reporter {
        None => Err("the settings name no `reporter`".to_owned()),
        Some(reporter) => {
            let counts = report.counts;
            let body = json!({
                "report_sha256": sha256, "passed": counts.passed, "failed": counts.failed,
                "passed_through": counts.passed_through, "not_applicable": counts.not_applicable,
            });
            let url = deployment.at("/v1/proofs");
            let told = deployment
                .wire
                .call(Method::POST, &url, By::Client(reporter), Body::Json(body))
                .await;
            told.and_then(|reply| reply.done("the report"))
                .map(drop)
                .map_err(|amiss| match amiss {
                    Amiss::Through(why) | Amiss::Unclear(why) | Amiss::NotApplicable(why) => why,
                })
        }
    };
    Ok(Left { file, sha256, logged })
}
