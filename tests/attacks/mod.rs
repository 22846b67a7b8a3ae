//! An attacker who writes to the database: every attack is done to a copy of a log that real processes wrote, and is caught by the verifier, by the
//! broker that refuses to go on, or, where nothing inside a log can show it, by what somebody kept outside.

mod anchors;
mod broker;
mod bundle;
mod hostile;
mod log;
mod scene;
mod state;

use scene::Scene;

/// One attack. It says what went wrong with catching it.
pub struct Attack {
    pub name: &'static str,
    pub play: fn(&Scene) -> Result<(), String>,
}

/// The attacks that only something outside the log can show: the name tells how it passes otherwise.
pub struct Anchored {
    pub name: &'static str,
    /// Makes the copy; what it passes without an anchor.
    pub play: fn(&Scene) -> scene::Copy,
}

#[test]
fn every_attack_on_a_log_is_caught() {
    let asked = writ::config::environment("ATTACK").unwrap_or_default();
    let scene = Scene::new();
    let (mut all, mut caught) = (0, 0);
    let mut count = |name: &str, result: Result<(), String>| {
        all += 1;
        match result {
            Ok(()) => caught += 1,
            Err(why) => println!("NOT CAUGHT: {name}: {why}"),
        }
    };
    let groups = [log::ATTACKS, state::ATTACKS, bundle::ATTACKS, hostile::ATTACKS, broker::ATTACKS];
    for attack in groups.into_iter().flatten().filter(|attack| attack.name.contains(&asked)) {
        count(attack.name, (attack.play)(&scene));
    }
    for attack in anchors::ATTACKS.iter().filter(|attack| attack.name.contains(&asked)) {
        count(attack.name, anchors::caught(&scene, attack));
    }
    println!("attacks: {all}, {caught} caught");
    assert!(all > 0, "no attack is named so: {asked}");
    assert_eq!(all, caught);
}
