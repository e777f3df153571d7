//! Acts: the one loop with effects. It asks `state::next` what to do, does it, and writes down what happened.
//!
//! Facts first: every event is appended to the log, then folded into the state, then shown. Nothing here
//! decides what a pure function could decide, and nothing is remembered that is not in the log.

mod agent;
mod approve;
pub mod ask;
mod billing;
mod block;
mod budget;
pub mod check;
mod commit;
mod fallback;
mod guard;
mod hear;
mod history;
mod interrupted;
mod ledger;
mod order;
pub mod orphan;
mod own;
mod phase;
mod prompt;
mod pruning;
pub mod recovery;
mod refused;
mod relay;
mod resident;
mod rotation;
mod sessions;
mod site;
mod start;
mod stop;
mod told;
mod turn;
mod wait;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use tokio::sync::watch;

use crate::channel::watermark::Stages;
use crate::economy::requests::Requests;
use crate::envelope::{Schema, SchemaError};
use crate::event::{Event, Outcome, PhaseReused, Record, RunEnd, Step, StepSkipped, Waiting};
use crate::host::zone::Zone;
use crate::ids::{AgentName, PhaseName, RunId};
use crate::mask::Mask;
use crate::plan::when::WhenError;
use crate::plan::{Plan, Stop};
use crate::state::next::next;
use crate::state::{Impossible, RunState};
use crate::store::{Lock, LockError, StoreError, channel};
use crate::tree::TreeError;

use stop::Urgency;

pub use interrupted::{Unrecorded, unrecorded};
pub use refused::StartError;
pub use site::{home, open_tree};
pub use start::{Beginning, Begun, Place, Questioning, Resumption, lock, question, resume, start, start_apart};
pub use told::{fold, plan_of};

/// Somebody who is told every record as it is written.
pub trait Watch {
    /// Takes one record, which is on disk already.
    fn record(&mut self, record: &Record);
}

/// How far the run was asked to go down, by signals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Not at all.
    #[default]
    Running,
    /// End the turn and record it.
    Interrupt,
    /// Kill at once.
    Kill,
}

/// What reaches a live run from outside.
#[derive(Debug, Clone)]
pub struct Bells {
    /// Signals to stop.
    pub level: watch::Receiver<Level>,
    /// Counts up when files of the run changed: `stop`, `approval.json`.
    pub news: watch::Receiver<u64>,
    /// Who is there to be asked.
    pub audience: Audience,
}

/// Whether an approval is asked for where the run was started; by the files of the run it can always be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A person at a terminal, who is waited for.
    Terminal,
    /// Nobody: a step that does not say how long to wait does not wait.
    Nobody,
}

