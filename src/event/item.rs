//! What an engine's stream says, in fia's words: the output of every decoder.

use std::ops::{Add, AddAssign};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;

/// Tokens by kind: of one request, of a turn, or of a whole run.
///
/// The kinds do not overlap: `input` is what was neither read from a cache nor written to one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens billed in full.
    pub input: u64,
    /// Tokens that the model produced.
    pub output: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache, whatever their lifetime.
    pub cache_write: u64,
    /// Of `cache_write`, those written for one hour, as far as the engine tells them apart.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_1h: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// No tokens at all.
    pub const NONE: Self = Self { input: 0, output: 0, cache_read: 0, cache_write: 0, cache_write_1h: 0 };

    /// Tokens in the model's window at this request: input, cache reads and cache writes, never output.
    ///
    /// Meaningful for the usage of one request only; of a sum it is no context.
    pub fn context(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// All tokens that count for a budget.
    pub fn total(&self) -> u64 {
        self.context().saturating_add(self.output)
    }

    /// Whether nothing was reported; such a usage is no reading.
    pub fn is_zero(&self) -> bool {
        self.total() == 0
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            cache_write_1h: self.cache_write_1h.saturating_add(other.cache_write_1h),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// One fact of an engine's stream.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineEvent {
    /// The engine named the session that it talks in. May repeat; the last one counts.
    Session {
        /// The engine's own id.
        session: SessionId,
        /// The model, as the engine calls it.
        model: Option<String>,
        /// Version of the CLI, when it says so.
        version: Option<String>,
    },
    /// A model call of the main thread answered; emitted once per message id, so `usage` may be
    /// a reading of the live context. Usage that is absent or all zero is `None`.
    Request {
        /// Usage of this one call; `output` may be incomplete while it streams.
        usage: Option<Usage>,
        /// The model's window in tokens, when the stream says it.
        window: Option<u64>,
    },
    /// The model's window became known or changed, in tokens.
    Window(u64),
    /// The engine compacted the session: earlier readings of its context are stale.
    Compacted {
        /// Live context before, in tokens.
        before: Option<u64>,
        /// Live context after, in tokens.
        after: Option<u64>,
    },
    /// Text of the agent in the main thread.
    Text(String),
    /// The agent called a tool; the idle clock stands still until it ends.
    ToolStarted {
        /// The engine's id of the call; empty when it gives none.
        call: String,
        /// The tool's name.
        tool: String,
        /// What it acts on, one line of at most 4096 characters.
        summary: String,
        /// The arguments as the stream has them, compact JSON of at most 4096 characters: for the digest.
        arguments: String,
    },
    /// A tool call ended.
    ToolEnded {
        /// The id given at its start.
        call: String,
        /// Whether it succeeded.
        ok: bool,
        /// The first line of the result, at most 4096 characters.
        first_line: String,
    },
    /// The CLI repeats a request by itself.
    Retrying {
        /// Which repetition this is, from 1, as the CLI counts.
        attempt: u32,
        /// How long it waits first, when it says so.
        delay: Option<Duration>,
        /// Why, in the CLI's words.
        reason: String,
    },
    /// Bytes that the protocol wants written to the engine's standard input now.
    Reply(Vec<u8>),
    /// A well-formed event of a kind that fia does not use.
    Unknown {
        /// Its kind.
        kind: String,
    },
    /// A line that is no event.
    Noise {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The turn's closing event came.
    TurnEnded(TurnOutcome),
}

/// How a turn ended, what it said and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnOutcome {
    /// How it ended.
    pub end: TurnEnd,
    /// The agent's last answer; absent when there was none.
    pub text: Option<String>,
    /// Tokens spent in this turn, sub-agents included; `None` is unknown, not nothing.
    pub usage: Option<Usage>,
    /// Dollars; `None` is unknown.
    pub cost: Option<Cost>,
}

/// What a CLI reports as cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cost {
    /// Dollars of this turn alone.
    Turn(f64),
    /// Dollars of the whole session so far, over resumes and forks: a difference is a turn's cost.
    SessionTotal(f64),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEnd {
    /// A closing event that reports success.
    Completed,
    /// It ended before its work did, by a limit that is no death of the engine.
    Cut(Cut),
    /// It failed.
    Failed(Failure),
}

/// Ends that are neither success nor death.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The model ran into its output limit.
    OutputLimit,
    /// The turn limit that fia set was reached.
    MaxTurns,
    /// fia asked the engine to stop.
    Interrupted,
}

/// Why a turn failed: the kinds of SPEC section 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Overload, 5xx, network: worth another try soon.
    Overload,
    /// No closing event, cut stream, death by signal.
    Crash,
    /// The idle or total limit passed.
    Timeout,
    /// Plan, quota, 429, empty account.
    Limit,
    /// Credentials missing, expired, refused, withdrawn.
    Login,
    /// No program, wrong version, unknown model, bad flag, untrusted directory.
    Missing,
    /// The prompt or session does not fit the model.
    ContextOverflow,
    /// The session to resume is unknown or malformed.
    BadSession,
}

impl FailureKind {
    /// Whether the same engine is worth one more try.
    pub fn is_transient(self) -> bool {
        match self {
            Self::Overload | Self::Crash | Self::Timeout => true,
            Self::Limit | Self::Login | Self::Missing | Self::ContextOverflow | Self::BadSession => false,
        }
    }

    /// The name as logged.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overload => "overload",
            Self::Crash => "crash",
            Self::Timeout => "timeout",
            Self::Limit => "limit",
            Self::Login => "login",
            Self::Missing => "missing",
            Self::ContextOverflow => "context_overflow",
            Self::BadSession => "bad_session",
        }
    }
}

/// A failed turn, classified.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// What the engine said, at most 500 characters.
    pub message: String,
    /// When the same engine can be tried again, as far as the engine said so.
    pub reset: Reset,
}

/// When a limit ends, as the engine put it. A clock turns it into a time: `engine::failure::retry_at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reset {
    /// Nothing was said.
    Unknown,
    /// A point in time.
    At(DateTime<Utc>),
    /// A span from the moment of the failure.
    After(Duration),
    /// A sentence that names a time of day, a date or a zone, to be read with a clock.
    Sentence(String),
}
