//! One fia a work tree.
//!
//! The lock is an OS lock on a file, so a dead holder frees it by dying; nobody has to judge whether a
//! lock is stale. What the file says is for others: who holds it, so that an error can name it, a message
//! can ring it and a reading command can tell a live run from one that was killed.
//!
//! An agent may remove or replace the file. So the holder can lock a second thing, its *anchor*: a folder that
//! nobody removes while there is work to do in it, git's own. And it puts the file back when it looks again.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::{FILE_MODE, StoreError};
use crate::event::wire::time_text;
use crate::host::{Mark, Presence};
use crate::ids::{RunId, SessionId};
use crate::solid;

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// What it works on.
    pub run: RunId,
    /// The process.
    #[serde(flatten)]
    pub mark: Mark,
    /// Since when.
    pub since: DateTime<Utc>,
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another fia works in this work tree.
    #[error("this work tree is in use{}", said(.holder.as_deref()))]
    Held {
        /// The lock.
        path: PathBuf,
        /// Who holds it, as far as the file says.
        holder: Option<Box<Holder>>,
    },
    /// Another run has the session open.
    #[error("session `{session}` is in use{}", said(.holder.as_deref()))]
    Session {
        /// The session.
        session: SessionId,
        /// Who holds it, as far as the file says.
        holder: Option<Box<Holder>>,
    },
    /// The file cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn said(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |holder| {
        let Mark { host, pid, .. } = &holder.mark;
        format!(" by run {} (process {pid} on {host}) since {}", holder.run, time_text(holder.since))
    })
}

impl LockError {
    /// What the reader can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Held { holder: Some(holder), .. } => {
                format!("wait for it, end it with `fia stop {} --now`, or use `--worktree`", holder.run)
            }
            Self::Session { holder: Some(holder), .. } => {
                format!("wait for it, or end it with `fia stop {} --now`", holder.run)
            }
            Self::Held { holder: None, .. } | Self::Session { holder: None, .. } => "try again in a moment".to_owned(),
            Self::Store(error) => error.hint(),
        }
    }
}

/// A lock that is held. Dropping it frees it and empties the file.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
    holder: Holder,
    anchor: Option<File>,
}

impl Lock {
    /// Takes the lock at `path`, at once or not at all, and says there who took it.
    ///
    /// Others ring the holder by SIGUSR1: listen for it before, since it kills who does not.
    ///
    /// # Errors
    ///
    /// When another process holds it, on whatever host, or the file cannot be used.
    pub fn take(path: &Path, holder: &Holder) -> Result<Self, LockError> {
        Self::take_after(path, None, holder, |_| Ok(()))
    }

    /// The same with an anchor, a folder that is locked too, so that removing the file lets nobody in; where a file
    /// system cannot lock folders, the file alone counts. And with a chance to tidy up after a holder that died:
    /// `settle` is told who that was, under the lock and before the file names another, so that it is told again
    /// should it die as well.
    ///
    /// # Errors
    ///
    /// As [`Lock::take`], when another process holds the anchor, and what `settle` answers.
    pub fn take_after(
        path: &Path,
        anchor: Option<&Path>,
        holder: &Holder,
        settle: impl FnOnce(&Holder) -> Result<(), StoreError>,
    ) -> Result<Self, LockError> {
        let anchor = match anchor {
            Some(folder) => hold_anchor(path, folder)?,
            None => None,
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = solid::open(&mut options, path).map_err(StoreError::io("open the lock", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(path)),
            Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", path)(error).into()),
        }
        // Before there is a `Lock`, whose drop empties the file: a failure here leaves the dead holder's name.
        if let Some(dead) = self::holder(path)? {
            settle(&dead)?;
        }
        let mut lock = Self { file, path: path.to_owned(), holder: holder.clone(), anchor };
        lock.write().map_err(StoreError::io("write", path))?;
        Ok(lock)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Who holds it.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&line(&self.holder)?)
    }

