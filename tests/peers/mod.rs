//! Programs that nobody here wrote: what they do by themselves, so that the other tests can rely on it.

mod cutting;
mod events;
mod payments;
mod refunds;

use crate::support::peers;

#[test]
fn the_pinned_peers_answer() {
    if let Some(mut python) = peers::python() {
        let out = peers::output(python.args(["-c", "import joserfc, biscuit_auth; print('ok')"]));
        assert_eq!(out.trim(), "ok");
    }
    assert!(peers::script("resolve.mjs").is_file());
    if let Some(mut node) = peers::node() {
        let script = "await import('jose'); await import('@biscuit-auth/biscuit-wasm'); console.log('ok')";
        let out = peers::output(node.args(["--input-type=module", "-e", script]));
        assert_eq!(out.lines().last(), Some("ok"), "{out}");
    }
}
