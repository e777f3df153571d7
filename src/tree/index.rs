//! The index as a file: kept before a leg, put back after it under git's own lock.

use std::ffi::OsString;
use std::fs::{self, FileTimes, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::git::{self, Git};
use super::{Repository, TreeError};

/// How long another git may hold the lock; git holds it for as long as it writes the file.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// The bytes of an index and when they were written. A clone shares them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    pub(super) content: Option<(Arc<[u8]>, SystemTime)>,
}

/// Whether an index said something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexChange {
    /// The same entries; git may have refreshed what it knows of the files.
    Same,
    /// Other entries or flags.
    Different,
}

impl Index {
    /// Reads the index of a work tree.
    ///
    /// # Errors
    ///
    /// When it is there and cannot be read.
    pub(crate) fn capture(repository: &Repository) -> Result<Self, TreeError> {
        let path = place(repository);
        let error = |source| TreeError::io("read the index", &path, source);
        match fs::read(&path) {
            Ok(bytes) => {
                let written = fs::metadata(&path).and_then(|meta| meta.modified()).map_err(error)?;
                Ok(Self { content: Some((bytes.into(), written)) })
            }
            Err(absent) if absent.kind() == ErrorKind::NotFound => Ok(Self { content: None }),
            Err(source) => Err(error(source)),
        }
    }

    /// Puts it back when its bytes differ.
    ///
    /// # Errors
    ///
    /// When it cannot be written, or another git holds its lock for longer than 3 s.
    pub(crate) fn put_back(&self, repository: &Repository) -> Result<IndexChange, TreeError> {
        // One that cannot be read is another one, and so is one that git cannot make sense of.
        let now = Self::capture(repository).ok();
        if now.as_ref().is_some_and(|now| now.bytes() == self.bytes()) {
            return Ok(IndexChange::Same);
        }
        let change = now.map_or(IndexChange::Different, |now| self.change(&now, repository));
        self.write(repository)?;
        Ok(change)
    }

    /// Whether the index says something else `now`.
    pub(super) fn change(&self, now: &Self, repository: &Repository) -> IndexChange {
        if now.bytes() == self.bytes() {
            return IndexChange::Same;
        }
        let entries = now.entries(repository).ok();
        let same = entries.is_some() && entries == self.entries(repository).ok();
        if same { IndexChange::Same } else { IndexChange::Different }
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.content.as_ref().map(|(bytes, _)| &**bytes)
    }

    /// What the index lists, without what it knows of the files' times.
    fn entries(&self, repository: &Repository) -> Result<Vec<u8>, TreeError> {
        let Some((bytes, _)) = &self.content else { return Ok(Vec::new()) };
        let error = |source| TreeError::io("write a copy of the index in", &repository.git_dir, source);
        // Beside the index, since a split index names its shared part by a path relative to itself.
        let mut copy = tempfile::NamedTempFile::new_in(&repository.git_dir).map_err(error)?;
        copy.write_all(bytes).map_err(error)?;
        let git: Git = repository.git().with("GIT_INDEX_FILE", copy.path());
        let listed = git.run(&["ls-files", "--stage", "-v", "-f", "-z"])?;
        let intended = git.run(&["diff-files", "--name-only", "--diff-filter=A", "-z"])?;
        Ok([listed, intended].concat())
    }

    /// Takes git's lock by a file that holds the whole content already, and renames it: a fia that dies in between
    /// leaves a lock by whose content the next one knows it.
    fn write(&self, repository: &Repository) -> Result<(), TreeError> {
        let (path, lock) = (place(repository), place(repository).with_extension("lock"));
        let error = |source| TreeError::io("put back the index", &path, source);
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(&path).map_err(error)?;
        }
        let Some((bytes, written)) = &self.content else {
            Self::lock(&lock, b"", None)?;
            let gone = if path.is_symlink() || path.exists() { fs::remove_file(&path) } else { Ok(()) };
            return gone.and_then(|()| fs::remove_file(&lock)).map_err(error);
        };
        // git reads a file again when its time is not older than the index's: a newer index would hide edits.
        Self::lock(&lock, bytes, Some(*written))?;
        crate::fault::point("index: locked");
        fs::rename(&lock, &path).map_err(error)
    }

    fn lock(lock: &PathBuf, bytes: &[u8], written: Option<SystemTime>) -> Result<(), TreeError> {
        let error = |source| TreeError::io("lock the index by", lock, source);
        let folder = lock.parent().unwrap_or(Path::new("."));
        let usual = Permissions::from_mode(0o666);
        let mut file = tempfile::Builder::new().permissions(usual).tempfile_in(folder).map_err(error)?;
        file.write_all(bytes).map_err(error)?;
        if let Some(written) = written {
            file.as_file().set_times(FileTimes::new().set_modified(written)).map_err(error)?;
        }
        let started = std::time::Instant::now();
        loop {
            match file.persist_noclobber(lock) {
                Ok(_) => return Ok(()),
                Err(held) if held.error.kind() == ErrorKind::AlreadyExists => {
                    if !bytes.is_empty() && fs::read(lock).is_ok_and(|left| left == bytes) {
                        return Ok(());
                    }
                    if started.elapsed() > LOCK_PATIENCE {
                        return Err(TreeError::IndexLocked { path: lock.clone() });
                    }
                    file = held.file;
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(failed) => return Err(error(failed.error)),
            }
        }
    }
}

/// The locks on an index, and what git writes while it holds one: a git that was killed leaves them.
#[derive(Debug)]
pub(crate) struct Locks {
    folder: PathBuf,
    there: Vec<OsString>,
}

impl Locks {
    /// Those that are there now.
    pub(crate) fn of(repository: &Repository) -> Self {
        let folder = repository.git_dir.clone();
        Self { there: Self::list(&folder), folder }
    }

    /// Removes those that came since.
    ///
    /// # Errors
    ///
    /// When one cannot be removed.
    pub(crate) fn remove_new(&self) -> Result<(), TreeError> {
        for name in Self::list(&self.folder).into_iter().filter(|name| !self.there.contains(name)) {
            let path = self.folder.join(name);
            fs::remove_file(&path).map_err(|source| TreeError::io("remove", path, source))?;
        }
        Ok(())
    }

    fn list(folder: &Path) -> Vec<OsString> {
        let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let is_one = |name: &OsString| {
            let name = name.as_encoded_bytes();
            name == b"index.lock" || (name.starts_with(b"next-index-") && name.ends_with(b".lock"))
        };
        names.filter(is_one).collect()
    }
}

/// Where the index is.
fn place(repository: &Repository) -> PathBuf {
    repository.git_dir.join("index")
}

/// The paths whose content in the index differs from the commit that is checked out: all of them on an unborn branch.
///
/// An entry that only intends to add has no content, so it holds no work: a commit that was killed leaves such.
///
/// # Errors
///
/// When git fails.
pub(crate) fn staged(repository: &Repository) -> Result<Vec<Vec<u8>>, TreeError> {
    let git = repository.git();
    let base = match repository.head()?.commit() {
        Some(commit) => commit.to_owned(),
        None => git::text(&git.feed(&["hash-object", "-t", "tree", "--stdin"], b"")?),
    };
    let args = ["diff-index", "--cached", "--ita-invisible-in-index", "--no-renames", "--name-only", "-z", &base];
    Ok(git::records(&git.run(&args)?).map(<[u8]>::to_vec).collect())
}