    /// Looks whether the file still is the locked one and says who holds it; puts it back if not. Returns whether
    /// it had to be put back.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn guard(&mut self) -> Result<bool, StoreError> {
        let own = self.file.metadata().map_err(StoreError::io("read the lock", &self.path))?;
        let same =
            fs::symlink_metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino()));
        if same && holder(&self.path)?.as_ref() == Some(&self.holder) {
            return Ok(false);
        }
        let wrap = |error| StoreError::io("put back the lock", &self.path)(error);
        if same {
            self.write().map_err(StoreError::io("write", &self.path))?;
            return Ok(true);
        }
        let dir = self.path.parent().unwrap_or(Path::new("."));
        super::create_dir(dir)?;
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.is_dir()) {
            fs::remove_dir_all(&self.path).map_err(wrap)?;
        }
        // Locked before it has its name: nobody can come in between.
        let mut new = tempfile::Builder::new().prefix(".lock").suffix(".tmp").tempfile_in(dir).map_err(wrap)?;
        new.as_file().try_lock().map_err(|error| wrap(error.into()))?;
        new.write_all(&line(&self.holder).map_err(wrap)?).map_err(wrap)?;
        self.file = new.persist(&self.path).map_err(|failed| wrap(failed.error))?;
        Ok(true)
    }
}

pub(super) fn line(holder: &Holder) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(holder)?;
    line.push(b'\n');
    Ok(line)
}

