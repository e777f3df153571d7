//! A run as OpenTelemetry spans: the JSON bodies of OTLP/HTTP requests. Sending them is the caller's.
//!
//! One trace a run. A stretch is a span, its phases are children, turns their children, tool calls theirs;
//! rotations, cache breaks, deaths and relays are events of the phase. Ids are derived from the run and the record,
//! so that a run exported twice is the same trace and a live run can be exported piece by piece. No prompt,
//! answer, argument or path leaves: names, figures and verdicts do.
//!
//! Names: OpenTelemetry semantic conventions for generative AI 1.41.0 (status: development). There, cached tokens
//! count as input tokens. Encoding: OTLP 1.x with JSON, ids in hexadecimal, 64-bit numbers as text.

mod wire;

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::{subject, words};
use crate::event::{
    AgentEnd, AgentStart, Event, PhaseEnd, PhaseStart, PhaseStatus, Record, RunEnd, RunStart, ToolCall,
};
use crate::event::{Outcome, TurnStatus};
use crate::ids::{AgentName, EngineName, PhaseName, RunId};
use wire::{Attribute, Moment, Span, SpanId, Status, attribute};

/// Spans of one request at most.
pub const BATCH: usize = 512;
/// Events of one span at most; more are counted.
const MOMENTS: usize = 128;

/// The fold that makes spans of records.
#[derive(Debug, Default)]
pub struct SpanFold {
    run: RunId,
    version: String,
    stretches: u32,
    last: DateTime<Utc>,
    stretch: Option<Span>,
    phases: BTreeMap<PhaseName, Span>,
    turns: BTreeMap<AgentName, Span>,
    done: Vec<Span>,
}

impl SpanFold {
    /// Takes in the next record.
    pub fn push(&mut self, record: &Record) {
        if self.stretches == 0 {
            self.run = record.run.clone();
        }
        if matches!(record.event, Event::RunStart(_)) {
            self.close();
        }
        self.last = record.ts;
        match &record.event {
            Event::RunStart(start) => self.run_started(record, start),
            Event::RunEnd(end) => self.run_ended(end),
            Event::PhaseStart(start) => self.phase_started(record, start),
            Event::PhaseEnd(end) => self.phase_ended(record, end),
            Event::AgentStart(start) => self.turn_started(record, start),
            Event::AgentEnd(end) => self.turn_ended(record, end),
            Event::ToolCall(call) => self.tool_called(record, call),
            Event::Session(seen) => {
                if let Some(turn) = self.turns.get_mut(&seen.agent) {
                    turn.set(attribute("gen_ai.conversation.id", seen.session_id.as_str()));
                }
            }
            Event::Check(_)
            | Event::GateFail(_)
            | Event::EngineError(_)
            | Event::EngineRetry(_)
            | Event::EngineRelay(_)
            | Event::CacheBreak(_)
            | Event::Waiting(_)
            | Event::SessionRotation(_)
            | Event::SessionRetired(_)
            | Event::PermissionRetry(_)
            | Event::Committed(_)
            | Event::BudgetWarning(_)
            | Event::Compacted(_)
            | Event::PrefixChanged(_)
            | Event::ContextPruned(_) => self.moment(record),
            Event::CheckStart(_)
            | Event::Context(_)
            | Event::Envelope(_)
            | Event::GatePass(_)
            | Event::EngineFallback(_)
            | Event::EngineContinuation(_)
            | Event::Approval(_)
            | Event::Verdict(_)
            | Event::Message(_)
            | Event::Error(_)
            | Event::RotationStoodDown(_)
            | Event::UsageUnknown(_)
            | Event::PhaseReused(_)
            | Event::StepSkipped(_)
            | Event::TreeChanged(_)
            | Event::ExternalChange(_)
            | Event::BoundedContinuation(_)
            | Event::SessionEvicted(_)
            | Event::ApiKeyBilling(_) => {}
        }
    }

    /// Ends what a log that stopped without a word left open: at its last record, as an error.
    pub fn close(&mut self) {
        let open = std::mem::take(&mut self.turns).into_values().chain(std::mem::take(&mut self.phases).into_values());
        let open: Vec<Span> = open.chain(self.stretch.take()).collect();
        for mut span in open {
            span.end(self.last, Status::Error("no end was recorded".to_owned()));
            self.done.push(span);
        }
    }

    /// Spans that ended and were not handed out yet.
    pub fn waiting(&self) -> usize {
        self.done.len()
    }

