//! Where the repository is and what is checked out.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::git::{self, Git};
use super::{TreeError, plain};

/// How often and how far apart work trees are listed while one is being added, which takes git milliseconds.
const TRIES_TO_LIST: u32 = 50;
const PAUSE_TO_LIST: Duration = Duration::from_millis(20);

/// A repository with a work tree, as seen from that work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Top of the work tree.
    pub top: PathBuf,
    /// Git's directory of this work tree: HEAD and index.
    pub git_dir: PathBuf,
    /// Git's directory of all work trees: refs, config, hooks.
    pub common_dir: PathBuf,
    /// Where its objects are.
    pub objects: PathBuf,
    /// How its object ids are made.
    pub format: ObjectFormat,
}

/// How a repository makes object ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFormat {
    /// SHA-1, 40 digits.
    Sha1,
    /// SHA-256, 64 digits.
    Sha256,
}

impl ObjectFormat {
    /// As git spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }
}

/// What is checked out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Head {
    /// A branch with at least one commit.
    Branch {
        /// Full name, `refs/heads/…`.
        name: String,
        /// Its commit.
        commit: String,
    },
    /// A branch without a commit yet: the empty tree is the base.
    Unborn {
        /// Full name, `refs/heads/…`.
        name: String,
    },
    /// A commit without a branch.
    Detached {
        /// The commit.
        commit: String,
    },
}

impl Head {
    /// The commit that is checked out.
    pub fn commit(&self) -> Option<&str> {
        match self {
            Self::Branch { commit, .. } | Self::Detached { commit } => Some(commit),
            Self::Unborn { .. } => None,
        }
    }

    /// The full name of the branch that is checked out.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Self::Branch { name, .. } | Self::Unborn { name } => Some(name),
            Self::Detached { .. } => None,
        }
    }
}

impl Repository {
    /// Finds the repository whose work tree holds `dir`.
    ///
    /// # Errors
    ///
    /// [`TreeError::NotARepository`], [`TreeError::NoWorkTree`] in a bare repository or inside a `.git` folder,
    /// and git's own refusals, for example of a folder of another owner.
    pub fn discover(dir: &Path) -> Result<Self, TreeError> {
        plain::find(dir).map_or_else(|| Self::ask(dir), Ok)
    }

