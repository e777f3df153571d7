//! Reading and writing the files of a run by their place in its directory.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::atomic::{self, Durability};
use super::{RunDir, StoreError, create_dir, open_append};
use crate::ids::AgentName;
use crate::solid;

impl RunDir {
    /// Opens a file for appending, with the directories above it.
    ///
    /// # Errors
    ///
    /// When it cannot be created.
    pub fn open_append(&self, place: &Path) -> Result<File, StoreError> {
        let path = self.path().join(place);
        if let Some(above) = path.parent() {
            create_dir(above)?;
        }
        open_append(&path)
    }

    /// Replaces a file whole, with the directories above it.
    ///
    /// # Errors
    ///
    /// When it cannot be written; the old content stays then.
    pub fn save(&self, place: &Path, content: &[u8]) -> Result<(), StoreError> {
        let path = self.path().join(place);
        if let Some(above) = path.parent() {
            create_dir(above)?;
        }
        atomic::replace(&path, content, Durability::Unsynced)
    }

    /// Reads a file whole; `None` when it is not there.
    ///
    /// # Errors
    ///
    /// When it is there and cannot be read.
    pub fn read(&self, place: &Path) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path().join(place);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &path)(error)),
        }
    }

    /// Removes a file, which may be gone already, or whatever has its name.
    ///
    /// # Errors
    ///
    /// When it is there and cannot be removed.
    pub fn remove(&self, place: &Path) -> Result<(), StoreError> {
        let path = self.path().join(place);
        match solid::folders(path.parent().unwrap_or(self.path())).and_then(|()| solid::remove(&path)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::io("remove", &path)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Reads the last bytes of a file; nothing when it is not there.
    ///
    /// # Errors
    ///
    /// When it is there and cannot be read.
    pub fn read_tail(&self, place: &Path, bytes: usize) -> Result<Vec<u8>, StoreError> {
        let path = self.path().join(place);
        let wrap = |error| StoreError::io("read", &path)(error);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(wrap(error)),
        };
        let length = file.metadata().map_err(wrap)?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(bytes as u64))).map_err(wrap)?;
        let mut tail = Vec::new();
        file.take(bytes as u64).read_to_end(&mut tail).map_err(wrap)?;
        Ok(tail)
    }

    /// Moves a session file of an agent aside, to `NAME.N.rotated.EXTENSION` with the lowest free N from 1.
    /// Returns its new place in the run directory; `None` when there was no such file.
    ///
    /// # Errors
    ///
    /// When it cannot be renamed; it is then where it was.
    pub fn archive(&self, agent: &AgentName, file: &str) -> Result<Option<String>, StoreError> {
        let dir = self.agent(agent);
        let live = dir.join(file);
        if fs::symlink_metadata(&live).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok(None);
        }
        let (stem, extension) = file.rsplit_once('.').unwrap_or((file, "old"));
        let name = (1..u32::MAX)
            .map(|number| format!("{stem}.{number}.rotated.{extension}"))
            .find(|name| fs::symlink_metadata(dir.join(name)).is_err())
            .unwrap_or_default();
        crate::fault::point("archive: before");
        let ready = crate::fault::refuse("archive").and_then(|()| solid::folders(&dir));
        let renamed = ready.and_then(|()| fs::rename(&live, dir.join(&name)));
        renamed.map_err(StoreError::io("rename", &live))?;
        crate::fault::point("archive: after");
        Ok(Some(format!("agents/{agent}/{name}")))
    }

    /// The session file of an agent that was moved aside last, as [`RunDir::archive`] names it.
    pub fn last_archived(&self, agent: &AgentName, file: &str) -> Option<String> {
        let dir = self.agent(agent);
        let (stem, extension) = file.rsplit_once('.').unwrap_or((file, "old"));
        let names = (1..u32::MAX).map(|number| format!("{stem}.{number}.rotated.{extension}"));
        let last = names.take_while(|name| fs::symlink_metadata(dir.join(name)).is_ok()).last()?;
        Some(format!("agents/{agent}/{last}"))
    }

    /// Removes all of a run that did not come to a beginning.
    ///
    /// # Errors
    ///
    /// When something of it cannot be removed.
    pub fn discard(&self) -> Result<(), StoreError> {
        fs::remove_dir_all(self.path()).map_err(StoreError::io("remove", self.path()))
    }

    /// Moves a file that cannot be read out of the way, to `NAME.damaged`, in the place of one that went before it.
    /// Returns that name.
    ///
    /// # Errors
    ///
    /// When it cannot be renamed.
    pub fn set_aside(&self, file: &str) -> Result<String, StoreError> {
        set_aside(&self.path().join(file))?;
        Ok(format!("{file}.damaged"))
    }
}

/// Moves a file that cannot be read out of the way, to `NAME.damaged`, in the place of one that went before it.
///
/// # Errors
///
/// When it cannot be renamed.
pub fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    let folder = path.parent().unwrap_or(Path::new("."));
    let renamed = solid::folders(folder).and_then(|()| fs::rename(path, &aside));
    renamed.map_err(StoreError::io("rename", path))?;
    Ok(aside.into())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::ids::RunId;

    #[test]
    fn r6_4_archives_take_the_lowest_free_number_and_are_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::new(RunId::new("r"), folder.path());
        let (agent, live) = (AgentName::new("builder"), Path::new("agents/builder/pi_session.jsonl"));
        assert_eq!(dir.archive(&agent, "pi_session.jsonl").unwrap(), None);
        for (content, archived) in [("one", 1), ("two", 2)] {
            dir.save(live, content.as_bytes()).unwrap();
            let place = dir.archive(&agent, "pi_session.jsonl").unwrap().unwrap();
            assert_eq!(place, format!("agents/builder/pi_session.{archived}.rotated.jsonl"));
            assert_eq!(dir.read(Path::new(&place)).unwrap().unwrap(), content.as_bytes());
        }
        assert_eq!(dir.read(live).unwrap(), None);
    }

    #[test]
    fn a_tail_is_the_end_of_a_file_and_nothing_of_none() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::new(RunId::new("r"), folder.path());
        assert_eq!(dir.read_tail(Path::new("log"), 3).unwrap(), b"");
        dir.save(Path::new("a/log"), b"abcdef").unwrap();
        assert_eq!(dir.read_tail(Path::new("a/log"), 3).unwrap(), b"def");
        assert_eq!(dir.read_tail(Path::new("a/log"), 30).unwrap(), b"abcdef");
    }
}
