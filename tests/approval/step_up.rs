//! How strongly and how recently the approver had authenticated.

use serde_json::{Value, json};
use writ::approval::StepUp;

use super::support::{SIGNED_AT, now, p256, verify};

fn step_up(amr: Value, auth_time: Value) -> StepUp {
    let jws = p256().with_claims(|c| {
        c["apr"]["by"]["amr"] = amr;
        c["apr"]["by"]["auth_time"] = auth_time;
    });
    verify(&jws, &p256().registered(), now()).unwrap().step_up()
}

#[test]
fn a_method_that_can_be_relayed_or_copied_is_weak() {
    for method in ["pwd", "otp", "sms", "swk", "pin", "kba", "user", "tel", "rba", "HWK", "hwk ", ""] {
        assert_eq!(step_up(json!([method]), json!(SIGNED_AT)), StepUp::Weak, "{method}");
    }
    assert_eq!(step_up(json!([]), json!(SIGNED_AT)), StepUp::Weak);
}

#[test]
fn an_authentication_long_ago_in_the_future_or_at_no_stated_time_is_stale() {
    for at in [
        json!(SIGNED_AT - 301),
        json!(SIGNED_AT + 6),
        json!(0),
        json!(i64::from(i32::MIN)),
        json!(null),
    ] {
        assert_eq!(step_up(json!(["hwk"]), at.clone()), StepUp::Stale, "{at}");
    }
}

#[test]
fn a_strong_method_within_five_minutes_before_signing_is_fresh() {
    for method in ["hwk", "sc", "mfa", "fpt", "face", "iris", "retina"] {
        assert_eq!(step_up(json!(["pwd", method]), json!(SIGNED_AT - 300)), StepUp::Fresh, "{method}");
    }
    assert_eq!(step_up(json!(["hwk"]), json!(SIGNED_AT + 5)), StepUp::Fresh);
}
