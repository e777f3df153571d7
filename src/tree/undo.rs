//! Undoing what a run changed, and bringing back what a rollback undid: a preview first, then the same again.

use std::collections::BTreeSet;

use serde::Serialize;

use super::folder::{ancestors, any_below};
use super::{NotRestored, Snapshot, Tree, TreeError, net};
use crate::event::{Content, PathChange, RepoPath};

/// What an undo does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undo {
    /// Every path, in order.
    pub paths: Vec<UndoPath>,
}

/// One path of an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UndoPath {
    /// The path.
    pub path: RepoPath,
    /// What it holds now; `None` when it is not there.
    pub now: Option<Content>,
    /// What it is to hold.
    pub wanted: Option<Content>,
    /// Whether it is to be touched.
    pub state: UndoState,
}

/// What becomes of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoState {
    /// It is as the run left it, and gets the wanted content.
    Restore,
    /// It holds the wanted content already.
    Done,
    /// It was edited since, and is left alone.
    Conflict,
}

impl Undo {
    /// The paths in one state.
    pub fn of(&self, state: UndoState) -> impl Iterator<Item = &UndoPath> {
        self.paths.iter().filter(move |path| path.state == state)
    }
}

impl Tree {
    /// What undoing a run would do. `changes` are all its kept changes, oldest first.
    pub fn undo(changes: &[PathChange], now: &Snapshot) -> Undo {
        let wanted = net(changes).into_iter().map(|change| (change.path, change.after, change.before));
        preview(wanted, now)
    }

    /// What bringing back undone changes would do. `undone` is what one rollback undid.
    pub fn rescue(undone: &[PathChange], now: &Snapshot) -> Undo {
        let wanted = undone.iter().cloned().map(|change| (change.path, change.before, change.after));
        preview(wanted, now)
    }

    /// Carries an undo out: restores what can be, leaves conflicts alone. Folders that become empty go.
    ///
    /// # Errors
    ///
    /// When git fails; single paths that cannot be written are in the answer.
    pub fn apply(&self, undo: &Undo) -> Result<Vec<NotRestored>, TreeError> {
        let changes: Vec<PathChange> = undo
            .of(UndoState::Restore)
            .map(|path| PathChange { path: path.path.clone(), before: path.wanted.clone(), after: path.now.clone() })
            .collect();
        self.put_back(&changes, &Snapshot::default())
    }
}

/// Holds each path's present content against the one that the run left.
fn preview(paths: impl Iterator<Item = (RepoPath, Option<Content>, Option<Content>)>, now: &Snapshot) -> Undo {
    let paths = paths.map(|(path, left, wanted)| {
        let present = now.get(&path).cloned();
        let state = if present == wanted {
            UndoState::Done
        } else if present == left {
            UndoState::Restore
        } else {
            UndoState::Conflict
        };
        UndoPath { path, now: present, wanted, state }
    });
    let mut undo = Undo { paths: paths.collect() };
    undo.spare_what_stands_in_the_way(now);
    undo
}

impl Undo {
    /// A file that stays, where a folder has to come back or in a folder where a file has to, makes a conflict.
    fn spare_what_stands_in_the_way(&mut self, now: &Snapshot) {
        let goes: BTreeSet<RepoPath> =
            self.of(UndoState::Restore).filter(|path| path.wanted.is_none()).map(|path| path.path.clone()).collect();
        let stays: BTreeSet<RepoPath> = now.files().keys().filter(|path| !goes.contains(path)).cloned().collect();
        for path in self.paths.iter_mut().filter(|path| path.state == UndoState::Restore && path.wanted.is_some()) {
            if any_below(&stays, &path.path) || ancestors(&path.path).any(|folder| stays.contains(&folder)) {
                path.state = UndoState::Conflict;
            }
        }
    }
}
