//! pi: the coding agent with one session file an agent, one prompt a process or resident over RPC.
//!
//! Its flags and events were tried with version 1.6.0 on Node 22 in November 2026; the JSON mode of 0.73.1,
//! which lacks the last event, is understood too. The prompt goes through standard input, the system prompt
//! is appended from a file. pi has no permission system: every tool of its list runs.

mod decode;
mod wire;

use serde_json::json;

use std::path::Path;

use super::{
    BesideAccount, Capabilities, Decoder, Engine, EngineError, Facts, Launch, LoginCheck, LoginTrace, ProcessKind,
    base_command, with_configured_env,
};
use crate::ids::EngineName;
use crate::process::CommandSpec;

/// The adapter.
#[derive(Debug, Clone, Copy)]
pub struct Pi;

/// The session of an agent, in its directory: the one live file, archived when it is left behind.
pub const SESSION_FILE: &str = "pi_session.jsonl";

/// Variables set for every process. `PI_OFFLINE` is not among them: it would also stop the refresh of model
/// catalogues, without which a provider's newer models are unknown.
const ENVIRONMENT: [(&str, &str); 2] = [("PI_SKIP_VERSION_CHECK", "1"), ("PI_TELEMETRY", "0")];

const FACTS: Facts = Facts {
    programs: &["pi"],
    tested_version: "1.6.0",
    version_args: &["--version"],
    install: "npm install -g @earendil-works/pi-coding-agent (Node 22 or newer)",
    login: "pi auth login PROVIDER",
    login_trace: Some(LoginTrace { variable: "PI_CODING_AGENT_DIR", folder: ".pi/agent", file: "auth.json" }),
    login_keys: &[],
    login_check: LoginCheck::ArgsAndModel(&["auth", "check", "--no-refresh", "--model"]),
    billing_keys: &["OPENAI_API_KEY", "ANTHROPIC_API_KEY"],
    permission_mode: None,
    system_by_flag: true,
    session_file: Some(SESSION_FILE),
};

impl Engine for Pi {
    fn name(&self) -> EngineName {
        EngineName::Pi
    }

    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            resume: true,
            resident: true,
            interrupt: true,
            max_turns: false,
            context: true,
            cost: true,
            system_prompt: true,
        }
    }

    fn launch(&self, launch: &Launch) -> Result<CommandSpec, EngineError> {
        super::refuse_redirection(EngineName::Pi, launch)?;
        let mut spec = base_command(launch, &FACTS);
        spec = match launch.process {
            ProcessKind::OneShot => spec.arg("-p").arg("--mode").arg("json"),
            ProcessKind::Resident => spec.arg("--mode").arg("rpc"),
        };
        // The file is made when it is missing and gone on with when it is there.
        spec = spec.arg("--session").arg(launch.agent_dir.join(SESSION_FILE));
        spec = match launch.model.split_once('/') {
            Some((provider, model)) => spec.arg("--provider").arg(provider).arg("--model").arg(model),
            None if launch.model.is_empty() => spec,
            None => spec.arg("--model").arg(&launch.model),
        };
        if let Some(level) = &launch.level {
            spec = spec.arg("--thinking").arg(level);
        }
        let tools = tools(&launch.tools);
        spec = if tools.is_empty() { spec.arg("--no-tools") } else { spec.arg("--tools").arg(tools) };
        for extension in &launch.extensions {
            spec = spec.arg("-e").arg(extension);
        }
        if !launch.system.is_empty() {
            spec = spec.arg("--append-system-prompt").arg(&launch.system_file);
        }
        for (name, value) in ENVIRONMENT {
            spec = spec.set(name, value);
        }
        Ok(with_configured_env(spec, launch))
    }

    fn prompt(&self, text: &str, process: ProcessKind) -> Vec<u8> {
        match process {
            ProcessKind::OneShot => text.as_bytes().to_vec(),
            ProcessKind::Resident => {
                // Over RPC nothing but the state names the session and the model's window.
                let state = json!({ "id": "fia-state", "type": "get_state" });
                let prompt = json!({ "id": "fia-prompt", "type": "prompt", "message": text });
                format!("{state}\n{prompt}\n").into_bytes()
            }
        }
    }

    fn interrupt(&self) -> Option<Vec<u8>> {
        Some(format!("{}\n", json!({ "id": "fia-abort", "type": "abort" })).into_bytes())
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::PiDecoder::default())
    }

    fn beside_account(&self, home: &Path, base_url: &str) -> Option<BesideAccount> {
        let folder = home.join(".pi/agent");
        let model = json!({ "id": "loop-1", "name": "Loop", "reasoning": true, "input": ["text"],
                            "contextWindow": 200_000, "maxTokens": 16_000,
                            "cost": { "input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75 } });
        let provider = json!({ "baseUrl": base_url, "api": "anthropic-messages", "apiKey": "none", "models": [model] });
        let models = json!({ "providers": { "loop": provider } }).to_string();
        Some(BesideAccount {
            env: vec![("PI_CODING_AGENT_DIR".to_owned(), folder.display().to_string())],
            files: vec![(folder.join("models.json"), models)],
            model: "loop/loop-1".to_owned(),
        })
    }
}

/// The roster's tools by pi's names; a name that is not the roster's is pi's own already.
fn tools(roster: &[String]) -> String {
    let names = roster.iter().map(|tool| match tool.as_str() {
        "grep" => "grep,find,ls",
        other => other,
    });
    names.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
