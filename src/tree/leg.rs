//! One leg of an agent, or one check: what it changed, and back with what it may not.

use super::restore::Restore;
use super::{GitChanges, GitState, Guard, NotRestored, Snapshot, Tree, TreeError, compare};
use crate::event::PathChange;

/// The tree and git's state before a leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegStart {
    /// The files.
    pub snapshot: Snapshot,
    /// HEAD, refs, index, config and hooks.
    pub git: GitState,
}

/// What a leg did, after everything that it may not do was undone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LegEnd {
    /// The tree now; the start of the next leg.
    pub snapshot: Snapshot,
    /// What it changed and was allowed to.
    pub kept: Vec<PathChange>,
    /// What it changed against the rules. Undone, save what [`LegEnd::not_restored`] names.
    pub violations: Vec<PathChange>,
    /// By-products, undone.
    pub benign: Vec<PathChange>,
    /// What could not be put back.
    pub not_restored: Vec<NotRestored>,
    /// What changed beside the files.
    pub git: GitChanges,
}

impl Tree {
    /// Looks at everything before a leg.
    ///
    /// # Errors
    ///
    /// When the tree or git's state cannot be read.
    pub fn begin(&mut self) -> Result<LegStart, TreeError> {
        Ok(LegStart { snapshot: self.snapshot()?, git: GitState::capture(&self.repository, &mut self.checkouts)? })
    }

    /// Looks again after a leg, also one that failed, and undoes what `guard` does not allow.
    ///
    /// The contents that were undone stay in the run's store: [`Tree::undo`] of the violations brings them back.
    ///
    /// # Errors
    ///
    /// When the tree cannot be read or git fails; then nothing is known to be undone.
    pub fn end(&mut self, start: &LegStart, guard: &Guard) -> Result<LegEnd, TreeError> {
        let git = start.git.put_back(&self.repository, &mut self.checkouts, &self.run)?;
        let after = self.snapshot()?;
        let judged = guard.judge(&compare(&start.snapshot, &after));
        let mut end = LegEnd { kept: judged.allowed.clone(), git, ..LegEnd::default() };
        let undone = judged.to_undo();
        if undone.is_empty() {
            end.snapshot = after;
            return Ok(end);
        }
        end.not_restored = self.put_back(&undone, &start.snapshot)?;
        end.snapshot = self.snapshot()?;
        for change in &undone {
            let differs = end.snapshot.get(&change.path) != change.before.as_ref();
            if differs && end.not_restored.iter().all(|failed| failed.path != change.path) {
                let reason = "it was written again meanwhile".to_owned();
                end.not_restored.push(NotRestored { path: change.path.clone(), reason });
            }
        }
        (end.violations, end.benign) = (judged.violations, judged.benign);
        Ok(end)
    }

    /// Gives paths the content before their change; `folders` tells which folders to make and how.
    pub(crate) fn put_back(&self, changes: &[PathChange], folders: &Snapshot) -> Result<Vec<NotRestored>, TreeError> {
        let aside = self.store_dir.join("aside");
        let (top, store) = (&self.repository.top, &self.store);
        Restore { top, store, folders: &folders.folders, aside: &aside }.put_back(changes)
    }
}
