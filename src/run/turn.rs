//! One turn: a process started, recorded, told its prompt, read to its closing event, and ended.

mod begin;
mod spend;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use spend::{RequestEnd, Tally};

use super::resident::Seat;
use super::rotation::Bound;
use super::stop::Urgency;
use super::wait::Asked;
use super::{Level, Run, RunError, millis};
use crate::economy::prices::{self, ModelPrices};
use crate::engine::failure;
use crate::engine::{self, Decoder, Engine, ProcessKind, SessionChoice};
use crate::event::item::{Cost, EngineEvent, Failure, Reset, TurnEnd, TurnOutcome};
use crate::event::{
    AgentEnd, Compacted, Event, FailureKind, LeaseKind, Order, Outcome, SessionSeen, ToolCall, TurnStatus, Unreported,
};
use crate::ids::{AgentName, PhaseName, SessionId};
use crate::lines::RawLine;
use crate::plan::EngineChoice;
use crate::process::{Finish, Keep};
use crate::session::lease::{Framing, Texts, sent};

/// How long an engine may take to end its turn when it is asked; it answers within a tenth of a second.
const INTERRUPT_GRACE: Duration = Duration::from_secs(5);

/// Characters of the name of a `tool_call` record.
const SUMMARY_CHARS: usize = 120;

/// What a turn is to do.
pub(super) struct TurnOrder<'a> {
    pub(super) order: &'a Order,
    /// The phase that its facts belong to; none for a question between stretches.
    pub(super) phase: Option<&'a PhaseName>,
    pub(super) agent: &'a AgentName,
    pub(super) leg: u32,
    pub(super) turn: u32,
    pub(super) choice: &'a EngineChoice,
    pub(super) session: SessionChoice,
    pub(super) prompt: String,
    /// When the leg has to be over.
    pub(super) deadline: Option<Instant>,
    /// Where fia ends it, if it may.
    pub(super) bound: Option<Bound>,
}

/// How a turn came out.
pub(super) enum Turned {
    /// It ended, well or badly.
    Ended(TurnOutcome),
    /// It was stopped from outside.
    Stopped(Outcome, String),
}

/// Why fia ended a turn that had not ended by itself.
#[derive(Debug, Clone, PartialEq)]
enum Halt {
    /// No output for too long.
    Idle,
    /// The leg took too long.
    Total,
    /// Somebody asked, or a budget is used up.
    Asked(Asked),
    /// A second signal came.
    Kill,
}

impl Run {
    /// Runs one turn. Whatever happens in it is in the log when this returns.
    pub(super) async fn turn(&self, asked: TurnOrder<'_>) -> Result<Turned, RunError> {
        // A second try has a new process, which is not lost in this sense.
        loop {
            if let Some(turned) = self.try_turn(&asked).await? {
                return Ok(turned);
            }
        }
    }

