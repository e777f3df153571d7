//! Turns claude's lines into facts.

use std::borrow::Cow;
use std::ops::Add as _;
use std::time::Duration;

use super::wire::{Assistant, Block, ModelUsage, Models, RateLimit, System, TurnResult, User};
use crate::engine::failure::{self, Evidence, reset};
use crate::engine::json::{self, MAX_TEXT_BYTES, Raw, owned};
use crate::engine::{Decoder, call};
use crate::event::Usage;
use crate::event::item::{Cost, Cut, EngineEvent, Failure, Reset, TurnEnd, TurnOutcome};
use crate::ids::SessionId;
use crate::process::Exit;

/// The model that messages name which the CLI made up itself.
const SYNTHETIC: &str = "<synthetic>";

/// What the CLI notes in the conversation when it was asked to stop.
const INTERRUPTED: &str = "[Request interrupted by user";

/// Kinds of lines, and subtypes of `system`, that are known and of no use here.
const PASSED_OVER: [&str; 4] = ["stream_event", "control_response", "tool_progress", "auth_status"];
const SYSTEM_PASSED_OVER: [&str; 14] = [
    "status",
    "thinking_tokens",
    "permission_denied",
    "model_fallback",
    "model_refusal_no_fallback",
    "informational",
    "task_started",
    "task_progress",
    "task_updated",
    "task_notification",
    "background_tasks_changed",
    "ui_invalidate",
    "hook_started",
    "hook_response",
];

/// The decoder of one process.
#[derive(Default)]
pub(super) struct ClaudeDecoder {
    session: String,
    model: String,
    window: Option<u64>,
    turn: TurnState,
}

/// What is kept of the turn that is running.
#[derive(Default)]
struct TurnState {
    phase: TurnPhase,
    /// Id of the last message of the main thread, and of a sub-agent.
    message: String,
    side_message: String,
    /// What its requests reported, the only figure when no closing event comes.
    seen: Option<Usage>,
    text: Option<String>,
    /// The error on the last line that the CLI made up: its name and its text.
    error: Option<(String, String)>,
    /// A plan limit that refused a request, and when it ends.
    rejected: Option<Reset>,
    interrupted: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum TurnPhase {
    /// A turn is running, or the first has not begun.
    #[default]
    Open,
    /// One ended, and nothing came since.
    Closed,
}

impl Decoder for ClaudeDecoder {
    fn line(&mut self, line: &[u8], out: &mut Vec<EngineEvent>) {
        if json::read_line(line, |kind, json| self.event(kind, json, out)).is_none() {
            out.push(EngineEvent::Noise { bytes: line.len() });
        }
    }

    fn end(&mut self, exit: &Exit, stderr_tail: &[u8]) -> Option<TurnOutcome> {
        let turn = std::mem::replace(&mut self.turn, TurnState { phase: TurnPhase::Closed, ..TurnState::default() });
        if turn.phase == TurnPhase::Closed {
            return None;
        }
        let end = if turn.interrupted {
            TurnEnd::Cut(Cut::Interrupted)
        } else if let Some((_, said)) = &turn.error {
            TurnEnd::Failed(turn.classify(&[], None, said))
        } else if turn.rejected.is_some() {
            TurnEnd::Failed(turn.classify(&[], None, "the plan's limit refused a request"))
        } else {
            TurnEnd::Failed(failure::without_closing_event(*exit, stderr_tail))
        };
        Some(TurnOutcome { end, text: turn.text, usage: turn.seen, cost: None })
    }
}

impl ClaudeDecoder {
    /// Reads a line of a known type; `None` when it is not of that type's shape.
    fn event(&mut self, kind: &str, json: &str, out: &mut Vec<EngineEvent>) -> Option<()> {
        match kind {
            "assistant" => self.assistant(serde_json::from_str(json).ok()?, out),
            "user" => self.user(&serde_json::from_str(json).ok()?, out),
            "system" => self.system(&serde_json::from_str(json).ok()?, out),
            "result" => self.result(serde_json::from_str(json).ok()?, out),
            "rate_limit_event" => self.rate_limit(&serde_json::from_str(json).ok()?),
            other if PASSED_OVER.contains(&other) => {}
            other => out.push(EngineEvent::Unknown { kind: other.to_owned() }),
        }
        Some(())
    }

