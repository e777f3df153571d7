//! Turns cursor-agent's lines into facts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::wire::{Assistant, RunResult, Said, System, Tokens, Tool, ToolCall};
use crate::engine::failure;
use crate::engine::json::{self, MAX_TEXT_BYTES, Raw, owned};
use crate::engine::{Decoder, call};
use crate::event::Usage;
use crate::event::item::{EngineEvent, TurnEnd, TurnOutcome};
use crate::ids::SessionId;
use crate::process::Exit;

/// Bytes kept of what it prints between its events: some builds put the reason of a failure there.
const ASIDE_BYTES: usize = 2048;

/// Kinds of lines that are known and of no use here.
const PASSED_OVER: [&str; 3] = ["user", "thinking", "interaction_query"];

/// The decoder of one process.
#[derive(Default)]
pub(super) struct CursorDecoder {
    phase: RunPhase,
    session: String,
    text: Option<String>,
    requests: Requests,
    /// The last lines that were no events.
    aside: String,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum RunPhase {
    #[default]
    Open,
    Ended,
}

/// What the stream has shown of model calls. A result's usage is a sum, so it says how full the window is
/// only after a single one, and that is known at the end.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Requests {
    #[default]
    None,
    /// One message and nothing else; not told yet.
    One,
    Several,
}

impl Decoder for CursorDecoder {
    fn line(&mut self, line: &[u8], out: &mut Vec<EngineEvent>) {
        if json::read_line(line, |kind, json| self.event(kind, json, out)).is_none() {
            out.push(EngineEvent::Noise { bytes: line.len() });
            self.keep_aside(&line[..line.len().min(ASIDE_BYTES)]);
        }
    }

    fn end(&mut self, exit: &Exit, stderr_tail: &[u8]) -> Option<TurnOutcome> {
        if self.phase == RunPhase::Ended {
            return None;
        }
        self.phase = RunPhase::Ended;
        let said = if stderr_tail.trim_ascii().is_empty() { self.aside.as_bytes() } else { stderr_tail };
        let end = TurnEnd::Failed(failure::without_closing_event(*exit, said));
        Some(TurnOutcome { end, text: self.text.take(), usage: None, cost: None })
    }
}

impl CursorDecoder {
    /// Reads a line of a known type; `None` when it is not of that type's shape.
    fn event(&mut self, kind: &str, json: &str, out: &mut Vec<EngineEvent>) -> Option<()> {
        match kind {
            "system" => self.system(&serde_json::from_str(json).ok()?, out),
            "assistant" => self.assistant(&serde_json::from_str(json).ok()?, out),
            "tool_call" => self.tool_call(&serde_json::from_str(json).ok()?, out),
            "result" => self.result(&serde_json::from_str(json).ok()?, json, out),
            other if PASSED_OVER.contains(&other) => {}
            other => out.push(EngineEvent::Unknown { kind: other.to_owned() }),
        }
        Some(())
    }

    fn system(&mut self, line: &System<'_>, out: &mut Vec<EngineEvent>) {
        match json::name(line.subtype).unwrap_or_default().as_ref() {
            "init" => self.session_seen(line.session_id, json::name(line.model).map(Cow::into_owned), out),
            other => out.push(EngineEvent::Unknown { kind: format!("system/{other}") }),
        }
    }

    fn assistant(&mut self, line: &Assistant<'_>, out: &mut Vec<EngineEvent>) {
        // With partial output a message comes in pieces, dated and without a call's id, then once more whole.
        if line.timestamp_ms.is_some() && line.model_call_id.is_none() {
            return;
        }
        self.requests = match self.requests {
            Requests::None => Requests::One,
            Requests::One | Requests::Several => self.several(out),
        };
        if self.requests == Requests::Several {
            out.push(EngineEvent::Request { usage: None, window: None });
        }
        let mut text = String::new();
        for block in &line.message.content {
            let room = MAX_TEXT_BYTES - text.len();
            text.push_str(&json::string(block.text, room).unwrap_or_default());
        }
        if !text.is_empty() {
            self.text = Some(text.clone());
            out.push(EngineEvent::Text(text));
        }
    }

