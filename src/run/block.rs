//! Agents that may not write, side by side: one snapshot around all of them, one log for what they do.
//!
//! Nobody can tell which of them wrote something, so a violation is the block's: all of them try again once, told
//! what was undone, and a second time ends the run.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::agent::Member;
use super::guard::Undone;
use super::order::AgentOrder;
use super::phase::PhaseResult;
use super::{Level, Run, RunError};
use crate::event::{Event, Order, Outcome, PermissionRetry, PhaseStatus};
use crate::ids::PhaseName;

/// The phases whose engine has answered a request, or is done without: its prefix is in the provider's cache.
#[derive(Debug)]
pub(super) struct Heard {
    phases: watch::Sender<BTreeSet<PhaseName>>,
}

impl Default for Heard {
    fn default() -> Self {
        Self { phases: watch::Sender::new(BTreeSet::new()) }
    }
}

impl Heard {
    /// Takes one record of a phase.
    pub(super) fn take(&self, phase: Option<&PhaseName>, event: &Event) {
        if let (Some(phase), Event::Context(_) | Event::ToolCall(_) | Event::AgentEnd(_)) = (phase, event) {
            self.tell(phase);
        }
    }

    fn tell(&self, phase: &PhaseName) {
        self.phases.send_if_modified(|phases| phases.insert(phase.clone()));
    }
}

/// How a member came out, and how long it took.
type Done = (Result<Member, RunError>, Duration);

impl Run {
    /// Executes orders of reading agents side by side; all are finished when this returns.
    pub(super) async fn parallel(&self, orders: &[Order]) -> Result<(), RunError> {
        let members: Vec<AgentOrder<'_>> = orders.iter().filter_map(AgentOrder::of).collect();
        for member in &members {
            self.begin(member.order)?;
        }
        let mut note = None;
        let (results, blame) = loop {
            let before = self.before(&orders.iter().collect::<Vec<_>>()).await?;
            let results = self.side_by_side(&members, note.as_deref()).await;
            let undone = self.judge_block(before).await?;
            let results: Vec<(Member, Duration)> =
                results.into_iter().map(|(result, took)| Ok((result?, took))).collect::<Result<_, RunError>>()?;
            if undone.is_empty() {
                break (results, None);
            }
            let stop =
                results.iter().find_map(|(result, _)| result.as_ref().err().filter(|over| is_stop(over)).cloned());
            let again = note.is_none() && stop.is_none() && undone.is_complete();
            self.blame_block(&members, &undone, again)?;
            if !again {
                let blocked = || {
                    let reason = format!("agents of a block that may not write {}", undone.reason());
                    PhaseResult::failed(Outcome::BlockedByGate, reason)
                };
                // Asked to stop, and all is undone: the block is tried again by a resume.
                break (results, Some(stop.filter(|_| undone.is_complete()).unwrap_or_else(blocked)));
            }
            note = Some(super::prompt::permission_note(&undone.changes));
        };
        for (member, (result, took)) in members.iter().zip(results) {
            let result = match (&blame, result) {
                (Some(blame), _) => blame.clone(),
                (None, Ok(envelope)) => self.take(member, envelope)?,
                (None, Err(over)) => over,
            };
            self.finish(member.order, result, took)?;
        }
        Ok(())
    }

    fn blame_block(&self, members: &[AgentOrder<'_>], undone: &Undone, again: bool) -> Result<(), RunError> {
        let agents = members.iter().map(|member| member.agent.clone()).collect();
        let retry = PermissionRetry { agents, undone: undone.changes.clone(), rescue: undone.rescue, again };
        if retry.undone.is_empty() { Ok(()) } else { self.record(None, Event::PermissionRetry(retry)) }
    }

    /// Polls all members in this one task; each wakes it when there is something to do.
    async fn side_by_side(&self, members: &[AgentOrder<'_>], note: Option<&str>) -> Vec<Done> {
        let start = |place: usize| async move {
            self.after_leader(members, place).await;
            let started = Instant::now();
            let result = self.member(&members[place], note).await;
            self.heard.tell(&members[place].order.phase);
            (result, started.elapsed())
        };
        let mut running: Vec<_> = (0..members.len()).map(|place| Some(Box::pin(start(place)))).collect();
        let mut results: Vec<Option<Done>> = members.iter().map(|_| None).collect();
        poll_fn(|context| {
            for (slot, result) in running.iter_mut().zip(&mut results) {
                if let Some(future) = slot
                    && let Poll::Ready(done) = future.as_mut().poll(context)
                {
                    *result = Some(done);
                    *slot = None;
                }
            }
            if running.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        results.into_iter().flatten().collect()
    }

    /// Waits until an earlier member with the same prefix has its first answer, and with it the prefix is in the
    /// provider's cache: started at once, each would pay for writing it.
    async fn after_leader(&self, members: &[AgentOrder<'_>], place: usize) {
        let prefix = |member: &AgentOrder<'_>| {
            let (agent, choice) = (&self.plan.agents[member.agent], self.choice(member.agent));
            let level = agent.level(choice, member.order.label()).map(str::to_owned);
            (choice.engine, choice.model.clone(), level, agent.tools.clone())
        };
        let own = prefix(&members[place]);
        let Some(leader) = members[..place].iter().find(|member| prefix(member) == own) else { return };
        let (mut heard, mut level) = (self.heard.phases.subscribe(), self.bells.level.clone());
        tokio::select! {
            Ok(_) = heard.wait_for(|phases| phases.contains(&leader.order.phase)) => {}
            Ok(_) = level.wait_for(|level| *level > Level::Running) => {}
            else => {}
        }
    }
}

fn is_stop(over: &PhaseResult) -> bool {
    over.status == PhaseStatus::Stopped
}
