//! Engine processes that outlive a turn: one an agent, leased for each turn and given back after it.
//!
//! [`crate::session::pool`] decides which of them live; here they are started, handed out and ended. A process that
//! is not fit for a turn (another model, level or session, or dead) is ended before a new one takes its place, and
//! none outlives the run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Run, RunError};
use crate::engine::{self, Decoder, Engine, Launch, ProcessKind, SessionChoice, failure};
use crate::event::item::{TurnEnd, TurnOutcome};
use crate::event::{Event, EvictionReason, LeaseKind, SessionEvicted};
use crate::ids::{AgentName, EngineName, SessionId};
use crate::lines::RawLine;
use crate::plan::SessionMode;
use crate::process::{Child, CommandSpec, Finish, Keep, Limits, OWNER};
use crate::session::lease::{ProcessAge, lease_kind};
use crate::session::pool::{Lease, Pool};

/// A process that a turn talks to.
pub(super) struct Seat {
    pub(super) child: Child,
    pub(super) decoder: Box<dyn Decoder>,
    /// The model's window, which a decoder tells once.
    pub(super) window: Option<u64>,
    pub(super) lease: LeaseKind,
    pub(super) process: ProcessKind,
    /// The command, if it was started for this turn.
    pub(super) started: Option<CommandSpec>,
    /// What it was started with, whatever differs from turn to turn left out.
    started_with: Launch,
}

/// A process that waits for its next turn.
struct Resident {
    child: Child,
    decoder: Box<dyn Decoder>,
    window: Option<u64>,
    /// The session that it holds.
    session: SessionId,
    started_with: Launch,
}

impl Resident {
    fn fits(&self, launch: &Launch) -> bool {
        let same = matches!(&launch.session, SessionChoice::Resume(session) if *session == self.session);
        same && self.started_with == steady(launch)
    }
}

/// The residents of a run. No borrow of them is held over a wait, so a lease and a sweep never see half of each other.
pub(super) struct Residents {
    pool: RefCell<Pool<AgentName>>,
    idle: RefCell<BTreeMap<AgentName, Resident>>,
    /// A process became idle.
    released: Notify,
    began: Instant,
}

impl Default for Residents {
    fn default() -> Self {
        Self { pool: RefCell::default(), idle: RefCell::default(), released: Notify::new(), began: Instant::now() }
    }
}

impl Residents {
    /// Ends the idle process of an agent at once: its session is about to be moved aside.
    pub(super) fn discard(&self, agent: &AgentName) {
        if let Some(resident) = self.idle.borrow_mut().remove(agent) {
            self.pool.borrow_mut().remove(agent);
            drop(resident);
        }
    }

    fn take(&self, agent: &AgentName) -> Option<Resident> {
        self.idle.borrow_mut().remove(agent)
    }

    /// Gives a process back to wait for its next turn.
    fn give_back(&self, agent: &AgentName, resident: Resident) {
        self.idle.borrow_mut().insert(agent.clone(), resident);
        self.pool.borrow_mut().release(agent, self.began.elapsed());
        self.released.notify_one();
    }

    /// Takes out what has been idle too long.
    fn expired(&self) -> Vec<AgentName> {
        self.pool.borrow_mut().sweep(self.began.elapsed())
    }

    /// Waits until something has been idle too long, without a timer while nothing is idle.
    async fn next_expiry(&self) -> Vec<AgentName> {
        loop {
            let next = self.pool.borrow().next_sweep();
            tokio::select! {
                () = tokio::time::sleep_until(self.began + next.unwrap_or_default()), if next.is_some() => {
                    return self.expired();
                }
                () = self.released.notified() => {}
            }
        }
    }
}

/// A seat, or the words why the process could not be started.
pub(super) type Seated = Result<Seat, String>;

impl Run {
    /// Whether the processes of an engine outlive their turns.
    pub(super) fn resides(&self, engine: EngineName) -> bool {
        self.plan.session == SessionMode::Resident && engine::for_name(engine).capabilities().resident
    }

    /// The process for a turn: the agent's own if it lives and fits, else a new one.
    pub(super) async fn seat(&self, agent: &AgentName, launch: Launch, keep: Keep) -> Result<Seated, RunError> {
        let engine = engine::for_name(self.choice(agent).engine);
        if !self.resides(engine.name()) {
            return Ok(self.start_process(engine, &launch, keep));
        }
        self.sweep(self.residents.expired()).await?;
        self.end_unfit(agent, &launch).await?;
        let lease = self.residents.pool.borrow_mut().lease(agent);
        match lease {
            Lease::Warm => {
                let resident = self.residents.take(agent).expect("the pool calls warm what is idle here");
                let Resident { mut child, decoder, window, started_with, .. } = resident;
                child.keep(keep);
                let (lease, process) = (lease_kind(ProcessAge::Living, None), ProcessKind::Resident);
                Ok(Ok(Seat { child, decoder, window, lease, process, started: None, started_with }))
            }
            Lease::Start { evict } => {
                if let Some(out) = evict {
                    self.evict(&out, EvictionReason::Room).await?;
                }
                let launch = Launch { process: ProcessKind::Resident, max_turns: None, ..launch };
                let seated = self.start_process(engine, &launch, keep);
                if seated.is_err() {
                    self.residents.pool.borrow_mut().remove(agent);
                }
                Ok(seated)
            }
            Lease::Outside => Ok(self.start_process(engine, &launch, keep)),
        }
    }

