//! The commit step: only what the run made, never the user's own changes.

use serde_json::Value;

use super::phase::PhaseResult;
use super::{Run, RunError};
use crate::event::{Committed, Event, Fault, FaultKind, Order, Outcome, PathChange, RepoPath, TreeChanged};
use crate::state::RunState;
use crate::tree::{CommitOrder, LeftOutReason};

impl Run {
    /// Commits what the run changed; a hook that refuses ends the run, and nothing is committed then.
    pub(super) async fn commit_phase(&self, order: &Order) -> Result<PhaseResult, RunError> {
        let message = self.commit_message();
        let subject = message.lines().next().unwrap_or_default().to_owned();
        let (base, changes, declared, cut_off_since) = self.with_state(|state| {
            let base = state.origin.as_ref().and_then(|origin| origin.base.clone());
            let cut_off_since = state.phases.get(&order.phase).and_then(|phase| phase.cut_off_since);
            (base, state.made.clone(), declared(state), cut_off_since)
        });
        let outcome = self
            .guard
            .with(move |tree| {
                let (base, declared) = (base.as_deref(), declared.as_slice());
                tree.commit(&CommitOrder { base, changes: &changes, message: &message, declared, cut_off_since })
            })
            .await?;
        let left_out = |reasons: &[LeftOutReason]| {
            let listed = outcome.left_out.iter().filter(|left| reasons.contains(&left.reason));
            listed.map(|left| left.path.clone()).collect::<Vec<RepoPath>>()
        };
        let unfit = [LeftOutReason::Ignored, LeftOutReason::NestedRepository, LeftOutReason::NotAFile];
        let committed = Committed {
            commit: outcome.commit.clone(),
            branch: outcome.branch.clone(),
            subject,
            paths: outcome.paths.clone(),
            declared_only: left_out(&[LeftOutReason::DeclaredOnly]),
            mixed: left_out(&[LeftOutReason::Mixed]),
            unfit: left_out(&unfit),
        };
        // It may be that all but the end of the phase was written down by a fia that died then.
        let known =
            committed.commit.as_ref().is_some_and(|commit| self.with_state(|state| state.commits.contains(commit)));
        if !known {
            self.record(Some(&order.phase), Event::Committed(committed))?;
        }
        self.tell_of_hooks(order, &outcome.changed_by_hooks)?;
        if let Some(words) = outcome.refused {
            let message = format!("a commit hook refused: {}", words.trim());
            let fault = Fault { place: order.phase.to_string(), kind: FaultKind::CommitHook, message: message.clone() };
            self.record(Some(&order.phase), Event::Error(fault))?;
            return Ok(PhaseResult::failed(Outcome::Failed, message));
        }
        Ok(PhaseResult::success())
    }

    /// Says what hooks changed in the work tree; it stays as they left it, as work of the run.
    fn tell_of_hooks(&self, order: &Order, changes: &[PathChange]) -> Result<(), RunError> {
        if changes.is_empty() {
            return Ok(());
        }
        let changed = TreeChanged { leg: 0, changes: changes.to_vec() };
        self.record(Some(&order.phase), Event::TreeChanged(changed))?;
        let paths: Vec<String> = changes.iter().map(|change| change.path.to_string()).collect();
        let message = format!("commit hooks changed files, which are not committed: {}", paths.join(", "));
        let fault = Fault { place: order.phase.to_string(), kind: FaultKind::CommitHook, message };
        self.record(Some(&order.phase), Event::Error(fault))
    }

    /// The newest message that an envelope proposes, else one made from the prompt.
    fn commit_message(&self) -> String {
        let proposed = self.with_state(|state| {
            let envelopes = state.phases.values().rev().filter_map(|phase| phase.envelope.as_ref());
            let mut messages = envelopes.filter_map(|envelope| envelope.get("commit_message").and_then(Value::as_str));
            messages.find(|message| !message.trim().is_empty()).map(str::to_owned)
        });
        proposed.unwrap_or_else(|| {
            let first = self.plan.prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or("fia run").trim();
            first.chars().take(72).collect()
        })
    }
}

/// Paths that envelopes declare as changed.
fn declared(state: &RunState) -> Vec<RepoPath> {
    let envelopes = state.phases.values().filter_map(|phase| phase.envelope.as_ref());
    let listed = envelopes.filter_map(|envelope| envelope.get("changed_files").and_then(Value::as_array));
    let mut paths: Vec<RepoPath> = listed
        .flatten()
        .filter_map(Value::as_str)
        .map(|path| RepoPath::from(path.strip_prefix("./").unwrap_or(path)))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}