/// Locks the anchor of the lock at `path`, if folders can be locked here.
fn hold_anchor(path: &Path, folder: &Path) -> Result<Option<File>, LockError> {
    let anchor = File::open(folder).map_err(StoreError::io("open", folder))?;
    match anchor.try_lock() {
        Ok(()) => Ok(Some(anchor)),
        Err(TryLockError::WouldBlock) => Err(held(path)),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// The refusal that names who holds the lock.
fn held(path: &Path) -> LockError {
    match holder(path) {
        Ok(holder) => LockError::Held { path: path.to_owned(), holder: holder.map(Box::new) },
        Err(error) => error.into(),
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // What stays when this fails names a process that is gone, which is understood as well.
        drop(self.file.set_len(0));
        // Closing them is not enough: a child that is being started has them open until it is another program.
        drop(self.file.unlock());
        drop(self.anchor.as_ref().map(File::unlock));
    }
}

/// Who the file at `path` says holds the lock. It may be gone: [`Mark::presence`] tells.
///
/// # Errors
///
/// When the file is there and cannot be read.
pub fn holder(path: &Path) -> Result<Option<Holder>, StoreError> {
    match fs::read(path) {
        Ok(content) => Ok(serde_json::from_slice(&content).ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read the lock", path)(error)),
    }
}

/// Rings the holder of the lock at `path` by SIGUSR1, if it runs on this machine; says who was found and
/// what became of it. Nothing of another host is signalled, nor a stranger that has its number by now.
///
/// # Errors
///
/// When the file cannot be read or the system refuses the signal.
pub fn ring(path: &Path) -> Result<Option<(Holder, Presence)>, StoreError> {
    let Some(holder) = holder(path)? else { return Ok(None) };
    let found = holder.mark.signal(Signal::USR1).map_err(StoreError::io("ring the holder of", path))?;
    Ok(Some((holder, found)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeZone as _;
    use pretty_assertions::assert_eq;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    fn of(mark: Mark) -> Holder {
        let since = Utc.with_ymd_and_hms(2026, 11, 30, 12, 0, 0).unwrap();
        Holder { run: RunId::new("20261130-120000-abcd"), mark, since }
    }

    #[test]
    fn r5_5_a_lock_has_one_holder_and_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let own = of(Mark::own().unwrap());
        let lock = Lock::take(&path, &own).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(holder(&path).unwrap(), Some(own.clone()));
        let error = Lock::take(&path, &own).unwrap_err();
        let Mark { host, pid, .. } = &own.mark;
        assert_eq!(
            error.to_string(),
            format!(
                "this work tree is in use by run 20261130-120000-abcd (process {pid} on {host}) \
                 since 2026-11-30T12:00:00.000Z"
            )
        );
        drop(lock);
        assert_eq!(holder(&path).unwrap(), None);
        Lock::take(&path, &own).unwrap();
    }

    #[test]
    fn r5_5_what_a_dead_holder_left_does_not_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let own = of(Mark::own().unwrap());
        for left in
            ["", "{\"run\":", "no JSON at all, and longer than what will be written in its place: ".repeat(9).as_str()]
        {
            fs::write(&path, left).unwrap();
            let lock = Lock::take(&path, &own).unwrap();
            assert_eq!(holder(&path).unwrap(), Some(own.clone()));
            drop(lock);
        }
    }

    #[test]
    fn r11_3_a_lock_that_was_removed_lets_nobody_in_and_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, anchor) = (dir.path().join("data/lock"), dir.path().join(".git"));
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::create_dir(&anchor).unwrap();
        let own = of(Mark::own().unwrap());
        let take = || Lock::take_after(&path, Some(&anchor), &own, |_| Ok(()));
        let mut lock = take().unwrap();
        assert!(!lock.guard().unwrap());
        let harm: [fn(&Path); 4] = [
            |path| fs::remove_dir_all(path.parent().unwrap()).unwrap(),
            |path| fs::write(path, "").unwrap(),
            |path| {
                fs::write(path.with_extension("new"), "{}").unwrap();
                fs::rename(path.with_extension("new"), path).unwrap();
            },
            |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            },
        ];
        for harm in harm {
            harm(&path);
            assert!(take().is_err());
            assert!(lock.guard().unwrap());
            assert!(!lock.guard().unwrap());
            assert_eq!(holder(&path).unwrap(), Some(own.clone()));
            let error = Lock::take(&path, &own).unwrap_err();
            assert!(matches!(error, LockError::Held { holder: Some(_), .. }), "{error}");
        }
        drop(lock);
        take().unwrap();
    }

    #[test]
    fn r5_4_who_died_with_the_lock_is_told_before_the_file_names_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let own = of(Mark::own().unwrap());
        let dead = Holder { run: RunId::new("dead"), ..own.clone() };
        fs::write(&path, serde_json::to_vec(&dead).unwrap()).unwrap();
        let refused = Lock::take_after(&path, None, &own, |_| Err(StoreError::Broken { path: path.clone() }));
        assert_eq!(refused.unwrap_err().to_string(), format!("an earlier append to `{}` failed", path.display()));
        let mut told = None;
        let lock = Lock::take_after(&path, None, &own, |holder| {
            told = Some((holder.clone(), self::holder(&path)?));
            Ok(())
        });
        assert_eq!((told, holder(&path).unwrap()), (Some((dead.clone(), Some(dead))), Some(own)));
        drop(lock);
    }

    #[test]
    fn r2_5_only_the_very_process_that_took_the_lock_is_rung() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert_eq!(ring(&path).unwrap(), None);
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        let mark = Mark::new(crate::host::identity(child.id()).unwrap()).unwrap();
        let strangers = [
            (Mark { process_started: mark.process_started + 1, ..mark.clone() }, Presence::Gone),
            (Mark { boot_id: "another".to_owned(), ..mark.clone() }, Presence::Gone),
            (Mark { host: "another".to_owned(), ..mark.clone() }, Presence::Elsewhere),
        ];
        for (stranger, found) in strangers {
            let lock = Lock::take(&path, &of(stranger.clone())).unwrap();
            assert_eq!(ring(&path).unwrap(), Some((of(stranger), found)));
            drop(lock);
        }
        assert_eq!(child.try_wait().unwrap(), None);
        let lock = Lock::take(&path, &of(mark.clone())).unwrap();
        assert_eq!(ring(&path).unwrap(), Some((of(mark), Presence::Running)));
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::USR1.as_raw()));
        drop(lock);
    }
}
