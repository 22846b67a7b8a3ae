//! `writ keys`, `writ client`, `writ approver`.

use serde_json::Value;

use super::support::{Work, mode};

#[test]
fn the_first_key_is_not_made_twice() {
    let complaint = Work::new().run(&["keys", "generate"]).refused(1);
    assert!(complaint.contains("rotate"), "{complaint}");
}

#[test]
fn a_key_file_is_never_written_over() {
    let work = Work::new();
    let out = work.text("lea.pem");
    let pair = ["keys", "generate", "--approver", "usr_lea", "--out", &out];
    work.run(&pair).ok();
    let before = std::fs::read(&out).unwrap();
    work.run(&pair).refused(1);
    assert_eq!(std::fs::read(&out).unwrap(), before);
}

#[test]
fn keys_are_made_rotated_retired_and_listed() {
    let work = Work::new();
    std::fs::remove_file(work.path("keys/credential-keys.json")).unwrap();
    std::fs::remove_file(work.path("keys/credential-1.pem")).unwrap();
    let made = work.json(&["keys", "generate"]);
    assert_eq!(made["keys"][0]["signs"], true);
    let rotated = work.json(&["keys", "rotate"]);
    assert_eq!(rotated["keys"].as_array().unwrap().len(), 2);
    assert_eq!(rotated["keys"][0]["signs"], true, "the new key settles first");
    work.run(&["keys", "retire", "9"]).refused(1);
    let retired = work.json(&["keys", "retire", "1"]);
    assert_eq!(retired["keys"][0]["signs"], false);
    assert_eq!(work.json(&["keys", "list"]), retired);
    assert_eq!(mode(&work.path("keys/credential-2.pem")), 0o600);
}

#[test]
fn a_rotation_leaves_the_public_keys_readable_whatever_the_umask() {
    let work = Work::new();
    let rotate = format!(
        "umask 077; exec '{}' keys rotate --config '{}'",
        env!("CARGO_BIN_EXE_writ"),
        work.config
    );
    let rotated = std::process::Command::new("sh").args(["-c", &rotate]).output().unwrap();
    assert!(rotated.status.success(), "{rotated:?}");
    assert_eq!(mode(&work.path("keys/credential-keys.json")), 0o644);
    assert_eq!(mode(&work.path("keys/credential-2.pem")), 0o600);
}

fn client(list: &Value, id: &str) -> Value {
    let clients = list["clients"].as_array().unwrap();
    clients.iter().find(|client| client["id"] == id).cloned().unwrap_or(Value::Null)
}

#[test]
fn a_client_without_a_role_or_with_a_wrong_one_is_not_understood() {
    let work = Work::new();
    for wrong in [
        &["client", "add", "x"][..],
        &["client", "add", "x", "--role", "admin"],
        &["client", "add", "x", "--role", "orchestrator", "--allow", "refund.create"],
        &["client", "add", "x", "--role", "orchestrator", "--allow", "refund.create:approve"],
        &["client", "add", "x", "--role", "auditor", "--allow", "refund.*:draft"],
    ] {
        work.run(wrong).refused(2);
    }
    assert_eq!(client(&work.json(&["client", "list"]), "x"), Value::Null);
}

#[test]
fn a_client_that_exists_or_does_not_is_refused_by_name() {
    let work = Work::new();
    for (arguments, words) in [
        (&["client", "add", "security", "--role", "auditor"][..], "exists already"),
        (&["client", "revoke", "nobody"], "no client `nobody`"),
        (&["client", "replace-secret", "nobody"], "no client `nobody`"),
    ] {
        let complaint = work.run(arguments).refused(1);
        assert!(complaint.contains(words), "{complaint}");
    }
}

