//! Committing what the run made, and nothing else (SPEC 11.6).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use chrono::{DateTime, Utc};

use super::folder::{ancestors, any_below};
use super::git::{self, Git};
use super::index::{self, Index, Locks};
use super::reins::Reins;
use super::{Repository, Snapshot, Tree, TreeError, compare};
use crate::event::{Content, FileKind, PathChange, RepoPath};

/// What to commit.
#[derive(Debug, Clone)]
pub struct CommitOrder<'a> {
    /// The commit that was checked out when the run started; `None` on an unborn branch.
    pub base: Option<&'a str>,
    /// All that legs and checks of the run changed and kept, oldest first.
    pub changes: &'a [PathChange],
    /// The message.
    pub message: &'a str,
    /// What an envelope declares as changed.
    pub declared: &'a [RepoPath],
    /// When an earlier try began that was cut off; it may have made the commit.
    pub cut_off_since: Option<DateTime<Utc>>,
    /// Ends the git that commits.
    pub reins: &'a Reins,
}

/// How a commit went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitOutcome {
    /// The commit; `None` when there was nothing to commit, or a hook refused.
    pub commit: Option<String>,
    /// Its branch, without `refs/heads/`; `None` when HEAD is detached.
    pub branch: Option<String>,
    /// The paths in it.
    pub paths: Vec<RepoPath>,
    /// Paths that are not in it.
    pub left_out: Vec<LeftOut>,
    /// What a hook said when it refused.
    pub refused: Option<String>,
    /// Whether git was ended before it had committed.
    pub stopped: bool,
    /// What hooks changed in the work tree.
    pub changed_by_hooks: Vec<PathChange>,
}

/// A path that is not in the commit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeftOut {
    /// The path.
    pub path: RepoPath,
    /// Why.
    pub reason: LeftOutReason,
}

/// Why a path is not in the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOutReason {
    /// The user had changed it before, or has since.
    Mixed,
    /// An envelope declares it, and the run did not change it.
    DeclaredOnly,
    /// It is new, and an ignore rule covers it now.
    Ignored,
    /// It is in a repository of its own.
    NestedRepository,
    /// It is neither a file nor a link.
    NotAFile,
}

/// A path of the run: what it held before the run touched it and what the run left there.
struct Made<'a> {
    first: Option<&'a Content>,
    last: Option<&'a Content>,
    /// Somebody else wrote it between two legs.
    interrupted: bool,
}

/// How git took it.
enum Attempt {
    Made,
    Nothing,
    Refused(String),
    Stopped,
}

impl Tree {
    /// Commits what the run made. Hooks run; the user's staged work stays staged.
    ///
    /// # Errors
    ///
    /// When git fails other than by a hook, or the tree cannot be read.
    pub fn commit(&mut self, order: &CommitOrder<'_>) -> Result<CommitOutcome, TreeError> {
        let now = self.snapshot()?;
        let (chosen, left_out) = self.choose(order, &now)?;
        let repository = &self.repository;
        let index = Index::capture(repository)?;
        let (before, locks) = (repository.head()?, Locks::of(repository));
        let mut attempt = attempt(repository, &self.store_dir, &chosen, &now, order);
        if matches!(attempt, Ok(Attempt::Stopped)) {
            locks.remove_new()?;
            // Ended in a hook that comes after the commit.
            if repository.head()? != before {
                attempt = Ok(Attempt::Made);
            }
        }
        if !matches!(attempt, Ok(Attempt::Made)) {
            index.put_back(repository)?;
        }
        let head = repository.head()?;
        let mut outcome = CommitOutcome {
            commit: None,
            branch: head.branch().map(|name| name.trim_start_matches("refs/heads/").to_owned()),
            paths: Vec::new(),
            left_out,
            refused: None,
            stopped: false,
            changed_by_hooks: Vec::new(),
        };
        match attempt? {
            Attempt::Made => {
                outcome.commit = head.commit().map(str::to_owned);
                outcome.paths = paths_of_head(repository)?;
            }
            Attempt::Nothing => {
                if let Some(paths) = made_before(repository, &chosen, order.cut_off_since)? {
                    (outcome.commit, outcome.paths) = (head.commit().map(str::to_owned), paths);
                }
                return Ok(outcome);
            }
            Attempt::Refused(words) => outcome.refused = Some(words),
            Attempt::Stopped => outcome.stopped = true,
        }
        outcome.changed_by_hooks = compare(&now, &self.snapshot()?);
        Ok(outcome)
    }

