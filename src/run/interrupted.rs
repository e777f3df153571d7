//! What a leg had changed when fia was killed in it.
//!
//! Before each leg and check the files of the tree and git's state are written down beside the log. A resume holds
//! them against the tree as it finds it: without that, what a killed leg had written would count as nobody's, would not be committed,
//! and its second try would seem to change nothing. What the phase may not write is left alone and named: nobody
//! knows whether the agent wrote it or a person, meanwhile.

mod git;
mod notes;

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::guard::rules;
use super::refused::StartError;
use super::{Run, RunError};
use crate::event::{Event, ExternalChange, Order, PathChange, RepoPath, TreeChanged, Work};
use crate::ids::PhaseName;
use crate::plan::Plan;
use crate::state::{PhaseState, Progress, RunState};
use crate::store::atomic::{self, Durability};
use crate::store::{RunDir, StoreError};
use crate::tree::{self, LegStart, Snapshot, Tree, TreeError};
use notes::{Noted, Scope};

pub(super) use git::engine_works;
use git::put_git_back;
pub(super) use notes::Notes;

/// Which leg was begun last.
const FILE: &str = "before_leg.json";

/// Paths that are named at most.
const NAMED: usize = 20;

/// What was known before a leg.
#[derive(Debug, Serialize, Deserialize)]
struct Before {
    /// The phases that it was written for.
    phases: Vec<PhaseName>,
    /// Changes that the log had by then.
    made: usize,
    /// Whether one of the phases is an agent's: what a check does to git stays, like all that it does.
    agents: bool,
    /// The bytes of the notes that say what the tree and git held.
    notes: Range<u64>,
}

/// Phases that were begun, not ended, and whose leg may have been cut off, with the tree before it.
struct CutOff<'a> {
    before: Before,
    noted: Noted,
    /// At least one.
    phases: Vec<&'a PhaseState>,
}

/// What happened between a snapshot and the death of fia, or since.
#[derive(Debug, Default, PartialEq)]
pub struct Unrecorded {
    /// The phase that may have done it, and its last leg.
    phase: Option<(PhaseName, u32)>,
    /// What the phase may write.
    pub kept: Vec<PathChange>,
    /// What it may not write, and what is left as it is.
    pub foreign: Vec<RepoPath>,
    /// What was put back of git's state, or left as it is.
    git: Vec<ExternalChange>,
}

/// What becomes of git's state when a leg was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Git {
    /// It stays: nobody goes on with the leg yet.
    Leave,
    /// It goes back to before the leg. An engine may have worked until now, or died when its fia did.
    PutBack { engine_worked: bool },
}

/// What a run changed beyond its log, when fia was killed in a leg or a check of it.
///
/// # Errors
///
/// [`StartError::Lost`] when the log was cut short by something else; when git fails, or a file cannot be read.
pub fn unrecorded(dir: &RunDir, plan: &Plan, state: &RunState, tree: &mut Tree) -> Result<Unrecorded, StartError> {
    settle(dir, plan, state, tree, Git::Leave)
}

impl Run {
    /// Looks at everything before a leg of these phases, and writes the files down.
    pub(super) async fn before(&self, orders: &[&Order]) -> Result<LegStart, RunError> {
        self.look_at_own_files()?;
        let agents = orders.iter().any(|order| order.work.agent().is_some());
        let scope = if agents { Scope::TreeAndGit } else { Scope::Tree };
        let (mut notes, dir) = (self.notes.take(), self.place.dir.clone());
        let look = move |tree: &mut Tree| {
            let start = tree.begin()?;
            let written = notes.write(&dir, tree, &start, scope);
            Ok((start, notes, written))
        };
        let (start, notes, written) = self.guard.with(look).await?;
        self.notes.replace(notes);
        let before = Before {
            phases: orders.iter().map(|order| order.phase.clone()).collect(),
            made: self.with_state(|state| state.made.len()),
            agents,
            notes: written?,
        };
        let json = serde_json::to_vec(&before).expect("names and numbers are plain data");
        atomic::replace(&self.place.dir.path().join(FILE), &json, Durability::Synced)?;
        Ok(start)
    }