    fn start_process(&self, engine: &dyn Engine, launch: &Launch, keep: Keep) -> Seated {
        let spec = engine.launch(launch).map_err(|error| format!("{error}; {}", error.hint))?;
        let spec = spec.set(OWNER, self.new_owner());
        let child = Child::spawn(&spec, keep, Limits::default())
            .map_err(|error| format!("cannot start {}: {error}; {}", engine.name(), error.hint()))?;
        let saved = match &launch.session {
            SessionChoice::Fresh => None,
            SessionChoice::Resume(session) => Some(session),
        };
        Ok(Seat {
            child,
            decoder: engine.decoder(),
            window: None,
            lease: lease_kind(ProcessAge::New, saved),
            process: launch.process,
            started: Some(spec),
            started_with: steady(launch),
        })
    }

    /// Ends the agent's idle process if it is of no use for a turn.
    async fn end_unfit(&self, agent: &AgentName, launch: &Launch) -> Result<(), RunError> {
        let (lost, unfit) = match self.residents.idle.borrow_mut().get_mut(agent) {
            Some(resident) => (resident.child.has_exited(), !resident.fits(launch)),
            None => return Ok(()),
        };
        if lost {
            return self.evict(agent, EvictionReason::Lost).await;
        }
        if unfit && let Some(resident) = self.residents.take(agent) {
            self.residents.pool.borrow_mut().remove(agent);
            resident.child.finish(Finish::Closing, &mut |_| {}).await;
        }
        Ok(())
    }

    /// Ends an idle process and writes down why.
    async fn evict(&self, agent: &AgentName, reason: EvictionReason) -> Result<(), RunError> {
        let Some(resident) = self.residents.take(agent) else { return Ok(()) };
        self.residents.pool.borrow_mut().remove(agent);
        self.record(None, Event::SessionEvicted(SessionEvicted { agent: agent.clone(), reason }))?;
        resident.child.finish(Finish::Closing, &mut |_| {}).await;
        Ok(())
    }

    /// Gives a process back after a turn that came to its end by itself, or ends it: when it was for this turn alone,
    /// when the turn failed, and when it is gone already. Of an ended one, says how its turn ended.
    pub(super) async fn leave(
        &self,
        seat: Seat,
        agent: &AgentName,
        outcome: Option<&TurnOutcome>,
        session: Option<SessionId>,
    ) -> Result<Option<TurnOutcome>, RunError> {
        let lives_on = outcome.is_some_and(|outcome| match outcome.end {
            TurnEnd::Completed | TurnEnd::Cut(_) => true,
            TurnEnd::Failed(_) => false,
        });
        if let (ProcessKind::Resident, true, Some(session)) = (seat.process, lives_on, session) {
            let Seat { child, decoder, window, started_with, .. } = seat;
            let resident = Resident { child, decoder, window, session, started_with };
            self.residents.give_back(agent, resident);
            return Ok(None);
        }
        if (seat.process, outcome) == (ProcessKind::Resident, None) {
            let reason = EvictionReason::Lost;
            self.record(None, Event::SessionEvicted(SessionEvicted { agent: agent.clone(), reason }))?;
        }
        Ok(Some(self.end_seat(seat, agent, Finish::Closing, &mut |_, _| {}).await))
    }

    /// Ends a process, and says how its turn ended if its stream did not. Lines that still come go to `rest`.
    pub(super) async fn end_seat(
        &self,
        mut seat: Seat,
        agent: &AgentName,
        how: Finish,
        rest: &mut dyn FnMut(&mut dyn Decoder, RawLine<'_>),
    ) -> TurnOutcome {
        if seat.process == ProcessKind::Resident {
            self.residents.pool.borrow_mut().remove(agent);
        }
        let ended = seat.child.finish(how, &mut |line| rest(&mut *seat.decoder, line)).await;
        // Of these words only an end is told: secrets are masked while they are whole.
        let said = self.mask.text(&String::from_utf8_lossy(&ended.stderr_tail)).into_owned();
        seat.decoder.end(&ended.exit, said.as_bytes()).unwrap_or_else(|| {
            let failure = failure::without_closing_event(ended.exit, said.as_bytes());
            TurnOutcome { end: TurnEnd::Failed(failure), text: None, usage: None, cost: None }
        })
    }

    /// Ends what has been idle too long.
    async fn sweep(&self, expired: Vec<AgentName>) -> Result<(), RunError> {
        for agent in expired {
            self.evict(&agent, EvictionReason::Idle).await?;
        }
        Ok(())
    }

    /// Ends idle processes as their time comes, for as long as the run goes on.
    pub(super) async fn keep_sweeping(&self) -> Result<Infallible, RunError> {
        loop {
            let expired = self.residents.next_expiry().await;
            self.sweep(expired).await?;
        }
    }

    /// Ends all residents; they were told together, so that they end side by side.
    pub(super) async fn end_residents(&self) {
        let mut residents = std::mem::take(&mut *self.residents.idle.borrow_mut());
        for resident in residents.values_mut() {
            resident.child.close_stdin();
        }
        for (agent, resident) in residents {
            self.residents.pool.borrow_mut().remove(&agent);
            resident.child.finish(Finish::Closing, &mut |_| {}).await;
        }
    }
}

/// A launch without what differs from turn to turn: two that are the same here start the same process.
fn steady(launch: &Launch) -> Launch {
    Launch {
        session: SessionChoice::Fresh,
        process: ProcessKind::Resident,
        max_turns: None,
        phase: String::new(),
        leg: 0,
        turn: 0,
        ..launch.clone()
    }
}

#[cfg(test)]
mod tests;
