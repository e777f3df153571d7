//! One turn: a process started, recorded, told its prompt, read to its closing event, and ended.

mod spend;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use spend::{RequestEnd, Tally};

use super::prompt::hexadecimal;
use super::stop::Urgency;
use super::wait::Asked;
use super::{Level, Run, RunError, millis};
use crate::engine::failure;
use crate::engine::{self, Decoder, Engine, Launch, ProcessKind, SessionChoice, Turn};
use crate::event::item::{Cost, EngineEvent, Failure, Reset, TurnEnd, TurnOutcome};
use crate::event::{
    AgentEnd, AgentStart, Compacted, Event, FailureKind, LeaseKind, Order, Outcome, SessionSeen, ToolCall, TurnStatus,
    Unreported,
};
use crate::host::Mark;
use crate::ids::{AgentName, SessionId};
use crate::lines::RawLine;
use crate::plan::EngineChoice;
use crate::process::{Child, Ended, Finish, Keep, Limits};

/// What a turn is to do.
pub(super) struct TurnOrder<'a> {
    pub(super) order: &'a Order,
    pub(super) agent: &'a AgentName,
    pub(super) leg: u32,
    pub(super) turn: u32,
    pub(super) choice: &'a EngineChoice,
    pub(super) session: SessionChoice,
    pub(super) prompt: String,
    /// When the leg has to be over.
    pub(super) deadline: Option<Instant>,
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
        let engine = engine::for_name(asked.choice.engine);
        let system = self.system_prompt(asked.agent)?;
        self.save_prompt(&asked)?;
        let mut launch = self.launch(&asked, &system);
        self.attach_pruning(&asked, &mut launch)?;
        let spec = match engine.launch(&launch) {
            Ok(spec) => spec,
            Err(error) => return Ok(refused(format!("{error}; {}", error.hint))),
        };
        let keep = Keep {
            stdout: Some(self.place.dir.open_append(&Self::leg_file(&asked, "transcript.jsonl"))?),
            stderr: Some(self.place.dir.open_append(&Self::leg_file(&asked, "stderr"))?),
        };
        let mut child = match Child::spawn(&spec, keep, Limits::default()) {
            Ok(child) => child,
            Err(error) => {
                let said = format!("cannot start {}: {error}; {}", asked.choice.engine, error.hint());
                return Ok(refused(said));
            }
        };
        let mut live = Live::new(self, &asked, engine);
        self.record_start(&asked, &child, &system)?;
        self.name_billing(&asked, engine.facts(), &spec)?;
        self.sync()?;
        let turn = Turn {
            text: asked.prompt.clone(),
            system,
            first: asked.session == SessionChoice::Fresh && asked.turn == 1,
            process: ProcessKind::OneShot,
        };
        child.send(engine.prompt(&turn));
        child.close_stdin();
        let halt = live.read(&mut child).await?;
        let how = match halt {
            Some(Halt::Kill) => Finish::KillNow,
            Some(_) => Finish::Stop,
            None => Finish::Closing,
        };
        let ended = child.finish(how, &mut |_| {}).await;
        live.close(halt.as_ref(), &ended)
    }

    pub(super) fn launch(&self, asked: &TurnOrder<'_>, system: &str) -> Launch {
        let agent = &self.plan.agents[asked.agent];
        let settings = self.plan.engines.get(&asked.choice.engine).cloned().unwrap_or_default();
        let agent_dir = self.place.dir.agent(asked.agent);
        Launch {
            cwd: self.place.top.clone(),
            run_dir: self.place.dir.path().to_owned(),
            system_file: agent_dir.join("system.md"),
            agent_dir,
            program: settings.program,
            args: settings.args,
            env: settings.env.into_iter().collect(),
            model: asked.choice.model.clone(),
            level: self.level(asked),
            tools: agent.tools.clone(),
            extensions: agent.extensions.clone(),
            permission_mode: settings.permission_mode,
            system: system.to_owned(),
            session: asked.session.clone(),
            process: ProcessKind::OneShot,
            max_turns: None,
            base_url: None,
            phase: asked.order.phase.to_string(),
            leg: asked.leg,
            turn: asked.turn,
        }
    }

    /// Effort or thinking of a phase.
    fn level(&self, asked: &TurnOrder<'_>) -> Option<String> {
        self.plan.agents[asked.agent].level(asked.choice, asked.order.label()).map(str::to_owned)
    }

    /// A file of a leg, relative to the run directory.
    fn leg_file(asked: &TurnOrder<'_>, what: &str) -> PathBuf {
        PathBuf::from(format!("agents/{}/{}.{}.{what}", asked.agent, asked.order.phase, asked.leg))
    }

    fn save_prompt(&self, asked: &TurnOrder<'_>) -> Result<(), RunError> {
        let file = Self::leg_file(asked, &format!("{}.user.md", asked.turn));
        Ok(self.place.dir.save(&file, asked.prompt.as_bytes())?)
    }

    fn record_start(&self, asked: &TurnOrder<'_>, child: &Child, system: &str) -> Result<(), RunError> {
        let mark = Mark::new(child.identity()).map_err(|source| RunError::File {
            action: "read the boot id of this machine for",
            path: self.place.dir.path().to_owned(),
            source,
        })?;
        let session_id = match &asked.session {
            SessionChoice::Fresh => None,
            SessionChoice::Resume(session) => Some(session.clone()),
        };
        let start = AgentStart {
            agent: asked.agent.clone(),
            leg: asked.leg,
            turn: asked.turn,
            engine: asked.choice.engine,
            model: asked.choice.model.clone(),
            level: self.level(asked),
            lease: if session_id.is_some() { LeaseKind::Restored } else { LeaseKind::Cold },
            session_id,
            system_sha256: hexadecimal(&Sha256::digest(system.as_bytes())),
            host: mark.host,
            boot_id: mark.boot_id,
            pid: mark.pid,
            process_started: mark.process_started,
            prompt_sha256: hexadecimal(&Sha256::digest(asked.prompt.as_bytes())),
        };
        self.record(Some(&asked.order.phase), Event::AgentStart(start))
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
    decoder: Box<dyn Decoder>,
    events: Vec<EngineEvent>,
    started: Instant,
    session: Option<SessionId>,
    /// The model as the engine calls it, by which it is priced; until then as configured.
    model: String,
    window: Option<u64>,
    tally: Tally,
    tools: BTreeMap<String, (Instant, String, String)>,
    outcome: Option<TurnOutcome>,
    /// The budget that a request of this turn used up, and whether that request is over.
    over: Option<(Asked, RequestEnd)>,
}

