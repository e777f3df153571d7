//! Adapters of coding-agent CLIs: how each is started, spoken to and understood.
//!
//! An adapter is pure. It builds a command, makes the bytes of a prompt and decodes lines; it spawns
//! nothing, prints nothing and reads no clock, and so is tested by feeding it recorded files. What a
//! vendor's CLI does oddly stays in that engine's folder.

mod call;
pub mod claude;
pub mod cursor;
pub mod failure;
mod json;
pub mod pi;
pub mod scripted;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::event::item::{EngineEvent, TurnOutcome};
use crate::ids::{EngineName, SessionId};
use crate::plan::EngineSettings;
use crate::process::{CommandSpec, Exit};

/// The adapter of an engine.
pub fn for_name(name: EngineName) -> &'static dyn Engine {
    match name {
        EngineName::Claude => &claude::Claude,
        EngineName::Pi => &pi::Pi,
        EngineName::Cursor => &cursor::Cursor,
        EngineName::Scripted => &scripted::Scripted,
    }
}

/// Variables by which the CLIs tell a program that it runs inside one of their sessions (SPEC 10.8).
///
/// Seen in the shells of claude 2.1.332 and pi 1.6.0 in November 2026; cursor's from its documentation.
pub const SESSION_MARKERS: [&str; 20] = [
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_NOTES_DIR",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_PID",
    "CURSOR_AGENT",
    "CURSOR_TRACE_ID",
    "PI_CODING_AGENT",
    "PI_MODEL",
    "PI_PROVIDER",
    "PI_REASONING_LEVEL",
    "PI_SESSION_FILE",
    "PI_SESSION_ID",
];

/// The adapter of one CLI.
pub trait Engine: Send + Sync {
    /// Its name.
    fn name(&self) -> EngineName;

    /// What is known of the program before it is started.
    fn facts(&self) -> &'static Facts;

    /// What the CLI can do.
    fn capabilities(&self) -> Capabilities;

    /// Builds the command of one process.
    ///
    /// # Errors
    ///
    /// When the order cannot be put into this CLI's terms, with what to change.
    fn launch(&self, launch: &Launch) -> Result<CommandSpec, EngineError>;

    /// The bytes for standard input that hand over one prompt. A one-shot process gets one and then end-of-file.
    fn prompt(&self, text: &str, process: ProcessKind) -> Vec<u8>;

    /// The bytes that ask a resident process to end its turn; `None` when there is no such word.
    fn interrupt(&self) -> Option<Vec<u8>>;

    /// A decoder for the output of one process.
    fn decoder(&self) -> Box<dyn Decoder>;

    /// How the CLI is pointed at another provider with no account, in a home of its own; `None` where it cannot be.
    fn beside_account(&self, home: &Path, base_url: &str) -> Option<BesideAccount>;
}

/// What makes a CLI answer from a provider of ours, and leaves the user's own login alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BesideAccount {
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// Files to write first, with their content.
    pub files: Vec<(PathBuf, String)>,
    /// A model name that the provider answers to.
    pub model: String,
}

/// Turns the lines of one process into facts.
pub trait Decoder: Send {
    /// Reads one line, without its newline, and appends what it says. Emits `TurnEnded` at the closing event.
    fn line(&mut self, line: &[u8], out: &mut Vec<EngineEvent>);

    /// The process ended: how the turn ended when no closing event had come. `None` when one had, or no
    /// turn was open. `stderr_tail` is at most the last 64 KiB of standard error of this leg.
    fn end(&mut self, exit: &Exit, stderr_tail: &[u8]) -> Option<TurnOutcome>;
}

/// What `doctor` and a relay have to know of a CLI before they start it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Names of the program; the first that is found on `PATH` is used.
    pub programs: &'static [&'static str],
    /// The version that fia was tried with; empty where no real program could be.
    pub tested_version: &'static str,
    /// Arguments that make it print its version.
    pub version_args: &'static [&'static str],
    /// The command that installs it; empty for one that is part of fia.
    pub install: &'static str,
    /// The command that logs in; empty where nobody has to.
    pub login: &'static str,
    /// Where a login leaves a trace: a variable that names its folder, and the file in it. Without the file
    /// nobody is logged in, and asking might create it.
    pub login_trace: Option<LoginTrace>,
    /// Variables that stand for a login by themselves.
    pub login_keys: &'static [&'static str],
    /// How to ask it whether somebody is logged in.
    pub login_check: LoginCheck,
    /// Variables whose presence bills an API although a subscription may be logged in.
    pub billing_keys: &'static [&'static str],
    /// Its permission mode when none is configured, if it has such modes.
    pub permission_mode: Option<&'static str>,
    /// Whether the system prompt travels by a flag of the CLI; else it stands in the prompts of a new process.
    pub system_by_flag: bool,
    /// The file in the agent's directory that is its session, for an engine that keeps it there. A fresh
    /// session begins only after such a file was moved aside.
    pub session_file: Option<&'static str>,
}

