//! The gate of pruning and what it remembers: clocks by conversation, replacements by session.
//!
//! A state machine without a clock or a file of its own. The caller plans a request, writes the state to
//! disk when the plan says so, sends the request, and reports its success.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::round::{self, Cut, Kind, NoRound, Round, Shape};
use super::settings::{Mode, Settings};
use super::sticky::{CallKey, Replacement, Replacements, Replay, source_sha256};
use super::{Message, ToolResult, shape};
use crate::economy::prices::{CacheLifetime, Rates};
use crate::event::ContextPruned;
use crate::ids::AgentName;

/// Window of a model of which nothing is known, in tokens.
pub const DEFAULT_WINDOW: u64 = 200_000;

/// Conversations of one session that are remembered: its own, sub-agents and side calls.
const MAX_CONVERSATIONS: usize = 64;

/// The number of the file format that this program writes.
const FORMAT: u32 = 1;

/// What pruning remembers of a session; the content of `pruning/AGENT.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PruneState {
    format: u32,
    replacements: Replacements,
    conversations: BTreeMap<String, Conversation>,
}

impl Default for PruneState {
    fn default() -> Self {
        Self { format: FORMAT, replacements: Replacements::default(), conversations: BTreeMap::new() }
    }
}

/// What is remembered of one conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Conversation {
    /// Start of the last successful request, or of one whose round changed something, in milliseconds.
    clock_ms: Option<i64>,
    /// What the last answer said about the size of its request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
    /// The last body as it came, to know a repetition by. A repetition does not outlive this process.
    #[serde(skip)]
    last_body: Option<String>,
}

/// A size that an answer reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Measured {
    /// Input tokens of the request, cached ones included.
    tokens: u64,
    /// Messages that it had.
    messages: usize,
}

/// Why a state file could not be read; it is to be set aside with this as the warning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateDamage {
    /// It is torn, or something else.
    #[error("the file is no pruning state: {0}")]
    Unreadable(String),
    /// Another version wrote it.
    #[error("the file has format {0}, and {FORMAT} is the one known here")]
    Format(u32),
}

/// A request about to leave.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Which conversation of the session it belongs to: `wire::Body::conversation`, or a constant where there is one.
    pub conversation: &'a str,
    /// Its messages as they came.
    pub messages: &'a [Message<'a>],
    /// When it started, in milliseconds since 1970.
    pub now_ms: i64,
    /// What it is.
    pub kind: RequestKind<'a>,
    /// The model's window in tokens; `None` never prunes.
    pub window: Option<u64>,
    /// How long the provider keeps what this request writes to its cache.
    pub lifetime: CacheLifetime,
    /// Relative prices, for rounds on a warm cache.
    pub rates: Rates,
    /// Requests still expected in this session, this one included.
    pub expected: u32,
}

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind<'a> {
    /// A request of the model.
    Model {
        /// Hash of the body as it came.
        body_sha256: &'a str,
        /// Whether the client says that it repeats itself.
        retry: bool,
    },
    /// A question about the size of one: it is told what would be sent, and changes nothing.
    CountTokens,
}

/// What is to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Every result that is replaced, replayed or new, in order of index; all others go as they came.
    pub shown: Vec<Shown>,
    /// The round that ran, or why none did.
    pub round: Result<RoundReport, NoRound>,
    /// Whether the state must be on disk before the request leaves.
    pub save: Save,
    /// To be handed back when the request succeeded.
    pub ticket: Ticket,
    /// Time since the last successful request, in milliseconds; `None` is unknown.
    pub gap_ms: Option<u64>,
    chars: u64,
    window: Option<u64>,
}

/// A result and what stands in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Index of its message.
    pub index: usize,
    /// How much of it is gone.
    #[serde(rename = "mode")]
    pub cut: Cut,
    /// The text of its one block.
    pub text: String,
}

/// Whether a state changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Save {
    /// Write it.
    Needed,
    /// What is on disk is true.
    NotNeeded,
}

/// What opened the gate for a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Opening {
    /// The cache was gone.
    Ttl,
    /// The cache was warm, and the round pays.
    Warm,
    /// The cache was gone, and only the absolute trigger let the round through.
    Trigger,
}

/// A round that ran.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundReport {
    /// What opened the gate.
    pub opening: Opening,
    /// Results trimmed by it.
    pub soft: u32,
    /// Results cleared by it.
    pub hard: u32,
    /// What it decided.
    pub round: Round,
}

/// Which request it was that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    conversation: String,
    started_ms: i64,
    messages: usize,
}

impl PruneState {
    /// Reads a state file; what cannot be read is empty, and said.
    pub fn parse(bytes: &[u8]) -> (Self, Option<StateDamage>) {
        match serde_json::from_slice::<Self>(bytes) {
            Ok(state) if state.format == FORMAT => (state, None),
            Ok(state) => (Self::default(), Some(StateDamage::Format(state.format))),
            Err(error) => (Self::default(), Some(StateDamage::Unreadable(error.to_string()))),
        }
    }

