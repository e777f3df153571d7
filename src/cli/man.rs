//! `fia man`: manual pages, made of the arguments that the program takes.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_mangen::Man;

use super::report::CliError;
use super::{Arguments, say};

/// Arguments of `fia man`.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The page of this command, such as `run` or `config check`; left out, of fia as a whole
    command: Vec<String>,
    /// Write the pages of fia and of every command into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Prints one page, or writes all.
pub(super) fn man(args: &ManArgs) -> Result<ExitCode, CliError> {
    let mut all = with_version(Arguments::command().disable_help_subcommand(true));
    all.build();
    if let Some(dir) = &args.dir {
        let cannot = |error| CliError::machine(format!("cannot write pages into `{}`", dir.display()), error);
        fs::create_dir_all(dir).map_err(cannot)?;
        clap_mangen::generate_to(all, dir).map_err(cannot)?;
        return Ok(say(&format!("`man -l {}` shows the first page", dir.join("fia.1").display())));
    }
    let mut command = &all;
    for name in &args.command {
        let inside = command.get_subcommands().find(|inside| inside.get_name() == name && !inside.is_hide_set());
        command = inside.ok_or_else(|| {
            let shown = args.command.join(" ");
            CliError::usage(format!("no command is called `{shown}`"), "`fia --help` lists the commands")
        })?;
    }
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    io::stdout().lock().write_all(&page)?;
    Ok(ExitCode::SUCCESS)
}

/// Gives every command the version of fia, which its page names, and no flag for it.
fn with_version(command: clap::Command) -> clap::Command {
    let version = env!("CARGO_PKG_VERSION");
    command.mut_subcommands(|inside| with_version(inside.version(version).disable_version_flag(true)))
}
