//! What a whole run begins with, waits for, is told and ends with.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Outcome, Usage};
use crate::ids::{AgentName, EngineName, PhaseName};

/// Payload of `run_start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// Name of the workflow; the record's name.
    #[serde(skip)]
    pub workflow: String,
    /// Format of the log; absent means 1.
    #[serde(default = "first_format")]
    pub format: u32,
    /// Version of fia.
    pub fia_version: String,
    /// What was asked for.
    pub prompt: String,
    /// SHA-256 of the plan as JSON, in hexadecimal.
    pub plan_digest: String,
    /// The whole plan, at the first stretch only: workflow, prompts and roster are frozen there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// Limits in force in this stretch, read anew on resume.
    #[serde(default)]
    pub stop: Value,
    /// Those of them that were given for this stretch alone, as `KEY=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// Whether this stretch resumes the run.
    #[serde(default)]
    pub resumed: bool,
    /// The commit that was checked out, absent on an unborn branch.
    #[serde(default)]
    pub base: Option<String>,
    /// The branch that was checked out, absent when detached.
    #[serde(default)]
    pub branch: Option<String>,
    /// Whether the run has a work tree of its own.
    #[serde(default)]
    pub worktree: bool,
    /// Git's name for the linked work tree that the run works in; absent in the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked: Option<String>,
    /// The machine.
    #[serde(default)]
    pub host: String,
}

fn first_format() -> u32 {
    1
}

/// Payload of `run_end`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// How the stretch ended; also the record's name.
    pub outcome: Outcome,
    /// Why, for people.
    pub reason: String,
    /// Tokens over the whole run, all stretches; `None` when any part is unknown.
    pub tokens: Option<Usage>,
    /// Dollars over the whole run; `None` when any part is unknown.
    pub cost_usd: Option<f64>,
    /// Phases executed in this stretch.
    pub phases: u32,
    /// Phases taken over from earlier stretches.
    pub replayed: u32,
    /// Length of the stretch.
    pub elapsed_ms: u64,
    /// SHA-256 over path and content of all that the run changed, for the unchanged-tree guard.
    #[serde(default)]
    pub tree_sha256: Option<String>,
}

/// Payload of `waiting`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Until when; null is not known.
    pub until: Option<DateTime<Utc>>,
    /// For what: limit or approval.
    pub reason: String,
    /// The agent that waits, if one does.
    #[serde(default)]
    pub agent: Option<AgentName>,
    /// Which wait of this phase this is, from 1.
    #[serde(default)]
    pub count: u32,
}

/// Payload of `approval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Approval {
    /// Somebody is asked.
    Asked,
    /// Somebody answered.
    Answered {
        /// Yes or no.
        approved: bool,
        /// What they added.
        #[serde(default)]
        reason: Option<String>,
    },
}

/// Payload of `verdict`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What is missing, in a person's words.
    pub missing: Vec<String>,
    /// Phases to do again.
    #[serde(default)]
    pub redo: Vec<PhaseName>,
    /// A remark.
    #[serde(default)]
    pub note: Option<String>,
}

/// Payload of `budget_warning`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetWarning {
    /// The key of `stop:`.
    pub limit: String,
    /// 50 or 80.
    pub percent: u32,
    /// Used so far, in the limit's unit.
    pub used: f64,
    /// The limit.
    pub of: f64,
}

/// Payload of `api_key_billing`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyBilling {
    /// The engine.
    pub engine: EngineName,
    /// The variable, never its value.
    pub variable: String,
}

/// Payload of `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Where: the phase, or empty; the record's name.
    #[serde(skip)]
    pub place: String,
    /// What kind.
    pub kind: FaultKind,
    /// What happened, secrets masked.
    pub message: String,
}

/// Kinds of faults that are none of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A file could not be read or written.
    Storage,
    /// git failed.
    Git,
    /// An agent's answer held no valid envelope.
    Envelope,
    /// A commit hook refused.
    CommitHook,
    /// A prompt could not be made.
    Prompt,
    /// A hook of `notify` failed.
    Notify,
    /// A check could not be started.
    Check,
    /// An engine runs without the context pruning that was asked for.
    Pruning,
}