/// Why a run could not go on. The log is the truth, so a failed append ends it.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The log or another file of the run.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A session that an engine began is one that another run has open.
    #[error(transparent)]
    Session(#[from] LockError),
    /// The work tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A condition of the workflow.
    #[error(transparent)]
    Condition(#[from] WhenError),
    /// A schema of the plan.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A prompt template.
    #[error("cannot make the prompt of `{phase}`")]
    Prompt {
        /// The phase.
        phase: PhaseName,
        /// What is wrong with the template.
        #[source]
        source: crate::plan::prompt::PromptError,
    },
    /// An engine's session file is in the way of a fresh session.
    #[error("cannot leave the session of {agent}")]
    Archive {
        /// The agent.
        agent: AgentName,
        /// Why it could not be moved aside.
        #[source]
        source: StoreError,
    },
    /// The log does not fit together: written by another program, or a fault of fia's.
    #[error("the log of run `{run}` does not fit together")]
    Log {
        /// The run.
        run: RunId,
        /// What does not fit.
        #[source]
        source: Impossible,
    },
    /// A file of the run directory.
    #[error("cannot {action} `{path}`")]
    File {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

/// One live run.
pub struct Run {
    plan: Plan,
    stop: Stop,
    schemas: BTreeMap<String, Schema>,
    place: Place,
    bells: Bells,
    ledger: RefCell<ledger::Ledger>,
    guard: guard::Guard,
    /// Held as long as the run lives.
    lock: RefCell<Lock>,
    /// Held as long, too.
    sessions: RefCell<sessions::Sessions>,
    from_people: RefCell<own::FromPeople>,
    heard: block::Heard,
    /// What stood in the tree before the legs so far.
    notes: RefCell<interrupted::Notes>,
    /// What phases of earlier runs of the workflow made, once somebody asked.
    earlier: OnceCell<Requests>,
    digests: RefCell<prompt::Digests>,
    pruning: RefCell<pruning::Pruning>,
    residents: resident::Residents,
    /// What asked agents are hearing now; what phases hear is staged in the log.
    stages: RefCell<Stages>,
    stop_files: stop::StopFiles,
    /// Children that were started in this stretch.
    children: Cell<u64>,
    /// Secrets that no text of the log may hold.
    mask: Mask,
    /// The zone in which engines name times of day.
    zone: Zone,
    /// The clock, so that tests can set it.
    now: fn() -> DateTime<Utc>,
    started: tokio::time::Instant,
}

impl Run {
    /// Goes through the workflow to its end and returns how it ended.
    ///
    /// # Errors
    ///
    /// When fia itself cannot go on; the log then has no end of this stretch, and a resume goes on.
    pub async fn go(&self) -> Result<Outcome, RunError> {
        tokio::select! {
            ended = self.go_through() => ended,
            Err(error) = self.keep_sweeping() => Err(error),
        }
    }

    async fn go_through(&self) -> Result<Outcome, RunError> {
        loop {
            if let Some((outcome, reason)) =
                self.asked(Urgency::Now).filter(|(outcome, _)| *outcome == Outcome::Aborted)
            {
                return self.end(outcome, reason).await;
            }
            let step = match self.with_state(|state| next(&self.plan, &self.stop, state))? {
                Step::Wait { until, agent, reason, count } => {
                    self.wait(Waiting { until: Some(until), reason, agent, count }, until).await?
                }
                step @ (Step::Phase(_)
                | Step::Parallel { .. }
                | Step::Reuse { .. }
                | Step::Skip { .. }
                | Step::End { .. }) => step,
            };
            if let Some((outcome, reason)) = self.held_back(&step)? {
                return self.end(outcome, reason).await;
            }
            match step {
                Step::Phase(order) => self.phase(&order).await?,
                Step::Parallel { orders } => self.parallel(&orders).await?,
                Step::Reuse { step, phase } => {
                    self.record(None, Event::PhaseReused(PhaseReused { step, phase }))?;
                }
                Step::Skip { step, index, when } => {
                    self.record(None, Event::StepSkipped(StepSkipped { step, index, when }))?;
                }
                // It was waited for above.
                Step::Wait { .. } => {}
                Step::End { outcome, reason } => return self.end(outcome, reason).await,
            }
        }
    }

    /// What forbids to begin a phase: a request to stop, or a limit of `stop:`.
    fn held_back(&self, step: &Step) -> Result<Option<(Outcome, String)>, RunError> {
        let phase = match step {
            Step::Phase(order) => Some(&order.phase),
            Step::Parallel { .. } => None,
            Step::Reuse { .. } | Step::Skip { .. } | Step::Wait { .. } | Step::End { .. } => return Ok(None),
        };
        match self.asked(Urgency::NextPhase) {
            Some(asked) => Ok(Some(asked)),
            None => self.forbidden(phase),
        }
    }

    async fn end(&self, outcome: Outcome, reason: String) -> Result<Outcome, RunError> {
        self.end_residents().await;
        let tree_sha256 = self.tree_digest().await?;
        let end = self.with_state(|state| {
            let here = |phase: &&crate::state::PhaseState| Some(phase.started) >= state.stretch_started;
            RunEnd {
                outcome,
                reason,
                tokens: state.spend.known_usage(),
                cost_usd: state.spend.known_cost(),
                phases: count(state.phases.values().filter(here).count()),
                replayed: count(state.reused),
                elapsed_ms: millis(self.started.elapsed()),
                tree_sha256: Some(tree_sha256),
            }
        });
        self.record(None, Event::RunEnd(end))?;
        self.sync()?;
        Ok(outcome)
    }

    /// Writes a fact down, folds it and shows it.
    fn record(&self, phase: Option<&PhaseName>, event: Event) -> Result<(), RunError> {
        self.heard.take(phase, &event);
        self.ledger.borrow_mut().record((self.now)(), phase, event)
    }

    /// Makes sure that all facts so far are in the log. Called before anything is done on the strength of them, and
    /// before waiting.
    fn settle(&self) -> Result<(), RunError> {
        Ok(self.ledger.borrow_mut().settle()?)
    }

    /// Makes sure that all facts so far are on the disk.
    fn sync(&self) -> Result<(), RunError> {
        channel::sync_channel(&self.place.dir.channel())?;
        Ok(self.ledger.borrow_mut().sync()?)
    }

    fn with_state<T>(&self, look: impl FnOnce(&RunState) -> T) -> T {
        look(self.ledger.borrow().state())
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
