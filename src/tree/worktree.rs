//! A work tree of the run's own (SPEC 11.7): branch `fia/RUN` in `.fia/worktrees/ID`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Head, Repository, TreeError};
use crate::ids::RunId;

/// The work tree of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Where it is.
    pub path: PathBuf,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
    /// The branch that it came from, without `refs/heads/`; `None` when HEAD was detached.
    pub from: Option<String>,
}

impl Worktree {
    /// Names the work tree of a run; `data_dir` is that of the main work tree.
    ///
    /// # Errors
    ///
    /// When git fails.
    pub fn of(repository: &Repository, data_dir: &Path, run: &RunId) -> Result<Self, TreeError> {
        let head = repository.head()?;
        let from = head.branch().map(|name| name.trim_start_matches("refs/heads/").to_owned());
        Ok(Self { path: data_dir.join("worktrees").join(run.as_str()), branch: format!("fia/{run}"), from })
    }

    /// Makes it from the commit that is checked out in `repository`; from nothing on an unborn branch.
    ///
    /// # Errors
    ///
    /// When git fails, for example because the branch or the folder is there already.
    pub fn create(&self, repository: &Repository) -> Result<Repository, TreeError> {
        let orphan = match repository.head()? {
            Head::Branch { .. } | Head::Detached { .. } => None,
            Head::Unborn { .. } => Some("--orphan"),
        };
        let words = ["worktree", "add", "--quiet"].into_iter().chain(orphan).chain(["-b", &self.branch]);
        let args: Vec<&OsStr> = words.map(OsStr::new).chain([self.path.as_os_str()]).collect();
        repository.git().run(&args)?;
        Repository::discover(&self.path)
    }

    /// Removes the folder; the branch stays, with all that was committed.
    ///
    /// # Errors
    ///
    /// When git fails: it refuses while something in the folder is not committed.
    pub fn remove(&self, repository: &Repository) -> Result<(), TreeError> {
        repository.git().run(&["worktree".as_ref(), "remove".as_ref(), self.path.as_os_str()]).map(drop)
    }

    /// Removes the folder and the branch with all that is in them: for a work tree that nothing was done in yet.
    ///
    /// # Errors
    ///
    /// When git fails.
    pub fn discard(&self, repository: &Repository) -> Result<(), TreeError> {
        let git = repository.git();
        git.run(&["worktree".as_ref(), "remove".as_ref(), "--force".as_ref(), self.path.as_os_str()])?;
        git.run(&["branch", "--quiet", "-D", &self.branch]).map(drop)
    }

    /// The commands that take the work over, and those that throw it away.
    pub fn commands(&self) -> [String; 3] {
        let path = quoted(&self.path);
        [
            format!("git merge {}", self.branch),
            format!("git worktree remove {path}"),
            format!("git worktree remove --force {path} && git branch -D {}", self.branch),
        ]
    }
}

impl Worktree {
    /// The command that commits what is not committed there.
    pub fn commit_command(&self) -> String {
        let path = quoted(&self.path);
        format!("git -C {path} add --all && git -C {path} commit")
    }
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+:@%".contains(letter);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
