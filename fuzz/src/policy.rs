//! Policy files: what loads keeps its limits in order and asks for queues it knows; what does not is told with file and remedy.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use tempfile::TempDir;
use writ::policy::Policy;

use super::edit;

const FILES: [(&str, &str); 4] = [
    ("limits.toml", include_str!("../../policies/cedar/limits.toml")),
    ("rules.cedar", include_str!("../../policies/cedar/rules.cedar")),
    ("schema.cedarschema", include_str!("../../policies/cedar/schema.cedarschema")),
    ("policy.toml", include_str!("../../policies/cedar/policy.toml")),
];

static DIR: LazyLock<TempDir> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
});

/// The first byte chooses one of the four files, and bytes as they are or changes to it; the other three are the shipped ones.
pub fn check(input: &[u8]) {
    let (kind, rest) = edit::head(input);
    let (name, good) = FILES[usize::from(kind >> 1) % FILES.len()];
    let bytes = if kind & 1 == 0 {
        rest.to_vec()
    } else {
        edit::apply(good.as_bytes(), rest)
    };
    let path = DIR.path().join(name);
    fs::write(&path, bytes).unwrap();
    let loaded = Policy::load(DIR.path());
    fs::write(&path, good).unwrap();
    match loaded {
        Ok(policy) => sound(&policy),
        Err(mistakes) => {
            assert!(!mistakes.0.is_empty());
            for mistake in &mistakes.0 {
                assert!(
                    !mistake.file.is_empty() && !mistake.problem.is_empty() && !mistake.remedy.is_empty(),
                    "{mistake:?}"
                );
                assert!(!Path::new(&mistake.file).is_absolute(), "{mistake:?}");
            }
        }
    }
}

fn sound(policy: &Policy) {
    let limits = policy.limits();
    assert!(limits.version >= 1 && policy.reference().version >= 1);
    for (currency, limit) in &limits.by_currency {
        assert!(
            0 <= limit.ask_above && limit.ask_above <= limit.two_above && limit.two_above <= limit.never_above,
            "{currency}: {limit:?}"
        );
        assert!(limit.never_above <= writ::domain::money::MAX_SAFE_INTEGER, "{currency}: {limit:?}");
    }
    for operation in policy.operations() {
        assert!(policy.consequence(&operation).is_some(), "{operation}");
    }
}
