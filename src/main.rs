//! The program `fia`.

use std::process::ExitCode;

fn main() -> ExitCode {
    fia::cli::main()
}
