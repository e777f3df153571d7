//! What the log of a run tells: its state, its figures and its plan.

use serde_json::Value;

use super::refused::StartError;
use crate::event::FORMAT;
use crate::ids::RunId;
use crate::plan::Plan;
use crate::state::RunState;
use crate::store::{Entry, LogEnd, LogReader, RunDir, Tail};
use crate::view::projection::Projection;

/// Folds the log of a run.
///
/// # Errors
///
/// When it cannot be read or its records do not fit together.
pub fn fold(dir: &RunDir) -> Result<RunState, StartError> {
    read(dir).map(|(told, _)| told.state)
}

/// The plan of a run, as its first record has it.
///
/// # Errors
///
/// When the log has lost it.
pub fn plan_of(run: &RunId, state: &RunState) -> Result<Plan, StartError> {
    let plan = state.origin.as_ref().map_or(Value::Null, |origin| origin.plan.clone());
    serde_json::from_value(plan).map_err(|_| StartError::NoPlan { run: run.clone() })
}

/// A log that was read to its end.
#[derive(Default)]
pub(super) struct Told {
    pub(super) state: RunState,
    pub(super) projection: Projection,
}

pub(super) fn read(dir: &RunDir) -> Result<(Told, LogEnd), StartError> {
    let mut reader = LogReader::open(&dir.events(), Tail::Final)?;
    let mut told = Told::default();
    let (mut gap, mut misfit) = (false, None);
    while let Some(entry) = reader.next()? {
        // What cannot be read is named by the reader's count of damage, and is not followed.
        let Entry::Record { line, .. } = entry else {
            gap = true;
            continue;
        };
        let Ok(record) = line.decode() else {
            gap = true;
            continue;
        };
        match told.state.apply(&record) {
            Ok(()) => told.projection.push(&record),
            // It hung on a record that is lost: what it says did not come to an end.
            Err(_) if gap => {}
            Err(source) => misfit = misfit.or(Some(source)),
        }
    }
    let end = reader.end()?;
    match misfit {
        // What a newer fia wrote need not fit what this one knows.
        Some(source) if end.format <= FORMAT => Err(StartError::Log { run: dir.run().clone(), source }),
        Some(_) | None => Ok((told, end)),
    }
}
