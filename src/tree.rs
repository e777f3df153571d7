//! What stands in the work tree, who may change it, and how it is put back (SPEC 11).
//!
//! A [`Tree`] belongs to one run. It takes [`Snapshot`]s by its own walk, judges what an agent changed between two
//! of them against a [`Guard`], puts back what was not allowed to the bytes before, commits what the run made and
//! undoes a run. Synchronous: the run loop calls it in `spawn_blocking`.
//!
//! It promises that bytes outside an agent's lane come back exactly, that bytes inside stay as written, and that
//! nothing the user had is lost. No index, filter, attribute or setting of the user's matters for a snapshot.
//! It refuses to work without a repository, and every failure of git or of the file system is an error: there is
//! no way to "nothing changed" but two equal snapshots. After an error a `Tree` may be used again.

mod allow;
mod changes;
mod checkout;
mod commit;
mod folder;
mod git;
mod git_files;
mod git_record;
mod ignore;
mod index;
mod leg;
mod objects;
mod packs;
mod pattern;
mod plain;
mod proof;
mod refs;
mod reins;
mod repository;
mod restore;
mod stat_cache;
mod undo;
mod walk;
mod wildmatch;
mod worktree;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use thiserror::Error;

pub use allow::{Guard, Judged};
pub use changes::{compare, digest, net};
pub use commit::{CommitOrder, CommitOutcome, LeftOut, LeftOutReason};
pub use git_record::GitRecord;
pub use ignore::{Entry, IgnoreRules};
pub use leg::{LegEnd, LegStart};
pub use pattern::{Pattern, PatternError};
pub use refs::{GitChanges, GitState};
pub use reins::Reins;
pub use repository::{Head, ObjectFormat, Repository};
pub use restore::NotRestored;
pub use undo::{Undo, UndoPath, UndoState};
pub use worktree::Worktree;

use crate::event::{Content, FileKind, RepoPath};
use crate::ids::RunId;
use crate::solid::InTheWay;
use checkout::Checkouts;
use objects::ObjectStore;
use stat_cache::{Stamp, StatCache};
use walk::{Output, Walk};

/// Why something about the work tree could not be done.
#[derive(Debug, Error)]
pub enum TreeError {
    /// No repository.
    #[error("`{}` is not in a git repository", dir.display())]
    NotARepository {
        /// Where fia looked.
        dir: PathBuf,
    },
    /// A repository without a work tree, or a folder inside `.git`.
    #[error("`{}` is not in the work tree of a git repository", dir.display())]
    NoWorkTree {
        /// Where fia looked.
        dir: PathBuf,
    },
    /// git could not be started.
    #[error("cannot run `git`")]
    NoGit {
        /// Why.
        source: io::Error,
    },
    /// git said no.
    #[error("`git {command}` failed: {words}")]
    Git {
        /// The command of git.
        command: String,
        /// What it said.
        words: String,
    },
    /// git does not know who commits.
    #[error("git does not know who commits here, and the workflow commits")]
    NoIdentity,
    /// git would refuse to commit.
    #[error("a {what} is not finished here, and the workflow commits")]
    Unfinished {
        /// What was begun.
        what: &'static str,
    },
    /// A file or folder could not be read or written.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The rules of an earlier stretch cannot be read.
    #[error("cannot understand the ignore rules in `{}`", path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// Another git holds the index.
    #[error("`{}` exists: another git is at work, or was killed", path.display())]
    IndexLocked {
        /// The lock.
        path: PathBuf,
    },
    /// A pattern of the configuration.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

impl TreeError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { action, path: path.into(), source }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotARepository { .. } => Some("run `git init` here, or start fia inside a repository"),
            Self::NoWorkTree { .. } => Some("start fia in the work tree of a repository, not in a bare one"),
            Self::NoGit { .. } => Some("install git and see that it is in PATH"),
            Self::NoIdentity => Some(
                "`git config user.name \"…\"` and `git config user.email \"…\"`, for all repositories with `--global`",
            ),
            Self::Unfinished { .. } => Some(
                "finish it or give it up, as `git status` says, or use `--worktree`, which starts from the last commit",
            ),
            Self::IndexLocked { .. } => Some("wait for the other git; if none runs, remove the file"),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("make it readable, or add it to an ignore file before the run")
            }
            Self::Io { source, .. } if InTheWay::of(source).is_some() => {
                Some("look where it came from and remove it, then try again")
            }
            Self::Git { words, .. } if words.contains("Read-only file system") => {
                Some("fia keeps contents below its data directory, also to look only: make that writable")
            }
            Self::Git { words, .. } if words.contains("No space left on device") => {
                Some("free some space, then try again")
            }
            Self::Git { .. } | Self::Io { .. } | Self::Rules { .. } | Self::Pattern(_) => None,
        }
    }
}

/// What a [`Tree`] is opened with.
#[derive(Debug, Clone)]
pub struct TreeOptions<'a> {
    /// The run; its own branch is `fia/RUN`.
    pub run: &'a RunId,
    /// The data directory, not walked.
    pub data_dir: &'a Path,
    /// Where contents are kept: `runs/ID/objects`.
    pub store: &'a Path,
    /// The stat cache of this work tree.
    pub stat_cache: &'a Path,
    /// Patterns that no agent may write; they bring ignored paths into the guard.
    pub protected: &'a [String],
    /// Files in force, exact paths; they too are in the guard although ignored.
    pub judge_files: &'a [String],
}

/// The work tree of a run.
#[derive(Debug)]
pub struct Tree {
    repository: Repository,
    run: RunId,
    checkouts: Checkouts,
    store: ObjectStore,
    store_dir: PathBuf,
    ignore: IgnoreRules,
    cache: StatCache,
    cache_file: PathBuf,
    named: Vec<Pattern>,
    skip: Option<RepoPath>,
    output: Output,
}