    /// Runs one turn; `None` when a process that had waited for it was lost before it said a word.
    async fn try_turn(&self, asked: &TurnOrder<'_>) -> Result<Option<Turned>, RunError> {
        let engine = engine::for_name(asked.choice.engine);
        let system = self.system_prompt(asked.agent)?;
        self.save_prompt(asked)?;
        let keep = Keep {
            stdout: Some(self.place.dir.open_append(&Self::leg_file(asked, "transcript.jsonl"))?),
            stderr: Some(self.place.dir.open_append(&Self::leg_file(asked, "stderr"))?),
        };
        let mut launch = self.launch(asked, &system);
        self.attach_pruning(asked, &mut launch)?;
        let mut seat = match self.seat(asked.agent, launch, keep).await? {
            Ok(seat) => seat,
            Err(said) => return Ok(Some(refused(said))),
        };
        self.record_start(asked, &seat, &system)?;
        if let Some(spec) = &seat.started {
            self.name_billing(asked, engine.facts(), spec)?;
        }
        self.sync()?;
        let framing = Framing::of(&system, engine.facts().system_by_flag);
        let text = sent(seat.lease, Texts { framing, replay: &asked.prompt, newest: &asked.prompt });
        seat.child.send(engine.prompt(&text, seat.process));
        if seat.process == ProcessKind::OneShot {
            seat.child.close_stdin();
        }
        let mut live = Live::new(self, asked, &seat, engine);
        let halt = live.read(&mut seat).await?;
        seat.window = live.window;
        let how = match halt {
            None => {
                let late = self.leave(seat, asked.agent, live.outcome.as_ref(), live.session.clone()).await?;
                if live.lease == LeaseKind::Warm && live.is_silent() && live.outcome.is_none() {
                    return Ok(None);
                }
                return live.close(None, late).map(Some);
            }
            Some(Halt::Kill) => Finish::KillNow,
            Some(Halt::Asked(_)) if live.interrupt(&mut seat).await? => Finish::Closing,
            Some(_) => Finish::Stop,
        };
        let mut written = Ok(());
        let mut rest = |decoder: &mut dyn Decoder, line: RawLine<'_>| {
            if written.is_ok() && live.outcome.is_none() {
                written = live.take_line(decoder, line);
            }
        };
        let late = self.end_seat(seat, asked.agent, how, &mut rest).await;
        written?;
        live.close(halt.as_ref(), Some(late)).map(Some)
    }
}

fn refused(message: String) -> Turned {
    let failure = Failure { kind: FailureKind::Missing, message, reset: Reset::Unknown };
    Turned::Ended(TurnOutcome { end: TurnEnd::Failed(failure), text: None, usage: None, cost: None })
}

/// A turn while its stream is read.
struct Live<'a> {
    run: &'a Run,
    asked: &'a TurnOrder<'a>,
    lease: LeaseKind,
    /// What ends the turn of a process that outlives it; `None` where nothing but a signal does.
    interrupt: Option<Vec<u8>>,
    /// Whether the turn is to be ended now, because its session outgrew the bound.
    outgrown: Outgrown,
    /// Lines that came.
    lines: u64,
    events: Vec<EngineEvent>,
    started: Instant,
    session: Option<SessionId>,
    /// Another id than the one that was resumed, until a message shows that there is something behind it.
    announced: Option<SessionId>,
    /// Of the model as the engine calls it; until then as configured.
    prices: Option<ModelPrices>,
    window: Option<u64>,
    tally: Tally,
    tools: BTreeMap<String, (Instant, String, String)>,
    outcome: Option<TurnOutcome>,
    /// The budget that a request of this turn used up, and whether that request is over.
    over: Option<(Asked, RequestEnd)>,
}

/// Whether a session outgrew its bound in this turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outgrown {
    /// Not yet.
    No,
    /// At this tool result, and the engine is to be told.
    Now,
    /// The engine was told.
    Told,
}

impl<'a> Live<'a> {
    fn new(run: &'a Run, asked: &'a TurnOrder<'a>, seat: &Seat, engine: &'static dyn Engine) -> Self {
        let session = match &asked.session {
            SessionChoice::Resume(session) => Some(session.clone()),
            SessionChoice::Fresh => None,
        };
        // What an earlier turn told at its end; another model has forgotten it by now.
        let known_window = || run.with_state(|state| state.agents.entry(asked.agent)?.context_window);
        run.digest_prompt(asked.agent, &asked.order.phase, &asked.prompt);
        Self {
            run,
            asked,
            lease: seat.lease,
            interrupt: engine.interrupt().filter(|_| seat.process == ProcessKind::Resident),
            outgrown: Outgrown::No,
            lines: 0,
            events: Vec::new(),
            started: Instant::now(),
            session,
            announced: None,
            prices: prices::find(&run.plan.models, &asked.choice.model),
            window: seat.window.or_else(known_window),
            tally: Tally::default(),
            tools: BTreeMap::new(),
            outcome: None,
            over: None,
        }
    }

