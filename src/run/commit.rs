//! The commit step: only what the run made, never the user's own changes.

use std::error::Error as _;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::phase::PhaseResult;
use super::stop::Urgency;
use super::wait::Asked;
use super::{Run, RunError};
use crate::event::{Committed, Event, Fault, FaultKind, Order, Outcome, PathChange, RepoPath, TreeChanged};
use crate::process::Limits;
use crate::state::RunState;
use crate::tree::{CommitOrder, LeftOutReason, Reins, TreeError};

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
        let held = Held(Reins::default());
        let reins = held.0.clone();
        let committing = self.guard.with(move |tree| {
            let order = CommitOrder {
                base: base.as_deref(),
                changes: &changes,
                message: &message,
                declared: &declared,
                cut_off_since,
                reins: &reins,
            };
            reins.take_up();
            let done = tree.commit(&order);
            reins.let_go();
            done
        });
        let (outcome, stopped) = self.unless_stopped(committing, &held.0).await;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(RunError::Tree(error)) => return self.refused(order, FaultKind::Git, refusal(&error)),
            Err(error) => return Err(error),
        };
        if let (true, Some((outcome, reason))) = (outcome.stopped, stopped) {
            return Ok(PhaseResult::stopped(outcome, reason));
        }
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
        // What a hook refused is told as such, and not as nothing to commit.
        if !known && outcome.refused.is_none() {
            self.record(Some(&order.phase), Event::Committed(committed))?;
        }
        self.tell_of_hooks(order, &outcome.changed_by_hooks)?;
        if let Some(words) = outcome.refused {
            return self.refused(order, FaultKind::CommitHook, format!("a commit hook refused: {}", words.trim()));
        }
        Ok(PhaseResult::success())
    }

    /// The end of a commit that was not made.
    fn refused(&self, order: &Order, kind: FaultKind, message: String) -> Result<PhaseResult, RunError> {
        let fault = Fault { place: order.phase.to_string(), kind, message: message.clone() };
        self.record(Some(&order.phase), Event::Error(fault))?;
        Ok(PhaseResult::failed(Outcome::Failed, message))
    }

    /// Sees git to its end, which comes sooner when somebody asks for it: SIGTERM, SIGKILL after the grace.
    async fn unless_stopped<T>(&self, committing: impl Future<Output = T>, reins: &Reins) -> (T, Option<Asked>) {
        tokio::pin!(committing);
        let (mut level, mut news) = (self.bells.level.clone(), self.bells.news.clone());
        let asked = loop {
            if let Some(asked) = self.asked(Urgency::Now) {
                break asked;
            }
            tokio::select! {
                biased;
                done = &mut committing => return (done, None),
                Ok(()) = level.changed() => {}
                Ok(()) = news.changed() => {}
            }
        };
        reins.pull(Signal::TERM);
        let done = if let Ok(done) = tokio::time::timeout(Limits::default().term_grace, &mut committing).await {
            done
        } else {
            reins.pull(Signal::KILL);
            committing.await
        };
        (done, Some(asked))
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

/// Dropped while git commits, as a second signal does, it kills git and waits until its locks are gone.
struct Held(Reins);

/// How long a killed git, and putting back its index, may take. Only one that hangs in the kernel takes longer.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.pull(Signal::KILL);
        self.0.wait(KILL_PATIENCE);
    }
}

/// Why there is no commit, with all that the error knows.
fn refusal(error: &TreeError) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
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
