//! The sessions that a run has open: no other run goes on with one of them meanwhile (SPEC 6.2).

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::ids::{EngineName, SessionId};
use crate::session::AgentMap;
use crate::store::{DataDir, Holder, LockError, SessionLock, create_dir};

/// Locks on sessions, held as long as the run lives.
#[derive(Debug)]
pub(super) struct Sessions {
    data: DataDir,
    holder: Holder,
    held: BTreeMap<PathBuf, SessionLock>,
}

impl Sessions {
    /// Takes the sessions that the agents of a run would go on with.
    pub(super) fn of(data: &DataDir, holder: &Holder, agents: &AgentMap) -> Result<Self, LockError> {
        let mut sessions = Self { data: data.clone(), holder: holder.clone(), held: BTreeMap::new() };
        for (_, entry) in agents.iter() {
            if let Some(session) = &entry.session_id {
                sessions.hold(entry.coding_agent, session)?;
            }
        }
        Ok(sessions)
    }

    /// Takes a session, unless it is held already.
    pub(super) fn hold(&mut self, engine: EngineName, session: &SessionId) -> Result<(), LockError> {
        let path = self.data.session_lock(engine, session);
        if !self.held.contains_key(&path) {
            create_dir(path.parent().unwrap_or(self.data.path()))?;
            let lock = SessionLock::take(&path, session, &self.holder)?;
            self.held.insert(path, lock);
        }
        Ok(())
    }
}
