//! What finished runs of the same workflow say of this one.
//!
//! Only estimates come from here. A log that cannot be read, or belongs to a run that is not over, counts for nothing.

use super::Run;
use crate::economy::requests::{Requests, expected};
use crate::event::Event;
use crate::ids::{AgentName, StepName};
use crate::store::{Entry, LogReader, RunDir, StoreError, Tail};

/// Finished runs of the workflow that count: what a step needs changes with the code that it works on.
const RUNS_THAT_COUNT: usize = 10;

/// Runs that are looked at for them, the newest first. Of a run of another workflow one record is read.
const RUNS_LOOKED_AT: usize = 200;

impl Run {
    /// Requests that an agent is expected to make in a phase of this step.
    pub(super) fn expected_requests(&self, agent: &AgentName, step: &StepName) -> u32 {
        let earlier = self.earlier.get_or_init(|| {
            let runs = self.place.data.list().unwrap_or_default();
            let others = runs.into_iter().filter(|run| *run != self.place.run).map(|run| self.place.data.run(&run));
            requests_of(others, &self.plan.workflow)
        });
        self.with_state(|state| expected(agent, step, state.watch.requests(), earlier))
    }
}

/// The requests of the newest runs of a workflow.
fn requests_of(runs: impl Iterator<Item = RunDir>, workflow: &str) -> Requests {
    let mut all = Requests::default();
    let finished = runs.take(RUNS_LOOKED_AT).filter_map(|run| requests(&run, workflow).ok().flatten());
    for requests in finished.take(RUNS_THAT_COUNT) {
        all.add(requests);
    }
    all
}

/// The requests of a run; `None` when it is of another workflow, or not over.
fn requests(run: &RunDir, workflow: &str) -> Result<Option<Requests>, StoreError> {
    let mut reader = LogReader::open(&run.events(), Tail::Growing)?;
    let (mut requests, mut over) = (Requests::default(), false);
    while let Some(entry) = reader.next()? {
        let Entry::Record { line, .. } = entry else { continue };
        if !matches!(&*line.kind, "run_start" | "run_end" | "phase_start" | "phase_end" | "context") {
            continue;
        }
        let Ok(record) = line.decode() else { continue };
        if let Event::RunStart(start) = &record.event {
            if start.workflow != workflow {
                return Ok(None);
            }
            over = false;
        }
        over |= matches!(record.event, Event::RunEnd(_));
        requests.apply(&record);
    }
    Ok(over.then_some(requests))
}
