//! What git says beside the files: HEAD, branches, tags, stashes, index, config and hooks, put back after a leg by
//! compare-and-swap with the work tree kept (SPEC 11.4).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::sync::Arc;

use super::checkout::{Checkout, Checkouts};
use super::git_files::GitFiles;
use super::index::{Index, IndexChange};
use super::proof::Found;
use super::{Head, Repository, TreeError, git};
use crate::ids::RunId;

/// The state before a leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitState {
    checkout: Arc<Checkout>,
    index: Index,
    files: GitFiles,
}

/// What a leg changed beside the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitChanges {
    /// Where HEAD went, if it moved: a commit or a branch. The agent's commits can still be found there.
    pub head_moved_to: Option<String>,
    /// What was put back: `HEAD`, `index`, full names of refs with the commit they had, `.git/…` for files.
    pub put_back: Vec<String>,
    /// Refs that changed and were left as they are now.
    pub left_alone: Vec<String>,
    /// Why something was not put back: a lock that another git holds, or that one left when it was killed; or that the
    /// repository is another one, and then nothing was.
    pub not_put_back: Vec<String>,
}

impl GitState {
    /// Reads the state of a work tree.
    ///
    /// # Errors
    ///
    /// When git fails or a file cannot be read.
    pub(crate) fn capture(repository: &Repository, checkouts: &mut Checkouts) -> Result<Self, TreeError> {
        Ok(Self {
            checkout: checkouts.now(repository)?,
            index: Index::capture(repository)?,
            files: GitFiles::capture(repository)?,
        })
    }

    /// What it is made of, for writing it down.
    pub(super) fn parts(&self) -> (&Head, &BTreeMap<String, String>, &Index, &GitFiles) {
        (&self.checkout.head, &self.checkout.refs, &self.index, &self.files)
    }

    /// A state that was written down.
    pub(super) fn of_parts(head: Head, refs: BTreeMap<String, String>, index: Index, files: GitFiles) -> Self {
        Self { checkout: Arc::new(Checkout { head, refs }), index, files }
    }

    /// The HEAD of this state.
    pub fn head(&self) -> &Head {
        &self.checkout.head
    }

    /// Names of what differs `now`; HEAD and refs with where they are.
    pub(super) fn changed(&self, now: &Self, repository: &Repository) -> Vec<String> {
        let (head, refs) = (&now.checkout.head, &now.checkout.refs);
        let at = head.commit().or(head.branch()).unwrap_or("nowhere");
        let mut names: Vec<String> = (head != self.head()).then(|| format!("HEAD ({at})")).into_iter().collect();
        let known: BTreeSet<&String> = self.checkout.refs.keys().chain(refs.keys()).collect();
        for name in known.into_iter().filter(|name| self.checkout.refs.get(*name) != refs.get(*name)) {
            names.push(format!("{name} ({})", refs.get(name).map_or("deleted", String::as_str)));
        }
        let index = self.index.change(&now.index, repository);
        names.extend((index == IndexChange::Different).then(|| "index".to_owned()));
        let files: BTreeSet<_> = self.files.differing(&now.files, repository).into_iter().collect();
        names.extend(files.iter().map(|file| format!(".git/{}", file.display())));
        names
    }

    /// Puts everything back that differs. Left alone are branches that another work tree has checked out and
    /// `fia/*` of other runs; `refs/remotes/` is not looked at.
    ///
    /// # Errors
    ///
    /// When the state cannot be read, or config or hooks not be written.
    pub(crate) fn put_back(
        &self,
        repository: &Repository,
        checkouts: &mut Checkouts,
        run: &RunId,
    ) -> Result<GitChanges, TreeError> {
        let mut changes = GitChanges::default();
        let mut found = checkouts.find(repository, self.head())?;
        let is_broken = found == Found::Broken;
        if is_broken {
            self.mend(repository)?;
            found = checkouts.find(repository, self.head())?;
        }
        if let Some(loss) = found.loss(repository) {
            changes.not_put_back.push(loss);
            return Ok(changes);
        }
        if is_broken {
            changes.put_back.push("HEAD".to_owned());
        }
        // Config and hooks first: what comes after runs git, which obeys them.
        let mut files = self.files.put_back(repository)?;
        let now = checkouts.now(repository)?;
        let (head, before) = (&now.head, self.head());
        if head != before {
            changes.head_moved_to = head.commit().or(head.branch()).map(str::to_owned);
        }
        if head.branch() != before.branch() || (before.branch().is_none() && head != before) {
            match self.put_head_back(repository, head) {
                Ok(()) => changes.put_back.push("HEAD".to_owned()),
                Err(error) => changes.not_put_back.push(format!("HEAD: {error}")),
            }
        }
        if now.refs != self.checkout.refs {
            self.put_refs_back(repository, run, &now.refs, &mut changes)?;
            // The list of stashes is a reflog, which the update above has written to.
            files.extend(self.files.put_back(repository)?);
        }
        match self.index.put_back(repository) {
            Ok(IndexChange::Same) => {}
            Ok(IndexChange::Different) => changes.put_back.push("index".to_owned()),
            Err(error) => changes.not_put_back.push(format!("index: {error}")),
        }
        let files: BTreeSet<_> = files.into_iter().map(|file| format!(".git/{}", file.display())).collect();
        changes.put_back.extend(files);
        Ok(changes)
    }