    /// Writes down what was found.
    pub(super) fn record_unrecorded(&self, found: Unrecorded) -> Result<(), RunError> {
        let Some((phase, leg)) = found.phase else { return Ok(()) };
        if !found.kept.is_empty() {
            self.record(Some(&phase), Event::TreeChanged(TreeChanged { leg, changes: found.kept }))?;
        }
        let foreign = ExternalChange::noticed(found.foreign.iter().map(left_alone).collect());
        for mut change in found.git.into_iter().chain([foreign]) {
            let more = change.what.len().saturating_sub(NAMED);
            if more > 0 {
                change.what.truncate(NAMED);
                change.what.push(format!("(+{more} more)"));
            }
            if !change.what.is_empty() {
                self.record(Some(&phase), Event::ExternalChange(change))?;
            }
        }
        Ok(())
    }
}

fn left_alone(path: &RepoPath) -> String {
    format!("`{path}` changed in a leg that was killed or since, and was left as it is")
}

/// Finds the phases that were cut off.
///
/// A log that knows less than was written down before the leg was cut short by something else than a dying fia. To go
/// on would leave out work that is in the tree, so that is an error.
fn cut_off<'a>(dir: &RunDir, state: &'a RunState) -> Result<Option<CutOff<'a>>, StartError> {
    let Some(bytes) = dir.read(Path::new(FILE))? else { return Ok(None) };
    let before = serde_json::from_slice::<Before>(&bytes)
        .map_err(|source| StoreError::Damaged { path: dir.path().join(FILE), source })?;
    if state.made.len() < before.made || before.phases.iter().any(|phase| !state.phases.contains_key(phase)) {
        return Err(StartError::Lost { run: dir.run().clone() });
    }
    let open = |phase: &&PhaseState| matches!(phase.progress, Progress::Open | Progress::Interrupted);
    let phases: Vec<_> = before.phases.iter().filter_map(|name| state.phases.get(name)).filter(open).collect();
    if phases.is_empty() {
        return Ok(None);
    }
    let noted = notes::read(dir, before.notes.clone())?;
    Ok(Some(CutOff { before, noted, phases }))
}

/// What of git's state a resume will put back, to be written down before it does.
pub(super) fn at_stake(
    dir: &RunDir,
    state: &RunState,
    tree: &mut Tree,
    engine_worked: bool,
) -> Result<Option<ExternalChange>, StartError> {
    let Some(cut_off) = cut_off(dir, state)? else { return Ok(None) };
    let names = git::changed(dir, &cut_off, tree, engine_worked)?;
    let what = || vec![format!("to be put back to before a leg that was killed: {}", names.join(", "))];
    Ok((!names.is_empty()).then(|| ExternalChange::noticed(what())))
}

/// Puts git's state back, and finds what the log does not have of phases that were cut off.
pub(super) fn settle(
    dir: &RunDir,
    plan: &Plan,
    state: &RunState,
    tree: &mut Tree,
    git: Git,
) -> Result<Unrecorded, StartError> {
    let Some(cut_off) = cut_off(dir, state)? else { return Ok(Unrecorded::default()) };
    let git = match git {
        Git::Leave => Vec::new(),
        Git::PutBack { engine_worked } => put_git_back(dir, &cut_off, tree, engine_worked)?,
    };
    let CutOff { before, noted: Noted { mut files, .. }, phases } = cut_off;
    let recorded = &state.made[before.made..];
    for change in recorded {
        match &change.after {
            Some(content) => files.insert(change.path.clone(), content.clone()),
            None => files.remove(&change.path),
        };
    }
    let changes = tree::compare(&files.into_iter().collect::<Snapshot>(), &tree.snapshot()?);
    let first = phases[0];
    let phase = Some((first.order.phase.clone(), first.legs));
    let mut found = Unrecorded { phase, git, ..Unrecorded::default() };
    for change in changes {
        if may_write(plan, &phases, &change)? {
            found.kept.push(change);
        } else {
            found.foreign.push(change.path);
        }
    }
    Ok(found)
}

/// Whether any of the phases may have made a change; a check may make any.
fn may_write(plan: &Plan, phases: &[&PhaseState], change: &PathChange) -> Result<bool, TreeError> {
    for phase in phases {
        let allowed = match &phase.order.work {
            Work::Agent { agent, .. } => !rules(plan, agent)?.judge(std::slice::from_ref(change)).allowed.is_empty(),
            Work::Check { .. } => true,
            Work::Commit | Work::Approve { .. } => false,
        };
        if allowed {
            return Ok(true);
        }
    }
    Ok(false)
}
