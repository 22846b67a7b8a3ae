//! What a policy's files may not be.

use super::Copy;

fn one(mistakes: &[String], parts: &[&str]) {
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    for part in parts {
        assert!(mistakes[0].contains(part), "`{part}` is not in: {}", mistakes[0]);
    }
}

fn with_rule(rule: &str) -> Vec<String> {
    Copy::new().append("rules.cedar", rule).refused()
}

#[test]
fn a_misspelt_attribute_is_refused_with_the_rule_and_its_line() {
    let mistakes = Copy::new()
        .edit("rules.cedar", "resource.recent >= 3", "resource.recnet >= 3")
        .refused();
    one(
        &mistakes,
        &["rules.cedar, line ", "rule `refund-velocity`", "recnet", "did you mean `recent`?"],
    );
    assert!(
        !mistakes[0].contains("for policy"),
        "the engine's own numbering is not shown: {mistakes:?}"
    );
}

#[test]
fn an_optional_attribute_without_its_guard_is_refused() {
    let mistakes = Copy::new().edit("rules.cedar", "principal has owner && ", "").refused();
    one(&mistakes, &["no-self-approval", "owner"]);
}

#[test]
fn a_queue_that_the_schema_does_not_count_is_refused() {
    let mistakes = Copy::new()
        .edit(
            "rules.cedar",
            "context.fresh[\"account.admins\"]",
            "context.fresh[\"account.admin\"]",
        )
        .refused();
    one(&mistakes, &["email-needs-an-admin", "account.admin"]);
}

#[test]
fn an_operation_that_the_schema_does_not_list_is_refused_in_a_rule() {
    let mistakes = Copy::new()
        .edit(
            "rules.cedar",
            "action == Action::\"email.update\"",
            "action == Action::\"email.patch\"",
        )
        .refused();
    assert!(
        mistakes.iter().all(|mistake| mistake.contains("email-needs-an-admin")),
        "{mistakes:#?}"
    );
    assert!(mistakes.iter().any(|mistake| mistake.contains("email.patch")), "{mistakes:#?}");
}

#[test]
fn a_rule_without_an_id_or_a_reason_is_refused() {
    one(
        &with_rule("\n@reason(\"So.\") permit (principal, action in Action::\"read\", resource);"),
        &["the rule at line ", "no @id"],
    );
    one(
        &with_rule("@id(\"x\") permit (principal, action in Action::\"read\", resource);"),
        &["rule `x`", "no @reason"],
    );
    one(
        &with_rule("@id(\"x\") @reason(\" \") permit (principal, action in Action::\"read\", resource);"),
        &["no @reason"],
    );
}

#[test]
fn an_id_used_twice_or_by_the_engine_is_refused() {
    let again = "@id(\"reads-run\") @reason(\"So.\") permit (principal, action in Action::\"read\", resource);";
    one(&with_rule(again), &["rule `reads-run`", "used twice"]);
    one(&with_rule(&again.replace("reads-run", "unknown-operation")), &["the engine uses"]);
    one(&with_rule(&again.replace("reads-run", "Reads run")), &["is not a rule's name"]);
}

#[test]
fn annotations_are_read_strictly() {
    let rule = |notes: &str| {
        format!(
            "@id(\"x\") @reason(\"So.\") {notes} forbid (principal, action in Action::\"read\", resource) when {{ resource.recent > 5 }};"
        )
    };
    for (notes, said) in [
        ("@qeue(\"account.admins\")", "@qeue"),
        ("@queue(\"account.admins\")", "@need"),
        ("@need(\"1\")", "without @queue"),
        ("@stepup(\"true\") @need(\"1\")", "without @queue"),
        ("@queue(\"account.admins\") @need(\"0\")", "1 to 9"),
        ("@queue(\"account.admins\") @need(\"10\")", "1 to 9"),
        ("@queue(\"account.admins\") @need(\"+1\")", "1 to 9"),
        ("@queue(\"account.admins\") @need(\" 1\")", "1 to 9"),
        ("@queue(\"Account Admins\") @need(\"1\")", "is not a queue"),
        ("@queue(\"account.admins\") @need(\"1\") @stepup(\"yes\")", "@stepup"),
        ("@queue(\"account.admins\") @need(\"1\") @stepup", "@stepup"),
    ] {
        one(&with_rule(&rule(notes)), &[said]);
    }
    let permit =
        "@id(\"x\") @reason(\"So.\") @queue(\"account.admins\") @need(\"1\") permit (principal, action in Action::\"read\", resource);";
    one(&with_rule(permit), &["a `permit` cannot ask"]);
}

#[test]
fn a_template_and_a_rule_that_can_never_fire_are_refused() {
    one(
        &with_rule("@id(\"x\") @reason(\"So.\") permit (principal == ?principal, action, resource);"),
        &["template"],
    );
    one(
        &with_rule("@id(\"x\") @reason(\"So.\") forbid (principal, action, resource) when { false };"),
        &["rule `x`"],
    );
}

