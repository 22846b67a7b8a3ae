//! `docs/prove.md` lists the guarantees as the code has them.

use std::fs;

use writ::prove::GUARANTEES;

use crate::cli::support::writ;
use crate::support::peers::root;

#[test]
fn the_page_lists_every_guarantee_as_the_code_has_it_and_no_other() {
    let page = fs::read_to_string(root().join("docs/prove.md")).unwrap();
    let (_, table) = page.split_once("## The guarantees").unwrap();
    let listed: Vec<Vec<&str>> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|line| line.trim_end_matches(" |").split(" | ").collect())
        .collect();
    let known: Vec<Vec<String>> = GUARANTEES
        .iter()
        .map(|g| vec![format!("{}`", g.name), g.on.as_str().to_owned(), g.claim.to_owned()])
        .collect();
    let first_three: Vec<Vec<&str>> = listed.iter().map(|row| row.iter().take(3).copied().collect()).collect();
    assert_eq!(first_three, known);
    for row in &listed {
        assert!(row.len() == 4 && row[3].len() > 20, "what is tried is not told: {row:?}");
    }
}

#[test]
fn the_list_is_printed_without_touching_anything() {
    let listed = writ(&["prove", "--list", "--json"]).json();
    assert_eq!(listed["guarantees"].as_array().unwrap().len(), GUARANTEES.len());
    let text = writ(&["prove", "--list"]).ok();
    assert_eq!(text.lines().count(), GUARANTEES.len() + 1);
}
