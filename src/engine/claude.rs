//! claude: Claude Code in print mode, one prompt a process or resident.
//!
//! Its flags and events were tried with version 2.1.332 in November 2026. The prompt goes through standard
//! input, the system prompt through a file with the same bytes at every start, and what makes the CLI's own
//! prefix differ between sessions (attribution header, memory path) is switched off. It is kept from waiting
//! on its own: three tries a request, so that fia's own rules decide what follows.

mod decode;
mod wire;

use serde_json::json;

use std::path::Path;

use super::{
    BesideAccount, Capabilities, Decoder, Engine, EngineError, Facts, Launch, LoginCheck, LoginTrace, ProcessKind,
    SessionChoice, base_command, with_configured_env,
};
use crate::ids::EngineName;
use crate::process::CommandSpec;

/// The adapter.
#[derive(Debug, Clone, Copy)]
pub struct Claude;

/// Permission mode when none is configured: file edits are allowed, other tools by name.
const PERMISSION_MODE: &str = "acceptEdits";

/// Variables set for every process.
///
/// The first three keep tools and system prompt byte-identical over sessions, directories and kinds of
/// process: the shell tool's text names another limit for background commands in a resident one, and no such
/// command could outlive its turn here. Without the retry limit a refused key takes three minutes to fail.
const ENVIRONMENT: [(&str, &str); 7] = [
    ("CLAUDE_CODE_ATTRIBUTION_HEADER", "0"),
    ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("CLAUDE_CODE_MAX_RETRIES", "2"),
    ("API_TIMEOUT_MS", "300000"),
];

const FACTS: Facts = Facts {
    programs: &["claude"],
    tested_version: "2.1.332",
    version_args: &["--version"],
    install: "npm install -g @anthropic-ai/claude-code",
    login: "claude auth login",
    login_trace: Some(LoginTrace { variable: "CLAUDE_CONFIG_DIR", folder: "", file: ".claude.json" }),
    login_keys: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
    login_check: LoginCheck::Args(&["auth", "status"]),
    billing_keys: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
    permission_mode: Some(PERMISSION_MODE),
    system_by_flag: true,
    session_file: None,
};

impl Engine for Claude {
    fn name(&self) -> EngineName {
        EngineName::Claude
    }

    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            resident: true,
            interrupt: true,
            max_turns: true,
            context: true,
            cost: true,
            system_prompt: true,
        }
    }

    fn launch(&self, launch: &Launch) -> Result<CommandSpec, EngineError> {
        let mut spec = base_command(launch, &FACTS).arg("-p");
        if launch.process == ProcessKind::Resident {
            spec = spec.arg("--input-format").arg("stream-json");
        }
        spec = spec.arg("--output-format").arg("stream-json").arg("--verbose");
        if !launch.model.is_empty() {
            spec = spec.arg("--model").arg(&launch.model);
        }
        if let Some(level) = &launch.level {
            spec = spec.arg("--effort").arg(level);
        }
        let tools = tools(&launch.tools);
        spec = spec.arg("--permission-mode").arg(launch.permission_mode.as_deref().unwrap_or(PERMISSION_MODE));
        // The first list is what the model is told of, which keeps the prefix small; the second what runs unasked.
        spec = spec.arg("--tools").arg(&tools);
        if !tools.is_empty() {
            spec = spec.arg("--allowedTools").arg(&tools);
        }
        if !launch.system.is_empty() {
            spec = spec.arg("--append-system-prompt-file").arg(&launch.system_file);
        }
        if !launch.run_dir.starts_with(&launch.cwd) {
            spec = spec.arg("--add-dir").arg(&launch.run_dir);
        }
        if let Some(turns) = launch.max_turns {
            spec = spec.arg("--max-turns").arg(turns.to_string());
        }
        if let SessionChoice::Resume(session) = &launch.session {
            spec = spec.arg("--resume").arg(session.as_str());
        }
        for (name, value) in ENVIRONMENT {
            spec = spec.set(name, value);
        }
        if let Some(url) = &launch.base_url {
            spec = spec.set("ANTHROPIC_BASE_URL", url);
        }
        Ok(with_configured_env(spec, launch))
    }

    fn prompt(&self, text: &str, process: ProcessKind) -> Vec<u8> {
        match process {
            ProcessKind::OneShot => text.as_bytes().to_vec(),
            ProcessKind::Resident => {
                let content = json!([{ "type": "text", "text": text }]);
                let line = json!({ "type": "user", "message": { "role": "user", "content": content } });
                format!("{line}\n").into_bytes()
            }
        }
    }

    fn interrupt(&self) -> Option<Vec<u8>> {
        let request = json!({ "subtype": "interrupt" });
        let line = json!({ "type": "control_request", "request_id": "fia-interrupt", "request": request });
        Some(format!("{line}\n").into_bytes())
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::ClaudeDecoder::default())
    }

    fn beside_account(&self, home: &Path, base_url: &str) -> Option<BesideAccount> {
        let env = [
            ("CLAUDE_CONFIG_DIR", home.join(".claude").display().to_string()),
            ("ANTHROPIC_BASE_URL", base_url.to_owned()),
            ("ANTHROPIC_API_KEY", "none".to_owned()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Some(BesideAccount { env, files: Vec::new(), model: "claude-sonnet-4-5".to_owned() })
    }
}

/// The roster's tools by claude's names; a name that is not the roster's is claude's own already.
fn tools(roster: &[String]) -> String {
    let names = roster.iter().map(|tool| match tool.as_str() {
        "read" => "Read",
        "grep" => "Grep,Glob",
        "bash" => "Bash",
        "edit" => "Edit",
        "write" => "Write",
        other => other,
    });
    names.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