impl<'a> Live<'a> {
    fn new(run: &'a Run, asked: &'a TurnOrder<'a>, engine: &'static dyn Engine) -> Self {
        let session = match &asked.session {
            SessionChoice::Resume(session) => Some(session.clone()),
            SessionChoice::Fresh => None,
        };
        run.digest_prompt(asked.agent, &asked.order.phase, &asked.prompt);
        Self {
            run,
            asked,
            decoder: engine.decoder(),
            events: Vec::new(),
            started: Instant::now(),
            session,
            model: asked.choice.model.clone(),
            window: None,
            tally: Tally::NOTHING,
            tools: BTreeMap::new(),
            outcome: None,
            over: None,
        }
    }

    /// Reads until the closing event, the end of the stream, a limit or a request to stop.
    async fn read(&mut self, child: &mut Child) -> Result<Option<Halt>, RunError> {
        let idle = super::agent::minutes(self.run.stop.idle_timeout_minutes);
        let (mut level, mut news) = (self.run.bells.level.clone(), self.run.bells.news.clone());
        let mut quiet_since = Instant::now();
        let timer = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        while self.outcome.is_none() {
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
                line = child.line() => {
                    self.run.record_pruning(self.asked)?;
                    quiet_since = Instant::now();
                    match line {
                        Some(RawLine::Line(line)) => {
                            self.decoder.line(line, &mut self.events);
                            self.take_events()?;
                            if let (Some((over, RequestEnd::Over)), None) = (&self.over, &self.outcome) {
                                return Ok(Some(Halt::Asked(over.clone())));
                            }
                        }
                        Some(RawLine::TooLong { .. }) => {}
                        None => return Ok(None),
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
        Ok(None)
    }

    fn take_events(&mut self) -> Result<(), RunError> {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            self.take(event)?;
        }
        self.events = events;
        Ok(())
    }

    fn record(&self, event: Event) -> Result<(), RunError> {
        self.run.record(Some(&self.asked.order.phase), event)
    }

    fn take(&mut self, event: EngineEvent) -> Result<(), RunError> {
        match event {
            EngineEvent::Session { session, model, .. } => {
                self.model = model.unwrap_or_else(|| self.asked.choice.model.clone());
                self.saw_session(session)
            }
            EngineEvent::Request { usage, window } => self.request(usage, window),
            EngineEvent::Window(window) => {
                self.window = Some(window);
                Ok(())
            }
            EngineEvent::Compacted { before, after } => {
                self.tally.context = None;
                self.record(Event::Compacted(Compacted { agent: self.asked.agent.clone(), before, after }))
            }
            EngineEvent::Text(text) => {
                self.run.with_digest(self.asked.agent, |digest| digest.text(&text));
                Ok(())
            }
            EngineEvent::ToolStarted { call, tool, summary, arguments } => {
                self.run.with_digest(self.asked.agent, |digest| digest.tool(&tool, &arguments));
                self.tools.insert(call, (Instant::now(), tool, summary));
                self.request_over();
                Ok(())
            }
            EngineEvent::ToolEnded { call, ok, first_line } => self.tool_ended(&call, ok, &first_line),
            EngineEvent::TurnEnded(outcome) => {
                // Calls that were cut off with the turn are not open any more.
                self.tools.clear();
                self.outcome = Some(outcome);
                Ok(())
            }
            EngineEvent::Retrying { .. }
            | EngineEvent::Reply(_)
            | EngineEvent::Unknown { .. }
            | EngineEvent::Noise { .. } => Ok(()),
        }
    }

    fn saw_session(&mut self, session: SessionId) -> Result<(), RunError> {
        if self.session.as_ref() == Some(&session) {
            return Ok(());
        }
        self.session = Some(session.clone());
        self.record(Event::Session(SessionSeen {
            agent: self.asked.agent.clone(),
            engine: self.asked.choice.engine,
            model: self.asked.choice.model.clone(),
            session_id: session,
            new: true,
        }))
    }

    fn tool_ended(&mut self, call: &str, ok: bool, first_line: &str) -> Result<(), RunError> {
        self.run.with_digest(self.asked.agent, |digest| digest.result(ok, first_line));
        let Some((started, tool, summary)) = self.tools.remove(call) else { return Ok(()) };
        let elapsed_ms = millis(started.elapsed());
        let summary = self.run.mask.text(&summary).into_owned();
        self.record(Event::ToolCall(ToolCall { summary, agent: self.asked.agent.clone(), tool, ok, elapsed_ms }))
    }

    /// Names the end of the turn and writes it down.
    fn close(mut self, halt: Option<&Halt>, ended: &Ended) -> Result<Turned, RunError> {
        self.run.record_pruning(self.asked)?;
        let told = self.outcome.take().or_else(|| self.decoder.end(&ended.exit, &ended.stderr_tail));
        let mut outcome = told.unwrap_or_else(|| {
            let failure = failure::without_closing_event(ended.exit, &ended.stderr_tail);
            TurnOutcome { end: TurnEnd::Failed(failure), text: None, usage: None, cost: None }
        });
        // A resume that failed before any answer says that the session is at fault, not the engine.
        if let (TurnEnd::Failed(failure), SessionChoice::Resume(_), 0) =
            (&outcome.end, &self.asked.session, self.tally.requests)
        {
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
            cache_hit_ratio: ratio(self.tally.sum.cache_read, self.tally.sum.context()),
            rewrite_factor: ratio(self.tally.sum.cache_write, self.tally.largest),
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

#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
