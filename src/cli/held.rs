//! The lock of a work tree, for commands that act: ringing who holds it, and holding it for a moment.

use super::project::Project;
use super::report::CliError;
use super::signals::Signals;
use crate::host::Presence;
use crate::ids::RunId;
use crate::run::{self, orphan::Orphan};
use crate::store::{self, DataDir};
use crate::tree::Repository;

/// Rings whoever is at a run; says whether anybody is.
pub(super) fn ring(data: &DataDir, run: &RunId) -> Result<bool, CliError> {
    for lock in data.locks()? {
        if store::holder(&lock)?.is_some_and(|holder| holder.run == *run)
            && let Some((_, Presence::Running | Presence::Elsewhere)) = store::ring(&lock)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The work tree of a run.
pub(super) fn repository_of(project: &Project, run: &RunId) -> Result<Repository, CliError> {
    Ok(run::home(&project.repository, &project.data, run)?)
}

/// Does work on a run under the lock of its work tree, deaf to bells meanwhile: an unheard one kills.
pub(super) fn with_lock<T>(
    project: &Project,
    run: &RunId,
    work: impl FnOnce() -> Result<T, CliError>,
) -> Result<T, CliError> {
    let repository = repository_of(project, run)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::machine("cannot start the runtime", error))?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let _deaf = Signals::bells_only().map_err(|error| CliError::machine("cannot listen for signals", error))?;
        let _lock = run::lock(&repository, &project.data, run, chrono::Utc::now())?;
        work()
    })
}

/// A process that a killed fia left behind, in words.
pub(super) fn name(orphan: &Orphan, how: &str) -> String {
    let pid = orphan.mark.pid;
    match orphan.presence {
        Presence::Elsewhere => {
            format!("{} (process {pid} on {}) may still run there", orphan.worker, orphan.mark.host)
        }
        Presence::Running | Presence::Gone => format!("{} (process {pid}) {how}", orphan.worker),
    }
}
