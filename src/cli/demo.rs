//! `fia demo`: the whole story in a scratch repository, on the scripted engine.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use super::project::Project;
use super::report::{CliError, shell_word};
use super::run::go;
use super::screen::{Loudness, Screen};
use crate::plan::build::{Request, build};
use crate::run;

/// What the demo repository begins with. The script lies outside, with the config, as a user would have it.
const FILES: [(&str, &str); 5] = [
    ("README.md", include_str!("demo/README.md")),
    ("greet.sh", include_str!("demo/greet.sh")),
    ("test.sh", include_str!("demo/test.sh")),
    ("fia.config.yaml", include_str!("demo/fia.config.yaml")),
    ("rehearsal.yaml", include_str!("demo/rehearsal.yaml")),
];

/// What the demo asks for.
const PROMPT: &str = "Add a --shout flag to greet.sh that prints the greeting in capitals.";

/// Arguments of `fia demo`.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Make the repository here and keep it; the directory must be empty or new
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Runs the demo.
pub(super) fn demo(args: &DemoArgs) -> Result<ExitCode, CliError> {
    let scratch = match &args.keep {
        Some(dir) => Scratch::Kept(empty_dir(dir)?),
        None => Scratch::Temporary(
            tempfile::Builder::new()
                .prefix("fia-demo-")
                .tempdir()
                .map_err(|e| CliError::machine("cannot make a scratch directory", e))?,
        ),
    };
    let top = scratch.path();
    set_the_stage(top)?;
    let mut err = anstream::stderr();
    // A closed standard error takes no words.
    let _gone = writeln!(err, "fia demo: a builder whose context passes its ceiling is given a fresh session\n");
    let project = Project::open_at(top, None)?;
    let request = Request { workflow: "demo", prompt: PROMPT, choices: &[] };
    let (plan, stop) = build(&project.loaded.config, request)?;
    let ran = go(&project, Screen::new(Loudness::Usual), |beginning| run::start(beginning, plan, stop, None))?;
    match &scratch {
        Scratch::Kept(dir) => {
            ran.screen.end(&project.data);
            let dir = shell_word(dir);
            let _gone = writeln!(err, "\nLook around: cd {dir} && fia show && fia events && git log --stat");
        }
        // Nothing that acts on the run would find it.
        Scratch::Temporary(_) => ran.screen.end_instead("fia demo --keep DIR    keeps the repository and its log"),
    }
    Ok(ran.status)
}

/// Where the demo happens.
enum Scratch {
    /// Removed at the end.
    Temporary(tempfile::TempDir),
    /// Stays.
    Kept(PathBuf),
}

impl Scratch {
    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Kept(dir) => dir,
        }
    }
}

fn empty_dir(dir: &Path) -> Result<PathBuf, CliError> {
    fs::create_dir_all(dir).map_err(|error| CliError::machine(format!("cannot create `{}`", dir.display()), error))?;
    let mut entries =
        fs::read_dir(dir).map_err(|error| CliError::machine(format!("cannot read `{}`", dir.display()), error))?;
    if entries.next().is_some() {
        let message = format!("`{}` is not empty, and the demo overwrites nothing", dir.display());
        return Err(CliError::usage(message, "name a new directory"));
    }
    dir.canonicalize().map_err(|error| CliError::machine(format!("cannot find `{}`", dir.display()), error))
}

/// Makes the repository, with everything committed.
fn set_the_stage(top: &Path) -> Result<(), CliError> {
    for (name, content) in FILES {
        fs::write(top.join(name), content)
            .map_err(|error| CliError::machine(format!("cannot write `{name}`"), error))?;
    }
    for args in [
        &["init", "-q", "-b", "main"][..],
        &["config", "user.name", "fia demo"],
        &["config", "user.email", "demo@example.invalid"],
        &["config", "commit.gpgsign", "false"],
        &["add", "-A"],
        &["commit", "-q", "-m", "A greeter"],
    ] {
        git(top, args)?;
    }
    Ok(())
}

fn git(top: &Path, args: &[&str]) -> Result<(), CliError> {
    let ran = Command::new("git").args(args).current_dir(top).stdin(Stdio::null()).output();
    let output = ran.map_err(|error| CliError::machine("cannot run `git`", error))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(CliError::machine(format!("`git {}` failed", args.join(" ")), io::Error::other(words)))
}