    fn assistant(&mut self, line: Assistant<'_>, out: &mut Vec<EngineEvent>) {
        let usage = line.message.usage.map(Usage::from).filter(|usage| !usage.is_zero());
        let id = json::name(line.message.id).unwrap_or_default();
        if line.parent_tool_use_id.is_some() {
            if self.turn.side_message != id {
                self.turn.side_message = id.into_owned();
                self.turn.count(usage);
            }
            return;
        }
        self.turn.phase = TurnPhase::Open;
        self.session_seen(line.session_id, out);
        let model = json::name(line.message.model).unwrap_or_default();
        if model == SYNTHETIC {
            if let Some(code) = json::name(line.error) {
                let said = line.message.content.0.first().and_then(|block| json::string(block.text, MAX_TEXT_BYTES));
                self.turn.error = Some((code.into_owned(), said.unwrap_or_default()));
            }
            return;
        }
        self.turn.error = None;
        if self.model != model && !model.is_empty() {
            self.model = model.into_owned();
        }
        // Lines of one call share its id and repeat its usage; a message without an id stands for itself.
        if id.is_empty() || self.turn.message != id {
            self.turn.message = id.into_owned();
            self.turn.count(usage);
            out.push(EngineEvent::Request { usage, window: self.window });
        }
        for block in line.message.content.0 {
            self.block(&block, out);
        }
    }

    fn block(&mut self, block: &Block<'_>, out: &mut Vec<EngineEvent>) {
        match json::name(block.kind).as_deref() {
            Some("text") => {
                if let Some(text) = json::string(block.text, MAX_TEXT_BYTES).filter(|text| !text.is_empty()) {
                    self.turn.text = Some(text.clone());
                    out.push(EngineEvent::Text(text));
                }
            }
            Some("tool_use") => out.push(EngineEvent::ToolStarted {
                call: owned(block.id),
                tool: owned(block.name),
                summary: call::summary(block.input),
                arguments: call::arguments(block.input),
            }),
            _ => {}
        }
    }

    fn user(&mut self, line: &User<'_>, out: &mut Vec<EngineEvent>) {
        if line.parent_tool_use_id.is_some() {
            return;
        }
        self.turn.phase = TurnPhase::Open;
        for block in &line.message.content.0 {
            match json::name(block.kind).as_deref() {
                Some("tool_result") => out.push(EngineEvent::ToolEnded {
                    call: owned(block.tool_use_id),
                    ok: block.is_error != Some(true),
                    first_line: call::result_line(block.content),
                }),
                Some("text") => {
                    let note = json::string(block.text, INTERRUPTED.len()).unwrap_or_default();
                    self.turn.interrupted |= note == INTERRUPTED;
                }
                _ => {}
            }
        }
    }

    fn system(&mut self, line: &System<'_>, out: &mut Vec<EngineEvent>) {
        match json::name(line.subtype).unwrap_or_default().as_ref() {
            "init" => {
                self.turn.phase = TurnPhase::Open;
                self.model = owned(line.model);
                self.session = owned(line.session_id);
                out.push(EngineEvent::Session {
                    session: SessionId::new(self.session.clone()),
                    model: json::name(line.model).map(Cow::into_owned),
                    version: json::name(line.claude_code_version).map(Cow::into_owned),
                });
            }
            "api_retry" => {
                let status = line.error_status.0.map(|status| format!(" ({status})")).unwrap_or_default();
                out.push(EngineEvent::Retrying {
                    attempt: u32::try_from(line.attempt.or_zero()).unwrap_or(u32::MAX),
                    delay: line.retry_delay_ms.0.map(Duration::from_millis),
                    reason: owned(line.error) + &status,
                });
            }
            "compact_boundary" => {
                let sizes = line.compact_metadata.as_ref();
                out.push(EngineEvent::Compacted {
                    before: sizes.and_then(|sizes| sizes.pre_tokens.0),
                    after: sizes.and_then(|sizes| sizes.post_tokens.0),
                });
            }
            other if SYSTEM_PASSED_OVER.contains(&other) => {}
            other => out.push(EngineEvent::Unknown { kind: format!("system/{other}") }),
        }
    }

    fn rate_limit(&mut self, line: &RateLimit<'_>) {
        if json::name(line.rate_limit_info.status).as_deref() == Some("rejected") {
            let at = line.rate_limit_info.resets_at.0.and_then(reset::at_epoch);
            self.turn.rejected = Some(at.map_or(Reset::Unknown, Reset::At));
        }
    }

