//! fia's own engine: this same program, started again to act a script instead of asking a model.
//!
//! It passes through the same spawn, stream and decode path as a real CLI, so that a workflow can be
//! rehearsed without spending a token.

pub mod wire;

use std::ffi::OsString;
use std::path::Path;

use crate::engine::failure::failure;
use crate::engine::{
    BesideAccount, Capabilities, Decoder, Engine, EngineError, Facts, Launch, LoginCheck, ProcessKind, SessionChoice,
};
use crate::event::item::{Cost, Cut, EngineEvent, Failure, FailureKind, Reset, TurnEnd, TurnOutcome};
use crate::ids::{EngineName, SessionId};
use crate::process::{CommandSpec, Exit};
use wire::Line;

/// The hidden subcommand that acts a script.
pub const SUBCOMMAND: &str = "act-script";

/// The session file in the directory of an agent.
pub const SESSION_FILE: &str = "scripted_session.jsonl";

const FACTS: Facts = Facts {
    programs: &["fia"],
    tested_version: env!("CARGO_PKG_VERSION"),
    version_args: &["--version"],
    install: "",
    login: "",
    login_trace: None,
    login_keys: &[],
    login_check: LoginCheck::None,
    billing_keys: &[],
    permission_mode: None,
    system_by_flag: true,
    session_file: Some(SESSION_FILE),
};

/// The adapter.
#[derive(Debug, Clone, Copy)]
pub struct Scripted;

impl Engine for Scripted {
    fn name(&self) -> EngineName {
        EngineName::Scripted
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            resident: false,
            interrupt: false,
            max_turns: false,
            context: true,
            cost: true,
            system_prompt: true,
        }
    }

    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn launch(&self, launch: &Launch) -> Result<CommandSpec, EngineError> {
        let program = match &launch.program {
            Some(program) => OsString::from(program),
            None => std::env::current_exe().map(OsString::from).map_err(|error| EngineError {
                engine: EngineName::Scripted,
                problem: format!("cannot find this program's own file: {error}"),
                hint: "set engines.scripted.program to the path of fia".to_owned(),
            })?,
        };
        let mut spec = CommandSpec::new(program, &launch.cwd).arg(SUBCOMMAND);
        for (flag, value) in [
            ("--phase", launch.phase.clone()),
            ("--leg", launch.leg.to_string()),
            ("--turn", launch.turn.to_string()),
            ("--model", launch.model.clone()),
        ] {
            spec = spec.arg(flag).arg(value);
        }
        spec = spec.arg("--system").arg(&launch.system_file);
        spec = spec.arg("--session").arg(launch.agent_dir.join(SESSION_FILE));
        if let SessionChoice::Resume(session) = &launch.session {
            spec = spec.arg("--resume").arg(session.as_str());
        }
        for arg in &launch.args {
            spec = spec.arg(arg);
        }
        for (name, value) in &launch.env {
            spec.env.insert(name.into(), value.as_ref().map(OsString::from));
        }
        Ok(spec)
    }

    fn prompt(&self, text: &str, _process: ProcessKind) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    fn interrupt(&self) -> Option<Vec<u8>> {
        None
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(ScriptedDecoder { ended: false })
    }

    fn beside_account(&self, _home: &Path, _base_url: &str) -> Option<BesideAccount> {
        None
    }
}

struct ScriptedDecoder {
    ended: bool,
}

impl Decoder for ScriptedDecoder {
    fn line(&mut self, line: &[u8], out: &mut Vec<EngineEvent>) {
        let text = String::from_utf8_lossy(line);
        let Ok(parsed) = serde_json::from_str::<Line>(&text) else {
            out.push(EngineEvent::Noise { bytes: line.len() });
            return;
        };
        match parsed {
            Line::Session { id, model, window } => {
                out.push(EngineEvent::Session { session: SessionId::new(id), model: Some(model), version: None });
                out.push(EngineEvent::Window(window));
            }
            Line::Request { usage } => {
                out.push(EngineEvent::Request { usage: Some(usage).filter(|usage| !usage.is_zero()), window: None });
            }
            Line::Text { text } => out.push(EngineEvent::Text(text)),
            Line::Tool { call, tool, summary } => {
                out.push(EngineEvent::ToolStarted { call, tool, arguments: summary.clone(), summary });
            }
            Line::ToolEnd { call, ok, first_line } => out.push(EngineEvent::ToolEnded { call, ok, first_line }),
            Line::Compacted { before, after } => out.push(EngineEvent::Compacted { before, after }),
            Line::End { text, usage, cost_usd } => {
                self.close(out, TurnEnd::Completed, Some(text), usage, cost_usd);
            }
            Line::Cut { usage } => self.close(out, TurnEnd::Cut(Cut::OutputLimit), None, usage, None),
            Line::Failed { kind, message, retry_after, usage } => {
                let reset = retry_after.map_or(Reset::Unknown, Reset::At);
                self.close(out, TurnEnd::Failed(Failure { kind, message, reset }), None, usage, None);
            }
        }
    }

    fn end(&mut self, exit: &Exit, stderr_tail: &[u8]) -> Option<TurnOutcome> {
        if self.ended {
            return None;
        }
        let stderr = String::from_utf8_lossy(stderr_tail);
        let said = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let (kind, fallback) = match exit {
            Exit::Code(wire::EXIT_NO_SESSION) => (FailureKind::BadSession, "the session to resume is unknown"),
            Exit::Code(wire::EXIT_BAD_SCRIPT) => (FailureKind::Missing, "the script cannot be read"),
            Exit::Code(_) => (FailureKind::Crash, "ended without a closing event"),
            Exit::Signal(_) => (FailureKind::Crash, "ended by a signal"),
        };
        let failure = failure(kind, if said.is_empty() { fallback } else { said }, Reset::Unknown);
        Some(TurnOutcome { end: TurnEnd::Failed(failure), text: None, usage: None, cost: None })
    }
}

impl ScriptedDecoder {
    fn close(
        &mut self,
        out: &mut Vec<EngineEvent>,
        end: TurnEnd,
        text: Option<String>,
        usage: Option<crate::event::Usage>,
        cost_usd: Option<f64>,
    ) {
        self.ended = true;
        out.push(EngineEvent::TurnEnded(TurnOutcome { end, text, usage, cost: cost_usd.map(Cost::Turn) }));
    }
}
