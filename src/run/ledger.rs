//! The log, the state folded from it, and those who are told: always in step.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{RunError, Watch};
use crate::event::{Event, Record};
use crate::ids::{PhaseName, RunId};
use crate::state::RunState;
use crate::store::atomic::{self, Durability};
use crate::store::{Guarded, Journal, Kept, RunDir, StoreError};
use crate::view::projection::Projection;

/// Records held at most.
const HELD_RECORDS: usize = 256;

/// What a run knows, on disk and in memory.
pub(super) struct Ledger {
    run: RunId,
    dir: RunDir,
    journal: Journal,
    state: RunState,
    /// The run file: what `runs` and `show` read instead of the log.
    projection: Projection,
    watchers: Vec<Box<dyn Watch>>,
    /// Records that are not on the disk yet, and so not shown.
    held: Vec<Record>,
    /// Files beside the log that fia uses again.
    kept: Kept,
}

impl Ledger {
    pub(super) fn new(
        run: RunId,
        dir: RunDir,
        journal: Journal,
        state: RunState,
        projection: Projection,
        watchers: Vec<Box<dyn Watch>>,
    ) -> Self {
        Self { run, dir, journal, state, projection, watchers, held: Vec::new(), kept: Kept::default() }
    }

    pub(super) fn state(&self) -> &RunState {
        &self.state
    }

    /// Appends, folds and shows one fact. What a stream brings by the thousand waits for the next fact or for
    /// [`Ledger::settle`].
    pub(super) fn record(
        &mut self,
        now: DateTime<Utc>,
        phase: Option<&PhaseName>,
        event: Event,
    ) -> Result<(), RunError> {
        // A stretch begins with projections made anew, whatever a killed fia left of them.
        let sessions = matches!(
            event,
            Event::RunStart(_) | Event::AgentEnd(_) | Event::SessionRotation(_) | Event::SessionRetired(_)
        );
        // What takes its time, what somebody outside may be waited for with, and the end. The end of a phase is
        // followed by one of them at once.
        let border = matches!(event, Event::PhaseStart(_) | Event::RunEnd(_) | Event::Waiting(_) | Event::Approval(_));
        let waits = matches!(event, Event::Context(_) | Event::ToolCall(_));
        let record =
            if waits { self.journal.hold(now, phase, event)? } else { self.journal.append(now, phase, event)? };
        self.state.apply(&record).map_err(|source| RunError::Log { run: self.run.clone(), source })?;
        self.projection.push(&record);
        self.held.push(record);
        if !waits || self.held.len() >= HELD_RECORDS {
            self.settle()?;
        }
        if border {
            project(&mut self.kept, self.dir.run_file(), &self.projection)?;
        }
        if sessions {
            project(&mut self.kept, self.dir.agent_map(), &self.state.agents)?;
        }
        // A shortfall of the cache is seen by holding a request against the one before, and is a fact of its own.
        match self.state.watch.broken().cloned() {
            Some(broken) => self.record(now, phase, Event::CacheBreak(broken)),
            None => Ok(()),
        }
    }

    /// Makes sure that every fact so far is in the log, and shows those that waited.
    pub(super) fn settle(&mut self) -> Result<(), StoreError> {
        self.journal.flush()?;
        for record in self.held.drain(..) {
            self.watchers.iter_mut().for_each(|watcher| watcher.record(&record));
        }
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        self.settle()?;
        self.journal.sync()
    }

    /// Remembers a file of the run directory as it was written.
    pub(super) fn learn(&mut self, place: &Path, content: &[u8]) {
        self.kept.learn(self.dir.path().join(place), content.to_vec());
    }

    /// Remembers a file as it is now.
    pub(super) fn learn_as_it_is(&mut self, path: PathBuf) -> Result<(), StoreError> {
        self.kept.learn_as_it_is(path)
    }

    /// Forgets files in a folder of the run directory whose names end so.
    pub(super) fn forget(&mut self, folder: &Path, ending: &str) {
        let folder = self.dir.path().join(folder);
        self.kept.forget(|path| path.starts_with(&folder) && path.to_string_lossy().ends_with(ending));
    }

    /// Puts back what somebody else changed of the log and of the files beside it; which ones it was.
    pub(super) fn put_back(&mut self) -> Result<Vec<PathBuf>, StoreError> {
        let mut changed = match self.journal.guard()? {
            Guarded::Untouched => Vec::new(),
            Guarded::PutBack => vec![self.dir.events()],
        };
        changed.extend(self.kept.put_back()?.into_iter().map(Path::to_owned));
        Ok(changed)
    }
}

/// Replaces a projection and remembers it.
fn project(kept: &mut Kept, path: PathBuf, value: &impl Serialize) -> Result<(), StoreError> {
    let content = atomic::json(&path, value)?;
    atomic::replace(&path, &content, Durability::Unsynced)?;
    kept.learn(path, content);
    Ok(())
}
