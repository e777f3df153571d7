//! Whether a run may be gone on with, and with which verdict (SPEC 10.6).

use std::path::Path;

use super::refused::{Refusal, StartError, VERDICT_FILE};
use crate::event::Verdict;
use crate::state::RunState;
use crate::state::recovery::{RECOVERIES, VERDICTS};
use crate::store::RunDir;
use crate::tree::{self, Tree};

/// What becomes of a resume where nothing changed since the run was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unchanged {
    /// It is refused: the same work would be judged the same way.
    Refuse,
    /// It is done all the same.
    Retry,
}

/// Whether a verdict after the run's last end counts against the ledger, and there is room for it and its resume.
pub fn verdict_fits(state: &RunState) -> bool {
    !judged(state) || state.recovery.verdict_fits()
}

/// Whether the last stretch ended with an outcome that judges the work.
fn judged(state: &RunState) -> bool {
    state.outcome().is_some_and(crate::event::Outcome::is_judged)
}

/// Reads the verdict that waits for the next stretch.
///
/// # Errors
///
/// When the file is there and holds no verdict.
pub fn pending_verdict(dir: &RunDir) -> Result<Option<Verdict>, StartError> {
    let Some(bytes) = dir.read(Path::new(VERDICT_FILE))? else { return Ok(None) };
    let verdict = serde_json::from_slice(&bytes);
    verdict.map(Some).map_err(|source| StartError::Verdict { run: dir.run().clone(), source })
}

/// Removes the verdict that waits for the next stretch.
///
/// # Errors
///
/// When it cannot be removed.
pub fn clear_verdict(dir: &RunDir) -> Result<(), StartError> {
    Ok(dir.remove(Path::new(VERDICT_FILE))?)
}

/// Lets a resume through or refuses it; returns the verdict to write down before it begins.
pub(super) fn admit(
    dir: &RunDir,
    state: &RunState,
    tree: &mut Tree,
    unchanged: Unchanged,
) -> Result<Option<Verdict>, StartError> {
    // A fia that died between writing the verdict down and removing the file has taken it up already.
    let taken_up =
        |verdict: &Verdict| state.verdict_is_new && state.verdict.as_ref().is_some_and(|(known, _)| known == verdict);
    let verdict = pending_verdict(dir)?.filter(|verdict| !taken_up(verdict));
    if !judged(state) {
        return Ok(verdict);
    }
    let workflow = state.origin.as_ref().map_or("", |origin| &origin.workflow);
    let refuse = |refusal| Err(StartError::Refused { run: dir.run().clone(), workflow: workflow.to_owned(), refusal });
    let cost = 1 + u32::from(verdict.is_some());
    if state.recovery.used() + cost > RECOVERIES {
        return refuse(Refusal::UsedUp);
    }
    if verdict.is_some() && state.recovery.verdicts >= VERDICTS {
        return refuse(Refusal::NoMoreVerdicts);
    }
    let before = state.last_end.as_ref().and_then(|end| end.tree_sha256.as_ref());
    if let (None, false, Unchanged::Refuse, Some(before)) = (&verdict, state.verdict_is_new, unchanged, before)
        && tree::digest(state.changed.keys(), &tree.snapshot()?) == *before
    {
        return refuse(Refusal::Unchanged { verdict_fits: verdict_fits(state) });
    }
    Ok(verdict)
}
