//! `fia resume`.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::choose::{Wanted, choose};
use super::project::{Project, anchor_script};
use super::report::CliError;
use super::run::go;
use super::screen::{Loudness, Screen};
use super::worktree;
use crate::plan::build::{engines, stop};
use crate::run::recovery::Unchanged;
use crate::run::{self, Resumption};
use crate::view::json::{self, Shown};
use crate::view::tables::Life;

/// Arguments of `fia resume`.
#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    /// The run: its id or a unique part of it; the one unfinished run if left out
    run: Option<String>,
    /// Go on although nothing changed since the run was judged
    #[arg(long)]
    retry_unchanged: bool,
    /// Another limit for this stretch, as in `token_budget=60_000_000`
    #[arg(long = "budget", value_name = "KEY=VALUE")]
    budgets: Vec<String>,
    /// Use this configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
    /// Show the end only
    #[arg(short, long)]
    quiet: bool,
}

/// Goes on with a run.
pub(super) fn resume(args: &ResumeArgs) -> Result<ExitCode, CliError> {
    let project = Project::open(args.config.as_deref())?;
    project.warn();
    let config = project.loaded.config.clone().with_limits(&args.budgets)?;
    let chosen = choose(&project.data, args.run.as_deref(), Wanted::Unfinished, "fia resume")?;
    let run = chosen.dir.run().clone();
    let screen = Screen::new(if args.quiet || args.json { Loudness::Quiet } else { Loudness::Usual });
    screen.recall(&chosen.dir)?;
    let mut engines = engines(&config);
    if chosen.projection.run.worktree {
        anchor_script(&mut engines, &project.config_top);
    }
    let resumption = Resumption {
        stop: stop(&config),
        limits: args.budgets.clone(),
        engines,
        unchanged: if args.retry_unchanged { Unchanged::Retry } else { Unchanged::Refuse },
    };
    let ran = go(&project, screen, |beginning| run::resume(beginning, &run, resumption))?;
    if args.json {
        json::write(&mut io::stdout().lock(), &Shown::of(&ran.screen.state(), Life::Gone))?;
    } else {
        ran.screen.end(&project.data);
        worktree::say(&project.repository, &project.data, &ran.screen.state(), &mut anstream::stderr());
    }
    Ok(ran.status)
}
