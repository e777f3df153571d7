//! The fold behind every table: what is known of a run after each record.
//!
//! It is what `run.json` holds, so that `runs`, `show` and `phases` need not read the log. A record costs the
//! same however long the log is, and the state grows with phases and agents only. It reports and never decides:
//! a resume reads the log.

#[cfg(test)]
mod tests;
mod turns;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::frame::Frame;
use super::rows::{AgentRow, CheckRow, GateRow, ModelRow, PhaseRow, PhaseState, RunSummary, SkipRow, Wait};
use super::spend::Spend;
use crate::event::{
    Approval, CacheBreak, CheckRun, Committed, EngineError, EngineRelay, Event, GateVerdict, Outcome, PhaseEnd,
    PhaseStart, PhaseStatus, Record, RunEnd, RunStart, StepSkipped, ToolCall, Unreported, Waiting,
};
use crate::ids::{AgentName, PhaseName};

/// Characters of a text that a projection keeps.
const SHORT_CHARS: usize = 200;
/// Lines that it keeps of what a gate found.
const VIOLATIONS: usize = 5;

/// What is known of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Projection {
    /// The run in one row.
    #[serde(flatten)]
    pub run: RunSummary,
    /// Its phases in the order of their first start.
    pub phases: Vec<PhaseRow>,
    /// Steps that were passed over.
    pub skipped: Vec<SkipRow>,
    /// Its agents: those of the plan in roster order.
    pub agents: Vec<AgentRow>,
    /// Engines and models that had a turn.
    pub models: Vec<ModelRow>,
}

impl Projection {
    /// Takes in the next record.
    pub fn push(&mut self, record: &Record) {
        if self.run.events.0 == 0 {
            self.run.run = record.run.clone();
            self.run.started_at = record.ts;
            self.run.stretch_at = record.ts;
        }
        self.run.events = record.seq;
        self.run.updated_at = record.ts;
        if record.is_of_a_stretch() && !matches!(record.event, Event::RunStart(_)) {
            self.run.elapsed_ms = self.run.so_far(record.ts);
        }
        self.apply(record);
    }

    fn apply(&mut self, record: &Record) {
        let phase = record.phase.as_ref();
        match &record.event {
            Event::RunStart(start) => self.run_started(record.ts, start),
            Event::RunEnd(end) => self.run_ended(end),
            Event::PhaseStart(start) => self.phase_started(record, start),
            Event::PhaseEnd(end) => self.phase_ended(phase, end),
            Event::AgentStart(start) => self.turn_started(record, start),
            Event::AgentEnd(end) => self.turn_ended(record, end),
            Event::Session(seen) => self.agent_mut(&seen.agent, record.ts).session_id = Some(seen.session_id.clone()),
            Event::Context(read) => self.context_read(record, read),
            Event::ToolCall(call) => self.tool_called(record, call),
            Event::Check(check) => self.checked(phase, check),
            Event::GatePass(verdict) => self.gate(phase, verdict, true),
            Event::GateFail(verdict) => self.gate(phase, verdict, false),
            Event::EngineError(error) => self.engine_died(error),
            Event::EngineRelay(relay) => self.relayed(record, relay),
            Event::CacheBreak(broken) => self.cache_broke(record, broken),
            Event::Waiting(waiting) => self.waits(record, waiting),
            Event::Approval(approval) => self.approval(approval),
            Event::Verdict(_) => self.verdict_taken(),
            Event::SessionRotation(rotation) => self.rotated(record, rotation),
            Event::SessionRetired(retired) => self.session_left(&retired.agent, record.ts),
            Event::UsageUnknown(unknown) => {
                let agent = self.agent_mut(&unknown.agent, record.ts);
                agent.unmetered |= unknown.what == Unreported::Tokens;
            }
            // What the engine says of it is no reading: the next message brings one (SPEC 6.1).
            Event::Compacted(compacted) => self.agent_mut(&compacted.agent, record.ts).context_tokens = None,
            Event::PhaseReused(reused) => self.phase_reused(&reused.phase),
            Event::StepSkipped(skipped) => self.step_skipped(skipped),
            Event::Committed(committed) => self.committed(committed),
            Event::BudgetWarning(warning) => self.run.last_budget_warning = Some(short(&warning.limit)),
            Event::CheckStart(_)
            | Event::Envelope(_)
            | Event::EngineRetry(_)
            | Event::EngineFallback(_)
            | Event::EngineContinuation(_)
            | Event::Message(_)
            | Event::Error(_)
            | Event::RotationStoodDown(_)
            | Event::TreeChanged(_)
            | Event::PermissionRetry(_)
            | Event::ExternalChange(_)
            | Event::BoundedContinuation(_)
            | Event::PrefixChanged(_)
            | Event::ContextPruned(_)
            | Event::SessionEvicted(_)
            | Event::ApiKeyBilling(_) => {}
        }
    }