    fn result(&mut self, line: TurnResult<'_>, out: &mut Vec<EngineEvent>) {
        let subtype = json::name(line.subtype).unwrap_or_default();
        let success = subtype == "success" && line.is_error != Some(true);
        if self.turn.phase == TurnPhase::Closed && !success {
            // Seen after a clean result: an empty error result that is about no turn.
            return;
        }
        self.session_seen(line.session_id, out);
        let turn = std::mem::replace(&mut self.turn, TurnState { phase: TurnPhase::Closed, ..TurnState::default() });
        let models = json::read::<Models>(line.turn_models).filter(|models| !models.is_empty());
        self.window_seen(json::read::<Models>(line.session_models).as_ref(), out);
        let result = json::string(line.result, MAX_TEXT_BYTES).filter(|text| !text.is_empty());
        let (end, text) = if success {
            (TurnEnd::Completed, result.or(turn.text))
        } else {
            let reason = json::name(line.terminal_reason).unwrap_or_default();
            let said = result.or_else(|| errors(line.errors)).unwrap_or_default();
            (turn.failed(&subtype, &reason, line.api_error_status.0, &said), turn.text)
        };
        let by_model =
            models.as_ref().map(|models| models.values().map(ModelUsage::usage).fold(Usage::default(), Usage::add));
        let main_thread = line.usage.map(Usage::from);
        // A failed turn reports zeros whatever its requests cost.
        let usage = by_model.or(main_thread.filter(|usage| !usage.is_zero())).or(turn.seen).or(main_thread);
        let cost = match &models {
            Some(models) => models.values().map(|model| model.cost).sum::<Option<f64>>().map(Cost::Turn),
            None => line.total_cost_usd.map(Cost::SessionTotal),
        };
        out.push(EngineEvent::TurnEnded(TurnOutcome { end, text, usage, cost }));
    }

    fn session_seen(&mut self, session: Raw<'_>, out: &mut Vec<EngineEvent>) {
        let Some(session) = json::name(session).filter(|session| !session.is_empty() && *session != self.session)
        else {
            return;
        };
        self.session = session.into_owned();
        let session = SessionId::new(self.session.clone());
        out.push(EngineEvent::Session { session, model: None, version: None });
    }

    /// Takes the window of the main thread's model; sub-agents may run on another.
    fn window_seen(&mut self, models: Option<&Models>, out: &mut Vec<EngineEvent>) {
        let Some(models) = models else { return };
        let only = || models.values().next().filter(|_| models.len() == 1);
        let Some(window) = models.get(&self.model).or_else(only).and_then(|model| model.window.0) else { return };
        if self.window != Some(window) {
            self.window = Some(window);
            out.push(EngineEvent::Window(window));
        }
    }
}

impl TurnState {
    fn count(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.seen = Some(self.seen.unwrap_or_default() + usage);
        }
    }

    /// How a turn ended whose result is no success.
    fn failed(&self, subtype: &str, reason: &str, status: Option<u64>, said: &str) -> TurnEnd {
        if matches!(subtype, "error_max_turns" | "error_max_budget_usd") {
            return TurnEnd::Cut(Cut::MaxTurns);
        }
        if self.error_code() == Some("max_output_tokens") {
            return TurnEnd::Cut(Cut::OutputLimit);
        }
        if self.interrupted || reason.starts_with("aborted") {
            return TurnEnd::Cut(Cut::Interrupted);
        }
        TurnEnd::Failed(self.classify(&[reason], status, said))
    }

    fn classify(&self, codes: &[&str], status: Option<u64>, text: &str) -> Failure {
        let mut codes = codes.to_vec();
        codes.extend(self.error_code());
        // A refusal of the plan is the cause wherever nothing more telling is named.
        codes.extend(self.rejected.as_ref().map(|_| "rate_limit"));
        let reset = self.rejected.clone().filter(|reset| *reset != Reset::Unknown);
        failure::classify(&Evidence { codes: &codes, status, reset, text })
    }

    fn error_code(&self) -> Option<&str> {
        self.error.as_ref().map(|(code, _)| code.as_str())
    }
}

/// The messages of an error result, one a line.
fn errors(raw: Raw<'_>) -> Option<String> {
    let errors: Vec<&serde_json::value::RawValue> = json::read(raw)?;
    let texts: Vec<String> = errors.into_iter().filter_map(|error| json::string(Some(error), MAX_TEXT_BYTES)).collect();
    Some(texts.join("\n"))
}
