//! cursor: `cursor-agent` in print mode, one prompt a process.
//!
//! From its documentation and reports up to builds of September 2026; no real program could be tried. It
//! has no place for a system prompt, so the first prompt of a session carries the role, no list of tools,
//! and no way to its provider. Usage comes with the result alone, summed over the run.

mod decode;
mod wire;

use std::path::Path;

use super::{
    BesideAccount, Capabilities, Decoder, Engine, EngineError, Facts, Launch, LoginCheck, ProcessKind, SessionChoice,
    base_command, with_configured_env,
};
use crate::ids::EngineName;
use crate::process::CommandSpec;

/// The adapter.
#[derive(Debug, Clone, Copy)]
pub struct Cursor;

const FACTS: Facts = Facts {
    programs: &["cursor-agent", "agent"],
    tested_version: "",
    version_args: &["--version"],
    install: "see https://cursor.com/docs/cli/installation",
    login: "cursor-agent login",
    // `status` is reported to say "not logged in" although `CURSOR_API_KEY` works.
    login_trace: None,
    login_keys: &["CURSOR_API_KEY"],
    login_check: LoginCheck::None,
    billing_keys: &["CURSOR_API_KEY"],
    permission_mode: None,
    system_by_flag: false,
    session_file: None,
};

impl Engine for Cursor {
    fn name(&self) -> EngineName {
        EngineName::Cursor
    }

    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            resident: false,
            interrupt: false,
            max_turns: false,
            context: false,
            cost: false,
            system_prompt: false,
        }
    }

    fn launch(&self, launch: &Launch) -> Result<CommandSpec, EngineError> {
        super::refuse_redirection(EngineName::Cursor, launch)?;
        if launch.process == ProcessKind::Resident {
            return Err(EngineError {
                engine: EngineName::Cursor,
                problem: "a process takes one prompt only".to_owned(),
                hint: "set `session: fresh_process` for this agent".to_owned(),
            });
        }
        let mut spec = base_command(launch, &FACTS).arg("-p").arg("--output-format").arg("stream-json");
        // `--force` lets tools run and trusts the directory; builds without `--trust` know it too.
        spec = spec.arg("--force");
        if !launch.model.is_empty() {
            spec = spec.arg("--model").arg(&launch.model);
        }
        if let SessionChoice::Resume(session) = &launch.session {
            spec = spec.arg("--resume").arg(session.as_str());
        }
        Ok(with_configured_env(spec, launch))
    }

    fn prompt(&self, text: &str, _process: ProcessKind) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    fn interrupt(&self) -> Option<Vec<u8>> {
        None
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::CursorDecoder::default())
    }

    fn beside_account(&self, _home: &Path, _base_url: &str) -> Option<BesideAccount> {
        None
    }
}

#[cfg(test)]
mod tests;
