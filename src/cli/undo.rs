//! `fia undo`: what a run changed, or what one rollback undid; a preview, then the same for good.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::choose::{Chosen, Wanted, choose};
use super::held::{repository_of, with_lock};
use super::project::Project;
use super::reading;
use super::report::CliError;
use super::say;
use crate::event::{Event, PathChange};
use crate::ids::RunId;
use crate::plan::Plan;
use crate::run::{self, StartError, Unrecorded};
use crate::state::RunState;
use crate::store::{Entry, LogReader, RunDir, StoreError, Tail};
use crate::tree::{NotRestored, Tree, Undo, UndoPath, UndoState};
use crate::view::human::handle;
use crate::view::json;

/// What is said of a change that no record has.
const UNRECORDED: &str = "in the leg that was killed, or since";

/// Arguments of `fia undo`.
#[derive(Debug, Args)]
pub(super) struct UndoArgs {
    /// The run: its id or a unique part of it; the newest if left out
    run: Option<String>,
    /// Do it; without this it is only shown
    #[arg(long)]
    apply: bool,
    /// Bring back what this rollback undid, instead of undoing what the run changed
    #[arg(long, value_name = "N")]
    rescue: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The answer of `fia undo --json`.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    run: &'a RunId,
    /// The rollback that is brought back; null where the run is undone.
    rescue: Option<u32>,
    /// Whether it was done, not only looked at.
    applied: bool,
    /// Every path, in order.
    paths: &'a [UndoPath],
    /// What could not be put back.
    failed: &'a [NotRestored],
}

/// Shows or does an undo.
pub(super) fn undo(args: &UndoArgs) -> Result<ExitCode, CliError> {
    let project = Project::look()?;
    let run = reading::find(&project.data, args.run.as_deref())?.run().clone();
    let chosen = choose(&project.data, Some(run.as_str()), Wanted::Unfinished, "fia undo")?;
    if args.apply {
        return with_lock(&project, &run, || {
            let look = look(&project, &chosen, args.rescue)?;
            let failed = look.tree.apply(&look.undo)?;
            let mut out = io::stdout().lock();
            if args.json {
                answer(&mut out, args, &run, &look.undo, &failed)?;
            } else {
                preview(&mut out, &look)?;
            }
            applied(&failed)
        });
    }
    let look = look(&project, &chosen, args.rescue)?;
    let mut out = io::stdout().lock();
    if args.json {
        answer(&mut out, args, &run, &look.undo, &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    preview(&mut out, &look)?;
    if look.undo.of(UndoState::Restore).next().is_some() {
        let rescue = args.rescue.map(|number| format!(" --rescue {number}")).unwrap_or_default();
        writeln!(out, "nothing is changed yet; next:  fia undo {}{rescue} --apply", handle(&run))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What an undo would do, and to which tree.
struct Look {
    tree: Tree,
    undo: Undo,
    /// What a leg in which fia was killed did, or somebody since.
    unrecorded: Unrecorded,
}

fn look(project: &Project, chosen: &Chosen, rescue: Option<u32>) -> Result<Look, CliError> {
    let (dir, run) = (&chosen.dir, chosen.dir.run());
    let state = run::fold(dir)?;
    let plan = run::plan_of(run, &state)?;
    let mut tree = run::open_tree(repository_of(project, run)?, &project.data, dir, &plan)?;
    let Some(number) = rescue else {
        let unrecorded = unrecorded(dir, &plan, &state, &mut tree)?;
        let changes = [&state.made[..], &unrecorded.kept].concat();
        let undo = Tree::undo(&changes, &tree.snapshot()?);
        return Ok(Look { tree, undo, unrecorded });
    };
    let undone = undone(dir, number)?.ok_or_else(|| no_rescue(chosen, number, state.rescues))?;
    let undo = Tree::rescue(&undone, &tree.snapshot()?);
    Ok(Look { tree, undo, unrecorded: Unrecorded::default() })
}

/// What the log does not have; a log that lost records is gone by as far as it goes.
fn unrecorded(dir: &RunDir, plan: &Plan, state: &RunState, tree: &mut Tree) -> Result<Unrecorded, CliError> {
    match run::unrecorded(dir, plan, state, tree) {
        Err(lost @ StartError::Lost { .. }) => {
            say(&format!("warning: {lost}; what they said was changed is not shown"));
            Ok(Unrecorded::default())
        }
        found => Ok(found?),
    }
}

fn no_rescue(chosen: &Chosen, number: u32, rescues: u32) -> CliError {
    let run = chosen.dir.run();
    let hint = match rescues {
        0 => format!("nothing was rolled back in run {}", handle(run)),
        1 => "there is one: `--rescue 1`".to_owned(),
        most => format!("there are 1 to {most}"),
    };
    CliError::usage(format!("run {run} has no rollback {number}"), hint)
}

/// What one rollback undid, by its number.
fn undone(dir: &RunDir, number: u32) -> Result<Option<Vec<PathChange>>, StoreError> {
    let mut log = LogReader::open(&dir.events(), Tail::Final)?.sift(&[b"\"rescue\""]);
    let mut found = None;
    while let Some(entry) = log.next()? {
        let Entry::Record { line, .. } = entry else { continue };
        let Ok(record) = line.decode() else { continue };
        if let Event::PermissionRetry(retry) = &record.event
            && retry.rescue == number
        {
            found = Some(retry.undone.clone());
        } else if let Event::ExternalChange(change) = &record.event
            && change.rescue == Some(number)
        {
            found = Some(change.undone.clone());
        }
    }
    Ok(found)
}

fn preview(out: &mut dyn Write, Look { undo, unrecorded, .. }: &Look) -> io::Result<()> {
    for path in &undo.paths {
        let open = unrecorded.kept.iter().any(|change| change.path == path.path);
        let note = if open { format!("  ({UNRECORDED})") } else { String::new() };
        writeln!(out, "{}{note}", line(path))?;
    }
    for path in &unrecorded.foreign {
        writeln!(out, "  {:<12}{path}  ({UNRECORDED}; the agent may not write it)", "left alone")?;
    }
    let count = |state| undo.of(state).count();
    writeln!(
        out,
        "{} to put back, {} as wanted already, {} edited since and left alone",
        count(UndoState::Restore),
        count(UndoState::Done),
        count(UndoState::Conflict)
    )
}

fn line(path: &UndoPath) -> String {
    let what = match (path.state, &path.now, &path.wanted) {
        (UndoState::Done, ..) => "as wanted",
        (UndoState::Conflict, ..) => "left alone",
        (UndoState::Restore, None, _) => "comes back",
        (UndoState::Restore, _, None) => "is removed",
        (UndoState::Restore, _, Some(_)) => "is put back",
    };
    format!("  {what:<12}{}", path.path)
}

fn answer(
    out: &mut dyn Write,
    args: &UndoArgs,
    run: &RunId,
    undo: &Undo,
    failed: &[NotRestored],
) -> Result<(), CliError> {
    let answer = Answer { run, rescue: args.rescue, applied: args.apply, paths: &undo.paths, failed };
    Ok(json::write(out, &answer)?)
}

fn applied(failed: &[NotRestored]) -> Result<ExitCode, CliError> {
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let paths: Vec<String> = failed.iter().map(|failed| format!("`{}`: {}", failed.path, failed.reason)).collect();
    Err(CliError::machine("not all could be put back", io::Error::other(paths.join("; "))))
}
