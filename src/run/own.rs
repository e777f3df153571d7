//! fia's own files beside an agent at work: looked at before and after each leg, and put back (SPEC 11.3).
//!
//! The data directory is not walked, since fia itself writes there. Looked at are the log, the lock, the files that
//! fia wrote and will use again, and what people write for a run to find.
//!
//! An answer and a verdict are for a run that asks or has stopped, so one that appears during a leg is an agent's, and
//! goes. A request to stop and a message may be a person's at any time, and an agent of the same user can write what
//! `fia stop` and `fia message` write: those count, and the log says when they came. A row of the channel that only
//! fia writes is forged, and goes.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Run, RunError};
use crate::channel::Row;
use crate::event::{Event, ExternalChange, PathChange, RepoPath};
use crate::store::{StoreError, atomic, channel, create_dir};

/// What people write for a run to find, as it was before a leg.
#[derive(Debug, Default)]
pub(super) struct FromPeople {
    /// Answer and verdict.
    decisions: Vec<(PathBuf, Option<Vec<u8>>)>,
    /// The stop files that were not there.
    unstopped: Vec<PathBuf>,
    /// The channel.
    channel: Vec<u8>,
    /// Rows that fia has added since.
    posted: Vec<Row>,
}

impl FromPeople {
    /// Takes note of a row of fia's own.
    pub(super) fn posted(&mut self, row: &Row) {
        self.posted.push(row.clone());
    }
}

impl Run {
    /// Takes note of what an agent must not make up, before a leg.
    pub(super) fn look_at_own_files(&self) -> Result<(), RunError> {
        let dir = &self.place.dir;
        let decisions = [dir.approval(), dir.verdict()].map(|path| {
            // What is no file of fia's holds no decision.
            let content = fs::read(&path).ok();
            (path, content)
        });
        let stops = [self.stop_files.run.clone(), self.stop_files.all.clone()];
        let channel = dir.read(Path::new("channel.jsonl"))?.unwrap_or_default();
        *self.from_people.borrow_mut() = FromPeople {
            decisions: decisions.into(),
            unstopped: stops.into_iter().filter(|path| is_absent(path)).collect(),
            channel,
            posted: Vec::new(),
        };
        Ok(())
    }

    /// Puts back what people cannot have written during a leg; which files that was. What they may have written is
    /// named in the log.
    fn put_decisions_back(&self) -> Result<Vec<PathBuf>, RunError> {
        let before = self.from_people.take();
        let (mut changed, mut came) = (Vec::new(), Vec::new());
        for (path, content) in before.decisions {
            if fs::read(&path).ok() == content && (content.is_some() || is_absent(&path)) {
                continue;
            }
            remove(&path)?;
            if let Some(content) = content {
                atomic::replace(&path, &content, atomic::Durability::Synced)?;
            }
            changed.push(path);
        }
        let path = self.place.dir.channel();
        let heard = channel::put_back(&path, &before.channel, &before.posted)?;
        if heard.changed {
            changed.push(path.clone());
        }
        came.extend(heard.came.iter().map(|row| {
            let from = row.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
            format!("message {}{from} came by {}", row.id, self.own_name(&path))
        }));
        let stopped = before.unstopped.iter().filter(|path| !is_absent(path));
        came.extend(stopped.map(|path| format!("{} appeared", self.own_name(path))));
        if !came.is_empty() {
            self.record(None, Event::ExternalChange(ExternalChange::noticed(came)))?;
        }
        Ok(changed)
    }

    /// Puts back what somebody changed of fia's own files; the paths that it was.
    ///
    /// They have no content in the answer, and so no rescue brings them back.
    pub(super) fn put_own_files_back(&self) -> Result<Vec<PathChange>, RunError> {
        let mut changed = self.ledger.borrow_mut().put_back()?;
        if self.lock.borrow_mut().guard()? {
            changed.push(self.lock.borrow().path().to_owned());
        }
        changed.extend(self.put_decisions_back()?);
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

fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Removes whatever has this name.
fn remove(path: &Path) -> Result<(), StoreError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => return Ok(()),
    };
    removed.map_err(StoreError::io("remove", path))
}