    /// Asks git for all of it.
    pub(super) fn ask(dir: &Path) -> Result<Self, TreeError> {
        let questions: [&[&str]; 6] = [
            &["--is-inside-work-tree"],
            &["--show-toplevel"],
            &["--git-dir"],
            &["--git-common-dir"],
            &["--git-path", "objects"],
            &["--show-object-format"],
        ];
        let git = Git::at(dir);
        let args = |questions: &[&'static str]| [&["rev-parse", "--path-format=absolute"], questions].concat();
        let all = args(&questions.concat());
        let output = git.output(&all, None)?;
        if !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("not a git repository") {
            return Err(TreeError::NotARepository { dir: dir.to_owned() });
        }
        // It answers this before it refuses to name a top that is not there.
        if output.stdout.starts_with(b"false\n") {
            return Err(TreeError::NoWorkTree { dir: dir.to_owned() });
        }
        let answer = git::succeeded(&all, output)?;
        let mut lines: Vec<Vec<u8>> = answer.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        if lines.len() != questions.len() {
            // A path holds a line end, so that only one question at a time has a clear answer.
            lines = questions.iter().map(|question| git.run(&args(question))).collect::<Result<_, _>>()?;
        }
        Ok(Self {
            top: git::path(&lines[1]),
            git_dir: git::path(&lines[2]),
            common_dir: git::path(&lines[3]),
            objects: git::path(&lines[4]),
            format: match git::text(&lines[5]).as_str() {
                "sha256" => ObjectFormat::Sha256,
                _ => ObjectFormat::Sha1,
            },
        })
    }

    /// Whether this is a linked work tree, whose `.git` is a file.
    pub fn is_linked(&self) -> bool {
        self.git_dir != self.common_dir
    }

    /// Git's name for this work tree, if it is a linked one.
    pub fn linked_name(&self) -> Option<&str> {
        if self.is_linked() { self.git_dir.file_name()?.to_str() } else { None }
    }

    /// What `git worktree list` says. It fails on a work tree that another git is adding at this moment (git 2.47:
    /// "failed to read …/commondir"), so it is asked again then.
    pub(super) fn list_work_trees(&self) -> Result<Vec<u8>, TreeError> {
        let list = || self.git().run(&["worktree", "list", "--porcelain", "-z"]);
        for _ in 0..TRIES_TO_LIST {
            match list() {
                Err(TreeError::Git { .. }) => std::thread::sleep(PAUSE_TO_LIST),
                answer => return answer,
            }
        }
        list()
    }

    /// The top of the main work tree; `None` when the repository is bare or its main work tree is not beside it.
    ///
    /// # Errors
    ///
    /// When git fails.
    pub fn main_top(&self) -> Result<Option<PathBuf>, TreeError> {
        if !self.is_linked() {
            return Ok(Some(self.top.clone()));
        }
        let listed = self.list_work_trees()?;
        let mut first = listed.split(|byte| *byte == 0).take_while(|record| !record.is_empty());
        let main = first.next().and_then(|record| record.strip_prefix(b"worktree ")).map(git::path);
        // Of a repository kept elsewhere git names that place.
        Ok(main.filter(|top| first.all(|record| record != b"bare") && top.join(".git").exists()))
    }

    /// Another linked work tree of this repository, by git's name for it; `None` when there is none, or its folder is
    /// gone.
    ///
    /// # Errors
    ///
    /// When git fails.
    pub fn linked(&self, name: &str) -> Result<Option<Self>, TreeError> {
        let place = self.common_dir.join("worktrees").join(name).join("gitdir");
        let Ok(gitdir) = std::fs::read(place) else { return Ok(None) };
        match git::path(&gitdir).parent().filter(|top| top.is_dir()) {
            Some(top) => Self::discover(top).map(Some),
            None => Ok(None),
        }
    }

    /// What is checked out now.
    ///
    /// # Errors
    ///
    /// When git fails.
    pub fn head(&self) -> Result<Head, TreeError> {
        let git = self.git();
        let name = git.ask(&["symbolic-ref", "-q", "HEAD"])?.map(|name| git::text(&name));
        let commit = git.ask(&["rev-parse", "-q", "--verify", "HEAD^{commit}"])?.map(|commit| git::text(&commit));
        match (name, commit) {
            (Some(name), Some(commit)) => Ok(Head::Branch { name, commit }),
            (Some(name), None) => Ok(Head::Unborn { name }),
            (None, Some(commit)) => Ok(Head::Detached { commit }),
            (None, None) => Err(TreeError::Git {
                command: "rev-parse".to_owned(),
                words: "HEAD names neither a branch nor a commit".to_owned(),
            }),
        }
    }

    /// Sees that git knows in whose name it commits here.
    ///
    /// # Errors
    ///
    /// [`TreeError::NoIdentity`], and when git cannot be started.
    pub fn check_identity(&self) -> Result<(), TreeError> {
        for variable in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
            if !self.git().output(&["var", variable], None)?.status.success() {
                return Err(TreeError::NoIdentity);
            }
        }
        Ok(())
    }

    /// Sees that git would commit some files here: it does not in a merge, rebase, pick or revert that is not finished,
    /// and not with conflicts in the index.
    ///
    /// # Errors
    ///
    /// [`TreeError::Unfinished`], and when git fails.
    pub fn check_finished(&self) -> Result<(), TreeError> {
        const BEGUN: [(&str, &str); 5] = [
            ("rebase-merge", "rebase"),
            ("rebase-apply", "rebase"),
            ("MERGE_HEAD", "merge"),
            ("CHERRY_PICK_HEAD", "cherry-pick"),
            ("REVERT_HEAD", "revert"),
        ];
        if let Some((_, what)) = BEGUN.iter().find(|(name, _)| self.git_dir.join(name).exists()) {
            return Err(TreeError::Unfinished { what });
        }
        let unmerged = self.git().run(&["ls-files", "--unmerged", "-z"])?;
        if unmerged.is_empty() { Ok(()) } else { Err(TreeError::Unfinished { what: "merge of some files" }) }
    }

    /// git at the top of the work tree.
    pub(crate) fn git(&self) -> Git {
        Git::at(&self.top)
    }
}