#[test]
fn what_a_client_may_do_is_replaced_only_where_it_is_an_orchestrator_and_not_revoked() {
    let work = Work::new();
    let less = ["--allow", "refund.create:draft"];
    let set = |id: &str, more: &[&str]| work.run(&[&["client", "set-permissions", id][..], more].concat());
    for wrong in [
        &[][..],
        &["--allow", "refund.create:approve"],
        &["--none", "--allow", "refund.*:draft"],
    ] {
        set("support-agent", wrong).refused(2);
    }
    let before = work.json(&["client", "list"]);
    for (id, words) in [("nobody", "no client `nobody`"), ("review-desk", "approval_service")] {
        let complaint = set(id, &less).refused(1);
        assert!(complaint.contains(words), "{complaint}");
    }
    assert_eq!(work.json(&["client", "list"]), before);
    let role = [
        "client",
        "add",
        "billing",
        "--role",
        "orchestrator",
        "--allow",
        "refund.*:draft,execute",
    ];
    work.run(&role).ok();
    let complaint = work.run(&role).refused(1);
    assert!(complaint.contains("writ client set-permissions billing"), "{complaint}");
    set("billing", &less).ok();
    assert_eq!(
        client(&work.json(&["client", "list"]), "billing")["permissions"],
        serde_json::json!(["refund.create:draft"])
    );
    assert!(set("billing", &["--none"]).ok().contains("nothing"));
    work.run(&["client", "revoke", "billing"]).ok();
    let complaint = set("billing", &less).refused(1);
    assert!(complaint.contains("not revoked"), "{complaint}");
    assert_eq!(
        client(&work.json(&["client", "list"]), "billing")["permissions"],
        serde_json::json!([])
    );
}

#[test]
fn a_client_that_may_do_nothing_or_what_nobody_declares_is_warned_of() {
    let work = Work::new();
    let add = |id: &str, more: &[&str]| work.run(&[&["client", "add", id][..], more].concat());
    let idle = add("idle", &["--role", "orchestrator"]);
    assert!(idle.err.starts_with("warning: orchestrator `idle` may do nothing"), "{}", idle.err);
    idle.ok();
    let lost = add(
        "lost",
        &[
            "--role",
            "orchestrator",
            "--allow",
            "refnd.*:draft",
            "--allow",
            "refund.*:draft",
            "--json",
        ],
    );
    let told: Value = serde_json::from_str(&lost.err).unwrap();
    assert!(told["warning"].as_str().unwrap().contains("`refnd.*`"), "{told}");
    lost.ok();
    let set = work.run(&["client", "set-permissions", "idle", "--allow", "refund.created:draft"]);
    assert!(set.err.contains("`refund.created`"), "{}", set.err);
    set.ok();
    for quiet in [
        add(
            "sound",
            &["--role", "orchestrator", "--allow", "refund.*:draft", "--allow", "charge.read:read"],
        ),
        add("desk", &["--role", "approval_service"]),
    ] {
        assert_eq!(quiet.err, "");
        quiet.ok();
    }
}

#[test]
fn a_client_is_added_listed_and_revoked() {
    let work = Work::new();
    let role = ["client", "add", "billing", "--role", "orchestrator"];
    let made = work.json(&[&role[..], &["--owner", "usr_ann", "--allow", "refund.*:draft,execute"]].concat());
    let secret = made["secret"].as_str().unwrap();
    assert_eq!(secret.len(), 43);
    let listed = work.json(&["client", "list"]);
    let shown = client(&listed, "billing");
    assert_eq!(shown["permissions"][0], "refund.*:draft,execute");
    assert_eq!(shown["owner"], "usr_ann");
    assert!(!listed.to_string().contains(secret));
    let other = work.json(&["client", "replace-secret", "billing"]);
    assert_ne!(other["secret"], made["secret"]);
    work.run(&["client", "revoke", "billing"]).ok();
    assert!(client(&work.json(&["client", "list"]), "billing")["revoked_at"].is_string());
}

#[test]
fn an_approver_with_a_bad_key_or_with_nothing_is_refused() {
    let work = Work::new();
    work.run(&["approver", "add", "usr_lea"]).refused(2);
    work.run(&["approver", "add", "usr_lea", "--public", "AAAA"]).refused(1);
    work.run(&["approver", "add", "lea", "--public", "AAAA"]).refused(2);
    work.run(&["approver", "add", "usr_lea", "--authority", "refund.*"]).refused(2);
    assert!(!work.run(&["approver", "list"]).ok().contains("lea"));
    work.run(&["approver", "revoke", "usr_lea"]).refused(1);
    work.run(&["approver", "revoke", "--key", "usr_lea-1"]).refused(1);
}

#[test]
fn a_public_key_that_is_registered_is_refused_by_the_name_it_has() {
    let work = Work::new();
    let list = work.json(&["approver", "list"]);
    let mia = list["approvers"].as_array().unwrap().iter().find(|a| a["id"] == "usr_mia").unwrap();
    let public = mia["keys"][0]["public"].as_str().unwrap();
    for who in ["usr_lea", "usr_mia"] {
        let complaint = work.run(&["approver", "add", who, "--public", public]).refused(1);
        assert!(complaint.contains("usr_mia-1 of usr_mia"), "{complaint}");
    }
    assert_eq!(work.json(&["approver", "list"]), list);
}

