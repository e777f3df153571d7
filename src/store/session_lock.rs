//! One fia a session: nothing goes on with a conversation that another run has open.
//!
//! A session belongs to the engine that keeps it, so a run directory that was copied names the same one, and two
//! turns at once would garble it. The lock is an OS lock on a file that is there as long as it is held.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::lock::{Holder, LockError, holder, line};
use super::{FILE_MODE, StoreError};
use crate::ids::SessionId;
use crate::solid;

/// A session that is held. Dropping this frees it and removes the file.
#[derive(Debug)]
pub struct SessionLock {
    file: File,
    path: PathBuf,
}

impl SessionLock {
    /// Takes the lock at `path`, at once or not at all, and says there who took it.
    ///
    /// # Errors
    ///
    /// When another run holds it, or the file cannot be used.
    pub fn take(path: &Path, session: &SessionId, own: &Holder) -> Result<Self, LockError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        loop {
            let file = solid::open(&mut options, path).map_err(StoreError::io("open the lock", path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = holder(path)?.map(Box::new);
                    return Err(LockError::Session { session: session.clone(), holder });
                }
                Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", path)(error).into()),
            }
            let mut lock = Self { file, path: path.to_owned() };
            // Who held it may have removed the file since it was opened.
            if lock.is_there() {
                lock.write(own).map_err(StoreError::io("write", path))?;
                return Ok(lock);
            }
        }
    }

    fn write(&mut self, own: &Holder) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all(&line(own)?)
    }

    fn is_there(&self) -> bool {
        let place = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let (own, there) = (self.file.metadata().map(place), fs::symlink_metadata(&self.path).map(place));
        matches!((own, there), (Ok(own), Ok(there)) if own == there)
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // A file that stays locks nothing once this process lets go of it.
        if self.is_there() {
            drop(fs::remove_file(&self.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::host::Mark;
    use crate::ids::RunId;

    #[test]
    fn r6_2_a_session_has_one_holder_which_is_named_and_the_file_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claude-1.lock");
        let session = SessionId::new("s-1");
        let own = Holder { run: RunId::new("one"), mark: Mark::own().unwrap(), since: chrono::Utc::now() };
        // What a killed fia left.
        fs::write(&path, "{\"run\":\"a run with a name that is longer than what will be written in its place\"}\n")
            .unwrap();
        let lock = SessionLock::take(&path, &session, &own).unwrap();
        assert_eq!(holder(&path).unwrap(), Some(own.clone()));
        let refused = SessionLock::take(&path, &session, &own).unwrap_err();
        let Mark { host, pid, .. } = &own.mark;
        let start = format!("session `s-1` is in use by run one (process {pid} on {host}) since ");
        assert!(refused.to_string().starts_with(&start), "{refused}");
        assert_eq!(refused.hint(), "wait for it, or end it with `fia stop one --now`");
        drop(lock);
        assert!(!path.exists());
        drop(SessionLock::take(&path, &session, &own).unwrap());
    }

    #[test]
    fn r6_2_a_lock_whose_file_is_another_by_now_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claude-1.lock");
        let session = SessionId::new("s-1");
        let own = Holder { run: RunId::new("one"), mark: Mark::own().unwrap(), since: chrono::Utc::now() };
        let lock = SessionLock::take(&path, &session, &own).unwrap();
        fs::remove_file(&path).unwrap();
        let other = SessionLock::take(&path, &session, &own).unwrap();
        drop(lock);
        assert!(path.exists(), "it is another's");
        drop(other);
        assert!(!path.exists());
    }
}
