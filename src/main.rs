//! writ: arguments to a command, its error to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    writ::cli::run(std::env::args_os())
}