    /// The next request body of spans that have ended, at most [`BATCH`]; `None` when all were handed out.
    pub fn batch(&mut self) -> Option<Value> {
        if self.done.is_empty() {
            return None;
        }
        let spans: Vec<Span> = self.done.drain(..self.done.len().min(BATCH)).collect();
        Some(wire::request(&self.run, &self.version, &spans))
    }

    fn stretch_id(&self) -> SpanId {
        SpanId::of(&self.run, &format!("stretch {}", self.stretches))
    }

    fn phase_id(&self, phase: &PhaseName) -> Option<SpanId> {
        self.phases.get(phase).map(|span| span.id)
    }

    fn run_started(&mut self, record: &Record, start: &RunStart) {
        self.stretches += 1;
        self.version.clone_from(&start.fia_version);
        let name = format!("invoke_workflow {}", start.workflow);
        let mut span = Span::new(self.stretch_id(), None, name, record.ts);
        span.set(attribute("gen_ai.operation.name", "invoke_workflow"));
        span.set(attribute("gen_ai.workflow.name", start.workflow.as_str()));
        span.set(attribute("fia.run", record.run.as_str()));
        span.set(attribute("fia.stretch", u64::from(self.stretches)));
        self.stretch = Some(span);
    }

    fn run_ended(&mut self, end: &RunEnd) {
        let Some(mut span) = self.stretch.take() else { return };
        self.close();
        span.set(attribute("fia.outcome", end.outcome.as_str()));
        span.extend(usage(end.tokens));
        span.extend(end.cost_usd.map(|cost| attribute("fia.cost_usd", cost)));
        let met = end.outcome == Outcome::GoalMet;
        let status = if met { Status::Ok } else { Status::Error(words::outcome_words(end.outcome.as_str())) };
        span.end(self.last, status);
        self.done.push(span);
    }

    fn phase_started(&mut self, record: &Record, start: &PhaseStart) {
        let Some(phase) = &record.phase else { return };
        let id = SpanId::of(&self.run, &format!("record {}", record.seq));
        let mut span = Span::new(id, Some(self.stretch_id()), format!("phase {}", start.step), record.ts);
        span.set(attribute("fia.phase", phase.as_str()));
        span.set(attribute("fia.kind", start.kind.as_str()));
        span.set(attribute("fia.attempt", u64::from(start.attempt)));
        span.extend(start.agent.as_ref().map(|agent| attribute("gen_ai.agent.name", agent.as_str())));
        self.phases.insert(phase.clone(), span);
    }

    fn phase_ended(&mut self, record: &Record, end: &PhaseEnd) {
        let Some(mut span) = record.phase.as_ref().and_then(|phase| self.phases.remove(phase)) else { return };
        let (word, status) = match end.status {
            PhaseStatus::Success => ("success", Status::Ok),
            PhaseStatus::Red => ("red", Status::Unset),
            PhaseStatus::Failed => ("failed", Status::Error("failed".to_owned())),
            PhaseStatus::Stopped => ("stopped", Status::Unset),
        };
        span.set(attribute("fia.status", word));
        span.end(record.ts, status);
        self.done.push(span);
    }

    fn turn_started(&mut self, record: &Record, start: &AgentStart) {
        let parent = record.phase.as_ref().and_then(|phase| self.phase_id(phase)).unwrap_or_else(|| self.stretch_id());
        let id = SpanId::of(&self.run, &format!("record {}", record.seq));
        let mut span = Span::new(id, Some(parent), format!("invoke_agent {}", start.agent), record.ts);
        span.set(attribute("gen_ai.operation.name", "invoke_agent"));
        span.set(attribute("gen_ai.agent.name", start.agent.as_str()));
        span.set(attribute("gen_ai.provider.name", provider(start.engine, &start.model)));
        span.extend((!start.model.is_empty()).then(|| attribute("gen_ai.request.model", start.model.as_str())));
        span.extend(start.session_id.as_ref().map(|id| attribute("gen_ai.conversation.id", id.as_str())));
        span.set(attribute("fia.engine", start.engine.as_str()));
        span.set(attribute("fia.leg", u64::from(start.leg)));
        span.set(attribute("fia.turn", u64::from(start.turn)));
        if let Some(mut lost) = self.turns.insert(start.agent.clone(), span) {
            lost.end(record.ts, Status::Error("no end was recorded".to_owned()));
            self.done.push(lost);
        }
    }

