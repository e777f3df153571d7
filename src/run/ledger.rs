//! The log, the state folded from it, and those who are told: always in step.

use chrono::{DateTime, Utc};

use super::{RunError, Watch};
use crate::event::Event;
use crate::ids::{PhaseName, RunId};
use crate::state::RunState;
use crate::store::atomic::{self, Durability};
use crate::store::{Journal, RunDir, StoreError};
use crate::view::projection::Projection;

/// What a run knows, on disk and in memory.
pub(super) struct Ledger {
    run: RunId,
    dir: RunDir,
    journal: Journal,
    state: RunState,
    /// The run file: what `runs` and `show` read instead of the log.
    projection: Projection,
    watchers: Vec<Box<dyn Watch>>,
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
        Self { run, dir, journal, state, projection, watchers }
    }

    pub(super) fn state(&self) -> &RunState {
        &self.state
    }

    /// Appends, folds and shows one fact.
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
        let border = matches!(event, Event::PhaseStart(_) | Event::PhaseEnd(_) | Event::RunStart(_) | Event::RunEnd(_));
        let record = self.journal.append(now, phase, event)?;
        self.state.apply(&record).map_err(|source| RunError::Log { run: self.run.clone(), source })?;
        self.projection.push(&record);
        for watcher in &mut self.watchers {
            watcher.record(&record);
        }
        if border {
            atomic::replace_json(&self.dir.run_file(), &self.projection, Durability::Unsynced)?;
        }
        if sessions {
            atomic::replace_json(&self.dir.agent_map(), &self.state.agents, Durability::Unsynced)?;
        }
        // A shortfall of the cache is seen by holding a request against the one before, and is a fact of its own.
        match self.state.watch.broken().cloned() {
            Some(broken) => self.record(now, phase, Event::CacheBreak(broken)),
            None => Ok(()),
        }
    }

    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        self.journal.sync()
    }
}
