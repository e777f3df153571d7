//! A run made concrete: workflow, roster, prompts and checks resolved, nothing left to look up.
//!
//! The plan is frozen at the start of a run and stands whole in its first record. Limits of `stop:` are
//! apart, as a resume reads them anew.

pub mod build;
pub mod check;
pub mod describe;
pub mod prompt;
pub mod when;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{level_fits, wildcard};
use crate::event::{ApprovalWait, Expect};
use crate::ids::{AgentName, CheckName, EngineName, StepName};

/// What a run will do, and by whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the workflow.
    pub workflow: String,
    /// What it does, one line.
    #[serde(default)]
    pub description: String,
    /// What was asked for.
    pub prompt: String,
    /// Its steps, in order.
    pub steps: Vec<PlannedStep>,
    /// When the run counts as accepted; without it SPEC 4.1 decides.
    #[serde(default)]
    pub accept: Option<String>,
    /// The agents that the steps name, in roster order.
    pub agents: IndexMap<AgentName, Agent>,
    /// The checks that the steps and gates name.
    #[serde(default)]
    pub checks: IndexMap<CheckName, Check>,
    /// JSON Schemas of envelope types that the workflow brings along, by type.
    #[serde(default)]
    pub schemas: IndexMap<String, Value>,
    /// Paths that no agent may write, as patterns.
    #[serde(default)]
    pub protected_files: Vec<String>,
    /// Files in force (config, workflow, prompts, schemas), relative to the top of the work tree: never writable.
    #[serde(default)]
    pub judge_files: Vec<String>,
    /// By-products that are put back without blame, as patterns.
    #[serde(default)]
    pub benign_paths: Vec<String>,
    /// Programs, arguments and environment of the engines.
    #[serde(default)]
    pub engines: IndexMap<EngineName, EngineSettings>,
    /// What happens when an engine dies for good.
    #[serde(default)]
    pub relay: Relay,
    /// One process a turn, or one an agent.
    #[serde(default)]
    pub session: SessionMode,
    /// The `context_pruning` section as checked, in the names of SPEC 9.1; null when off.
    #[serde(default)]
    pub context_pruning: Value,
    /// The `models` section as checked: windows and prices by name pattern.
    #[serde(default)]
    pub models: Value,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// Its name, unique in the workflow.
    pub name: StepName,
    /// The condition under which it runs.
    #[serde(default)]
    pub when: Option<String>,
    /// What it does.
    pub action: Action,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Action {
    /// One agent phase.
    Agent(AgentAction),
    /// Commands that judge the tree.
    Check {
        /// Which ones, in order.
        checks: Vec<CheckName>,
        /// The verdict that counts as passed.
        #[serde(default)]
        expect: Expect,
    },
    /// Test, fix, test again, while red.
    Repair {
        /// The checks of each round.
        checks: Vec<CheckName>,
        /// The phase that fixes.
        fix: AgentAction,
    },
    /// A commit of what the run made.
    Commit,
    /// A person's decision.
    Approve {
        /// How long to wait for it without a terminal.
        wait: ApprovalWait,
    },
    /// Reading agents side by side.
    Parallel {
        /// Agent steps only.
        steps: Vec<PlannedStep>,
    },
}

/// An agent phase as planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAction {
    /// Who works.
    pub agent: AgentName,
    /// Envelope type: a built-in one, or a key of `Plan::schemas`.
    pub output: String,
    /// Gates, in order: built-in names or checks.
    #[serde(default)]
    pub gates: Vec<String>,
    /// Gate corrections allowed.
    pub retries: u32,
    /// The earlier step whose envelope is passed on; the last one if absent.
    #[serde(default)]
    pub input: Option<StepName>,
    /// Whether a resume takes over a finished phase.
    pub replay: bool,
}

/// A role of the roster, complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Its own engine first, then its fallbacks in order.
    pub choices: Vec<EngineChoice>,
    /// Template of the system prompt.
    pub system: String,
    /// Template of the user prompt.
    pub user: String,
    /// Tools: read, grep, bash, edit, write.
    pub tools: Vec<String>,
    /// pi extensions.
    #[serde(default)]
    pub extensions: Vec<String>,
    /// Where it may write.
    pub writes: Writes,
    /// Live-context ceiling in tokens; 0 never rotates.
    pub ceiling: u64,
    /// What decides about a rotation below the ceiling.
    #[serde(default)]
    pub rotation: RotationPolicy,
    /// Whether a phase may rotate inside.
    #[serde(default)]
    pub rotate_mid_phase: bool,
    /// Levels by step name or wildcard.
    #[serde(default)]
    pub phase_levels: IndexMap<String, String>,
}

