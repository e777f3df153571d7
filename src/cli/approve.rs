//! `fia approve` and `fia reject`: a person's answer, by file and bell.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::choose::{Wanted, choose};
use super::held;
use super::project::Project;
use super::report::CliError;
use super::say;
use crate::store::StoreError;
use crate::store::atomic::{self, Durability};
use crate::view::human::handle;
use crate::view::tables::Life;

/// Arguments of `fia approve` and `fia reject`.
#[derive(Debug, Args)]
pub(super) struct AnswerArgs {
    /// The run: its id or a unique part of it; the one live or unfinished run if left out
    run: Option<String>,
    /// Say why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// A person's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Approve,
    Reject,
}

/// What stands in `approval.json`.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    approved: bool,
    reason: Option<&'a str>,
}

/// Answers the approval that a run asks for.
pub(super) fn answer(args: &AnswerArgs, decision: Decision) -> Result<ExitCode, CliError> {
    let project = Project::look()?;
    let (command, word) = match decision {
        Decision::Approve => ("fia approve", "approved"),
        Decision::Reject => ("fia reject", "rejected"),
    };
    let chosen = choose(&project.data, args.run.as_deref(), Wanted::Live, command)?;
    let run = chosen.dir.run();
    if !chosen.projection.run.approval_open {
        let hint = format!("`fia show {}` says where it is", handle(run));
        return Err(CliError::usage(format!("run {run} does not ask for an approval"), hint));
    }
    write_answer(&chosen.dir.approval(), decision, args.reason.as_deref())?;
    held::ring(&project.data, run)?;
    let then = match chosen.life {
        Life::Alive => String::new(),
        Life::Gone => format!("; fia resume {} takes it up", handle(run)),
    };
    Ok(say(&format!("run {run} {word}{then}")))
}

/// Writes an answer down for the run to find.
pub(super) fn write_answer(file: &Path, decision: Decision, reason: Option<&str>) -> Result<(), StoreError> {
    atomic::replace_json(file, &Answer { approved: decision == Decision::Approve, reason }, Durability::Synced)
}
