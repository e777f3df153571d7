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
use crate::view::words::short_commit;

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
                list(&mut out, &look, Tense::Past { failed: &failed })?;
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
    list(&mut out, &look, Tense::Future)?;
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
    /// What the run committed, which no undo takes back.
    commits: Vec<String>,
}

/// Whether an undo is told before it is done, or after.
#[derive(Clone, Copy)]
enum Tense<'a> {
    Future,
    Past { failed: &'a [NotRestored] },
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
        return Ok(Look { tree, undo, unrecorded, commits: state.commits });
    };
    let undone = undone(dir, number)?.ok_or_else(|| no_rescue(chosen, number, state.rescues))?;
    let undo = Tree::rescue(&undone, &tree.snapshot()?);
    Ok(Look { tree, undo, unrecorded: Unrecorded::default(), commits: Vec::new() })
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

fn list(out: &mut dyn Write, look: &Look, tense: Tense<'_>) -> io::Result<()> {
    let Look { undo, unrecorded, commits, .. } = look;
    for path in &undo.paths {
        let open = unrecorded.kept.iter().any(|change| change.path == path.path);
        let note = if open { format!("  ({UNRECORDED})") } else { String::new() };
        writeln!(out, "{}{note}", line(path, tense))?;
    }
    for path in &unrecorded.foreign {
        writeln!(out, "  {:<12}{path}  ({UNRECORDED}; the agent may not write it)", "left alone")?;
    }
    let count = |state| undo.of(state).count();
    let put_back = match tense {
        Tense::Future => format!("{} to put back", count(UndoState::Restore)),
        Tense::Past { failed } => format!("{} put back", count(UndoState::Restore).saturating_sub(failed.len())),
    };
    writeln!(
        out,
        "{put_back}, {} as wanted already, {} edited since and left alone",
        count(UndoState::Done),
        count(UndoState::Conflict)
    )?;
    // The newest one goes first, as each stands on those before it.
    let short: Vec<&str> = commits.iter().rev().map(|commit| short_commit(commit)).collect();
    let short = short.join(" ");
    match (commits.len(), tense) {
        (0, _) => Ok(()),
        (1, Tense::Future) => writeln!(out, "commit {short} stays; git revert {short} takes it back with its files"),
        (_, Tense::Future) => {
            writeln!(out, "commits {short} stay; git revert {short} takes them back with their files")
        }
        (1, Tense::Past { .. }) => writeln!(out, "commit {short} stays; git commit -a commits what was put back"),
        (_, Tense::Past { .. }) => writeln!(out, "commits {short} stay; git commit -a commits what was put back"),
    }
}

fn line(path: &UndoPath, tense: Tense<'_>) -> String {
    let has_failed = matches!(tense, Tense::Past { failed } if failed.iter().any(|one| one.path == path.path));
    let (will, was) = match (path.state, &path.now, &path.wanted) {
        (UndoState::Restore, ..) if has_failed => ("not done", "not done"),
        (UndoState::Done, ..) => ("as wanted", "as wanted"),
        (UndoState::Conflict, ..) => ("left alone", "left alone"),
        (UndoState::Restore, None, _) => ("comes back", "came back"),
        (UndoState::Restore, _, None) => ("is removed", "removed"),
        (UndoState::Restore, _, Some(_)) => ("is put back", "put back"),
    };
    let what = match tense {
        Tense::Future => will,
        Tense::Past { .. } => was,
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