impl Agent {
    /// The level of `choice` in a step: the exact name first, then the first wildcard that matches, unless the
    /// engine does not know the word; else the level of the choice itself.
    pub fn level<'a>(&'a self, choice: &'a EngineChoice, step: &str) -> Option<&'a str> {
        let wild = || self.phase_levels.iter().find(|(pattern, _)| wildcard(pattern, step)).map(|(_, level)| level);
        let level = self.phase_levels.get(step).or_else(wild).filter(|level| level_fits(choice.engine, level));
        level.or(choice.level.as_ref()).map(String::as_str)
    }
}

/// An engine, a model and a level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineChoice {
    /// The engine.
    pub engine: EngineName,
    /// The model as written; empty leaves it to the CLI.
    pub model: String,
    /// Effort (claude) or thinking (pi).
    #[serde(default)]
    pub level: Option<String>,
}

/// Where an agent may write, `protected_files` and judge files apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writes {
    /// Anywhere.
    Anywhere,
    /// Only where one of these patterns matches; an empty list is read-only.
    Only(Vec<String>),
}

/// What decides about a rotation below the ceiling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RotationPolicy {
    /// Nothing does.
    #[default]
    Ceiling,
    /// Price does.
    BreakEven,
}

/// What happens when an engine dies for good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relay {
    /// The phase goes to the next fallback at once.
    #[default]
    Auto,
    /// The run ends; a resume goes on with the fallback.
    Resume,
    /// Never another engine.
    Off,
}

/// How long engine processes live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionMode {
    /// One process a turn.
    #[default]
    FreshProcess,
    /// One process an agent, where its engine can.
    Resident,
}

/// A command that judges the tree; a shell reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The command line.
    pub run: String,
    /// Minutes after which it counts as failed; 0 is no limit.
    pub timeout_minutes: f64,
}

/// Words with which a command line may begin and that are no programs: a shell's own.
const SHELL_WORDS: [&str; 33] = [
    ".", ":", "!", "[", "[[", "alias", "case", "cd", "command", "echo", "eval", "exec", "exit", "export", "false",
    "for", "function", "if", "printf", "pwd", "read", "set", "shift", "source", "test", "time", "trap", "true",
    "ulimit", "umask", "unset", "until", "while",
];

impl Check {
    /// The program that the command line begins with, behind variables that it sets; `None` where that takes a shell
    /// to tell, and where it is a file of the work tree, which an agent may still write.
    pub fn program(&self) -> Option<&str> {
        let is_variable = |word: &&str| {
            let name = word.split_once('=').map_or("", |(name, _)| name);
            !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        };
        let first = self.run.split_whitespace().find(|word| !is_variable(word))?;
        // What ends a command may stand right behind its name.
        let word = first.split([';', '&', '|', '<', '>']).next().unwrap_or_default();
        let plain = |letter: char| letter.is_alphanumeric() || "/._-+@%,".contains(letter);
        let is_told = !word.is_empty() && word.chars().all(plain) && !SHELL_WORDS.contains(&word);
        (is_told && (word.starts_with('/') || !word.contains('/'))).then_some(word)
    }
}

/// How an engine is started, where it differs from the usual.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSettings {
    /// Another program.
    #[serde(default)]
    pub program: Option<String>,
    /// More arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables to set, or with null to remove. They may be secrets, so they are read and never written: a
    /// resume takes them from the config.
    #[serde(default, skip_serializing)]
    pub env: IndexMap<String, Option<String>>,
    /// claude's permission mode.
    #[serde(default)]
    pub permission_mode: Option<String>,
}

/// The limits of `stop:`. 0 switches a limit off; of `attempt_cap`, 0 allows no fix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stop {
    /// Fixes of a repair.
    pub attempt_cap: u64,
    /// Fixes in a row that may change nothing.
    pub no_progress_window: u64,
    /// Minutes of the run, all stretches.
    pub budget_minutes: f64,
    /// Paths that the run may change.
    pub breadth_ceiling: u64,
    /// Tokens of the run, cache reads included.
    pub token_budget: u64,
    /// Tokens of one phase.
    pub phase_token_budget: u64,
    /// Dollars of the run.
    pub cost_budget_usd: f64,
    /// Minutes of one leg.
    pub phase_timeout_minutes: f64,
    /// Minutes without a line from the engine.
    pub idle_timeout_minutes: f64,
    /// Minutes to wait for a limit's reset.
    pub limit_wait_minutes: f64,
}

impl Default for Stop {
    fn default() -> Self {
        Self {
            attempt_cap: 3,
            no_progress_window: 2,
            budget_minutes: 0.0,
            breadth_ceiling: 0,
            token_budget: 30_000_000,
            phase_token_budget: 8_000_000,
            cost_budget_usd: 0.0,
            phase_timeout_minutes: 50.0,
            idle_timeout_minutes: 10.0,
            limit_wait_minutes: 360.0,
        }
    }
}