    /// Puts back the least without which git takes its folder for none, so that the rest can be put back by git.
    fn mend(&self, repository: &Repository) -> Result<(), TreeError> {
        let (head, refs) = (repository.git_dir.join("HEAD"), repository.common_dir.join("refs"));
        if !repository.objects.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&refs).map_err(|source| TreeError::io("put back", &refs, source))?;
        let line = match self.head() {
            Head::Branch { name, .. } | Head::Unborn { name } => format!("ref: {name}\n"),
            Head::Detached { commit } => format!("{commit}\n"),
        };
        let written = tempfile::NamedTempFile::new_in(&repository.git_dir).and_then(|mut new| {
            new.write_all(line.as_bytes())?;
            new.persist(&head).map_err(|failed| failed.error)
        });
        written.map(drop).map_err(|source| TreeError::io("put back", head, source))
    }

    fn put_head_back(&self, repository: &Repository, now: &Head) -> Result<(), TreeError> {
        let git = repository.git();
        let reason = "fia: back to before the leg";
        match self.head() {
            Head::Branch { name, .. } | Head::Unborn { name } => git.run(&["symbolic-ref", "-m", reason, "HEAD", name]),
            Head::Detached { commit } => {
                let old = now.commit().unwrap_or_default();
                git.run(&["update-ref", "-m", reason, "--no-deref", "HEAD", commit, old])
            }
        }
        .map(drop)
    }

    fn put_refs_back(
        &self,
        repository: &Repository,
        run: &RunId,
        now: &BTreeMap<String, String>,
        changes: &mut GitChanges,
    ) -> Result<(), TreeError> {
        let elsewhere = checked_out_elsewhere(repository)?;
        let own = format!("refs/heads/fia/{run}");
        let theirs = |name: &str| (name.starts_with("refs/heads/fia/") && name != own) || elsewhere.contains(name);
        let before = &self.checkout.refs;
        let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let (mut removals, mut updates, mut touched) = (Vec::new(), Vec::new(), Vec::new());
        for name in names.into_iter().filter(|name| before.get(*name) != now.get(*name)) {
            if theirs(name) {
                changes.left_alone.push(name.clone());
                continue;
            }
            match (before.get(name), now.get(name)) {
                (None, Some(new)) => removals.extend(command(&["delete", name], &[new])),
                (Some(old), None) => updates.extend(command(&["create", name], &[old])),
                (Some(old), Some(new)) => updates.extend(command(&["update", name], &[old, new])),
                (None, None) => {}
            }
            let at = now.get(name).map_or("deleted", String::as_str);
            touched.push(format!("{name} ({at})"));
        }
        // Removals on their own: a new `a/b` stands in the way of a deleted `a`.
        let args = ["update-ref", "-m", "fia: back to before the leg", "--stdin", "-z"];
        let mut batches = [removals, updates].into_iter().filter(|batch| !batch.is_empty());
        match batches.try_for_each(|batch| repository.git().feed(&args, &batch).map(drop)) {
            Ok(()) => changes.put_back.extend(touched),
            Err(error) => changes.not_put_back.push(format!("{}: {error}", touched.join(", "))),
        }
        Ok(())
    }
}

/// One command of `git update-ref --stdin -z`.
fn command(start: &[&str], values: &[&String]) -> Vec<u8> {
    let mut bytes = start.join(" ").into_bytes();
    bytes.push(0);
    for value in values {
        bytes.extend(value.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// Branches that other work trees have checked out.
fn checked_out_elsewhere(repository: &Repository) -> Result<BTreeSet<String>, TreeError> {
    use std::os::unix::ffi::OsStrExt as _;
    let listed = repository.list_work_trees()?;
    let (mut branches, mut ours) = (BTreeSet::new(), false);
    for line in git::records(&listed) {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            ours = path == repository.top.as_os_str().as_bytes();
        } else if let Some(branch) = line.strip_prefix(b"branch ")
            && !ours
        {
            branches.insert(String::from_utf8_lossy(branch).into_owned());
        }
    }
    Ok(branches)
}
