//! The lines of pi's JSON and RPC output, only the fields that are used.
//!
//! Fixtures: pi 1.6.0 and 0.73.1, November 2026. `message_update`, `turn_end` and `agent_end` repeat what
//! `message_end` says with authority, and can be large; they are not read.

use serde::Deserialize;

use crate::engine::json::{Count, Raw};
use crate::event::Usage;

/// `session`: the first line of JSON mode.
#[derive(Deserialize)]
pub(super) struct Session<'a> {
    #[serde(borrow, default)]
    pub(super) id: Raw<'a>,
}

/// `message_end`: a message of any role.
#[derive(Deserialize)]
pub(super) struct MessageEnd<'a> {
    #[serde(borrow)]
    pub(super) message: Message<'a>,
}

#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) role: Raw<'a>,
    /// Read only of the agent's own messages.
    #[serde(borrow, default)]
    pub(super) content: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) usage: Raw<'a>,
    #[serde(borrow, default, rename = "stopReason")]
    pub(super) stop_reason: Raw<'a>,
    #[serde(borrow, default, rename = "errorMessage")]
    pub(super) error: Raw<'a>,
}

/// A block of an agent's message; tool calls have lines of their own.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) text: Raw<'a>,
}

/// `usage` of a message or of a compaction.
#[derive(Deserialize)]
pub(super) struct Tokens {
    #[serde(default)]
    input: Count,
    #[serde(default)]
    output: Count,
    #[serde(default, rename = "cacheRead")]
    cache_read: Count,
    #[serde(default, rename = "cacheWrite")]
    cache_write: Count,
    #[serde(default, rename = "cacheWrite1h")]
    cache_write_1h: Count,
    #[serde(default)]
    cost: Option<Dollars>,
}

#[derive(Deserialize)]
struct Dollars {
    #[serde(default)]
    total: Option<f64>,
}

impl Tokens {
    pub(super) fn usage(&self) -> Usage {
        Usage {
            input: self.input.or_zero(),
            output: self.output.or_zero(),
            cache_read: self.cache_read.or_zero(),
            cache_write: self.cache_write.or_zero(),
            cache_write_1h: self.cache_write_1h.or_zero(),
        }
    }

    /// What it cost; a model without prices reports 0, which is not known.
    pub(super) fn dollars(&self) -> Option<f64> {
        self.cost.as_ref().and_then(|cost| cost.total).filter(|total| *total > 0.0)
    }
}

/// `tool_execution_start` and `tool_execution_end`.
#[derive(Deserialize)]
pub(super) struct Tool<'a> {
    #[serde(borrow, default, rename = "toolCallId")]
    pub(super) call: Raw<'a>,
    #[serde(borrow, default, rename = "toolName")]
    pub(super) name: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) args: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) result: Option<ToolResult<'a>>,
    #[serde(default, rename = "isError")]
    pub(super) is_error: Option<bool>,
}

#[derive(Deserialize)]
pub(super) struct ToolResult<'a> {
    #[serde(borrow, default)]
    pub(super) content: Raw<'a>,
}

/// `auto_retry_start`.
#[derive(Deserialize)]
pub(super) struct Retry<'a> {
    #[serde(default)]
    pub(super) attempt: Count,
    #[serde(default, rename = "delayMs")]
    pub(super) delay_ms: Count,
    #[serde(borrow, default, rename = "errorMessage")]
    pub(super) error_message: Raw<'a>,
}

/// `compaction_end`; without a result it did not happen.
#[derive(Deserialize)]
pub(super) struct CompactionEnd<'a> {
    #[serde(borrow, default)]
    pub(super) result: Option<Compaction<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Compaction<'a> {
    #[serde(default, rename = "tokensBefore")]
    pub(super) before: Count,
    #[serde(default, rename = "estimatedTokensAfter")]
    pub(super) after: Count,
    #[serde(borrow, default)]
    pub(super) usage: Raw<'a>,
}

/// `agent_settled`: nothing more will come of this prompt.
#[derive(Deserialize)]
pub(super) struct Settled {
    #[serde(default)]
    pub(super) aborted: Option<bool>,
}

/// `response`: the answer to a command over RPC.
#[derive(Deserialize)]
pub(super) struct Response<'a> {
    #[serde(borrow, default)]
    pub(super) command: Raw<'a>,
    #[serde(default)]
    pub(super) success: Option<bool>,
    #[serde(borrow, default)]
    pub(super) error: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) data: Raw<'a>,
}

/// `data` of the answer to `get_state`.
#[derive(Deserialize)]
pub(super) struct State<'a> {
    #[serde(borrow, default, rename = "sessionId")]
    pub(super) session: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) model: Option<Model<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Model<'a> {
    #[serde(borrow, default)]
    pub(super) id: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) provider: Raw<'a>,
    #[serde(default, rename = "contextWindow")]
    pub(super) window: Count,
}