    /// The whole file, with a newline at its end.
    pub fn render(&self) -> Vec<u8> {
        // Texts and numbers always have a JSON form; no bytes at all would be read as damage, not as empty.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// The replacements in force.
    pub fn replacements(&self) -> &Replacements {
        &self.replacements
    }

    /// The clock of a conversation, in milliseconds; `None` is unknown.
    pub fn clock_ms(&self, conversation: &str) -> Option<i64> {
        self.conversations.get(conversation)?.clock_ms
    }

    /// Sets the clock of a conversation, from what is known elsewhere.
    pub fn set_clock(&mut self, conversation: &str, at_ms: i64) {
        self.conversation(conversation).clock_ms = Some(at_ms);
    }

    /// Decides what of a request is replaced: what was replaced before, and, the gate open, what a round adds.
    /// `settings` are `None` when pruning is off: that stops rounds, never replay.
    pub fn plan(&mut self, settings: Option<&Settings>, request: &Request<'_>) -> Plan {
        let replay = self.replacements.replay(request.messages);
        let default = Settings::of(Mode::CacheTtl);
        let shapes = shapes(request.messages, &replay, settings.unwrap_or(&default));
        let clock_ms = self.conversations.get(request.conversation).and_then(|known| known.clock_ms);
        let gap_ms = clock_ms.map(|clock| u64::try_from(request.now_ms.saturating_sub(clock)).unwrap_or(0));
        let total = self.total(request, &shapes);
        let round = match settings {
            None => Err(NoRound::Off),
            Some(settings) => {
                self.gate(settings, request, gap_ms).and_then(|gate| run_round(gate, settings, request, &shapes, total))
            }
        };

        let mut shown: BTreeMap<usize, Shown> = replay
            .found
            .iter()
            .map(|(index, old)| (*index, Shown { index: *index, cut: old.cut, text: old.text.clone() }))
            .collect();
        let mut added = Vec::new();
        if let (Some(settings), Ok(report)) = (settings, &round) {
            for change in &report.round.changes {
                let Message::Tool(result) = &request.messages[change.index] else { continue };
                let Some(replacement) = replacement(result, change.cut, settings) else { continue };
                let text = replacement.text.clone();
                shown.insert(change.index, Shown { index: change.index, cut: change.cut, text });
                added.push((replay.keys[&change.index].clone(), replacement));
            }
        }
        let stale = replay.stale;
        let chars = total.unwrap_or_else(|| shapes.iter().map(|shape| shape.chars).sum());
        let save = self.remember(request, &stale, added);
        let ticket = Ticket {
            conversation: request.conversation.to_owned(),
            started_ms: request.now_ms,
            messages: request.messages.len(),
        };
        Plan { shown: shown.into_values().collect(), round, save, ticket, gap_ms, chars, window: request.window }
    }

    /// A request succeeded: a status of 2xx, and a stream that reached its end. `input_tokens` is what its answer
    /// says about the size of the request, cached tokens included.
    pub fn succeeded(&mut self, ticket: &Ticket, input_tokens: Option<u64>) {
        let conversation = self.conversation(&ticket.conversation);
        conversation.clock_ms = conversation.clock_ms.max(Some(ticket.started_ms));
        conversation.measured =
            input_tokens.map(|tokens| Measured { tokens, messages: ticket.messages }).or(conversation.measured);
    }

    fn conversation(&mut self, name: &str) -> &mut Conversation {
        if !self.conversations.contains_key(name) && self.conversations.len() >= MAX_CONVERSATIONS {
            let oldest = self.conversations.iter().min_by_key(|(_, known)| known.clock_ms);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.conversations.remove(&oldest);
            }
        }
        self.conversations.entry(name.to_owned()).or_default()
    }

    /// Size of the conversation by the last answer and what came after it, in characters.
    fn total(&self, request: &Request<'_>, shapes: &[Shape]) -> Option<u64> {
        let measured = self.conversations.get(request.conversation)?.measured?;
        let appended = shapes.get(measured.messages..)?.iter().map(|shape| shape.chars).sum::<u64>();
        Some(measured.tokens.saturating_mul(round::CHARS_PER_TOKEN).saturating_add(appended))
    }

    fn gate(&self, settings: &Settings, request: &Request<'_>, gap_ms: Option<u64>) -> Result<Gate, NoRound> {
        match request.kind {
            RequestKind::CountTokens => return Err(NoRound::CountTokens),
            RequestKind::Model { body_sha256, retry: true } if self.is_last_body(request, body_sha256) => {
                return Err(NoRound::Retry);
            }
            RequestKind::Model { .. } => {}
        }
        let ttl = settings.ttl.resolve(request.lifetime).ok_or(NoRound::Off)?;
        let gap = Duration::from_millis(gap_ms.ok_or(NoRound::NoClock)?);
        match (gap >= ttl, settings.warm_break_even) {
            (true, _) => Ok(Gate::Cold),
            (false, true) => Ok(Gate::Warm),
            (false, false) => Err(NoRound::Warm),
        }
    }

