//! Turns pi's lines into facts.

use std::time::Duration;

use super::wire::{Block, CompactionEnd, Message, MessageEnd, Response, Retry, Session, Settled, State, Tokens, Tool};
use crate::engine::failure;
use crate::engine::json::{self, MAX_TEXT_BYTES, Raw, owned};
use crate::engine::{Decoder, call};
use crate::event::Usage;
use crate::event::item::{Cost, Cut, EngineEvent, FailureKind, Reset, TurnEnd, TurnOutcome};
use crate::ids::SessionId;
use crate::process::Exit;

/// Characters of the reason of a retry.
const REASON_CHARS: usize = 200;

/// Kinds of lines that are known and of no use here.
const PASSED_OVER: [&str; 11] = [
    "message_update",
    "message_start",
    "turn_start",
    "turn_end",
    "tool_execution_update",
    "entry_appended",
    "auto_retry_end",
    "compaction_start",
    "queue_update",
    "session_info_changed",
    "thinking_level_changed",
];

/// The decoder of one process.
#[derive(Default)]
pub(super) struct PiDecoder {
    window: Option<u64>,
    turn: TurnState,
}

/// What is kept of the turn that is running.
#[derive(Default)]
struct TurnState {
    phase: TurnPhase,
    /// How the agent's last message ended.
    last: Option<LastMessage>,
    text: Option<String>,
    usage: Option<Usage>,
    /// Dollars of all its requests; `None` once one did not say.
    cost: Option<f64>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum TurnPhase {
    /// A turn is running, or the first has not begun.
    #[default]
    Open,
    /// The agent stopped. The last event of version 0.73; later ones settle after it.
    AgentEnded,
    /// One ended, and nothing came since.
    Closed,
}

struct LastMessage {
    stop_reason: String,
    error: String,
}

impl Decoder for PiDecoder {
    fn line(&mut self, line: &[u8], out: &mut Vec<EngineEvent>) {
        if json::read_line(line, |kind, json| self.event(kind, json, out)).is_none() {
            out.push(EngineEvent::Noise { bytes: line.len() });
        }
    }

