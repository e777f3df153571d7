//! Snapshots around every leg and check, and what becomes of what they show.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::{Run, RunError};
use crate::event::{Event, ExternalChange, Order, PathChange, TreeChanged};
use crate::ids::AgentName;
use crate::plan::{Plan, Writes};
use crate::tree::{self, LegEnd, LegStart, NotRestored, Snapshot, Tree, TreeError};

/// Paths that a reason names.
const SHOWN: usize = 5;

/// What was written against the rules and undone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Undone {
    /// In the work tree, then fia's own files.
    pub(super) changes: Vec<PathChange>,
    /// The number that brings it back; 0 when only fia's own files were put back, which nobody wants otherwise.
    pub(super) rescue: u32,
    /// What could not be undone.
    pub(super) left: Vec<NotRestored>,
    /// What of git's state could not be put back, and why.
    pub(super) git: Vec<String>,
}

impl Undone {
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.git.is_empty()
    }

    /// Whether all of it could be undone.
    pub(super) fn is_complete(&self) -> bool {
        self.left.is_empty() && self.git.is_empty()
    }

    /// Why the phase is over, when it has no second try.
    pub(super) fn reason(&self) -> String {
        let git = format!("changed what git keeps, which could not be put back: {}", self.git.join("; "));
        match (self.changes.is_empty(), self.git.is_empty()) {
            (_, true) => self.writes(),
            (true, false) => git,
            (false, false) => format!("{}; and {git}", self.writes()),
        }
    }

    /// The part of it about files.
    fn writes(&self) -> String {
        let listed = |names: Vec<String>, all: usize| match all - names.len() {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        };
        let paths = self.changes.iter().take(SHOWN).map(|change| format!("`{}`", change.path)).collect();
        let reason = format!("wrote where it may not: {}", listed(paths, self.changes.len()));
        if self.left.is_empty() {
            return format!("{reason}; undone");
        }
        let left = self.left.iter().take(SHOWN).map(|left| format!("`{}` ({})", left.path, left.reason)).collect();
        format!("{reason}; not undone: {}", listed(left, self.left.len()))
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
        let own = self.put_own_files_back()?;
        let rules = rules(&self.plan, agent)?;
        let end = self.guard.with(move |tree| tree.end(&before, &rules)).await?;
        self.keep(Some(order), leg, end, own)
    }

    /// Looks again after a block of agents that may not write, and undoes what any of them wrote.
    pub(super) async fn judge_block(&self, before: LegStart) -> Result<Undone, RunError> {
        let own = self.put_own_files_back()?;
        let Plan { protected_files, judge_files, benign_paths, .. } = &self.plan;
        let nothing = tree::Guard::new(Some(&[]), protected_files, judge_files, benign_paths);
        let nothing = nothing.map_err(TreeError::from)?;
        let end = self.guard.with(move |tree| tree.end(&before, &nothing)).await?;
        self.keep(None, 0, end, own)
    }

    /// Looks again after a check, whose by-products all stay: a formatter or a build writes what it likes.
    /// Says what is lost when it did not leave the repository that the run works in.
    pub(super) async fn keep_check(&self, before: LegStart, order: &Order) -> Result<Option<String>, RunError> {
        let own = self.put_own_files_back()?;
        if !own.is_empty() {
            let what = own.iter().map(|change| change.path.to_string()).collect();
            self.record(Some(&order.phase), Event::ExternalChange(ExternalChange::put_back(what)))?;
        }
        let changes = self.guard.changes_since(Some(&before)).await?;
        if !changes.is_empty() {
            self.record(Some(&order.phase), Event::TreeChanged(TreeChanged { leg: 0, changes }))?;
        }
        let loss = self.guard.with(move |tree| tree.loss(&before.git)).await?;
        if let Some(loss) = &loss {
            let change = ExternalChange::noticed(vec![loss.clone()]);
            self.record(Some(&order.phase), Event::ExternalChange(change))?;
        }
        Ok(loss)
    }

    /// Writes down what was kept and what was undone.
    fn keep(&self, order: Option<&Order>, leg: u32, end: LegEnd, own: Vec<PathChange>) -> Result<Undone, RunError> {
        let phase = order.map(|order| &order.phase);
        if !end.kept.is_empty() {
            self.record(phase, Event::TreeChanged(TreeChanged { leg, changes: end.kept }))?;
        }
        let noticed = end.git.put_back.is_empty() && end.benign.is_empty();
        let mut what = end.git.put_back;
        what.extend(end.git.head_moved_to.map(|commit| format!("HEAD had moved to {commit}")));
        what.extend(end.git.not_put_back.iter().map(|reason| format!("not put back: {reason}")));
        if !end.benign.is_empty() || !what.is_empty() {
            let rescue = if end.benign.is_empty() { None } else { Some(self.next_rescue()) };
            let change = ExternalChange { what, undone: end.benign, rescue, noticed };
            self.record(phase, Event::ExternalChange(change))?;
        }
        let rescue = if end.violations.is_empty() { 0 } else { self.next_rescue() };
        let mut changes = end.violations;
        changes.extend(own);
        Ok(Undone { changes, rescue, left: end.not_restored, git: end.git.not_put_back })
    }

    /// The number of the next rollback.
    fn next_rescue(&self) -> u32 {
        self.with_state(|state| state.rescues) + 1
    }

    /// SHA-256 over path and present content of all that the run has changed.
    pub(super) async fn tree_digest(&self) -> Result<String, RunError> {
        let paths: Vec<_> = self.with_state(|state| state.changed.keys().cloned().collect());
        let look = move |tree: &mut Tree| {
            let now = if paths.is_empty() { Snapshot::default() } else { tree.snapshot()? };
            Ok(tree::digest(paths.iter(), &now))
        };
        self.guard.with(look).await
    }
}
