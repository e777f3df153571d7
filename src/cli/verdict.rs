//! `fia verdict`: what a person found missing, for the next stretch of a run.

use std::io;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::choose::{Chosen, Wanted, choose};
use super::project::Project;
use super::report::CliError;
use super::say;
use crate::config::did_you_mean;
use crate::event::{Outcome, PhaseStatus, Verdict, Work};
use crate::ids::PhaseName;
use crate::plan::{Plan, Writes};
use crate::run::{self, recovery};
use crate::state::recovery::{RECOVERIES, VERDICTS};
use crate::state::{PhaseState, Progress, RunState};
use crate::store::atomic::{self, Durability};
use crate::view::human::handle;
use crate::view::json;
use crate::view::tables::Life;

/// Arguments of `fia verdict`.
#[derive(Debug, Args)]
pub(super) struct VerdictArgs {
    #[command(subcommand)]
    command: VerdictCommand,
}

#[derive(Debug, Subcommand)]
enum VerdictCommand {
    /// Say what is missing; the next resume takes it up
    Set(SetArgs),
    /// Print the verdict that waits for a run, else the one in force
    Show {
        /// The run: its id or a unique part of it
        run: String,
    },
    /// Take back the verdict that waits for a run
    Clear {
        /// The run: its id or a unique part of it
        run: String,
    },
}

#[derive(Debug, Args)]
struct SetArgs {
    /// The run: its id or a unique part of it
    run: String,
    /// What is missing; once for each thing
    #[arg(long, required = true, value_name = "TEXT")]
    missing: Vec<String>,
    /// Do this phase again, and all after it; by its name or that of its step
    #[arg(long, value_name = "PHASE")]
    redo: Vec<String>,
    /// A remark
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

/// Sets, shows or clears a verdict.
pub(super) fn verdict(args: &VerdictArgs) -> Result<ExitCode, CliError> {
    let project = Project::look()?;
    let chosen = |part: &str| choose(&project.data, Some(part), Wanted::Unfinished, "fia verdict");
    match &args.command {
        VerdictCommand::Set(args) => set(args, &chosen(&args.run)?),
        VerdictCommand::Show { run } => show(&chosen(run)?),
        VerdictCommand::Clear { run } => clear(&chosen(run)?),
    }
}

fn set(args: &SetArgs, chosen: &Chosen) -> Result<ExitCode, CliError> {
    let run = chosen.dir.run();
    if chosen.life == Life::Alive {
        let hint = format!("wait for its end, or `fia stop {}` first", handle(run));
        return Err(CliError::usage(format!("run {run} is live; a verdict is for one that has stopped"), hint));
    }
    let missing: Vec<String> = args.missing.iter().map(|text| text.trim().to_owned()).collect();
    if missing.iter().any(String::is_empty) {
        return Err(CliError::usage("`--missing` is empty", "say what is missing"));
    }
    let state = run::fold(&chosen.dir)?;
    if !recovery::verdict_fits(&state) {
        let message =
            format!("run {run} has no room for a verdict: {VERDICTS} of them at most, {RECOVERIES} with resumes");
        let hint = if state.recovery.resume_fits() {
            format!("`fia resume {} --retry-unchanged`", handle(run))
        } else {
            format!("start anew: `fia run {} \"…\"`", chosen.projection.run.workflow)
        };
        return Err(CliError::usage(message, hint));
    }
    let mut redo = args.redo.iter().map(|name| phase(&state, name)).collect::<Result<Vec<_>, _>>()?;
    if redo.is_empty() {
        redo.extend(last_work(&run::plan_of(run, &state)?, &state));
    }
    let verdict = Verdict { missing, redo, note: args.note.clone() };
    atomic::replace_json(&chosen.dir.verdict(), &verdict, Durability::Synced)?;
    let again = match verdict.redo.as_slice() {
        [] => String::new(),
        phases => {
            let names: Vec<&str> = phases.iter().map(PhaseName::as_str).collect();
            format!("; {} and all after it is done again", names.join(", "))
        }
    };
    Ok(say(&format!("verdict on run {run} set{again}\n  next:  fia resume {}", handle(run))))
}

/// A phase by its name, or the last one of a step.
fn phase(state: &RunState, name: &str) -> Result<PhaseName, CliError> {
    let by_step = || state.phases.iter().rev().find(|(_, phase)| phase.order.step.as_str() == name);
    let found = state.phases.get_key_value(name).or_else(by_step);
    found.map(|(name, _)| name.clone()).ok_or_else(|| {
        let known: Vec<&str> = state.phases.keys().map(PhaseName::as_str).collect();
        let near = did_you_mean(name, known.iter().copied());
        CliError::usage(format!("the run has no phase `{name}`{near}"), format!("it has {}", known.join(", ")))
    })
}

/// What a verdict means that names no phase, on a run whose steps are all done: without any work done again, the
/// same would be judged the same way. It is the last building phase, else the last one that may write.
fn last_work(plan: &Plan, state: &RunState) -> Option<PhaseName> {
    if !matches!(state.outcome(), Some(Outcome::VerificationFailed | Outcome::GoalMet)) {
        return None;
    }
    let done = state.phases.iter().rev().filter(|(_, phase)| {
        phase.order.round == 0 && phase.progress == Progress::Ended(PhaseStatus::Success) && writes(plan, phase)
    });
    let done: Vec<_> = done.collect();
    let builds = |phase: &PhaseState| matches!(&phase.order.work, Work::Agent { output, .. } if output == "build");
    let last = done.iter().find(|(_, phase)| builds(phase)).or(done.first());
    last.map(|(name, _)| (*name).clone())
}

fn writes(plan: &Plan, phase: &PhaseState) -> bool {
    let agent = phase.order.work.agent().and_then(|agent| plan.agents.get(agent));
    agent.is_some_and(|agent| agent.writes != Writes::Only(Vec::new()))
}

fn show(chosen: &Chosen) -> Result<ExitCode, CliError> {
    let waiting = recovery::pending_verdict(&chosen.dir)?;
    let verdict = match waiting {
        Some(verdict) => Some(verdict),
        None => run::fold(&chosen.dir)?.verdict.map(|(verdict, _)| verdict),
    };
    match verdict {
        Some(verdict) => json::write(&mut io::stdout().lock(), &verdict)?,
        None => return Ok(say(&format!("there is no verdict on run {}", chosen.dir.run()))),
    }
    Ok(ExitCode::SUCCESS)
}

fn clear(chosen: &Chosen) -> Result<ExitCode, CliError> {
    let there = chosen.dir.verdict().exists();
    recovery::clear_verdict(&chosen.dir)?;
    let what = if there { "cleared" } else { "not set, or taken up already" };
    Ok(say(&format!("verdict on run {} {what}", chosen.dir.run())))
}