    /// Reads until the closing event, the end of the stream, a limit or a request to stop.
    async fn read(&mut self, seat: &mut Seat) -> Result<Option<Halt>, RunError> {
        let idle = super::order::minutes(self.run.stop.idle_timeout_minutes);
        let (mut level, mut news) = (self.run.bells.level.clone(), self.run.bells.news.clone());
        let mut quiet_since = Instant::now();
        let timer = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        while self.outcome.is_none() {
            if !seat.child.has_line() {
                self.run.settle()?;
            }
            // The idle clock stands still while a tool call is open.
            let idle_until = idle.filter(|_| self.tools.is_empty()).map(|span| quiet_since + span);
            let next = idle_until.into_iter().chain(self.asked.deadline).min();
            // The timer is only moved when it fires: a line costs no timer work.
            tokio::select! {
                biased;
                Ok(()) = level.changed() => {
                    if *level.borrow() == Level::Kill {
                        return Ok(Some(Halt::Kill));
                    }
                    if let Some(asked) = self.run.asked(Urgency::Now) {
                        return Ok(Some(Halt::Asked(asked)));
                    }
                }
                Ok(()) = news.changed() => {
                    if let Some(asked) = self.run.asked(Urgency::Now) {
                        return Ok(Some(Halt::Asked(asked)));
                    }
                }
                line = seat.child.line() => {
                    self.run.record_pruning(self.asked)?;
                    quiet_since = Instant::now();
                    self.lines += u64::from(line.is_some());
                    let Some(line) = line else { return Ok(None) };
                    self.take_line(&mut *seat.decoder, line)?;
                    if let (Some((over, RequestEnd::Over)), None) = (&self.over, &self.outcome) {
                        self.run.settle()?;
                        return Ok(Some(Halt::Asked(over.clone())));
                    }
                    if let (Outgrown::Now, Some(words)) = (self.outgrown, &self.interrupt) {
                        self.run.settle()?;
                        seat.child.send(words.clone());
                        self.outgrown = Outgrown::Told;
                    }
                }
                () = &mut timer, if next.is_some() => {
                    let now = Instant::now();
                    if self.asked.deadline.is_some_and(|deadline| now >= deadline) {
                        return Ok(Some(Halt::Total));
                    }
                    if idle_until.is_some_and(|until| now >= until) {
                        return Ok(Some(Halt::Idle));
                    }
                    timer.as_mut().reset(next.unwrap_or(now + Duration::from_secs(1)));
                }
            }
        }
        self.run.settle()?;
        Ok(None)
    }

    /// Asks the engine to end its turn, so that its session is left in order. False when it cannot be asked or does
    /// not answer in time.
    async fn interrupt(&mut self, seat: &mut Seat) -> Result<bool, RunError> {
        let Some(words) = self.interrupt.take() else { return Ok(false) };
        seat.child.send(words);
        let give_up = Instant::now() + INTERRUPT_GRACE;
        while self.outcome.is_none() {
            match tokio::time::timeout_at(give_up, seat.child.line()).await {
                Ok(Some(line)) => self.take_line(&mut *seat.decoder, line)?,
                Ok(None) | Err(_) => return Ok(false),
            }
            self.run.settle()?;
        }
        Ok(true)
    }