/// Where a login leaves a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginTrace {
    /// A variable that names the folder in place of the home directory.
    pub variable: &'static str,
    /// The folder below the home directory when the variable is not set; empty for the home itself.
    pub folder: &'static str,
    /// The file in that folder.
    pub file: &'static str,
}

/// How a CLI says whether somebody is logged in: exit status 0 means yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginCheck {
    /// It has no way, or none that can be believed.
    None,
    /// With these arguments.
    Args(&'static [&'static str]),
    /// With these arguments and the model after them.
    ArgsAndModel(&'static [&'static str]),
}

/// What a CLI can do; `doctor` shows it, the run loop obeys it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a table of yes and no, read by name")]
pub struct Capabilities {
    /// Sessions can be gone on with in a new process.
    pub resume: bool,
    /// A process can take several prompts.
    pub resident: bool,
    /// A turn of a resident process can be stopped without ending it.
    pub interrupt: bool,
    /// A one-shot turn can be told to stop after so many requests, its session intact.
    pub max_turns: bool,
    /// The stream shows the live context.
    pub context: bool,
    /// The stream shows dollars.
    pub cost: bool,
    /// There is a place for a system prompt; without one the role goes into the first prompt.
    pub system_prompt: bool,
}

impl Capabilities {
    /// Where a long turn can be ended between two requests, its session in order (SPEC 6.10).
    pub fn mid_phase(&self) -> MidPhase {
        if self.max_turns {
            MidPhase::Always
        } else if self.resident && self.interrupt {
            MidPhase::WhenResident
        } else {
            MidPhase::Never
        }
    }
}

/// Where a CLI can be ended between two requests of a turn. What its session holds then was looked at with claude
/// 2.1.332 and pi 1.6.0 in November 2026.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MidPhase {
    /// In every process.
    Always,
    /// In one that takes several prompts, by interrupting it: for one prompt it can only be killed.
    WhenResident,
    /// Nowhere.
    Never,
}

/// Everything an adapter needs to start a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// The work tree: the working directory of the agent.
    pub cwd: PathBuf,
    /// The directory of the run.
    pub run_dir: PathBuf,
    /// The directory of this agent in it.
    pub agent_dir: PathBuf,
    /// Another program than the usual one.
    pub program: Option<String>,
    /// Arguments from the configuration, put before those of the adapter's own that take no others after them.
    pub args: Vec<String>,
    /// Environment from the configuration: null removes a variable.
    pub env: BTreeMap<String, Option<String>>,
    /// The model as configured; empty leaves the choice to the CLI.
    pub model: String,
    /// Effort or thinking level.
    pub level: Option<String>,
    /// Tools of the roster: read, grep, bash, edit, write.
    pub tools: Vec<String>,
    /// pi extensions.
    pub extensions: Vec<String>,
    /// claude's permission mode.
    pub permission_mode: Option<String>,
    /// The system prompt as stored for this run; the same file and bytes at every start.
    pub system_file: PathBuf,
    /// The bytes of that file.
    pub system: String,
    /// Fresh, or the session to go on with.
    pub session: SessionChoice,
    /// One prompt a process, or several.
    pub process: ProcessKind,
    /// Stop after so many requests; only where the capability is there.
    pub max_turns: Option<u32>,
    /// Where the engine finds its provider, when a gateway stands in front of it.
    pub base_url: Option<String>,
    /// Name of the phase, which the scripted engine looks up.
    pub phase: String,
    /// Leg and turn in that phase, from 1.
    pub leg: u32,
    /// Number of the prompt in that leg, from 1.
    pub turn: u32,
}

/// The conversation that a process starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new one.
    Fresh,
    /// A saved one, by the engine's own id.
    Resume(SessionId),
}

