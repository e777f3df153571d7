//! Snapshots around every leg and check, and what becomes of what they show.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::{Run, RunError};
use crate::event::{Event, ExternalChange, Order, PathChange, PermissionRetry, TreeChanged};
use crate::ids::AgentName;
use crate::plan::{Plan, Writes};
use crate::tree::{self, LegEnd, LegStart, Tree, TreeError};

/// What a snapshot is taken around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    /// Each leg of the phase.
    Leg,
    /// A block of phases, by whoever runs the block.
    Block,
}

/// What was written against the rules and undone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Undone {
    pub(super) changes: Vec<PathChange>,
    /// The number that brings it back.
    pub(super) rescue: u32,
    /// Whether all of it could be undone.
    pub(super) complete: bool,
}

impl Undone {
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// The work tree, used by one blocking task at a time.
#[derive(Clone)]
pub(super) struct Guard {
    tree: Arc<Mutex<Tree>>,
}

impl Guard {
    pub(super) fn new(tree: Tree) -> Self {
        Self { tree: Arc::new(Mutex::new(tree)) }
    }

    /// Does file and git work away from the thread that serves signals and pipes.
    pub(super) async fn with<T, F>(&self, work: F) -> Result<T, RunError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tree) -> Result<T, TreeError> + Send + 'static,
    {
        let mut tree = Arc::clone(&self.tree).lock_owned().await;
        let done = tokio::task::spawn_blocking(move || work(&mut tree)).await;
        Ok(done.expect("work on the tree returns its failures")?)
    }

    /// Looks at everything before a leg.
    pub(super) async fn before(&self) -> Result<LegStart, RunError> {
        self.with(Tree::begin).await
    }

    /// What changed since then; nothing is undone.
    pub(super) async fn changes_since(&self, before: Option<&LegStart>) -> Result<Vec<PathChange>, RunError> {
        let Some(before) = before.map(|start| start.snapshot.clone()) else { return Ok(Vec::new()) };
        self.with(move |tree| Ok(tree::compare(&before, &tree.snapshot()?))).await
    }
}

/// The rules for one agent of a plan.
pub(super) fn rules(plan: &Plan, agent: &AgentName) -> Result<tree::Guard, TreeError> {
    let writes = match plan.agents.get(agent).map(|agent| &agent.writes) {
        Some(Writes::Only(patterns)) => Some(patterns.as_slice()),
        Some(Writes::Anywhere) | None => None,
    };
    Ok(tree::Guard::new(writes, &plan.protected_files, &plan.judge_files, &plan.benign_paths)?)
}

impl Run {
    /// Looks again after a leg, keeps what the agent may write and undoes the rest.
    pub(super) async fn judge_leg(
        &self,
        before: LegStart,
        order: &Order,
        leg: u32,
        agent: &AgentName,
    ) -> Result<Undone, RunError> {
        let rules = rules(&self.plan, agent)?;
        let end = self.guard.with(move |tree| tree.end(&before, &rules)).await?;
        self.keep(Some(order), leg, &end)
    }

    /// Looks again after a block of reading agents. Returns the reason when the block wrote anything.
    pub(super) async fn judge_block(&self, before: LegStart, orders: &[Order]) -> Result<Option<String>, RunError> {
        let nothing = tree::Guard::new(Some(&[]), &[], &[], &self.plan.benign_paths).map_err(TreeError::from)?;
        let end = self.guard.with(move |tree| tree.end(&before, &nothing)).await?;
        let undone = self.keep(None, 0, &end)?;
        if undone.is_empty() {
            return Ok(None);
        }
        let agents: Vec<AgentName> = orders.iter().filter_map(|order| order.work.agent().cloned()).collect();
        let reason = format!("a block of agents that may not write changed `{}`", undone.changes[0].path);
        let retry = PermissionRetry { agents, undone: undone.changes, rescue: undone.rescue, again: false };
        self.record(None, Event::PermissionRetry(retry))?;
        Ok(Some(reason))
    }

    /// Looks again after a check, whose by-products all stay: a formatter or a build writes what it likes.
    pub(super) async fn keep_check(&self, before: LegStart, order: &Order) -> Result<(), RunError> {
        let changes = self.guard.changes_since(Some(&before)).await?;
        if changes.is_empty() {
            return Ok(());
        }
        self.record(Some(&order.phase), Event::TreeChanged(TreeChanged { leg: 0, changes }))
    }

    /// Writes down what was kept and what was undone.
    fn keep(&self, order: Option<&Order>, leg: u32, end: &LegEnd) -> Result<Undone, RunError> {
        let phase = order.map(|order| &order.phase);
        if !end.kept.is_empty() {
            self.record(phase, Event::TreeChanged(TreeChanged { leg, changes: end.kept.clone() }))?;
        }
        let mut rescue = self.with_state(|state| state.rescues);
        let mut what: Vec<String> = end.git.put_back.clone();
        what.extend(end.git.head_moved_to.iter().map(|commit| format!("HEAD had moved to {commit}")));
        if !end.benign.is_empty() || !what.is_empty() {
            let number = if end.benign.is_empty() { None } else { Some(rescue + 1) };
            rescue = number.unwrap_or(rescue);
            let change = ExternalChange { what, undone: end.benign.clone(), rescue: number };
            self.record(phase, Event::ExternalChange(change))?;
        }
        Ok(Undone {
            changes: end.violations.clone(),
            rescue: if end.violations.is_empty() { rescue } else { rescue + 1 },
            complete: end.not_restored.is_empty(),
        })
    }

    /// SHA-256 over path and present content of all that the run has changed.
    pub(super) async fn tree_digest(&self) -> Result<String, RunError> {
        let paths: Vec<_> = self.with_state(|state| state.changed.keys().cloned().collect());
        self.guard.with(move |tree| Ok(tree::digest(paths.iter(), &tree.snapshot()?))).await
    }
}