    fn is_last_body(&self, request: &Request<'_>, body_sha256: &str) -> bool {
        let known = self.conversations.get(request.conversation);
        known.and_then(|known| known.last_body.as_deref()) == Some(body_sha256)
    }

    fn remember(&mut self, request: &Request<'_>, stale: &[CallKey], added: Vec<(CallKey, Replacement)>) -> Save {
        let RequestKind::Model { body_sha256, .. } = request.kind else { return Save::NotNeeded };
        let save = if stale.is_empty() && added.is_empty() { Save::NotNeeded } else { Save::Needed };
        let conversation = self.conversation(request.conversation);
        conversation.last_body = Some(body_sha256.to_owned());
        if !added.is_empty() {
            conversation.clock_ms = Some(request.now_ms);
        }
        for key in stale {
            self.replacements.remove(key);
        }
        for (key, replacement) in added {
            self.replacements.insert(key, replacement);
        }
        save
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Cold,
    Warm,
}

fn run_round(
    gate: Gate,
    settings: &Settings,
    request: &Request<'_>,
    shapes: &[Shape],
    total: Option<u64>,
) -> Result<RoundReport, NoRound> {
    let round = round::decide(shapes, settings, request.window, total)?;
    let opening = match (gate, round.by_trigger) {
        (Gate::Cold, false) => Opening::Ttl,
        (Gate::Cold, true) => Opening::Trigger,
        (Gate::Warm, _) => {
            let write = request.rates.write(request.lifetime);
            if !round::pays_while_warm(&round, request.expected, request.rates.read, write) {
                return Err(NoRound::Warm);
            }
            Opening::Warm
        }
    };
    let count = |cut| u32::try_from(round.changes.iter().filter(|c| c.cut == cut).count()).unwrap_or(u32::MAX);
    Ok(RoundReport { opening, soft: count(Cut::Soft), hard: count(Cut::Hard), round })
}

/// The messages as they would be sent without a round.
fn shapes(messages: &[Message<'_>], replay: &Replay<'_>, settings: &Settings) -> Vec<Shape> {
    let sent = |(index, message): (usize, &Message<'_>)| {
        let whole = shape(message, settings);
        let Some(old) = replay.found.get(&index) else { return whole };
        let kind = match (old.cut, whole.kind) {
            (Cut::Soft, Kind::Whole { .. }) => Kind::Trimmed,
            (Cut::Soft | Cut::Hard, _) => Kind::Fixed,
        };
        Shape { kind, chars: old.text.chars().count() as u64 }
    };
    messages.iter().enumerate().map(sent).collect()
}

fn replacement(result: &ToolResult<'_>, cut: Cut, settings: &Settings) -> Option<Replacement> {
    let text = match cut {
        Cut::Hard => settings.hard_clear.placeholder.clone(),
        Cut::Soft => {
            let source = result.source(settings.images)?;
            let (trim, chars) = (settings.soft_trim, source.chars().count() as u64);
            if trim.applies(chars) {
                round::trimmed(&source, chars, trim.head_chars, trim.tail_chars)
            } else {
                source.into_owned()
            }
        }
    };
    Some(Replacement { cut, text, source_sha256: source_sha256(result)? })
}

impl Plan {
    /// The fact for the log. `first_changed` names the block that the caller found at `first_changed_index`.
    pub fn event(&self, agent: AgentName, first_changed: Option<String>) -> ContextPruned {
        let (reason, soft, hard, after) = match &self.round {
            Ok(report) => (report.opening.as_str(), report.soft, report.hard, report.round.chars_after),
            Err(why) => (why.as_str(), 0, 0, self.chars),
        };
        ContextPruned {
            agent,
            reason: reason.to_owned(),
            soft,
            hard,
            chars_before: self.chars,
            chars_after: after,
            ratio_before: self.ratio(self.chars),
            ratio_after: self.ratio(after),
            gap_ms: self.gap_ms,
            first_changed,
        }
    }

    /// Index of the first message that the round of this request changed.
    pub fn first_changed_index(&self) -> Option<usize> {
        self.round.as_ref().ok()?.round.changes.first().map(|change| change.index)
    }

    #[expect(clippy::cast_precision_loss, reason = "sizes of conversations are far below 2^53")]
    fn ratio(&self, chars: u64) -> f64 {
        let window = self.window.unwrap_or(DEFAULT_WINDOW).max(1);
        chars as f64 / (window * round::CHARS_PER_TOKEN) as f64
    }
}

impl Opening {
    /// The name as logged.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::Warm => "warm",
            Self::Trigger => "trigger",
        }
    }
}

#[cfg(test)]
mod tests;
