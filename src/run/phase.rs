//! One phase: begun, executed by its kind, ended.

use std::time::Duration;

use tokio::time::Instant;

use super::{Run, RunError, millis};
use crate::event::{Event, Order, Outcome, PhaseEnd, PhaseStart, PhaseStatus, Work};
use crate::host;

/// How a phase came out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PhaseResult {
    pub(super) status: PhaseStatus,
    /// The outcome that it brings about for the run, with the reason.
    pub(super) ends_run: Option<(Outcome, String)>,
    /// Of a check in a repair: the digest of all that the run has changed.
    pub(super) tree_sha256: Option<String>,
}

impl PhaseResult {
    pub(super) fn success() -> Self {
        Self { status: PhaseStatus::Success, ends_run: None, tree_sha256: None }
    }

    pub(super) fn failed(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self { status: PhaseStatus::Failed, ends_run: Some((outcome, reason.into())), tree_sha256: None }
    }

    /// It stops here, and is tried again once the wait that it recorded is over.
    pub(super) fn waits() -> Self {
        Self { status: PhaseStatus::Stopped, ends_run: None, tree_sha256: None }
    }

    pub(super) fn stopped(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self { status: PhaseStatus::Stopped, ends_run: Some((outcome, reason.into())), tree_sha256: None }
    }
}

impl Run {
    /// Executes one order.
    pub(super) async fn phase(&self, order: &Order) -> Result<(), RunError> {
        self.begin(order)?;
        let started = Instant::now();
        let result = match &order.work {
            Work::Agent { .. } => self.agent_phase(order).await?,
            Work::Check { checks, expect } => self.check_phase(order, checks, expect).await?,
            Work::Commit => self.commit_phase(order).await?,
            Work::Approve { wait } => self.approve_phase(order, *wait).await?,
        };
        self.finish(order, result, started.elapsed())
    }

    pub(super) fn begin(&self, order: &Order) -> Result<(), RunError> {
        let attempt = self.with_state(|state| state.phases.get(&order.phase).map_or(1, |phase| phase.attempts + 1));
        let start = PhaseStart {
            step: order.label().into(),
            order: order.clone(),
            kind: order.work.kind().to_owned(),
            agent: order.work.agent().cloned(),
            description: self.describe(order),
            attempt,
            host: host::host_name(),
        };
        self.record(Some(&order.phase), Event::PhaseStart(start))
    }

    pub(super) fn finish(&self, order: &Order, result: PhaseResult, took: Duration) -> Result<(), RunError> {
        let (outcome, reason) = result.ends_run.unzip();
        let end = PhaseEnd {
            step: order.label().into(),
            status: result.status,
            elapsed_ms: millis(took),
            outcome,
            reason,
            tree_sha256: result.tree_sha256,
        };
        self.record(Some(&order.phase), Event::PhaseEnd(end))?;
        self.sync()?;
        self.remember_heard()
    }

    fn describe(&self, order: &Order) -> String {
        match &order.work {
            Work::Agent { agent, .. } => match self.plan.agents.get(agent) {
                Some(_) => {
                    let choice = self.choice(agent);
                    format!("{agent} on {} {}", choice.engine, choice.model).trim_end().to_owned()
                }
                None => agent.to_string(),
            },
            Work::Check { checks, .. } => {
                let commands = checks.iter().filter_map(|check| self.plan.checks.get(check)).map(|check| &*check.run);
                commands.collect::<Vec<_>>().join(", ")
            }
            Work::Commit => "commit what the run made".to_owned(),
            Work::Approve { .. } => "a person decides".to_owned(),
        }
    }
}