    /// Takes in a line of the stream; also one that comes while the process is being ended, since a request that it
    /// tells of was paid for, and a session that it names can be gone on with.
    fn take_line(&mut self, decoder: &mut dyn Decoder, line: RawLine<'_>) -> Result<(), RunError> {
        match line {
            RawLine::Line(line) => decoder.line(line, &mut self.events),
            // It may have been the end of any call that is open, and the usage of a request.
            RawLine::TooLong { .. } => {
                self.tools.clear();
                self.tally.context = None;
            }
        }
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            self.take(event)?;
        }
        self.events = events;
        Ok(())
    }

    fn record(&self, event: Event) -> Result<(), RunError> {
        self.run.record(self.asked.phase, event)
    }

    fn take(&mut self, event: EngineEvent) -> Result<(), RunError> {
        match event {
            EngineEvent::Session { session, model, .. } => {
                self.prices = prices::find(&self.run.plan.models, model.as_ref().unwrap_or(&self.asked.choice.model));
                self.saw_session(session)
            }
            EngineEvent::Request { usage, window } => {
                self.keep_session()?;
                self.request(usage, window)
            }
            EngineEvent::Window(window) => {
                self.window = Some(window);
                Ok(())
            }
            EngineEvent::Compacted { before, after } => {
                self.tally.context = None;
                self.record(Event::Compacted(Compacted { agent: self.asked.agent.clone(), before, after }))
            }
            EngineEvent::Text(text) => {
                let text = self.run.mask.text(&text);
                self.run.with_digest(self.asked.agent, |digest| digest.text(&text));
                Ok(())
            }
            EngineEvent::ToolStarted { call, tool, summary, arguments } => {
                let arguments = self.run.mask.text(&arguments);
                self.run.with_digest(self.asked.agent, |digest| digest.tool(&tool, &arguments));
                self.tools.insert(call, (Instant::now(), tool, summary));
                self.request_over();
                Ok(())
            }
            EngineEvent::ToolEnded { call, ok, first_line } => self.tool_ended(&call, ok, &first_line),
            EngineEvent::TurnEnded(outcome) => {
                // Calls that were cut off with the turn are not open any more.
                self.tools.clear();
                let has_failed = matches!(outcome.end, TurnEnd::Failed(_));
                self.outcome = Some(outcome);
                if has_failed { Ok(()) } else { self.keep_session() }
            }
            EngineEvent::Retrying { .. }
            | EngineEvent::Reply(_)
            | EngineEvent::Unknown { .. }
            | EngineEvent::Noise { .. } => Ok(()),
        }
    }

    /// A fresh session is kept at once. An engine that cannot resume one names a new id before it fails, and that
    /// one is empty: nothing is kept of it until it has a message.
    fn saw_session(&mut self, session: SessionId) -> Result<(), RunError> {
        let is_known = self.session.as_ref() == Some(&session);
        self.announced = (!is_known).then_some(session);
        if self.session.is_none() || self.tally.requests > 0 { self.keep_session() } else { Ok(()) }
    }

    /// Writes down the id that the engine announced, if there is one.
    fn keep_session(&mut self) -> Result<(), RunError> {
        let Some(session) = self.announced.take() else { return Ok(()) };
        self.session = Some(session.clone());
        self.run.sessions.borrow_mut().hold(self.asked.choice.engine, &session)?;
        self.record(Event::Session(SessionSeen {
            agent: self.asked.agent.clone(),
            engine: self.asked.choice.engine,
            model: self.asked.choice.model.clone(),
            session_id: session,
            new: true,
        }))
    }

    fn tool_ended(&mut self, call: &str, ok: bool, first_line: &str) -> Result<(), RunError> {
        let first_line = self.run.mask.text(first_line);
        self.run.with_digest(self.asked.agent, |digest| digest.result(ok, &first_line));
        let Some((started, tool, summary)) = self.tools.remove(call) else { return Ok(()) };
        if self.tools.is_empty() && self.outgrown == Outgrown::No && self.is_outgrown() {
            self.outgrown = Outgrown::Now;
        }
        let elapsed_ms = millis(started.elapsed());
        let summary = self.run.mask.text(&summary).chars().take(SUMMARY_CHARS).collect();
        self.record(Event::ToolCall(ToolCall { summary, agent: self.asked.agent.clone(), tool, ok, elapsed_ms }))
    }

    /// Whether the engine has not said a word in this turn.
    fn is_silent(&self) -> bool {
        self.lines == 0
    }

    /// Whether the last reading is at the bound. A fresh session that begins there is left alone: another one would
    /// begin there too.
    fn is_outgrown(&self) -> bool {
        let Some(bound) = self.asked.bound else { return false };
        let reached = |context: Option<u64>| context.is_some_and(|context| context >= bound.ceiling);
        let began_there = reached(self.tally.began);
        reached(self.tally.context) && !(self.asked.session == SessionChoice::Fresh && began_there)
    }

    /// Names the end of the turn and writes it down. `late` is how it ended when its stream did not say so.
    fn close(mut self, halt: Option<&Halt>, late: Option<TurnOutcome>) -> Result<Turned, RunError> {
        self.run.record_pruning(self.asked)?;
        let told = self.outcome.take().or(late);
        let mut outcome = told.unwrap_or_else(|| failed(FailureKind::Crash, "ended without a closing event"));
        // A resume that failed before any answer says that the session is at fault, not the engine. A process that
        // had the session before is lost, which says nothing of the session.
        if let (TurnEnd::Failed(failure), LeaseKind::Restored, 0) = (&outcome.end, self.lease, self.tally.requests) {
            outcome.end = TurnEnd::Failed(failure::of_resume(failure.clone()));
        }
        let stopped = match halt {
            None => None,
            Some(Halt::Idle) => {
                outcome.end = failed(FailureKind::Timeout, "no output for the idle limit").end;
                None
            }
            Some(Halt::Total) => {
                outcome.end = failed(FailureKind::Timeout, "the phase ran into its time limit").end;
                None
            }
            Some(Halt::Asked(asked)) => Some(asked.clone()),
            Some(Halt::Kill) => Some((Outcome::Aborted, "interrupted".to_owned())),
        };
        self.record_end(&outcome, stopped.is_some())?;
        self.run.save_digest(self.asked.agent, &self.asked.order.phase, self.asked.leg)?;
        Ok(match stopped {
            Some((outcome, reason)) => Turned::Stopped(outcome, reason),
            None => Turned::Ended(outcome),
        })
    }

    fn record_end(&self, outcome: &TurnOutcome, stopped: bool) -> Result<(), RunError> {
        let ended = match &outcome.end {
            _ if stopped => TurnStatus::Stopped,
            TurnEnd::Completed => TurnStatus::Completed,
            TurnEnd::Cut(_) => TurnStatus::Cut,
            TurnEnd::Failed(_) => TurnStatus::Failed,
        };
        let agent = self.asked.agent;
        let before = self.run.with_state(|state| state.agents.entry(agent).and_then(|entry| entry.session_cost_usd));
        // A turn that was stopped or died before its closing event still burned what its requests showed.
        let usage =
            outcome.usage.or_else(|| (self.tally.requests > 0 && !self.tally.sum.is_zero()).then_some(self.tally.sum));
        let (cost_usd, session_cost_usd) = match outcome.cost {
            None => {
                let priced = self.priced(usage);
                // The engine's own total will hold it, so that a difference to it counts nothing twice.
                (priced, priced.map(|priced| before.unwrap_or(0.0) + priced))
            }
            Some(Cost::Turn(cost)) => (Some(cost), None),
            Some(Cost::SessionTotal(total)) => (Some((total - before.unwrap_or(0.0)).max(0.0)), Some(total)),
        };
        self.record(Event::AgentEnd(AgentEnd {
            agent: agent.clone(),
            leg: self.asked.leg,
            turn: self.asked.turn,
            engine: self.asked.choice.engine,
            model: self.asked.choice.model.clone(),
            ended,
            usage,
            cost_usd,
            session_cost_usd,
            requests: self.tally.requests,
            context_tokens: self.tally.context,
            window: self.window,
            cache_hit_ratio: self.tally.cache.hit_ratio(),
            rewrite_factor: self.tally.cache.rewrite_factor(),
            elapsed_ms: millis(self.started.elapsed()),
        }))?;
        if ended == TurnStatus::Completed && (self.tally.context.is_none() || usage.is_none()) {
            self.say_unreported(Unreported::Tokens)?;
        }
        if ended == TurnStatus::Completed && cost_usd.is_none() && self.run.stop.cost_budget_usd > 0.0 {
            self.say_unreported(Unreported::Dollars)?;
        }
        Ok(())
    }
}

fn failed(kind: FailureKind, message: &str) -> TurnOutcome {
    let failure = Failure { kind, message: message.to_owned(), reset: Reset::Unknown };
    TurnOutcome { end: TurnEnd::Failed(failure), text: None, usage: None, cost: None }
}