    fn tool_call(&mut self, line: &ToolCall<'_>, out: &mut Vec<EngineEvent>) {
        self.requests = self.several(out);
        let Some((name, tool)) = named_tool(&line.entries) else { return };
        let call = owned(line.call_id);
        match json::name(line.subtype).as_deref() {
            Some("started") => {
                let arguments = tool.args.or(tool.arguments);
                out.push(EngineEvent::ToolStarted {
                    call,
                    tool: name,
                    summary: call::summary(arguments),
                    arguments: call::arguments(arguments),
                });
            }
            Some("completed") => {
                let (ok, first_line) = outcome(&tool);
                out.push(EngineEvent::ToolEnded { call, ok, first_line });
            }
            _ => {}
        }
    }

    fn result(&mut self, line: &RunResult<'_>, json: &str, out: &mut Vec<EngineEvent>) {
        if self.phase == RunPhase::Ended {
            return;
        }
        self.phase = RunPhase::Ended;
        self.session_seen(line.session_id, None, out);
        let tokens = json::read::<Tokens>(line.usage).or_else(|| serde_json::from_str::<Tokens>(json).ok());
        // Without a count of cache reads the input is only a part of the window.
        let certain = tokens.as_ref().is_some_and(Tokens::has_cache_reads);
        let usage = tokens.map(Usage::from).filter(|usage| !usage.is_zero());
        if self.requests == Requests::One {
            out.push(EngineEvent::Request { usage: usage.filter(|_| certain), window: None });
        }
        let result = json::string(line.result, MAX_TEXT_BYTES).filter(|text| !text.is_empty());
        let success = json::name(line.subtype).as_deref() == Some("success") && line.is_error != Some(true);
        let (end, text) = if success {
            (TurnEnd::Completed, result.or(self.text.take()))
        } else {
            let said = result.unwrap_or_else(|| self.aside.clone());
            let failure = failure::of_text(&said);
            (TurnEnd::Failed(failure), self.text.take())
        };
        out.push(EngineEvent::TurnEnded(TurnOutcome { end, text, usage, cost: None }));
    }

    /// Tells the first request, now that it is known not to be the only one.
    fn several(&self, out: &mut Vec<EngineEvent>) -> Requests {
        if self.requests == Requests::One {
            out.push(EngineEvent::Request { usage: None, window: None });
        }
        Requests::Several
    }

    fn session_seen(&mut self, session: Raw<'_>, model: Option<String>, out: &mut Vec<EngineEvent>) {
        let Some(session) = json::name(session).filter(|id| !id.is_empty() && *id != self.session) else { return };
        self.session = session.into_owned();
        let session = SessionId::new(self.session.clone());
        out.push(EngineEvent::Session { session, model, version: None });
    }

    fn keep_aside(&mut self, line: &[u8]) {
        self.aside.push_str(&String::from_utf8_lossy(line));
        self.aside.push('\n');
        if self.aside.len() > ASIDE_BYTES {
            let from = (self.aside.len() - ASIDE_BYTES..=self.aside.len()).find(|at| self.aside.is_char_boundary(*at));
            self.aside.drain(..from.unwrap_or_default());
        }
    }
}

/// The tool that a call is of: `readToolCall` is `read`; one under `function` says its name.
fn named_tool<'a>(entries: &BTreeMap<String, Raw<'a>>) -> Option<(String, Tool<'a>)> {
    entries.iter().find_map(|(key, entry)| {
        let tool: Tool<'_> = json::read(*entry)?;
        let name = match key.strip_suffix("ToolCall") {
            Some(name) => name.to_owned(),
            None if key == "function" => owned(tool.name),
            None => return None,
        };
        Some((name, tool))
    })
}

/// Whether a call succeeded, and the first line of what it says.
fn outcome(tool: &Tool<'_>) -> (bool, String) {
    let entries: BTreeMap<String, Raw<'_>> = json::read(tool.result).unwrap_or_default();
    let Some((verdict, entry)) = entries.iter().next() else { return (false, String::new()) };
    let said: Option<Said<'_>> = json::read(*entry);
    let line = said.as_ref().and_then(|said| {
        [said.stdout, said.content, said.message, said.error, said.stderr, said.reason]
            .into_iter()
            .find_map(|raw| json::first_line(raw, call::KEPT_CHARS).filter(|line| !line.is_empty()))
    });
    let exit = said.and_then(|said| said.exit_code.0).unwrap_or(0);
    let ok = verdict == "success" && exit == 0;
    let unsaid = if ok { String::new() } else { verdict.chars().take(call::KEPT_CHARS).collect() };
    (ok, line.unwrap_or(unsaid))
}