#[test]
fn a_private_key_in_place_of_a_public_one_is_refused_as_what_it_is() {
    let work = Work::new();
    let pem = work.text("approvers/usr_tom.pem");
    let complaint = work.run(&["approver", "add", "usr_lea", "--key-file", &pem]).refused(1);
    assert!(complaint.contains("is a private key"), "{complaint}");
    let secret = std::fs::read_to_string(&pem).unwrap();
    assert!(!complaint.contains(secret.lines().nth(1).unwrap()), "{complaint}");
}

#[test]
fn the_policy_s_own_approver_is_not_revoked() {
    let work = Work::new();
    for which in [&["rule_policy"][..], &["--key", "rule_policy-1"]] {
        let complaint = work.run(&[&["approver", "revoke"][..], which].concat()).refused(1);
        assert!(complaint.contains("policy_approver"), "{complaint}");
    }
    assert_eq!(work.run(&["config", "check"]).ok(), "ok\n");
}

#[test]
fn the_command_that_registers_a_key_can_be_pasted() {
    let work = Work::new();
    let pair = ["keys", "generate", "--approver", "usr_lea", "--alg", "Ed25519", "--out"];
    let said = work.run(&[&pair[..], &[&work.text("lea.pem")]].concat()).ok();
    for line in said.lines().filter_map(|line| line.trim().strip_prefix("writ ")) {
        let words: Vec<&str> = line.split(' ').map(|word| word.trim_matches('\'')).collect();
        super::support::writ(&words).ok();
    }
    let shown = lea(&work);
    assert_eq!(shown["keys"][0]["alg"], "Ed25519", "{shown}");
    assert_eq!(shown["authority"][0]["may"], "refund.*:finance.refunds:usd:500000");
}

#[test]
fn a_backup_into_a_directory_that_is_not_there_says_so() {
    let work = Work::new();
    let complaint = work.run(&["store", "backup", &work.text("nowhere/backup.db")]).refused(1);
    assert!(complaint.contains("there is no directory"), "{complaint}");
}

#[test]
fn an_approver_gets_a_second_key_and_loses_the_first() {
    let work = Work::new();
    let key = |name: &str, alg: &str| {
        let out = work.text(name);
        let made = work.json(&["keys", "generate", "--approver", "usr_lea", "--alg", alg, "--out", &out]);
        assert_eq!(mode(out.as_ref()), 0o600);
        made["public"].as_str().unwrap().to_owned()
    };
    let (first, second) = (key("one.pem", "ES256"), key("two.pem", "Ed25519"));
    let authority = "refund.*:finance.refunds:usd:500000";
    let added = work.json(&["approver", "add", "usr_lea", "--public", &first, "--authority", authority]);
    assert_eq!(added["keys"][0]["kid"], "usr_lea-1");
    let added = work.json(&["approver", "add", "usr_lea", "--public", &second, "--alg", "Ed25519"]);
    assert_eq!(added["keys"][0]["kid"], "usr_lea-2");
    work.run(&["approver", "revoke", "--key", "usr_lea-1"]).ok();
    let list = work.json(&["approver", "list"]);
    let approvers = list["approvers"].as_array().unwrap();
    let lea = approvers.iter().find(|a| a["id"] == "usr_lea").unwrap();
    assert_eq!(lea["authority"][0]["may"], authority);
    assert!(
        lea["keys"][0]["revoked_at"].is_string() && lea["keys"][1]["revoked_at"].is_null(),
        "{lea}"
    );
    work.run(&["approver", "revoke", "usr_lea"]).ok();
    assert!(work.run(&["approver", "list"]).ok().contains("usr_lea-2 (revoked)"));
}

fn lea(work: &Work) -> Value {
    let list = work.json(&["approver", "list"]);
    list["approvers"]
        .as_array()
        .unwrap()
        .iter()
        .find(|a| a["id"] == "usr_lea")
        .cloned()
        .unwrap()
}