    /// Parts what is committed from what is left out.
    fn choose(&self, order: &CommitOrder<'_>, now: &Snapshot) -> Result<(BTreeSet<RepoPath>, Vec<LeftOut>), TreeError> {
        let made = made(order.changes);
        let mixed = self.mixed(order, &made, now)?;
        let declared = order.declared.iter().filter(|path| !made.contains_key(path));
        let mut left_out: BTreeSet<LeftOut> =
            declared.map(|path| LeftOut { path: path.clone(), reason: LeftOutReason::DeclaredOnly }).collect();
        let mut chosen = BTreeSet::new();
        for (path, made) in &made {
            let nested = |folder: RepoPath| folder.below(&self.repository.top).join(".git").exists();
            let reason = if ancestors(path).any(nested) {
                LeftOutReason::NestedRepository
            } else if made.last.is_some_and(|content| content.kind == FileKind::Special) {
                LeftOutReason::NotAFile
            } else if mixed.contains(path) {
                LeftOutReason::Mixed
            } else {
                chosen.insert((*path).clone());
                continue;
            };
            left_out.insert(LeftOut { path: (*path).clone(), reason });
        }
        let present = chosen.iter().filter(|path| now.get(path).is_some());
        for path in ignored(&self.repository, present)? {
            chosen.remove(&path);
            left_out.insert(LeftOut { path, reason: LeftOutReason::Ignored });
        }
        Ok((chosen, left_out.into_iter().collect()))
    }

    /// The paths that hold work of the user's too: changed before the run, between two legs, since, or staged.
    fn mixed(
        &self,
        order: &CommitOrder<'_>,
        made: &BTreeMap<&RepoPath, Made<'_>>,
        now: &Snapshot,
    ) -> Result<BTreeSet<RepoPath>, TreeError> {
        let base = base_entries(&self.repository, order.base)?;
        let staged: BTreeSet<Vec<u8>> = index::staged(&self.repository)?.into_iter().collect();
        let mut mixed = BTreeSet::new();
        for (path, made) in made {
            let touched = made.interrupted
                || now.get(path) != made.last
                || staged.contains(path.as_bytes())
                || !self.is_committed(path, made.first, base.get(path.as_bytes()))?;
            if touched {
                mixed.insert((*path).clone());
            }
        }
        Ok(mixed)
    }

    /// Whether a content is what the commit at the start of the run has.
    fn is_committed(
        &self,
        path: &RepoPath,
        content: Option<&Content>,
        entry: Option<&BaseEntry>,
    ) -> Result<bool, TreeError> {
        let (content, entry) = match (content, entry) {
            (None, None) => return Ok(true),
            (Some(content), Some(entry)) => (content, entry),
            (Some(_), None) | (None, Some(_)) => return Ok(false),
        };
        if entry.mode != git_mode(content) {
            return Ok(false);
        }
        if entry.id == content.id || content.kind != FileKind::File {
            return Ok(entry.id == content.id);
        }
        // The user's filters and line ends make another blob of the same file.
        let mut filtered = Vec::new();
        self.store.read(&[&content.id], |_, bytes| {
            let mut whole = Vec::new();
            if let Some(bytes) = bytes {
                let error = |source| TreeError::io("read from", &self.store_dir, source);
                bytes.read_to_end(&mut whole).map_err(error)?;
                let path = path.to_os_string();
                let args = ["hash-object".as_ref(), "--stdin".as_ref(), "--path".as_ref(), path.as_os_str()];
                filtered = self.repository.git().feed(&args, &whole)?;
            }
            Ok(())
        })?;
        Ok(git::text(&filtered) == entry.id)
    }
}

/// The paths of the commit that is checked out, if a try that began at `since` can have made it: it is no older, and
/// holds nothing but what was to be committed.
fn made_before(
    repository: &Repository,
    chosen: &BTreeSet<RepoPath>,
    since: Option<DateTime<Utc>>,
) -> Result<Option<Vec<RepoPath>>, TreeError> {
    let (Some(since), Some(commit)) = (since, repository.head()?.commit().map(str::to_owned)) else { return Ok(None) };
    let time = git::text(&repository.git().run(&["show", "--no-patch", "--format=%ct", &commit])?);
    if time.parse::<i64>().is_ok_and(|time| time < since.timestamp()) {
        return Ok(None);
    }
    let paths = paths_of_head(repository)?;
    Ok((!paths.is_empty() && paths.iter().all(|path| chosen.contains(path))).then_some(paths))
}

/// What the run made of each path.
fn made(changes: &[PathChange]) -> BTreeMap<&RepoPath, Made<'_>> {
    let mut all: BTreeMap<&RepoPath, Made<'_>> = BTreeMap::new();
    for change in changes {
        let (before, after) = (change.before.as_ref(), change.after.as_ref());
        let made = all.entry(&change.path).or_insert(Made { first: before, last: before, interrupted: false });
        made.interrupted |= made.last != before;
        made.last = after;
    }
    all
}

/// A file of a commit.
struct BaseEntry {
    mode: String,
    id: String,
}

/// The files of a commit by path; none on an unborn branch.
fn base_entries(repository: &Repository, base: Option<&str>) -> Result<BTreeMap<Vec<u8>, BaseEntry>, TreeError> {
    let Some(base) = base else { return Ok(BTreeMap::new()) };
    let listed = repository.git().run(&["ls-tree", "-r", "-z", "--full-tree", base])?;
    let entries = git::records(&listed).filter_map(|record| {
        let tab = record.iter().position(|byte| *byte == b'\t')?;
        let mut words = std::str::from_utf8(&record[..tab]).ok()?.split(' ');
        let (mode, _kind, id) = (words.next()?, words.next()?, words.next()?);
        Some((record[tab + 1..].to_vec(), BaseEntry { mode: mode.to_owned(), id: id.to_owned() }))
    });
    Ok(entries.collect())
}

