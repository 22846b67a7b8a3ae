//! What was made or moved is there after the power was cut: its directory is flushed too, and a command that could not do it says so.

use std::path::Path;
use std::process::Command;

use super::rig::library;
use crate::cli::support::Work;

/// Runs `writ` while flushing the directory with this end of its path fails; whether it did what it was told, and its complaint.
fn with_fault(dir: &str, arguments: &[&str]) -> (bool, String) {
    let faults = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(faults.path(), format!("flush-dir {dir}")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_writ"));
    command
        .args(arguments)
        .env("LD_PRELOAD", library())
        .env("WRIT_DISK_FAULTS", faults.path());
    let ran = command.output().unwrap();
    (ran.status.success(), String::from_utf8(ran.stderr).unwrap())
}

#[test]
fn a_command_whose_file_might_be_gone_after_a_power_cut_does_not_say_that_it_is_there() {
    let temp = tempfile::tempdir().unwrap();
    for (n, dir) in ["keys", "data"].into_iter().enumerate() {
        let to = temp.path().join(format!("w{n}")).display().to_string();
        let (done, said) = with_fault(&format!("/w{n}/{dir}"), &["init", &to]);
        assert!(!done && said.contains(&format!("/w{n}/{dir}")), "{said}");
    }
    let work = Work::new();
    std::fs::create_dir(work.path("out")).unwrap();
    let export = |format: &str, name: &str| {
        let out = work.text(&format!("out/{name}"));
        let what = [
            "audit",
            "export",
            "--range",
            "0..1",
            "--format",
            format,
            "--out",
            &out,
            "--config",
            &work.config,
        ];
        with_fault("/work/out", &what)
    };
    for format in ["csv", "bundle"] {
        let (done, said) = export(format, format);
        assert!(!done && said.contains("/work/out"), "{format}: {said}");
    }
    let (done, said) = with_fault("/work/keys", &["keys", "rotate", "--log", "--config", &work.config]);
    assert!(!done && said.contains("/work/keys"), "{said}");
    let (done, said) = with_fault("/work/data", &["store", "recover-log", "--config", &work.config]);
    assert!(!done && said.contains("/work/data"), "{said}");
    // Each of them may be repeated once the disk is well.
    work.run(&["store", "recover-log"]).ok();
    assert!(Path::new(&work.text("data/writ.head")).exists());
    work.run(&["audit", "verify"]).ok();
}
