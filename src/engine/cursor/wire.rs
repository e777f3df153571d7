//! The lines of cursor-agent's `stream-json` output, only the fields that are used.
//!
//! From the documentation and reports of 2026. Some builds put token counts under `usage`, some on the top
//! level of the result, older ones nowhere.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::engine::json::{Count, Raw};
use crate::event::Usage;

/// `system`.
#[derive(Deserialize)]
pub(super) struct System<'a> {
    #[serde(borrow, default)]
    pub(super) subtype: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) session_id: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) model: Raw<'a>,
}

/// `assistant`: a message between tool calls, or with partial output a piece of one.
#[derive(Deserialize)]
pub(super) struct Assistant<'a> {
    #[serde(borrow)]
    pub(super) message: Message<'a>,
    #[serde(borrow, default)]
    pub(super) timestamp_ms: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) model_call_id: Raw<'a>,
}

#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) content: Vec<Block<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, default)]
    pub(super) text: Raw<'a>,
}

/// `tool_call`.
#[derive(Deserialize)]
pub(super) struct ToolCall<'a> {
    #[serde(borrow, default)]
    pub(super) subtype: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) call_id: Raw<'a>,
    /// One entry named for the tool (`shellToolCall`), sometimes with others beside it.
    #[serde(borrow, default, rename = "tool_call")]
    pub(super) entries: BTreeMap<String, Raw<'a>>,
}

/// The entry of a tool.
#[derive(Deserialize)]
pub(super) struct Tool<'a> {
    #[serde(borrow, default)]
    pub(super) args: Raw<'a>,
    /// Of a tool under `function`.
    #[serde(borrow, default)]
    pub(super) name: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Raw<'a>,
    /// An object of one entry: `success`, `rejected`, `failure` or `error`.
    #[serde(borrow, default)]
    pub(super) result: Raw<'a>,
}

/// What a result says, over all tools.
#[derive(Deserialize)]
pub(super) struct Said<'a> {
    #[serde(borrow, default)]
    pub(super) content: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) stdout: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) stderr: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) message: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) error: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) reason: Raw<'a>,
    #[serde(default, rename = "exitCode")]
    pub(super) exit_code: Count,
}

/// `result`: the end of the run.
#[derive(Deserialize)]
pub(super) struct RunResult<'a> {
    #[serde(borrow, default)]
    pub(super) subtype: Raw<'a>,
    #[serde(default)]
    pub(super) is_error: Option<bool>,
    #[serde(borrow, default)]
    pub(super) result: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) session_id: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) usage: Raw<'a>,
}

/// Token counts, under `usage` or on the top level.
#[derive(Deserialize)]
pub(super) struct Tokens {
    #[serde(default, rename = "inputTokens")]
    input: Count,
    #[serde(default, rename = "outputTokens")]
    output: Count,
    #[serde(default, rename = "cacheReadTokens")]
    cache_read: Count,
    #[serde(default, rename = "cacheWriteTokens")]
    cache_write: Count,
}

impl Tokens {
    /// Whether it tells how much came from the cache.
    pub(super) fn has_cache_reads(&self) -> bool {
        self.cache_read.0.is_some()
    }
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self {
            input: tokens.input.or_zero(),
            output: tokens.output.or_zero(),
            cache_read: tokens.cache_read.or_zero(),
            cache_write: tokens.cache_write.or_zero(),
            cache_write_1h: 0,
        }
    }
}