/// The mode that git gives a content: it knows one permission bit.
fn git_mode(content: &Content) -> &'static str {
    match content.kind {
        FileKind::File if content.mode & 0o100 == 0 => "100644",
        FileKind::File => "100755",
        FileKind::Symlink => "120000",
        FileKind::Special => "",
    }
}

/// Those of the paths that an ignore rule covers now and the index does not know.
fn ignored<'a>(repository: &Repository, paths: impl Iterator<Item = &'a RepoPath>) -> Result<Vec<RepoPath>, TreeError> {
    let args = ["check-ignore", "-z", "--stdin"];
    let output = repository.git().output(&args, Some(&list(paths, b"")))?;
    if output.status.code() == Some(1) {
        return Ok(Vec::new());
    }
    Ok(git::records(&git::succeeded(&args, output)?).map(RepoPath::new).collect())
}

/// Paths with a NUL after each.
fn list<'a>(paths: impl IntoIterator<Item = &'a RepoPath>, magic: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend_from_slice(magic);
        bytes.extend_from_slice(path.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// Each path stands for itself, whatever characters it has. Not by an option of git: hooks would inherit that.
const LITERAL: &[u8] = b":(top,literal)";

/// Adds the new files without content, then commits the work tree's content of the paths.
fn attempt(
    repository: &Repository,
    scratch: &Path,
    chosen: &BTreeSet<RepoPath>,
    now: &Snapshot,
    order: &CommitOrder<'_>,
) -> Result<Attempt, TreeError> {
    let git = repository.git();
    let known: BTreeSet<RepoPath> = git::records(&git.run(&["ls-files", "-z"])?).map(RepoPath::new).collect();
    let new = list(chosen.iter().filter(|path| !known.contains(path) && now.get(path).is_some()), LITERAL);
    if !new.is_empty() {
        git.feed(&["add", "--intent-to-add", "--pathspec-from-file=-", "--pathspec-file-nul"], &new)?;
    }
    let different = different(repository)?;
    // A file that gave way to a folder, or the other way round, is not to be named: what took its place replaces it.
    let present: BTreeSet<RepoPath> = chosen.iter().filter(|path| now.get(path).is_some()).cloned().collect();
    let replaced = |path: &RepoPath| any_below(&present, path) || ancestors(path).any(|above| present.contains(&above));
    let named = chosen.iter().filter(|path| different.contains(*path) && (present.contains(*path) || !replaced(path)));
    let paths = list(named, LITERAL);
    if paths.is_empty() {
        return Ok(Attempt::Nothing);
    }
    let error = |source| TreeError::io("write a list of paths in", scratch, source);
    let mut file = tempfile::NamedTempFile::new_in(scratch).map_err(error)?;
    file.write_all(&paths).map_err(error)?;
    commit(&git, file.path(), order)
}

/// The paths whose file differs from the commit that is checked out; all that the index knows on an unborn branch.
fn different(repository: &Repository) -> Result<BTreeSet<RepoPath>, TreeError> {
    let git = repository.git();
    let listed = match repository.head()?.commit() {
        Some(commit) => git.run(&["diff-index", "--no-renames", "--name-only", "-z", commit])?,
        None => git.run(&["ls-files", "-z"])?,
    };
    Ok(git::records(&listed).map(RepoPath::new).collect())
}

fn commit(git: &Git, paths: &Path, order: &CommitOrder<'_>) -> Result<Attempt, TreeError> {
    let mut from_file = std::ffi::OsString::from("--pathspec-from-file=");
    from_file.push(paths);
    let mut args: Vec<&std::ffi::OsStr> =
        ["commit", "--only", "--quiet", "--cleanup=whitespace", "--file=-", "--pathspec-file-nul"]
            .map(std::ffi::OsStr::new)
            .to_vec();
    args.push(&from_file);
    let git = git.clone().with_users_language();
    let held = order.reins.run(&mut git.command(&args), order.message.as_bytes());
    let Some(output) = held.map_err(|source| git.unstarted(source))? else { return Ok(Attempt::Stopped) };
    match output.status.code() {
        Some(0) => Ok(Attempt::Made),
        // A hook that refuses makes git end with 1; git's own failures have other numbers.
        Some(1) => {
            let said = [output.stdout, output.stderr].concat();
            Ok(Attempt::Refused(String::from_utf8_lossy(&said).trim().to_owned()))
        }
        _ => Err(git::failed(&args, &output)),
    }
}

/// The paths in the commit that is checked out.
fn paths_of_head(repository: &Repository) -> Result<Vec<RepoPath>, TreeError> {
    let args = ["diff-tree", "-r", "-z", "--root", "--no-commit-id", "--no-renames", "--name-only", "HEAD"];
    Ok(git::records(&repository.git().run(&args)?).map(RepoPath::new).collect())
}
