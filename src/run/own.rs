//! fia's own files beside an agent at work: looked at before and after each leg, and put back (SPEC 11.3).
//!
//! The data directory is not walked, since fia itself writes there. Looked at are the log, the lock, the files that
//! fia wrote and will use again, and whether a person's answer appeared while only agents were asked anything.

use std::path::Path;

use super::{Run, RunError};
use crate::event::{PathChange, RepoPath};
use crate::store::{StoreError, create_dir};

impl Run {
    /// Takes note of what an agent must not make up, before a leg.
    pub(super) fn look_at_own_files(&self) {
        self.answered.set(self.place.dir.approval().exists());
    }

    /// Puts back what somebody changed of fia's own files; the paths that it was.
    ///
    /// They have no content in the answer, and so no rescue brings them back.
    pub(super) fn put_own_files_back(&self) -> Result<Vec<PathChange>, RunError> {
        let mut changed = self.ledger.borrow_mut().put_back()?;
        if self.lock.borrow_mut().guard()? {
            changed.push(self.lock.borrow().path().to_owned());
        }
        // Nobody is asked during a leg, so nobody but an agent answers.
        let approval = self.place.dir.approval();
        if !self.answered.get() && approval.exists() {
            let error = StoreError::io("remove", &approval);
            std::fs::remove_file(&approval).map_err(error)?;
            changed.push(approval);
        }
        create_dir(&self.place.dir.context_handoff())?;
        let named = changed.iter().map(|path| RepoPath::from(&*self.own_name(path)));
        Ok(named.map(|path| PathChange { path, before: None, after: None }).collect())
    }

    /// A file of the data directory without what lies above that, which is no business of the log's.
    fn own_name(&self, path: &Path) -> String {
        let data = self.place.data.path();
        let above = data.parent().unwrap_or(data);
        path.strip_prefix(above).unwrap_or(path).display().to_string()
    }

    /// Writes a file of the run directory that is used again, and remembers it.
    pub(super) fn save_for_later(&self, place: &Path, content: &[u8]) -> Result<(), RunError> {
        self.place.dir.save(place, content)?;
        self.ledger.borrow_mut().learn(place, content);
        Ok(())
    }
}
