//! Limits of a run: what has been used, and when that ends it.

use super::{Progress, RunState};
use crate::event::{Outcome, PhaseStatus, Work};
use crate::ids::StepName;
use crate::plan::Stop;

/// Ends a repair whose allowed fixes are used up. `round` is the round whose test is red.
pub(super) fn out_of_attempts(stop: &Stop, state: &RunState, step: &StepName, round: u32) -> Option<(Outcome, String)> {
    let before = state.step(step).map_or(0, |known| known.rounds_before);
    let used = u64::from(round.saturating_sub(1).saturating_sub(before));
    if used < stop.attempt_cap {
        return None;
    }
    let fixes = if used == 1 { "1 fix".to_owned() } else { format!("{used} fixes") };
    Some((Outcome::AttemptCap, format!("`{step}` is still red after {fixes}")))
}

/// Ends a repair whose last fixes changed neither what fails nor what the run has changed.
pub(super) fn no_progress(stop: &Stop, state: &RunState, step: &StepName) -> Option<(Outcome, String)> {
    let window = usize::try_from(stop.no_progress_window).ok().filter(|window| *window > 0)?;
    let before = state.step(step).map_or(0, |known| known.rounds_before);
    let tests: Vec<_> = state
        .phases
        .values()
        .filter(|phase| phase.order.step == *step && phase.order.round > before)
        .filter(|phase| matches!(phase.order.work, Work::Check { .. }))
        .filter(|phase| phase.progress == Progress::Ended(PhaseStatus::Red))
        .map(|phase| {
            let failing: Vec<_> = phase.checks.iter().filter(|check| !check.passed).map(|check| &check.check).collect();
            (failing, phase.tree_sha256.as_ref())
        })
        .collect();
    let recent = tests.len().checked_sub(window + 1).map(|from| &tests[from..])?;
    // A digest that is unknown is no proof of standing still.
    let same = recent.iter().all(|test| test.1.is_some() && *test == recent[0]);
    same.then(|| {
        (Outcome::NoProgress, format!("the last {window} fixes of `{step}` changed neither the failures nor the files"))
    })
}
