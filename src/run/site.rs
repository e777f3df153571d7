//! Which work tree a run works in, and the files of the data directory that go with it (SPEC 5.5, 11.7).
//!
//! The data directory is that of the main work tree, whichever of its work trees fia is started in. Each work tree
//! has its own lock and stat cache there, so that runs in different ones do not meet.

use std::path::PathBuf;

use super::refused::StartError;
use crate::event::Event;
use crate::ids::RunId;
use crate::plan::Plan;
use crate::store::{DataDir, Entry, LogReader, RunDir, Tail};
use crate::tree::{Repository, Tree, TreeError, TreeOptions};

/// The files of one work tree.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) lock: PathBuf,
    pub(super) stat_cache: PathBuf,
    /// Whether the work tree is the run's own.
    pub(super) own: bool,
}

impl Site {
    /// Those of the work tree that `run` works in.
    pub(super) fn of(repository: &Repository, data: &DataDir, run: &RunId) -> Self {
        let own = repository.top == data.worktree(run);
        let (lock, stat_cache) = match repository.linked_name() {
            _ if own => (data.worktree_lock(run), data.worktree_stat_cache(run)),
            Some(name) => (data.linked_lock(name), data.linked_stat_cache(name)),
            None => (data.lock(), data.stat_cache()),
        };
        Self { lock, stat_cache, own }
    }
}

/// Opens the work tree of a run, with the stat cache that goes with it.
///
/// # Errors
///
/// As [`Tree::open`].
pub fn open_tree(repository: Repository, data: &DataDir, dir: &RunDir, plan: &Plan) -> Result<Tree, TreeError> {
    let site = Site::of(&repository, data, dir.run());
    let options = TreeOptions {
        run: dir.run(),
        data_dir: data.path(),
        store: &dir.objects(),
        stat_cache: &site.stat_cache,
        protected: &plan.protected_files,
        judge_files: &plan.judge_files,
    };
    Tree::open(repository, &options)
}

/// The work tree of a run that was begun before, whichever work tree `repository` is.
///
/// # Errors
///
/// When its log cannot be read, or the work tree is gone.
pub fn home(repository: &Repository, data: &DataDir, run: &RunId) -> Result<Repository, StartError> {
    let mut reader = LogReader::open(&data.run(run).events(), Tail::Final)?;
    let Some(Entry::Record { line, .. }) = reader.next()? else { return Ok(repository.clone()) };
    let Ok(Event::RunStart(begun)) = line.decode().map(|record| record.event) else { return Ok(repository.clone()) };
    if begun.worktree {
        let path = data.worktree(run);
        let gone = || StartError::WorktreeGone { run: run.clone(), path: path.clone() };
        return if path.join(".git").exists() { Ok(Repository::discover(&path)?) } else { Err(gone()) };
    }
    match &begun.linked {
        None if repository.is_linked() => match repository.main_top()? {
            Some(top) => Ok(Repository::discover(&top)?),
            None => Ok(repository.clone()),
        },
        None => Ok(repository.clone()),
        Some(name) if repository.linked_name() == Some(name) => Ok(repository.clone()),
        Some(name) => repository
            .linked(name)?
            .ok_or_else(|| StartError::WorktreeGone { run: run.clone(), path: PathBuf::from(name) }),
    }
}
