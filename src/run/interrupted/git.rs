//! git's state before a leg that was killed with fia, put back at the next start as the end of the leg would have
//! done (SPEC 11.4).

use std::fs;
use std::time::{Duration, SystemTime};

use super::CutOff;
use crate::event::{ExternalChange, Work};
use crate::host::Presence;
use crate::run::orphan::{self, Worker};
use crate::state::PhaseState;
use crate::store::{Leg, RunDir, StoreError};
use crate::tree::{GitChanges, GitRecord, Tree, TreeError};

/// How long after its last sign of life an engine may have used git. What changed later is a person's.
const LINGER: Duration = Duration::from_secs(10 * 60);

/// Whether an engine of a run still works, which then may have changed anything until now. To be asked before
/// whoever takes the lock ends it.
///
/// # Errors
///
/// As [`orphan::orphans`].
pub(in crate::run) fn engine_works(dir: &RunDir) -> Result<bool, StoreError> {
    let works =
        |orphan: &orphan::Orphan| matches!(orphan.worker, Worker::Engine(_)) && orphan.presence == Presence::Running;
    Ok(orphan::orphans(dir)?.iter().any(works))
}

/// Puts git's state back to before the leg that was cut off; what it came to, in words.
pub(super) fn put_git_back(
    dir: &RunDir,
    cut_off: &CutOff<'_>,
    tree: &mut Tree,
    engine_worked: bool,
) -> Result<Vec<ExternalChange>, TreeError> {
    match before(dir, cut_off, engine_worked) {
        Some((record, until)) => Ok(told(tree.put_git_back(record, until)?)),
        None => Ok(Vec::new()),
    }
}

/// Names of what [`put_git_back`] would put back.
pub(super) fn changed(
    dir: &RunDir,
    cut_off: &CutOff<'_>,
    tree: &mut Tree,
    engine_worked: bool,
) -> Result<Vec<String>, TreeError> {
    match before(dir, cut_off, engine_worked) {
        Some((record, until)) => tree.git_changed(record, until),
        None => Ok(Vec::new()),
    }
}

/// git's state before the leg, and until when an engine may have changed it; `None` when none can have.
fn before<'a>(dir: &RunDir, cut_off: &'a CutOff<'_>, engine_worked: bool) -> Option<(&'a GitRecord, SystemTime)> {
    let record = cut_off.noted.git.as_ref().filter(|_| cut_off.before.agents)?;
    let last = cut_off.phases.iter().filter_map(|phase| last_sign(dir, phase)).max()?;
    Some((record, if engine_worked { SystemTime::now() } else { last + LINGER }))
}

/// When the last leg of an agent phase last wrote anything; `None` when no agent had begun.
fn last_sign(dir: &RunDir, phase: &PhaseState) -> Option<SystemTime> {
    let Work::Agent { agent, .. } = &phase.order.work else { return None };
    let leg = Leg { phase: &phase.order.phase, leg: phase.legs };
    let files = [dir.transcript(agent, leg), dir.stderr(agent, leg), dir.user_prompt(agent, leg, 1)];
    files.iter().filter_map(|file| fs::metadata(file).ok()?.modified().ok()).max()
}

fn told(changes: GitChanges) -> Vec<ExternalChange> {
    let GitChanges { head_moved_to, put_back, left_alone, not_put_back } = changes;
    let undone = !put_back.is_empty();
    let mut what = put_back;
    what.extend(head_moved_to.filter(|_| undone).map(|commit| format!("HEAD had moved to {commit}")));
    let left = |name| format!("{name} changed in a leg that was killed or since, and was left as it is");
    let stays = left_alone.into_iter().map(left);
    let stays = stays.chain(not_put_back.into_iter().map(|reason| format!("not put back: {reason}")));
    vec![ExternalChange::put_back(what), ExternalChange::noticed(stays.collect())]
}
