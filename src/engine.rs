//! Adapters of coding-agent CLIs: how each is started, spoken to and understood.
//!
//! An adapter is pure. It builds a command, makes the bytes of a prompt and decodes lines; it spawns
//! nothing, prints nothing and reads no clock, and so is tested by feeding it recorded files. What a
//! vendor's CLI does oddly stays in that engine's folder.

pub mod scripted;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::event::item::{EngineEvent, TurnOutcome};
use crate::ids::{EngineName, SessionId};
use crate::process::{CommandSpec, Exit};

/// The adapter of one CLI.
pub trait Engine: Send + Sync {
    /// Its name.
    fn name(&self) -> EngineName;

    /// What the CLI can do.
    fn capabilities(&self) -> Capabilities;

    /// The file in an agent's directory that holds its live session; `None` when the CLI keeps it elsewhere.
    /// A fresh session begins only after such a file was moved aside.
    fn session_file(&self) -> Option<&'static str>;

    /// Builds the command of one process.
    ///
    /// # Errors
    ///
    /// When the order cannot be put into this CLI's terms, with what to change.
    fn launch(&self, launch: &Launch) -> Result<CommandSpec, EngineError>;

    /// The bytes for standard input that hand over one prompt. A one-shot process gets one and then end-of-file.
    fn prompt(&self, turn: &Turn) -> Vec<u8>;

    /// The bytes that ask a resident process to end its turn; `None` when there is no such word.
    fn interrupt(&self) -> Option<Vec<u8>>;

    /// A decoder for the output of one process.
    fn decoder(&self) -> Box<dyn Decoder>;
}

/// Turns the lines of one process into facts.
pub trait Decoder: Send {
    /// Reads one line, without its newline, and appends what it says. Emits `TurnEnded` at the closing event.
    fn line(&mut self, line: &[u8], out: &mut Vec<EngineEvent>);

    /// The process ended: how the turn ended when no closing event had come. `None` when one had, or no
    /// turn was open. `stderr_tail` is at most the last 64 KiB of standard error of this leg.
    fn end(&mut self, exit: &Exit, stderr_tail: &[u8]) -> Option<TurnOutcome>;
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

/// One prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The text for the agent.
    pub text: String,
    /// The system prompt, for a CLI that has no place for one.
    pub system: String,
    /// Whether this is the first prompt of a fresh session.
    pub first: bool,
    /// How the process was started.
    pub process: ProcessKind,
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
