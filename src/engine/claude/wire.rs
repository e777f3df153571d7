//! The lines of claude's `stream-json` output, only the fields that are used.
//!
//! Fixtures: claude 2.1.332, November 2026. Counters may be null; a message's content may be a bare
//! string; `error` on an assistant line marks one that the CLI made up itself.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use crate::engine::json::{Count, Raw};
use crate::event::Usage;

/// `assistant`: one content block of a model message.
#[derive(Deserialize)]
pub(super) struct Assistant<'a> {
    #[serde(borrow)]
    pub(super) message: Message<'a>,
    #[serde(borrow, default)]
    pub(super) parent_tool_use_id: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) session_id: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) error: Raw<'a>,
}

#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) id: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) model: Raw<'a>,
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
    #[serde(borrow, default)]
    pub(super) content: Blocks<'a>,
}

/// `user`: tool results, prompts of sub-agents, notes of the CLI.
#[derive(Deserialize)]
pub(super) struct User<'a> {
    #[serde(borrow)]
    pub(super) message: UserMessage<'a>,
    #[serde(borrow, default)]
    pub(super) parent_tool_use_id: Raw<'a>,
}

#[derive(Deserialize)]
pub(super) struct UserMessage<'a> {
    #[serde(borrow, default)]
    pub(super) content: Blocks<'a>,
}

/// A content block of any type.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) text: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) id: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) name: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) input: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) tool_use_id: Raw<'a>,
    #[serde(default)]
    pub(super) is_error: Option<bool>,
    #[serde(borrow, default)]
    pub(super) content: Raw<'a>,
}

/// The blocks of a message; none where its content is a string or null.
#[derive(Default)]
pub(super) struct Blocks<'a>(pub(super) Vec<Block<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Blocks<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BlocksVisitor)
    }
}

struct BlocksVisitor;

impl<'de> Visitor<'de> for BlocksVisitor {
    type Value = Blocks<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of content blocks or a string")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut blocks = Vec::new();
        while let Some(block) = seq.next_element()? {
            blocks.push(block);
        }
        Ok(Blocks(blocks))
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Blocks::default())
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Blocks::default())
    }
}

/// `usage` of a message or of a result.
#[derive(Deserialize)]
pub(super) struct Tokens {
    #[serde(default, rename = "input_tokens")]
    input: Count,
    #[serde(default, rename = "output_tokens")]
    output: Count,
    #[serde(default, rename = "cache_read_input_tokens")]
    cache_read: Count,
    #[serde(default, rename = "cache_creation_input_tokens")]
    cache_write: Count,
    #[serde(default, rename = "cache_creation")]
    cache_lifetimes: Option<Lifetimes>,
}

#[derive(Deserialize)]
struct Lifetimes {
    #[serde(default)]
    ephemeral_1h_input_tokens: Count,
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self {
            input: tokens.input.or_zero(),
            output: tokens.output.or_zero(),
            cache_read: tokens.cache_read.or_zero(),
            cache_write: tokens.cache_write.or_zero(),
            cache_write_1h: tokens.cache_lifetimes.map_or(0, |lifetimes| lifetimes.ephemeral_1h_input_tokens.or_zero()),
        }
    }
}

/// `system` of every subtype.
#[derive(Deserialize)]
pub(super) struct System<'a> {
    #[serde(borrow, default)]
    pub(super) subtype: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) session_id: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) model: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) claude_code_version: Raw<'a>,
    #[serde(default)]
    pub(super) attempt: Count,
    #[serde(default)]
    pub(super) retry_delay_ms: Count,
    #[serde(default)]
    pub(super) error_status: Count,
    #[serde(borrow, default)]
    pub(super) error: Raw<'a>,
    #[serde(default)]
    pub(super) compact_metadata: Option<Compaction>,
}

#[derive(Deserialize)]
pub(super) struct Compaction {
    #[serde(default)]
    pub(super) pre_tokens: Count,
    #[serde(default)]
    pub(super) post_tokens: Count,
}

/// `rate_limit_event`: telemetry of the plan, of which only a refusal matters.
#[derive(Deserialize)]
pub(super) struct RateLimit<'a> {
    #[serde(borrow)]
    pub(super) rate_limit_info: RateLimitInfo<'a>,
}

#[derive(Deserialize)]
pub(super) struct RateLimitInfo<'a> {
    #[serde(borrow, default)]
    pub(super) status: Raw<'a>,
    #[serde(default, rename = "resetsAt")]
    pub(super) resets_at: Count,
}

/// `result`: the end of a turn.
#[derive(Deserialize)]
pub(super) struct TurnResult<'a> {
    #[serde(borrow, default)]
    pub(super) subtype: Raw<'a>,
    #[serde(default)]
    pub(super) is_error: Option<bool>,
    #[serde(borrow, default)]
    pub(super) session_id: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) result: Raw<'a>,
    #[serde(borrow, default)]
    pub(super) errors: Raw<'a>,
    #[serde(default)]
    pub(super) api_error_status: Count,
    #[serde(borrow, default)]
    pub(super) terminal_reason: Raw<'a>,
    #[serde(default)]
    pub(super) total_cost_usd: Option<f64>,
    #[serde(default)]
    pub(super) usage: Option<Tokens>,
    /// Of the whole session, over resumes: only the windows are of use.
    #[serde(borrow, default, rename = "modelUsage")]
    pub(super) session_models: Raw<'a>,
    /// Of this turn, sub-agents included.
    #[serde(borrow, default, rename = "model_usage_since_last_result")]
    pub(super) turn_models: Raw<'a>,
}

/// What a model was used for, by its name.
pub(super) type Models = BTreeMap<String, ModelUsage>;

#[derive(Deserialize)]
pub(super) struct ModelUsage {
    #[serde(default, rename = "inputTokens")]
    input: Count,
    #[serde(default, rename = "outputTokens")]
    output: Count,
    #[serde(default, rename = "cacheReadInputTokens")]
    cache_read: Count,
    #[serde(default, rename = "cacheCreationInputTokens")]
    cache_write: Count,
    #[serde(default, rename = "cacheCreationEphemeral1hInputTokens")]
    cache_write_1h: Count,
    #[serde(default, rename = "costUSD")]
    pub(super) cost: Option<f64>,
    #[serde(default, rename = "contextWindow")]
    pub(super) window: Count,
}

impl ModelUsage {
    pub(super) fn usage(&self) -> Usage {
        Usage {
            input: self.input.or_zero(),
            output: self.output.or_zero(),
            cache_read: self.cache_read.or_zero(),
            cache_write: self.cache_write.or_zero(),
            cache_write_1h: self.cache_write_1h.or_zero(),
        }
    }
}