    /// The phases that have begun and not ended.
    pub fn running(&self) -> impl Iterator<Item = &PhaseRow> {
        self.phases.iter().filter(|row| row.status == PhaseState::Running)
    }

    /// The phase of this name.
    pub fn phase(&self, name: &PhaseName) -> Option<&PhaseRow> {
        self.phases.iter().rev().find(|row| row.phase == *name)
    }

    /// The agent of this name.
    pub fn agent(&self, name: &AgentName) -> Option<&AgentRow> {
        self.agents.iter().find(|row| row.agent == *name)
    }

    /// What the run has spent, requests of turns that have not ended included.
    pub fn spend_so_far(&self) -> Spend {
        let mut spend = self.run.spend;
        for open in self.agents.iter().filter_map(|agent| agent.open.as_ref()) {
            spend.requests += open.requests;
            spend.tokens = spend.tokens.map(|sum| sum + open.tokens);
            spend.tokens_known += open.tokens;
        }
        spend
    }

    /// The same with turns that have not ended in every sum, for whoever is shown the run from outside: what is known
    /// of them is a lower bound.
    #[must_use]
    pub fn so_far(mut self) -> Self {
        for at in 0..self.agents.len() {
            let agent = &mut self.agents[at];
            let Some(open) = agent.open.clone() else { continue };
            agent.spend.add_open_turn(&open);
            let works = agent.engine.map(|engine| (engine, agent.model.clone().unwrap_or_default()));
            self.run.spend.add_open_turn(&open);
            if let Some((engine, model)) = works {
                ModelRow::find(&mut self.models, engine, &model).spend.add_open_turn(&open);
            }
            if let Some(row) = self.phase_mut(open.phase.as_ref()) {
                row.spend.add_open_turn(&open);
            }
        }
        self
    }

    fn phase_mut(&mut self, name: Option<&PhaseName>) -> Option<&mut PhaseRow> {
        let name = name?;
        self.phases.iter_mut().rev().find(|row| row.phase == *name)
    }

    /// The row of an agent, made when it is not there; the agent was heard of at `ts`.
    fn agent_mut(&mut self, name: &AgentName, ts: DateTime<Utc>) -> &mut AgentRow {
        let at = self.agent_at(name, ts);
        &mut self.agents[at]
    }

    fn agent_at(&mut self, name: &AgentName, ts: DateTime<Utc>) -> usize {
        let at = self.agents.iter().position(|row| row.agent == *name).unwrap_or_else(|| {
            self.agents.push(AgentRow::new(name.clone()));
            self.agents.len() - 1
        });
        self.agents[at].last_at = Some(ts);
        at
    }

    fn run_started(&mut self, ts: DateTime<Utc>, start: &RunStart) {
        let run = &mut self.run;
        if run.stretches == 0 {
            run.workflow = short(&start.workflow);
            run.prompt = short(&start.prompt);
        } else {
            run.recoveries += u32::from(run.outcome.is_some_and(Outcome::is_judged));
            run.elapsed_before_ms = run.elapsed_ms;
            self.settle();
        }
        let run = &mut self.run;
        run.stretches += 1;
        run.stretch_at = ts;
        run.limits.clone_from(&start.limits);
        run.fia_version.clone_from(&start.fia_version);
        run.branch.clone_from(&start.branch);
        run.worktree = start.worktree;
        (run.outcome, run.reason, run.waiting, run.retry_after) = (None, None, None, None);
        (run.approval_open, run.last_budget_warning) = (false, None);
        let mut frame = Frame::default();
        frame.push(start);
        for (name, planned) in frame.agents {
            let mut row = AgentRow::new(name);
            row.ceiling = Some(planned.ceiling);
            if let Some(choice) = planned.choice {
                row.engine = Some(choice.engine);
                row.model = Some(choice.model).filter(|model| !model.is_empty());
            }
            self.agents.push(row);
        }
    }

    fn run_ended(&mut self, end: &RunEnd) {
        self.run.outcome = Some(end.outcome);
        self.run.reason = Some(short(&end.reason));
        self.run.elapsed_ms = self.run.elapsed_before_ms.saturating_add(end.elapsed_ms);
        self.run.waiting = None;
        self.settle();
    }

    fn phase_started(&mut self, record: &Record, start: &PhaseStart) {
        let Some(name) = record.phase.clone() else { return };
        self.run.waiting = None;
        let row = PhaseRow {
            phase: name,
            step: start.step.clone(),
            kind: start.kind.clone(),
            description: short(&start.description),
            agent: start.agent.clone(),
            engine: None,
            model: None,
            level: None,
            lease: None,
            status: PhaseState::Running,
            reason: None,
            attempt: start.attempt,
            legs: 0,
            reused: false,
            started_at: record.ts,
            elapsed_ms: None,
            spend: Spend::default(),
            context_before: None,
            context_after: None,
            context_max: None,
            rotation: None,
            rotations: 0,
            relays: 0,
            cache_breaks: 0,
            checks: Vec::new(),
            gates: Vec::new(),
            last_tool: None,
        };
        match self.phase_mut(Some(&row.phase)) {
            // Another attempt: what the earlier ones spent was spent on this phase too.
            Some(known) => *known = PhaseRow { spend: known.spend, relays: known.relays, ..row },
            None => self.phases.push(row),
        }
    }