/// How long a process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessKind {
    /// For one prompt.
    OneShot,
    /// For several.
    Resident,
}

/// An order that a CLI cannot carry out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{engine}: {problem}")]
pub struct EngineError {
    /// The engine.
    pub engine: EngineName,
    /// What cannot be done.
    pub problem: String,
    /// What to change.
    pub hint: String,
}

/// A command with the parts that every engine has in common: program, working directory, arguments of the
/// configuration, and an environment without session markers.
fn base_command(launch: &Launch, facts: &Facts) -> CommandSpec {
    configured_command(facts, launch.program.as_deref(), &launch.args, &launch.cwd)
}

/// What a CLI is asked about itself, by its arguments `words`, as it is configured.
pub fn question(facts: &Facts, settings: &EngineSettings, cwd: &Path, words: &[&str]) -> CommandSpec {
    let mut spec = configured_command(facts, settings.program.as_deref(), &settings.args, cwd);
    spec.args.extend(words.iter().map(OsString::from));
    with_variables(spec, &settings.env)
}

fn configured_command(facts: &Facts, program: Option<&str>, args: &[String], cwd: &Path) -> CommandSpec {
    let (usual, others) = facts.programs.split_first().map_or(("", &[][..]), |(first, others)| (*first, others));
    let mut spec = CommandSpec::new(program.unwrap_or(usual), cwd);
    if program.is_none() {
        spec.other_names.extend(others.iter().map(OsString::from));
    }
    // First, so that a script that its interpreter is given (`node cli.js`) stands before our flags.
    spec.args.extend(args.iter().map(OsString::from));
    for marker in SESSION_MARKERS {
        spec = spec.unset(marker);
    }
    spec
}

/// The environment of the configuration, which has the last word.
fn with_configured_env(spec: CommandSpec, launch: &Launch) -> CommandSpec {
    with_variables(spec, &launch.env)
}

fn with_variables<'a>(
    mut spec: CommandSpec,
    variables: impl IntoIterator<Item = (&'a String, &'a Option<String>)>,
) -> CommandSpec {
    for (name, value) in variables {
        spec.env.insert(OsString::from(name), value.as_ref().map(OsString::from));
    }
    spec
}

/// An order for tests: a fresh one-shot turn of a builder, from which a test changes what it is about.
#[cfg(test)]
pub(crate) fn example_launch() -> Launch {
    let tools = ["read", "grep", "bash", "edit", "write"].map(str::to_owned).to_vec();
    Launch {
        cwd: "/repo".into(),
        run_dir: "/repo/.fia/runs/R".into(),
        agent_dir: "/repo/.fia/runs/R/agents/builder".into(),
        program: None,
        args: Vec::new(),
        env: BTreeMap::new(),
        model: "sonnet".to_owned(),
        level: Some("high".to_owned()),
        tools,
        extensions: Vec::new(),
        permission_mode: None,
        system_file: "/repo/.fia/runs/R/agents/builder/system.md".into(),
        system: "You build.".to_owned(),
        session: SessionChoice::Fresh,
        process: ProcessKind::OneShot,
        max_turns: None,
        base_url: None,
        phase: "01_build".to_owned(),
        leg: 1,
        turn: 1,
    }
}

/// A command line as a person would type it, with the variables that it sets.
#[cfg(test)]
fn shown(spec: &CommandSpec) -> String {
    let set =
        spec.env.iter().filter_map(|(name, value)| Some(format!("{}={} ", name.display(), value.as_ref()?.display())));
    let words = spec.args.iter().map(|arg| format!(" {}", arg.display()));
    format!("{}{}{}", set.collect::<String>(), spec.program.display(), words.collect::<String>())
}

/// Refuses orders that only a CLI with these capabilities can carry out.
fn refuse_redirection(engine: EngineName, launch: &Launch) -> Result<(), EngineError> {
    let refuse =
        |problem: &str, hint: &str| Err(EngineError { engine, problem: problem.to_owned(), hint: hint.to_owned() });
    if launch.base_url.is_some() {
        return refuse("no flag or variable points it at another provider", "run this agent without the gateway");
    }
    if launch.max_turns.is_some() {
        return refuse(
            "it cannot be told to stop after so many requests",
            "set `rotate_mid_phase: false` for this agent",
        );
    }
    Ok(())
}
