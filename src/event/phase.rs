//! What a phase begins with, takes in, is judged by and ends with.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Order, Outcome};
use crate::host::Mark;
use crate::ids::{AgentName, CheckName, PhaseName, StepName};

/// Payload of `phase_start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseStart {
    /// The step; the record's name.
    #[serde(skip)]
    pub step: StepName,
    /// The order, which a resume follows.
    pub order: Order,
    /// Kind of work: agent, check, commit, approve.
    pub kind: String,
    /// The agent, if one works.
    pub agent: Option<AgentName>,
    /// One line for people.
    pub description: String,
    /// Which try at this phase this is, from 1, over all stretches.
    pub attempt: u32,
    /// The machine.
    pub host: String,
}

/// Payload of `phase_end`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseEnd {
    /// The step; the record's name.
    #[serde(skip)]
    pub step: StepName,
    /// How it ended.
    pub status: PhaseStatus,
    /// How long it took, all legs together.
    pub elapsed_ms: u64,
    /// The outcome of the run that this end brings about, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of a check in a repair: SHA-256 over path and content of all that the run had changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_sha256: Option<String>,
}

/// How a phase ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseStatus {
    /// It did its work; of a check: it passed.
    Success,
    /// A check whose verdict was not the expected one. Ends nothing by itself.
    Red,
    /// It did not do its work.
    Failed,
    /// It was stopped before its end.
    Stopped,
}

/// The record `envelope`: its payload is the envelope itself.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvelopeTaken {
    /// Its type; the record's name.
    pub output: String,
    /// The whole validated envelope.
    pub envelope: Value,
}

/// Payload of `check_start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckStart {
    /// The check; the record's name.
    #[serde(skip)]
    pub check: CheckName,
    /// Its process, the leader of its own group.
    #[serde(flatten)]
    pub mark: Mark,
}

/// Payload of `check`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckRun {
    /// The check; the record's name.
    #[serde(skip)]
    pub check: CheckName,
    /// Whether the command was satisfied.
    pub passed: bool,
    /// Its exit status; null when it had none (signal, time-out, not started).
    pub exit: Option<i32>,
    /// The time limit that ended it, in minutes; absent when none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out_minutes: Option<f64>,
    /// The whole output: a file, relative to the run directory.
    pub log: String,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// Payload of `gate_pass` and `gate_fail`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateVerdict {
    /// The gate; the record's name.
    #[serde(skip)]
    pub gate: String,
    /// Which look at the phase's result this was, from 1.
    pub attempt: u32,
    /// What it found, one line each.
    #[serde(default)]
    pub violations: Vec<String>,
}

/// Payload of `phase_reused`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseReused {
    /// The step.
    pub step: StepName,
    /// The phase.
    pub phase: PhaseName,
}

/// Payload of `step_skipped`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSkipped {
    /// The step.
    pub step: StepName,
    /// Its position in the workflow, from 0.
    pub index: usize,
    /// Its condition, which did not hold.
    pub when: String,
}
