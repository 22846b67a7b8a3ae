//! The answers of the API as they come, against its description: what is not described is a failure, and what was seen can be counted.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

use serde_json::Value;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::to_value(writ::http::document()).unwrap());

/// Where answers are written down, if anybody wants to know afterwards which have been seen: one file for each process.
static SEEN: LazyLock<Option<(PathBuf, Mutex<BTreeSet<String>>)>> = LazyLock::new(|| {
    let dir = PathBuf::from(std::env::var_os("WRIT_ANSWERS_SEEN")?);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("openapi.json"), DOCUMENT.to_string()).unwrap();
    Some((dir.join(format!("{}.seen", std::process::id())), Mutex::default()))
});

/// The call that this method and path are, in the document; `None` if there is none.
fn call(method: &str, path: &str) -> Option<&'static Value> {
    let path = path.split('?').next().unwrap();
    let fits = |template: &str| {
        let (mut given, mut wanted) = (path.split('/'), template.split('/'));
        loop {
            match (given.next(), wanted.next()) {
                (None, None) => return true,
                // A tile's index goes on over slashes.
                (Some(_), Some("{index}")) => return true,
                (Some(given), Some(wanted)) if given == wanted || wanted.starts_with('{') => {}
                _ => return false,
            }
        }
    };
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let item = paths
        .get(path)
        .or_else(|| paths.iter().find(|(template, _)| fits(template)).map(|(_, item)| item))?;
    item.get(method.to_ascii_lowercase())
}

/// Holds an answer against the description of its call.
pub fn hold(method: &str, path: &str, status: u16, media: &str, body: &Value) {
    let Some(call) = call(method, path) else {
        // Metrics are told at an address of their own, which is no part of the API.
        assert!(
            matches!(status, 404 | 405) || path == "/metrics",
            "{method} {path} is in no description and answers {status}"
        );
        return;
    };
    // The other half of a process that is only one: the path is described and not there.
    if status == 404 && body["detail"].as_str().is_some_and(|detail| detail.contains("no such path")) {
        return;
    }
    let name = call["operationId"].as_str().unwrap();
    let answer = &call["responses"][status.to_string()];
    let code = body["code"].as_str().filter(|_| status >= 400);
    assert!(
        answer.is_object(),
        "{name} answers {status}, which its description does not list: {body}"
    );
    if let Some(content) = answer["content"].as_object() {
        let described = content.get(media.split(';').next().unwrap());
        assert!(
            described.is_some(),
            "{name} answers {status} as `{media}`, and its description says otherwise"
        );
        if status >= 400 {
            let codes = described
                .and_then(|d| d.pointer("/schema/allOf/1/properties/code/enum"))
                .and_then(Value::as_array);
            let known = codes.is_some_and(|codes| codes.iter().any(|known| Some(known) == body.get("code")));
            assert!(
                known,
                "{name} answers {status} with a code that its description does not list: {body}"
            );
        }
    }
    if let Some((file, seen)) = &*SEEN {
        let line = format!("{name} {status} {}\n", code.unwrap_or("-"));
        if seen.lock().unwrap().insert(line.clone()) {
            let mut file = fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
            // In one piece: other tests of this process write here as well.
            file.write_all(line.as_bytes()).unwrap();
        }
    }
}
