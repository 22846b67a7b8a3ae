//! `writ token inspect`.

use super::support::{Running, fed};

#[test]
fn what_is_not_a_credential_is_refused_and_not_repeated() {
    for junk in ["", "   \n", "hunter2-hunter2", &"A".repeat(100_000)] {
        let complaint = fed(&["token", "inspect"], junk).refused(1);
        let start = junk.trim().get(..12).unwrap_or("nothing to repeat");
        assert!(!complaint.contains(start), "{complaint}");
    }
    fed(&["token", "inspect", "--public-key", "ed25519/00"], "x").refused(2);
    fed(&["token", "inspect", "--public-keys", "/nowhere"], "x").refused(1);
}

#[test]
fn a_credential_is_laid_open_and_an_edited_one_told_apart() {
    let run = Running::new();
    let token = run.credential(&run.proposed(4_000));
    let keys = run.work.text("keys/credential-keys.json");
    let inspect = ["token", "inspect", "--public-keys", &keys, "--json"];
    let good = fed(&inspect, &format!("{token}\n")).json();
    assert_eq!((good["signature"].as_str(), good["key_id"].as_u64()), (Some("valid"), Some(1)));
    assert_eq!(good["grant"]["operation"], "refund.create");
    assert_eq!(good["in_window"], true);
    let text = fed(&["token", "inspect"], &token).ok();
    assert!(text.contains("not checked") && !text.contains(&token), "{text}");

    let place = token.len() / 2;
    let other = if &token[place..=place] == "A" { "B" } else { "A" };
    let edited = format!("{}{other}{}", &token[..place], &token[place + 1..]);
    let ran = fed(&inspect, &edited);
    assert!(!ran.out.contains(&edited) && !ran.err.contains(&edited));
    assert!(!ran.out.contains("\"valid\""), "{}", ran.out);
    ran.refused(1);

    run.work.run(&["keys", "retire", "1"]).ok();
    assert!(fed(&inspect, &token).refused(1).contains("credential_key_retired"));
}
