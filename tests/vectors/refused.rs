//! `refused.json`: texts that the strict parser refuses, and the JSON pointer of the place it names.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use writ::domain::json::Json;

#[derive(Deserialize)]
struct Refused {
    name: String,
    #[serde(flatten)]
    text: Text,
    pointer: String,
}

/// The text as it is, or in base64 if it is not UTF-8.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Text {
    Text(String),
    Base64(String),
}

#[test]
fn what_is_refused_is_refused_at_its_place() {
    let vectors: Vec<Refused> = serde_json::from_str(include_str!("refused.json")).unwrap();
    assert!(vectors.len() >= 50, "only {} vectors", vectors.len());
    let mut wrong = Vec::new();
    for Refused { name, text, pointer } in vectors {
        let bytes = match text {
            Text::Text(text) => text.into_bytes(),
            Text::Base64(text) => STANDARD.decode(text).unwrap(),
        };
        match Json::parse(&bytes) {
            Ok(value) => wrong.push(format!("{name}: read as {value:?}")),
            Err(error) if error.pointer != pointer => wrong.push(format!("{name}: not at `{pointer}` but {error}")),
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Found by the fuzz target `record`: a name of eight thousand characters came back twice.
#[test]
fn a_refusal_does_not_repeat_a_long_text() {
    let name = "é".repeat(5_000);
    let error = Json::parse(format!("{{\"{name}\":-0}}").as_bytes()).unwrap_err();
    assert!(error.pointer.starts_with("/éé") && error.pointer.ends_with("é…"), "{error}");
    assert!(error.to_string().chars().count() < 350, "{error}");
    let error = Json::parse(format!("\"{name}\"").as_bytes()).unwrap().decode::<u8>().unwrap_err();
    assert!(error.to_string().chars().count() < 350, "{error}");
}