#[test]
fn dates_that_make_no_sense_are_not_understood() {
    let work = Work::new();
    let authority = ["approver", "add", "usr_lea", "--authority", "refund.*:finance.refunds:usd:1"];
    for wrong in [
        &["--valid-until", "tomorrow"][..],
        &["--valid-until", "2020-01-01T00:00:00Z"],
        &["--valid-from", "2030-01-02T00:00:00Z", "--valid-until", "2030-01-01T00:00:00Z"],
        &["--key-until", "2030-01-01T00:00:00Z"],
    ] {
        work.run(&[&authority[..], wrong].concat()).refused(2);
    }
    let dates_alone = [
        "approver",
        "add",
        "usr_lea",
        "--public",
        "AAAA",
        "--valid-until",
        "2030-01-01T00:00:00Z",
    ];
    work.run(&dates_alone).refused(2);
    let past = [
        "approver",
        "add",
        "usr_lea",
        "--public",
        "AAAA",
        "--key-until",
        "2020-01-01T00:00:00Z",
    ];
    work.run(&past).refused(2);
    work.run(&["approver", "set-authority", "usr_mia"]).refused(2);
    assert!(!work.run(&["approver", "list"]).ok().contains("lea"));
}

#[test]
fn authority_and_key_have_the_dates_that_were_given() {
    let work = Work::new();
    let pair = ["keys", "generate", "--approver", "usr_lea", "--out"];
    let made = work.json(&[&pair[..], &[&work.text("lea.pem")]].concat());
    let who = ["approver", "add", "usr_lea", "--public", made["public"].as_str().unwrap()];
    let what = [
        "--authority",
        "refund.*:finance.refunds:usd:500000",
        "--key-until",
        "2190-01-01T00:00:00Z",
    ];
    let when = ["--valid-from", "2180-01-01T00:00:00+02:00", "--valid-until", "2181-01-01T00:00:00Z"];
    work.run(&[&who[..], &what, &when].concat()).ok();
    let shown = lea(&work);
    assert_eq!(shown["authority"][0]["valid_from"], "2179-12-31T22:00:00.000Z");
    assert_eq!(shown["authority"][0]["valid_until"], "2181-01-01T00:00:00.000Z");
    assert_eq!(shown["keys"][0]["not_after"], "2190-01-01T00:00:00.000Z");
    let list = work.run(&["approver", "list"]).ok();
    for words in ["(from 2179-12-31T22:00:00.000Z, until 2181-", "usr_lea-1 (until 2190-"] {
        assert!(list.contains(words), "{words} is missing in:\n{list}");
    }
}

#[test]
fn authority_can_be_made_less() {
    let work = Work::new();
    let less = ["--authority", "refund.*:finance.refunds:usd:100"];
    for nobody in ["usr_nobody", "usr_tom"] {
        if nobody == "usr_tom" {
            work.run(&["approver", "revoke", nobody]).ok();
        }
        let complaint = work.run(&[&["approver", "set-authority", nobody][..], &less].concat()).refused(1);
        assert!(complaint.contains(nobody) && complaint.contains("not revoked"), "{complaint}");
    }
    let large = "refund.*:finance.refunds:usd:500000";
    work.run(&[
        "approver",
        "add",
        "usr_lea",
        "--authority",
        large,
        "--authority",
        "email.*:account.admins",
    ])
    .ok();
    work.run(&[&["approver", "set-authority", "usr_lea"][..], &less, &["--granted-by", "usr_boss"]].concat())
        .ok();
    let shown = lea(&work);
    assert_eq!(shown["authority"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown["authority"][0]["may"], "refund.*:finance.refunds:usd:100");
    assert_eq!(shown["authority"][0]["granted_by"], "usr_boss");
}

#[test]
fn the_log_names_the_user_who_changed_a_registry() {
    let work = Work::new();
    work.run_as("mia;\n", &["approver", "revoke", "usr_tom"]).ok();
    let events = work.run(&["audit", "tail", "-n", "1000", "--json"]).ok();
    let line: Value = serde_json::from_str(events.lines().find(|line| line.contains("approver.revoke")).unwrap()).unwrap();
    let told: Value = serde_json::from_str(line["event"].as_str().unwrap()).unwrap();
    assert_eq!(told["actor"]["kind"], "person");
    assert_eq!(told["actor"]["id"], "command-line:mia");
}

/// One key in 64 is written so, and what `config check` tells to paste must work for it.
#[test]
fn a_public_key_that_begins_with_a_hyphen_is_a_value_and_no_option() {
    let work = Work::new();
    let key = format!("-{}", "A".repeat(42));
    let ran = work.run(&["approver", "add", "usr_hyphen", "--alg", "Ed25519", "--public", &key]);
    assert!(!ran.err.contains("unexpected argument"), "{}", ran.err);
    let listed = work.run(&["approver", "list"]).ok();
    assert!(ran.code != Some(0) || listed.contains("usr_hyphen"), "{listed}");
}
