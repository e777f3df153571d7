//! Small files in git's own directories that an agent could turn against its user: config, hooks, the state of a
//! merge begun. Kept in memory for the length of a leg.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::{Repository, TreeError};

/// In the directory of all work trees. `logs/refs/stash` is the list of stashes.
const COMMON: [&str; 4] = ["config", "hooks", "info", "logs/refs/stash"];

/// In the directory of this work tree: its own settings, and what a half-done merge, rebase or pick leaves, which
/// would turn the user's next commit into another one.
const OWN: [&str; 17] = [
    "config.worktree",
    "info",
    "AUTO_MERGE",
    "BISECT_LOG",
    "BISECT_NAMES",
    "BISECT_START",
    "BISECT_TERMS",
    "CHERRY_PICK_HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "REBASE_HEAD",
    "REVERT_HEAD",
    "SQUASH_MSG",
    "rebase-apply",
    "rebase-merge",
    "sequencer",
];

/// A file or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kept {
    File { bytes: Vec<u8>, mode: u32 },
    Link { target: PathBuf },
}

/// What those files held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GitFiles {
    pub(super) files: BTreeMap<PathBuf, Kept>,
}

impl GitFiles {
    /// Reads them all.
    ///
    /// # Errors
    ///
    /// When one cannot be read.
    pub(crate) fn capture(repository: &Repository) -> Result<Self, TreeError> {
        let common = COMMON.iter().map(|name| repository.common_dir.join(name));
        let own = OWN.iter().map(|name| repository.git_dir.join(name));
        let mut files = BTreeMap::new();
        for path in common.chain(own) {
            collect(&path, &mut files).map_err(|source| TreeError::io("read", path, source))?;
        }
        Ok(Self { files })
    }

    /// Names of those that differ `now`, relative to `.git`.
    pub(super) fn differing(&self, now: &Self, repository: &Repository) -> Vec<PathBuf> {
        let paths: BTreeSet<&PathBuf> = self.files.keys().chain(now.files.keys()).collect();
        let differing = paths.into_iter().filter(|path| self.files.get(*path) != now.files.get(*path));
        differing.map(|path| inside(path, repository)).collect()
    }

    /// Puts them back where they differ; the names of those that did, relative to `.git`.
    ///
    /// # Errors
    ///
    /// When one cannot be read, written or removed.
    pub(crate) fn put_back(&self, repository: &Repository) -> Result<Vec<PathBuf>, TreeError> {
        let now = Self::capture(repository)?;
        let mut changed = Vec::new();
        for path in now.files.keys().filter(|path| !self.files.contains_key(*path)) {
            fs::remove_file(path).map_err(|source| TreeError::io("remove", path, source))?;
            changed.push(path);
        }
        for (path, kept) in self.files.iter().filter(|(path, kept)| now.files.get(*path) != Some(*kept)) {
            kept.write(path).map_err(|source| TreeError::io("put back", path, source))?;
            changed.push(path);
        }
        // A rebase begun leaves a folder, and git asks for the folder.
        for folder in ["rebase-apply", "rebase-merge", "sequencer"] {
            remove_empty(&repository.git_dir.join(folder));
        }
        Ok(changed.into_iter().map(|path| inside(path, repository)).collect())
    }
}

/// A path relative to `.git`.
fn inside(path: &Path, repository: &Repository) -> PathBuf {
    let inside = path.strip_prefix(&repository.git_dir).or_else(|_| path.strip_prefix(&repository.common_dir));
    inside.unwrap_or(path).to_owned()
}

impl Kept {
    fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        match self {
            Self::File { bytes, mode } => {
                let mut new = tempfile::NamedTempFile::new_in(folder)?;
                io::Write::write_all(&mut new, bytes)?;
                new.as_file().set_permissions(Permissions::from_mode(*mode))?;
                new.persist(path).map(drop).map_err(|failed| failed.error)
            }
            Self::Link { target } => {
                let new = tempfile::Builder::new().make_in(folder, |name| symlink(target, name))?;
                new.persist(path).map(drop).map_err(|failed| failed.error)
            }
        }
    }
}

/// Reads a file, a link, or all of a folder.
fn collect(path: &Path, files: &mut BTreeMap<PathBuf, Kept>) -> io::Result<()> {
    let meta = match fs::symlink_metadata(path) {
        Err(absent) if matches!(absent.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        meta => meta?,
    };
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
    } else if meta.is_symlink() {
        files.insert(path.to_owned(), Kept::Link { target: fs::read_link(path)? });
    } else if meta.is_file() {
        let (bytes, mode) = (fs::read(path)?, meta.permissions().mode() & 0o7777);
        files.insert(path.to_owned(), Kept::File { bytes, mode });
    }
    Ok(())
}

/// Removes a folder that holds nothing but empty folders.
fn remove_empty(folder: &Path) {
    let inside = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_empty(&entry.path());
    }
    let _stays_if_not_empty = fs::remove_dir(folder);
}
