//! The configuration file: what loads keeps its bounds; what does not is told with its place, and without a password that stood in an address.

use std::path::Path;
use std::time::Duration;

use writ::config::Config;
use writ::domain::name::PrincipalId;
use writ::settings::Mistakes;

use super::edit;

const GOOD: &str = include_str!("../example.toml");

/// Stands for a secret that somebody wrote where none belongs.
pub(super) const PLANTED: &str = "Planted7Secret";

/// The first byte chooses: text as it is, changes to a good file, or a good file whose address holds a password.
pub fn check(input: &[u8]) {
    let (kind, rest) = edit::head(input);
    let bytes = match kind % 3 {
        0 => rest.to_vec(),
        1 => edit::apply(GOOD.as_bytes(), rest),
        _ => {
            let address = with_password(rest);
            let text = GOOD.replace("public_url       = \"http://127.0.0.1:8700\"", &format!("public_url = {address}"));
            if let Err(mistakes) = Config::parse("writ.toml", &text, Path::new(".")) {
                assert!(!mistakes.to_string().contains(PLANTED), "a mistake repeats a password: {mistakes}");
            }
            return;
        }
    };
    let Ok(text) = String::from_utf8(bytes) else { return };
    let dir = Path::new("/srv/writ");
    match Config::parse("writ.toml", &text, dir) {
        Ok(config) => bounds(&config, dir),
        Err(mistakes) => told(&mistakes, "writ.toml"),
    }
}

/// An address with a password in it, as TOML text; its other parts are made of the input.
pub(super) fn with_password(input: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(input)
        .chars()
        .filter(|c| !matches!(c, '"' | '\\') && !c.is_control())
        .collect();
    let half = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    let (before, after) = text.split_at(half);
    format!("\"{before}://user:{PLANTED}@{after}\"")
}

/// Each mistake names its file and its place and says something.
pub(super) fn told(mistakes: &Mistakes, file: &str) {
    assert!(!mistakes.0.is_empty());
    for mistake in &mistakes.0 {
        assert!(mistake.file == file && !mistake.problem.is_empty(), "{mistake:?}");
        assert!(!mistake.place.is_empty(), "no place is named: {mistake:?}");
    }
}

fn bounds(config: &Config, dir: &Path) {
    let month = Duration::from_secs(30 * 86_400);
    for lifetime in [config.draft_lifetime, config.card_lifetime, config.execution_window] {
        assert!(lifetime >= Duration::from_secs(1) && lifetime <= month, "{config:?}");
    }
    assert!(
        config.lease >= Duration::from_secs(5) && config.lease <= Duration::from_secs(600),
        "{config:?}"
    );
    assert!(PrincipalId::is_rule(&config.policy_approver), "{config:?}");
    let url = config.public_url.as_str();
    assert!(url.trim_start().to_ascii_lowercase().starts_with("http"), "{config:?}");
    for path in [&config.store, &config.keys, &config.policy, &config.backends] {
        assert!(path.starts_with(dir) || path.is_absolute(), "{config:?}");
    }
}

/// The good file is one.
pub fn the_example_loads() {
    Config::parse("writ.toml", GOOD, Path::new(".")).unwrap_or_else(|mistakes| panic!("{mistakes}"));
}
