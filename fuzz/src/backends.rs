//! Backend files: what loads sends secrets nowhere in the clear and can be used without a surprise; what does not is told with its place.

use std::collections::BTreeMap;
use std::path::Path;

use writ::backend::{Answer, Backends, EXAMPLES, Next, Outcome, SHIPPED};
use writ::domain::operation::Consequence;

use super::config::{PLANTED, told, with_password};
use super::edit;

/// The first byte chooses a shipped file, and text as it is, changes to that file, or that file with a secret where none belongs.
pub fn check(input: &[u8]) {
    let (kind, rest) = edit::head(input);
    let files = [&SHIPPED[..], &EXAMPLES[..]].concat();
    let (name, good) = files[usize::from(kind / 4) % files.len()];
    let bytes = match kind % 4 {
        0 => rest.to_vec(),
        1 | 2 => edit::apply(good.as_bytes(), rest),
        _ => return secretive(name, good, rest),
    };
    let Ok(text) = String::from_utf8(bytes) else { return };
    match Backends::from_texts([(name, text.as_str())], Path::new("/srv/writ")) {
        Ok(backends) => sound(&backends),
        Err(mistakes) => told(&mistakes, name),
    }
}

fn secretive(name: &str, good: &str, input: &[u8]) {
    let address = with_password(input);
    let text: Vec<String> = good
        .lines()
        .map(|line| match line.split('=').next().unwrap_or_default().trim() {
            "base_url" => format!("base_url = {address}"),
            "facts" => format!("facts = \"{PLANTED}\""),
            "write" => format!("write = {{ key = \"{PLANTED}\" }}"),
            _ => line.to_owned(),
        })
        .collect();
    let mistakes = Backends::from_texts([(name, text.join("\n").as_str())], Path::new(".")).expect_err("a file with secrets in it");
    assert!(!mistakes.to_string().contains(PLANTED), "a mistake repeats a secret: {mistakes}");
}

fn sound(backends: &Backends) {
    for backend in backends.backends() {
        let url = backend.base_url();
        let here = matches!(url.host_str(), Some("localhost" | "[::1]")) || url.host_str().is_some_and(|host| host.starts_with("127."));
        assert!(url.scheme() == "https" || url.scheme() == "http" && here, "{url}");
        assert!(
            url.username().is_empty() && url.password().is_none() && url.query().is_none(),
            "{url}"
        );
    }
    for operation in backends.operations() {
        assert_eq!(operation.is_read(), operation.consequence() == Consequence::Read, "{operation:?}");
        assert!(operation.is_read() || operation.window().is_some(), "{operation:?}");
        let money = operation.consequence() == Consequence::Money;
        let empty = writ::domain::json::Json::Object(BTreeMap::new());
        if let Ok(checked) = operation.check(&empty) {
            assert!(
                !money || checked.amount().is_some(),
                "an operation on money takes no amount: {operation:?}"
            );
        }
        let lifetime = operation.credential_lifetime();
        assert!(
            operation.is_read() || !lifetime.is_zero() && lifetime <= writ::token::MAX_LIFETIME,
            "{operation:?}"
        );
        let answer = Answer {
            status: 500,
            headers: BTreeMap::new(),
            body: b"{}".to_vec(),
        };
        let _ = operation.shape(&answer);
        if let Some(retry) = operation.retry() {
            assert!(retry.attempts() >= 1);
            assert_eq!(
                retry.after(Outcome::Applied, &answer),
                Next::LookUp,
                "what is done is done again: {operation:?}"
            );
        }
    }
}
