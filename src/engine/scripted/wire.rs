//! The lines that the scripted engine prints: written by `rehearsal`, read by its decoder.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::event::{FailureKind, Usage};

/// Exit status of an engine that was asked to resume a session it does not have.
pub const EXIT_NO_SESSION: i32 = 4;

/// Exit status of an engine that cannot read its script.
pub const EXIT_BAD_SCRIPT: i32 = 5;

/// One line of the stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line {
    /// The session that answers.
    Session {
        /// Its id.
        id: String,
        /// The model.
        model: String,
        /// Its window in tokens.
        window: u64,
    },
    /// A model call answered.
    Request {
        /// Its usage.
        usage: Usage,
    },
    /// Text of the agent.
    Text {
        /// The text.
        text: String,
    },
    /// A tool call began.
    Tool {
        /// Id of the call.
        call: String,
        /// Name of the tool.
        tool: String,
        /// What it acts on.
        summary: String,
    },
    /// A tool call ended.
    ToolEnd {
        /// Id of the call.
        call: String,
        /// Whether it succeeded.
        ok: bool,
        /// First line of its result.
        first_line: String,
    },
    /// The session was compacted.
    Compacted {
        /// Live context before, in tokens.
        before: Option<u64>,
        /// Live context after, in tokens.
        after: Option<u64>,
    },
    /// The turn succeeded.
    End {
        /// The answer.
        text: String,
        /// Tokens of the turn.
        usage: Option<Usage>,
        /// Dollars of the turn.
        cost_usd: Option<f64>,
    },
    /// The turn ran into the output limit.
    Cut {
        /// Tokens of the turn.
        usage: Option<Usage>,
    },
    /// The turn failed.
    Failed {
        /// Why.
        kind: FailureKind,
        /// In words.
        message: String,
        /// When to try again.
        retry_after: Option<DateTime<Utc>>,
        /// Tokens of the turn.
        usage: Option<Usage>,
    },
}