/// What every path of the guard holds at one moment. A clone shares it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    files: Arc<BTreeMap<RepoPath, Content>>,
    /// Folders and their permission bits, to make them again and to tell which are new.
    folders: Arc<BTreeMap<RepoPath, u32>>,
}

impl Snapshot {
    /// Every file, link and special file.
    pub fn files(&self) -> &BTreeMap<RepoPath, Content> {
        &self.files
    }

    /// What a path holds.
    pub fn get(&self, path: &RepoPath) -> Option<&Content> {
        self.files.get(path)
    }
}

impl FromIterator<(RepoPath, Content)> for Snapshot {
    /// A snapshot of files alone, to compare another one with.
    fn from_iter<I: IntoIterator<Item = (RepoPath, Content)>>(files: I) -> Self {
        Self { files: Arc::new(files.into_iter().collect()), folders: Arc::default() }
    }
}

impl Tree {
    /// Opens the work tree of a run. The ignore rules are captured at the first opening and kept beside the
    /// contents, so that a resumed run goes by those of its start.
    ///
    /// # Errors
    ///
    /// When git fails, a pattern is none, or a folder cannot be read.
    pub fn open(repository: Repository, options: &TreeOptions<'_>) -> Result<Self, TreeError> {
        let mut named = Pattern::parse_all(options.protected)?;
        named.extend(options.judge_files.iter().map(|file| Pattern::literal(file)));
        let skip = within(&repository.top, options.data_dir);
        let rules = options.store.join("ignore_rules.json");
        let made = ObjectStore::make(options.store, repository.format)?;
        let mut checkouts = Checkouts::default();
        // Each half waits for two or three processes of git, which have nothing to do with the other half's.
        let (ignore, store) = std::thread::scope(|scope| {
            let ignore = scope.spawn(|| IgnoreRules::load_or_capture(&rules, &repository, skip.as_ref()));
            let store = checkouts.now(&repository).and_then(|checkout| {
                // The first leg then need not ask what was true before it.
                checkouts.find(&repository, &checkout.head)?;
                ObjectStore::open(options.store, &repository, checkout.head.commit(), made)
            });
            (ignore.join().expect("reading the rules returns its failures"), store)
        });
        Ok(Self {
            run: options.run.clone(),
            checkouts,
            store: store?,
            store_dir: options.store.to_owned(),
            ignore: ignore?,
            cache: StatCache::load(options.stat_cache),
            cache_file: options.stat_cache.to_owned(),
            named,
            skip,
            output: Output::of_this_process(),
            repository,
        })
    }

    /// What is checked out now.
    ///
    /// # Errors
    ///
    /// When git fails.
    pub fn head(&mut self) -> Result<Head, TreeError> {
        Ok(self.checkouts.now(&self.repository)?.head.clone())
    }

    /// Why the repository is not the one that had this state, if so: what it does not hold is lost.
    ///
    /// # Errors
    ///
    /// When git cannot be started.
    pub fn loss(&mut self, state: &GitState) -> Result<Option<String>, TreeError> {
        Ok(self.checkouts.find(&self.repository, state.head())?.loss(&self.repository))
    }

    /// The repository.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Takes a snapshot and keeps every content that is not kept yet, so that each can be put back.
    ///
    /// # Errors
    ///
    /// When anything in the guard cannot be read or kept.
    pub fn snapshot(&mut self) -> Result<Snapshot, TreeError> {
        self.store.mend()?;
        let read_at = SystemTime::now();
        let top = self.repository.top.clone();
        let walk = Walk {
            top: &top,
            ignore: &self.ignore,
            named: &self.named,
            skip: self.skip.as_ref(),
            output: &self.output,
        };
        let seen = walk.run()?;
        let mut files = Vec::with_capacity(seen.leaves.len());
        for (path, meta) in seen.leaves {
            match self.content(&path, &meta, read_at) {
                Ok(content) => files.push((path, content)),
                // It vanished after the walk saw it.
                Err(TreeError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.store.settle()?;
        let files: BTreeMap<RepoPath, Content> = files.into_iter().collect();
        self.cache.keep_only(|path| files.contains_key(path), files.len());
        self.cache.save(&self.cache_file)?;
        Ok(Snapshot { files: Arc::new(files), folders: Arc::new(seen.folders) })
    }

    /// What a path holds; read only when the stat cache does not know, or the store has not got it.
    fn content(&mut self, path: &RepoPath, meta: &Metadata, read_at: SystemTime) -> Result<Content, TreeError> {
        let (kind, mode) = if meta.is_symlink() {
            (FileKind::Symlink, 0)
        } else if meta.is_file() {
            (FileKind::File, meta.mode() & 0o7777)
        } else {
            return Ok(Content { kind: FileKind::Special, mode: meta.mode() & 0o7777, id: String::new() });
        };
        let stamp = Stamp::of(meta);
        if let Some(id) = self.cache.id(path, &stamp).filter(|id| self.store.holds(id)) {
            return Ok(Content { kind, mode, id: id.to_owned() });
        }
        let id = self.store.keep(&path.below(&self.repository.top), meta)?;
        self.cache.learn(path, stamp, &id, read_at);
        Ok(Content { kind, mode, id })
    }
}

/// The path of `inner` below `top`, if it is there. Both are absolute, without links.
fn within(top: &Path, inner: &Path) -> Option<RepoPath> {
    use std::os::unix::ffi::OsStrExt as _;
    let inner = inner.canonicalize().unwrap_or_else(|_| inner.to_owned());
    let relative = inner.strip_prefix(top).ok()?.as_os_str().as_bytes().to_vec();
    (!relative.is_empty()).then(|| RepoPath::new(relative))
}

/// Bytes as hexadecimal digits.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}
