//! What a leg had changed when fia was killed in it.
//!
//! Before each leg and check the files of the tree and git's state are written down beside the log. A resume holds them against the
//! tree as it finds it: without that, what a killed leg had written would count as nobody's, would not be committed,
//! and its second try would seem to change nothing. What the phase may not write is left alone and named: nobody
//! knows whether the agent wrote it or a person, meanwhile.

mod git;

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::guard::rules;
use super::{Run, RunError, StartError};
use crate::event::{Content, Event, ExternalChange, Order, PathChange, RepoPath, TreeChanged, Work};
use crate::ids::PhaseName;
use crate::plan::Plan;
use crate::state::{PhaseState, Progress, RunState};
use crate::store::atomic::{self, Durability};
use crate::store::{RunDir, StoreError};
use crate::tree::{self, GitRecord, LegStart, Snapshot, Tree, TreeError};

pub(super) use git::{engine_works, put_git_back};

/// Where the files before the last leg stand.
const FILE: &str = "before_leg.json";

/// Paths that are named at most.
const NAMED: usize = 20;

/// The tree before a leg.
#[derive(Debug, Serialize, Deserialize)]
struct Before {
    /// The phases that it was taken for.
    phases: Vec<PhaseName>,
    /// Changes that the log had by then.
    made: usize,
    files: Vec<(RepoPath, Content)>,
    /// Of a leg: HEAD, refs, index, config and hooks.
    #[serde(default)]
    git: Option<GitRecord>,
}

/// Phases that were begun, not ended, and whose leg may have been cut off, with the tree before it.
pub(super) struct CutOff<'a> {
    before: Before,
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
}

/// What a run changed beyond its log, when fia was killed in a leg or a check of it.
///
/// # Errors
///
/// [`StartError::Lost`] when the log was cut short by something else; when git fails, or a file cannot be read.
pub fn unrecorded(dir: &RunDir, plan: &Plan, state: &RunState, tree: &mut Tree) -> Result<Unrecorded, StartError> {
    find(cut_off(dir, state)?, plan, state, tree)
}

impl Run {
    /// Looks at everything before a leg of these phases, and writes the files down.
    pub(super) async fn before(&self, orders: &[&Order]) -> Result<LegStart, RunError> {
        self.look_at_own_files();
        // What a check does to git stays, like all that it does.
        let agents = orders.iter().any(|order| order.work.agent().is_some());
        let look = move |tree: &mut Tree| {
            let start = tree.begin()?;
            let git = agents.then(|| tree.record_git(&start.git));
            Ok((start, git))
        };
        let (start, git) = self.guard.with(look).await?;
        let before = Before {
            git,
            phases: orders.iter().map(|order| order.phase.clone()).collect(),
            made: self.with_state(|state| state.made.len()),
            files: start.snapshot.files().iter().map(|(path, content)| (path.clone(), content.clone())).collect(),
        };
        let json = serde_json::to_vec(&before).expect("paths and contents are plain data");
        atomic::replace(&self.place.dir.path().join(FILE), &json, Durability::Synced)?;
        Ok(start)
    }

    /// Writes down what was found.
    pub(super) fn record_unrecorded(&self, found: Unrecorded) -> Result<(), RunError> {
        let Some((phase, leg)) = found.phase else { return Ok(()) };
        if !found.kept.is_empty() {
            self.record(Some(&phase), Event::TreeChanged(TreeChanged { leg, changes: found.kept }))?;
        }
        if !found.foreign.is_empty() {
            let mut what: Vec<String> = found.foreign.iter().take(NAMED).map(left_alone).collect();
            if found.foreign.len() > NAMED {
                what.push(format!("(+{} more)", found.foreign.len() - NAMED));
            }
            let change = ExternalChange { what, undone: Vec::new(), rescue: None };
            self.record(Some(&phase), Event::ExternalChange(change))?;
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
pub(super) fn cut_off<'a>(dir: &RunDir, state: &'a RunState) -> Result<Option<CutOff<'a>>, StartError> {
    let Some(bytes) = dir.read(Path::new(FILE))? else { return Ok(None) };
    let before = serde_json::from_slice::<Before>(&bytes)
        .map_err(|source| StoreError::Damaged { path: dir.path().join(FILE), source })?;
    if state.made.len() < before.made || before.phases.iter().any(|phase| !state.phases.contains_key(phase)) {
        return Err(StartError::Lost { run: dir.run().clone() });
    }
    let open = |phase: &&PhaseState| matches!(phase.progress, Progress::Open | Progress::Interrupted);
    let phases: Vec<_> = before.phases.iter().filter_map(|name| state.phases.get(name)).filter(open).collect();
    Ok((!phases.is_empty()).then_some(CutOff { before, phases }))
}

/// Finds what the log does not have of phases that were cut off.
pub(super) fn find(
    cut_off: Option<CutOff<'_>>,
    plan: &Plan,
    state: &RunState,
    tree: &mut Tree,
) -> Result<Unrecorded, StartError> {
    let Some(CutOff { before, phases }) = cut_off else { return Ok(Unrecorded::default()) };
    let recorded = &state.made[before.made..];
    let mut files: std::collections::BTreeMap<_, _> = before.files.into_iter().collect();
    for change in recorded {
        match &change.after {
            Some(content) => files.insert(change.path.clone(), content.clone()),
            None => files.remove(&change.path),
        };
    }
    let changes = tree::compare(&files.into_iter().collect::<Snapshot>(), &tree.snapshot()?);
    let first = phases[0];
    let phase = Some((first.order.phase.clone(), first.legs));
    let mut found = Unrecorded { phase, ..Unrecorded::default() };
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