    fn turn_ended(&mut self, record: &Record, end: &AgentEnd) {
        let Some(mut span) = self.turns.remove(&end.agent) else { return };
        span.extend(usage(end.usage));
        span.set(attribute("fia.requests", u64::from(end.requests)));
        span.extend(end.context_tokens.map(|tokens| attribute("fia.context_tokens", tokens)));
        span.extend(end.cost_usd.map(|cost| attribute("fia.cost_usd", cost)));
        let status = match end.ended {
            TurnStatus::Completed => Status::Ok,
            TurnStatus::Cut | TurnStatus::Stopped => Status::Unset,
            TurnStatus::Failed => {
                span.set(attribute("error.type", "engine_failed"));
                Status::Error("the engine failed".to_owned())
            }
        };
        span.end(record.ts, status);
        self.done.push(span);
    }

    fn tool_called(&mut self, record: &Record, call: &ToolCall) {
        let parent = self.turns.get(&call.agent).map_or_else(|| self.stretch_id(), |turn| turn.id);
        let took = TimeDelta::try_milliseconds(i64::try_from(call.elapsed_ms).unwrap_or(0)).unwrap_or_default();
        let began = record.ts.checked_sub_signed(took).unwrap_or(record.ts);
        let id = SpanId::of(&self.run, &format!("record {}", record.seq));
        let mut span = Span::new(id, Some(parent), format!("execute_tool {}", call.tool), began);
        span.set(attribute("gen_ai.operation.name", "execute_tool"));
        span.set(attribute("gen_ai.tool.name", call.tool.as_str()));
        span.set(attribute("gen_ai.agent.name", call.agent.as_str()));
        let status = if call.ok {
            Status::Ok
        } else {
            span.set(attribute("error.type", "tool_failed"));
            Status::Error("the tool failed".to_owned())
        };
        span.end(record.ts, status);
        self.done.push(span);
    }

    /// Adds an event to the phase, or to the stretch outside of one.
    fn moment(&mut self, record: &Record) {
        let phase = record.phase.as_ref().and_then(|phase| self.phases.get_mut(phase));
        let Some(span) = phase.or(self.stretch.as_mut()) else { return };
        span.moment(Moment { at: record.ts, name: moment_name(&record.event), attributes: figures(&record.event) });
    }
}

fn moment_name(event: &Event) -> String {
    let name = if event.kind() == "log" { event.name() } else { event.kind() };
    format!("fia.{name}")
}

/// What of an event is a figure or a word of fia's own; texts stay here.
fn figures(event: &Event) -> Vec<Attribute> {
    let mut figures: Vec<Attribute> = Vec::new();
    figures.extend(subject::agent_of(event).map(|agent| attribute("gen_ai.agent.name", agent.as_str())));
    if let Event::SessionRotation(rotation) = event {
        figures.extend(rotation.context_tokens.map(|tokens| attribute("fia.context_tokens", tokens)));
        figures.push(attribute("fia.ceiling", rotation.cap));
    } else if let Event::CacheBreak(broken) = event {
        figures.push(attribute("fia.expected_tokens", broken.expected));
        figures.push(attribute("fia.seen_tokens", broken.seen));
        figures.push(attribute("fia.cause", words::break_cause(broken.cause)));
    } else if let Event::EngineError(error) = event {
        figures.push(attribute("error.type", error.kind.as_str()));
    } else if let Event::Check(check) = event {
        figures.push(attribute("fia.check", check.check.as_str()));
        figures.push(attribute("fia.passed", check.passed));
    }
    figures
}

/// Tokens as the conventions count them: input includes what came from the cache or went into it.
fn usage(usage: Option<crate::event::Usage>) -> Vec<Attribute> {
    usage.map_or_else(Vec::new, |usage| {
        vec![
            attribute("gen_ai.usage.input_tokens", usage.context()),
            attribute("gen_ai.usage.output_tokens", usage.output),
            attribute("gen_ai.usage.cache_read.input_tokens", usage.cache_read),
            attribute("gen_ai.usage.cache_creation.input_tokens", usage.cache_write),
        ]
    })
}

/// The provider behind an engine, as far as its model's name says so.
fn provider(engine: EngineName, model: &str) -> &str {
    match engine {
        EngineName::Claude => "anthropic",
        EngineName::Pi => match model.split_once('/') {
            Some(("openai-codex", _)) => "openai",
            Some((provider, _)) => provider,
            None => "pi",
        },
        EngineName::Cursor | EngineName::Scripted => engine.as_str(),
    }
}

#[cfg(test)]
mod tests;
