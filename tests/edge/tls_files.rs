//! What is wrong with the files of a listener's TLS is told before it serves.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use crate::cli::support::{Server, Work};
use crate::support::certificates::{Authority, Holds, private};

/// A working directory whose broker has these lines in `[broker.tls]`.
pub fn work(tls: &str) -> Work {
    let work = Work::new();
    work.edit("writ.toml", "public_url       = \"http:", "public_url       = \"https:");
    work.edit("writ.toml", "[proxy]\n", &format!("[broker.tls]\n{tls}\n[proxy]\n"));
    fs::create_dir(work.path("tls")).unwrap();
    work
}

pub const PAIR: &str = "certificate = \"tls/server.pem\"\nkey = \"tls/server.key\"";

fn complaint(work: &Work) -> String {
    let complaint = work.run(&["config", "check"]).refused(1);
    assert_eq!(
        work.run(&["serve"]).refused(1),
        complaint,
        "what check finds keeps serve from starting"
    );
    complaint
}

#[test]
fn files_that_are_not_there_are_named_both_at_once() {
    let complaint = complaint(&work(PAIR));
    assert!(
        complaint.contains("tls/server.pem") && complaint.contains("tls/server.key"),
        "{complaint}"
    );
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let work = work(PAIR);
    Authority::new().server(Holds::Always).write(&work.path("tls"), "server");
    assert_eq!(work.run(&["config", "check"]).ok(), "ok\n");
    fs::set_permissions(work.path("tls/server.key"), Permissions::from_mode(0o640)).unwrap();
    let complaint = complaint(&work);
    assert!(complaint.contains("server.key can be read by others (mode 0640)"), "{complaint}");
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let work = work(PAIR);
    let authority = Authority::new();
    authority.server(Holds::Always).write(&work.path("tls"), "server");
    private(&work.path("tls/server.key"), &authority.server(Holds::Always).key);
    let complaint = complaint(&work);
    assert!(
        complaint.contains("server.key: is not the key of the first certificate"),
        "{complaint}"
    );
}

#[test]
fn a_certificate_outside_its_time_is_refused() {
    for (holds, why) in [(Holds::NoLonger, "expired at 2021-01-01"), (Holds::NotYet, "holds from 2099-01-01")] {
        let work = work(PAIR);
        Authority::new().server(holds).write(&work.path("tls"), "server");
        let complaint = complaint(&work);
        assert!(complaint.contains(why), "{complaint}");
    }
}

#[test]
fn files_that_hold_something_else_are_refused() {
    let work = work(&format!("{PAIR}\nclient_ca = \"tls/clients.pem\""));
    let pair = Authority::new().server(Holds::Always);
    pair.write(&work.path("tls"), "server");
    private(&work.path("tls/clients.pem"), &Authority::new().pem);
    for (file, text, why) in [
        ("tls/server.pem", "nothing", "holds no certificate"),
        ("tls/server.key", "nothing", "holds no private key in PEM"),
        ("tls/clients.pem", "", "clients.pem: holds no certificate"),
    ] {
        let kept = fs::read_to_string(work.path(file)).unwrap();
        private(&work.path(file), text);
        let complaint = complaint(&work);
        assert!(complaint.contains(why), "{why} is missing in {complaint}");
        private(&work.path(file), &kept);
    }
    assert_eq!(work.run(&["config", "check"]).ok(), "ok\n");
}

#[test]
fn settings_that_contradict_each_other_are_told() {
    let work = work(&format!("{PAIR}\nclient_certificate = \"required\"\nsurprise = 1"));
    work.edit("writ.toml", "public_url       = \"https:", "public_url       = \"http:");
    let complaint = work.run(&["config", "check"]).refused(1);
    for planted in [
        "broker.tls.client_certificate: needs `client_ca`",
        "broker.tls.surprise",
        "broker.public_url: `http://127.0.0.1:0` is not https",
    ] {
        assert!(complaint.contains(planted), "{planted} is missing in {complaint}");
    }
}

#[test]
fn the_proxy_has_a_certificate_of_its_own() {
    let work = Work::new();
    work.edit("writ.toml", "listen   = \"127.0.0.1:8701\"", "listen   = \"127.0.0.1:0\"");
    work.edit("writ.toml", "[store]\n", &format!("[proxy.tls]\n{PAIR}\n[store]\n"));
    fs::create_dir(work.path("tls")).unwrap();
    let complaint = work.run(&["config", "check", "--role", "proxy"]).refused(1);
    assert!(complaint.contains("server.pem"), "{complaint}");
    assert_eq!(work.run(&["config", "check", "--role", "broker"]).ok(), "ok\n");
    Authority::new().server(Holds::Always).write(&work.path("tls"), "server");
    let server = Server::start(&["serve", "--config", &work.config, "--role", "proxy"]);
    assert!(server.url.starts_with("https://"), "{}", server.url);
}

#[test]
fn limits_out_of_range_are_told() {
    let work = Work::new();
    work.edit(
        "writ.toml",
        "[proxy]\n",
        "[limits]\nconnections = 1\nhead_timeout = \"1h\"\nstranger_timeout = \"2h\"\n[proxy]\n",
    );
    let complaint = complaint(&work);
    assert!(
        complaint.contains("limits.connections")
            && complaint.contains("limits.head_timeout")
            && complaint.contains("limits.stranger_timeout"),
        "{complaint}"
    );
}