    fn end(&mut self, exit: &Exit, stderr_tail: &[u8]) -> Option<TurnOutcome> {
        let turn = self.close();
        let failed = turn.last.as_ref().is_some_and(|last| last.stop_reason == "error");
        let end = match turn.phase {
            TurnPhase::Closed => return None,
            TurnPhase::AgentEnded => turn.end(),
            TurnPhase::Open if failed => turn.end(),
            TurnPhase::Open => TurnEnd::Failed(failure::without_closing_event(*exit, stderr_tail)),
        };
        Some(turn.outcome(end))
    }
}

impl PiDecoder {
    /// Reads a line of a known type; `None` when it is not of that type's shape.
    fn event(&mut self, kind: &str, json: &str, out: &mut Vec<EngineEvent>) -> Option<()> {
        match kind {
            "message_end" => self.message(&serde_json::from_str::<MessageEnd<'_>>(json).ok()?.message, out),
            "tool_execution_start" => {
                let tool: Tool<'_> = serde_json::from_str(json).ok()?;
                out.push(EngineEvent::ToolStarted {
                    call: owned(tool.call),
                    tool: owned(tool.name),
                    summary: call::summary(tool.args),
                    arguments: call::arguments(tool.args),
                });
            }
            "tool_execution_end" => {
                let tool: Tool<'_> = serde_json::from_str(json).ok()?;
                out.push(EngineEvent::ToolEnded {
                    call: owned(tool.call),
                    ok: tool.is_error != Some(true),
                    first_line: call::result_line(tool.result.and_then(|result| result.content)),
                });
            }
            "session" => {
                let session: Session<'_> = serde_json::from_str(json).ok()?;
                session_seen(session.id, None, out);
            }
            "agent_start" => self.turn.phase = TurnPhase::Open,
            "agent_end" => self.turn.phase = TurnPhase::AgentEnded,
            "agent_settled" => self.settled(&serde_json::from_str(json).ok()?, out),
            "auto_retry_start" => retrying(&serde_json::from_str(json).ok()?, out),
            "compaction_end" => self.compacted(serde_json::from_str(json).ok()?, out),
            "response" => self.response(&serde_json::from_str(json).ok()?, out),
            other if PASSED_OVER.contains(&other) => {}
            other => out.push(EngineEvent::Unknown { kind: other.to_owned() }),
        }
        Some(())
    }

    fn message(&mut self, message: &Message<'_>, out: &mut Vec<EngineEvent>) {
        if json::name(message.role).as_deref() != Some("assistant") {
            return;
        }
        self.turn.phase = TurnPhase::Open;
        let tokens = json::read::<Tokens>(message.usage);
        self.turn.count(tokens.as_ref());
        let stop_reason = owned(message.stop_reason);
        let answered = !matches!(stop_reason.as_str(), "error" | "aborted");
        let error = json::string(message.error, MAX_TEXT_BYTES).unwrap_or_default();
        self.turn.last = Some(LastMessage { stop_reason, error });
        if !answered {
            return;
        }
        let usage = tokens.map(|tokens| tokens.usage()).filter(|usage| !usage.is_zero());
        out.push(EngineEvent::Request { usage, window: self.window });
        let text = message_text(message.content);
        if !text.is_empty() {
            self.turn.text = Some(text.clone());
            out.push(EngineEvent::Text(text));
        }
    }

    fn compacted(&mut self, line: CompactionEnd<'_>, out: &mut Vec<EngineEvent>) {
        let Some(result) = line.result else { return };
        self.turn.count(json::read::<Tokens>(result.usage).as_ref());
        out.push(EngineEvent::Compacted { before: result.before.0, after: result.after.0 });
    }

    fn settled(&mut self, line: &Settled, out: &mut Vec<EngineEvent>) {
        let turn = self.close();
        let end = if line.aborted == Some(true) { TurnEnd::Cut(Cut::Interrupted) } else { turn.end() };
        out.push(EngineEvent::TurnEnded(turn.outcome(end)));
    }

    fn response(&mut self, line: &Response<'_>, out: &mut Vec<EngineEvent>) {
        match (json::name(line.command).unwrap_or_default().as_ref(), line.success) {
            ("get_state", Some(true)) => {
                let Some(state) = json::read::<State<'_>>(line.data) else { return };
                let model = state.model.as_ref().map(|model| format!("{}/{}", owned(model.provider), owned(model.id)));
                session_seen(state.session, model, out);
                let window = state.model.and_then(|model| model.window.0);
                if window.is_some() && window != self.window {
                    self.window = window;
                    out.extend(window.map(EngineEvent::Window));
                }
            }
            // A prompt that was not taken has no other end.
            ("prompt", Some(false)) => {
                let turn = self.close();
                let said = json::string(line.error, MAX_TEXT_BYTES).unwrap_or_default();
                let failure = failure::of_text(&said);
                out.push(EngineEvent::TurnEnded(turn.outcome(TurnEnd::Failed(failure))));
            }
            _ => {}
        }
    }

    fn close(&mut self) -> TurnState {
        std::mem::replace(&mut self.turn, TurnState { phase: TurnPhase::Closed, ..TurnState::default() })
    }
}

impl TurnState {
    fn count(&mut self, tokens: Option<&Tokens>) {
        let Some(tokens) = tokens.filter(|tokens| !tokens.usage().is_zero()) else { return };
        self.cost = match self.usage {
            None => tokens.dollars(),
            Some(_) => self.cost.zip(tokens.dollars()).map(|(sum, more)| sum + more),
        };
        self.usage = Some(self.usage.unwrap_or_default() + tokens.usage());
    }

    /// How a turn ended that the agent itself closed.
    fn end(&self) -> TurnEnd {
        let Some(last) = &self.last else {
            let said = "ended without an answer of the model";
            return TurnEnd::Failed(failure::failure(FailureKind::Crash, said, Reset::Unknown));
        };
        match last.stop_reason.as_str() {
            "error" => TurnEnd::Failed(failure::of_text(&last.error)),
            "aborted" => TurnEnd::Cut(Cut::Interrupted),
            "length" => TurnEnd::Cut(Cut::OutputLimit),
            _ => TurnEnd::Completed,
        }
    }

    fn outcome(self, end: TurnEnd) -> TurnOutcome {
        TurnOutcome { end, text: self.text, usage: self.usage, cost: self.cost.map(Cost::Turn) }
    }
}

fn session_seen(id: Raw<'_>, model: Option<String>, out: &mut Vec<EngineEvent>) {
    if let Some(session) = json::name(id).filter(|id| !id.is_empty()) {
        out.push(EngineEvent::Session { session: SessionId::new(session), model, version: None });
    }
}

fn retrying(line: &Retry<'_>, out: &mut Vec<EngineEvent>) {
    out.push(EngineEvent::Retrying {
        attempt: u32::try_from(line.attempt.or_zero()).unwrap_or(u32::MAX),
        delay: line.delay_ms.0.map(Duration::from_millis),
        reason: json::first_line(line.error_message, REASON_CHARS).unwrap_or_default(),
    });
}

/// The text blocks of a message, joined as pi joins them.
fn message_text(content: Raw<'_>) -> String {
    let blocks: Vec<Block<'_>> = json::read(content).unwrap_or_default();
    let texts = blocks.iter().filter(|block| json::name(block.kind).as_deref() == Some("text"));
    let mut text = String::new();
    for block in texts {
        let room = MAX_TEXT_BYTES - text.len();
        text.push_str(&json::string(block.text, room).unwrap_or_default());
    }
    text
}