#[test]
fn a_missing_file_is_named_and_the_others_are_still_read() {
    let copy = Copy::new().edit("limits.toml", "[currency.jpy]\nask_above", "[currency.jpy]\nask_abvoe");
    std::fs::remove_file(copy.path().join("schema.cedarschema")).unwrap();
    let mistakes = copy.refused();
    assert_eq!(mistakes.len(), 3, "{mistakes:#?}");
    assert!(mistakes[0].starts_with("schema.cedarschema: cannot be read"), "{mistakes:#?}");
    assert!(
        mistakes[1].starts_with("limits.toml, currency.jpy.ask_abvoe: is not a known key"),
        "{mistakes:#?}"
    );
    assert!(
        mistakes[2].starts_with("limits.toml, currency.jpy.ask_above: is not an amount"),
        "{mistakes:#?}"
    );
}

#[test]
fn limits_are_closed_whole_and_in_order() {
    let usd = "[currency.usd]\nask_above = 10000\n";
    for (new, said) in [
        ("[currency.usd]\nask_above = 10000\nsometimes = 1\n", "currency.usd.sometimes"),
        ("[currency.USD]\nask_above = 10000\n", "currency.USD"),
        ("[currency.dollar]\nask_above = 10000\n", "currency.dollar"),
        ("[currency.usd]\nask_above = 100.0\n", "currency.usd.ask_above"),
        ("[currency.usd]\nask_above = -1\n", "currency.usd.ask_above"),
        ("[currency.usd]\nask_above = \"10000\"\n", "currency.usd.ask_above"),
        ("[currency.usd]\nask_above = 100001\n", "out of order"),
    ] {
        one(&Copy::new().edit("limits.toml", usd, new).refused(), &["limits.toml", said]);
    }
    one(
        &Copy::new().edit("limits.toml", "version = 1", "version = 0").refused(),
        &["limits.toml, version"],
    );
    one(
        &Copy::new().edit("limits.toml", "version = 1", "version = 1\ncolour = 2").refused(),
        &["limits.toml, colour"],
    );
    one(
        &Copy::new()
            .edit("limits.toml", usd, "[currency.usd]\nask_above = 1\nask_above = 2\n")
            .refused(),
        &["limits.toml, line "],
    );
    one(
        &Copy::new()
            .edit("policy.toml", "version = 1", "version = 1\nauthor = \"me\"")
            .refused(),
        &["policy.toml, author"],
    );
}

#[test]
fn an_operation_stands_in_exactly_one_group() {
    let none = Copy::new().edit(
        "schema.cedarschema",
        "action \"email.update\" in [access]",
        "action \"email.update\"",
    );
    assert!(
        none.refused()
            .iter()
            .any(|mistake| mistake.contains("action `email.update`: it must belong to exactly one"))
    );
    let two = Copy::new().edit(
        "schema.cedarschema",
        "action \"email.update\" in [access]",
        "action \"email.update\" in [access, read]",
    );
    one(&two.refused(), &["action `email.update`", "exactly one"]);
}

#[test]
fn a_schema_that_the_facts_do_not_fit_is_refused_when_it_is_loaded() {
    let more = Copy::new().edit("schema.cedarschema", "  recent: Long,", "  recent: Long,\n  weather: String,");
    assert!(
        more.refused()
            .iter()
            .all(|mistake| mistake.contains("does not fit") && mistake.contains("weather"))
    );
    let queue = Copy::new().edit(
        "schema.cedarschema",
        "\"account.admins\": Long }",
        "\"account.admins\": Long, \"security\": Long }",
    );
    assert!(
        queue
            .refused()
            .iter()
            .all(|mistake| mistake.contains("exactly the queues that rules name: account.admins, finance.refunds"))
    );
    let owner = Copy::new().edit("schema.cedarschema", "{ owner?: User }", "{ owner: User }");
    assert!(owner.refused().iter().all(|mistake| mistake.contains("owner")));
}

#[test]
fn text_that_does_not_parse_is_refused_with_its_line() {
    one(&with_rule("\npermit (principal, action, resource"), &["rules.cedar, line "]);
    let schema = Copy::new().edit("schema.cedarschema", "entity User;", "entity User");
    assert!(
        schema.refused()[0].starts_with("schema.cedarschema, line "),
        "{:?}",
        schema.refused()
    );
    let empty = Copy::new();
    std::fs::write(empty.path().join("rules.cedar"), "// nothing\n").unwrap();
    assert!(empty.refused().iter().any(|mistake| mistake.contains("there is no rule")));
}

#[test]
fn the_hashes_follow_their_own_files_and_nothing_else() {
    let first = Copy::new().load().reference().clone();
    assert_eq!(first, *Copy::new().load().reference(), "the directory does not matter");
    let rules = Copy::new().append("rules.cedar", "// a remark\n").load().reference().clone();
    let schema = Copy::new().append("schema.cedarschema", "// a remark\n").load().reference().clone();
    let limits = Copy::new().append("limits.toml", "# a remark\n").load().reference().clone();
    assert!(first.sha256 != rules.sha256 && first.sha256 != schema.sha256 && rules.sha256 != schema.sha256);
    assert!(first.limits_sha256 == rules.limits_sha256 && first.limits_sha256 != limits.limits_sha256);
    assert_eq!(first.sha256, limits.sha256);
    assert_eq!((first.id.as_str(), first.version), ("support-operations", 1));
}

#[test]
fn text_that_moves_from_one_file_to_the_next_changes_the_hash() {
    let last = Copy::new().append("rules.cedar", "// moved\n").load().reference().sha256;
    let first = Copy::new().edit("schema.cedarschema", "// What the rules may", "// moved\n// What the rules may");
    assert_ne!(last, first.load().reference().sha256);
}