    fn phase_ended(&mut self, phase: Option<&PhaseName>, end: &PhaseEnd) {
        // A phase that waits for a limit ends without an outcome and is started again after the wait.
        if end.status != PhaseStatus::Stopped || end.outcome.is_some() {
            self.run.waiting = None;
        }
        if let Some(row) = self.phase_mut(phase) {
            row.status = end.status.into();
            row.elapsed_ms = Some(end.elapsed_ms);
            row.reason = end.reason.as_deref().map(short);
        }
    }

    fn phase_reused(&mut self, phase: &PhaseName) {
        if let Some(row) = self.phase_mut(Some(phase)) {
            row.reused = true;
        }
    }

    fn step_skipped(&mut self, skipped: &StepSkipped) {
        self.skipped.retain(|known| known.step != skipped.step);
        self.skipped.push(SkipRow { step: skipped.step.clone(), when: short(&skipped.when) });
    }

    fn tool_called(&mut self, record: &Record, call: &ToolCall) {
        self.agent_mut(&call.agent, record.ts);
        if let Some(row) = self.phase_mut(record.phase.as_ref()) {
            row.last_tool = Some(short(&format!("{} {}", call.tool, call.summary)));
        }
    }

    fn checked(&mut self, phase: Option<&PhaseName>, check: &CheckRun) {
        if let Some(row) = self.phase_mut(phase) {
            row.checks.retain(|known| known.check != check.check.as_str());
            row.checks.push(CheckRow {
                check: check.check.to_string(),
                passed: check.passed,
                exit: check.exit,
                timed_out_minutes: check.timed_out_minutes,
                log: check.log.clone(),
                elapsed_ms: check.elapsed_ms,
            });
        }
    }

    fn relayed(&mut self, record: &Record, relay: &EngineRelay) {
        self.run.relays += 1;
        self.run.waiting = None;
        self.agent_mut(&relay.agent, record.ts).relays += 1;
        if let Some(row) = self.phase_mut(Some(&relay.phase)) {
            row.relays += 1;
        }
    }

    fn cache_broke(&mut self, record: &Record, broken: &CacheBreak) {
        self.run.cache_breaks += 1;
        self.agent_mut(&broken.agent, record.ts).cache_breaks += 1;
        if let Some(row) = self.phase_mut(record.phase.as_ref()) {
            row.cache_breaks += 1;
        }
    }

    fn waits(&mut self, record: &Record, waiting: &Waiting) {
        self.run.waiting = Some(Wait {
            until: waiting.until,
            reason: short(&waiting.reason),
            agent: waiting.agent.clone(),
            phase: record.phase.clone(),
        });
    }

    fn approval(&mut self, approval: &Approval) {
        self.run.approval_open = matches!(approval, Approval::Asked);
        if !self.run.approval_open {
            self.run.waiting = None;
        }
    }

    fn verdict_taken(&mut self) {
        self.run.verdicts += 1;
        self.run.recoveries += 1;
    }

    fn gate(&mut self, phase: Option<&PhaseName>, verdict: &GateVerdict, passed: bool) {
        if let Some(row) = self.phase_mut(phase) {
            row.gates.retain(|known| known.gate != verdict.gate);
            row.gates.push(GateRow {
                gate: short(&verdict.gate),
                passed,
                attempt: verdict.attempt,
                violations: verdict.violations.iter().take(VIOLATIONS).map(|line| short(line)).collect(),
            });
        }
    }

    fn engine_died(&mut self, error: &EngineError) {
        // Any engine that is back lets the run go on: the earliest counts.
        self.run.retry_after = [self.run.retry_after, error.retry_after].into_iter().flatten().min();
        self.run.last_engine_error = Some(short(&format!("{}: {}", error.engine, error.message)));
    }

    fn committed(&mut self, committed: &Committed) {
        self.run.mixed.clone_from(&committed.mixed);
        self.run.left_out = committed.declared_only.iter().chain(&committed.unfit).cloned().collect();
        if committed.commit.is_some() {
            self.run.commits += 1;
            self.run.commit.clone_from(&committed.commit);
            self.run.commit_branch.clone_from(&committed.branch);
            self.run.committed_paths += committed.paths.len() as u64;
        }
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(SHORT_CHARS) {
        None => text.to_owned(),
        Some((cut, _)) => format!("{}…", &text[..cut]),
    }
}
