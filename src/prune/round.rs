//! One round of pruning, decided on lengths alone: which results are trimmed, which are cleared.
//!
//! Texts are made afterwards, so that a simulation of a thousand conversations drives this very function.

use super::settings::Settings;

/// Characters that are taken for one token in the estimate of a window.
pub const CHARS_PER_TOKEN: u64 = 4;

/// Characters that an image counts.
pub const IMAGE_CHARS: u64 = 8000;

/// Characters that a message of an unknown role counts.
pub const UNKNOWN_ROLE_CHARS: u64 = 256;

/// What a round has to know of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// What it is, and what may become of it.
    pub kind: Kind,
    /// Its size as it would be sent without this round.
    pub chars: u64,
}

/// What a message is to a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of the user.
    User,
    /// Of the model.
    Assistant,
    /// A tool result that never changes (any more): its tool is excluded, it holds an image, it was cleared.
    Fixed,
    /// A tool result as it came.
    Whole {
        /// Length of its text blocks joined by newlines, in characters.
        joined: u64,
        /// Whether it holds images that are to become text in any case.
        images: bool,
    },
    /// A tool result that is sent trimmed already; it may still be cleared.
    Trimmed,
    /// Anything else.
    Other,
}

/// How much of a result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// Its middle.
    Soft,
    /// All of it.
    Hard,
}

/// A result that a round replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Index of its message.
    pub index: usize,
    /// How much of it goes.
    pub cut: Cut,
    /// Its size afterwards, in characters.
    pub chars: u64,
}

/// A round that changes something.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// What it replaces, in order of index.
    pub changes: Vec<Change>,
    /// Size of all messages before it, in characters.
    pub chars_before: u64,
    /// Size of all messages after it.
    pub chars_after: u64,
    /// Whether only the absolute trigger let it through.
    pub by_trigger: bool,
    /// Characters of the messages from the first changed one to the end, after the round.
    pub tail_chars: u64,
}

impl Round {
    /// Characters that it removes; negative when replacements are longer.
    pub fn removed(&self) -> i64 {
        i64::try_from(self.chars_before).unwrap_or(i64::MAX) - i64::try_from(self.chars_after).unwrap_or(i64::MAX)
    }
}

/// Why a round did not run. A silent gate looks like a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoRound {
    /// Pruning is off, or its ttl is 0.
    Off,
    /// Nothing is known of an earlier request.
    NoClock,
    /// The cache is warm, and a round would not pay.
    Warm,
    /// The conversation is small.
    UnderRatio,
    /// Fewer answers than are protected.
    TooFewAssistants,
    /// No result that may change, or none that would.
    NothingEligible,
    /// The size of the model's window is not known.
    NoWindow,
    /// The body is none that fia understands.
    UnknownBody,
    /// The same request again: it gets what its first try got.
    Retry,
    /// A question about sizes, no request.
    CountTokens,
}

impl NoRound {
    /// The name as logged.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::NoClock => "no_clock",
            Self::Warm => "warm",
            Self::UnderRatio => "under_ratio",
            Self::TooFewAssistants => "too_few_assistants",
            Self::NothingEligible => "nothing_eligible",
            Self::NoWindow => "no_window",
            Self::UnknownBody => "unknown_body",
            Self::Retry => "retry",
            Self::CountTokens => "count_tokens",
        }
    }
}

/// Decides one round with the gate open.
///
/// `window` is the model's, in tokens; `total` the measured size of the conversation in characters, where
/// there is a measurement, else the sum over `shapes`.
///
/// # Errors
///
/// Why nothing is to change.
pub fn decide(
    shapes: &[Shape],
    settings: &Settings,
    window: Option<u64>,
    total: Option<u64>,
) -> Result<Round, NoRound> {
    let window = window.filter(|window| *window > 0).ok_or(NoRound::NoWindow)?;
    let cutoff = cutoff(shapes, settings.keep_last_assistants).ok_or(NoRound::TooFewAssistants)?;
    let start = shapes.iter().position(|shape| shape.kind == Kind::User).ok_or(NoRound::NothingEligible)?;
    let range = start..cutoff.max(start);
    let total = total.unwrap_or_else(|| shapes.iter().map(|shape| shape.chars).sum());

    let mut pass = Pass { settings, window_chars: window.saturating_mul(CHARS_PER_TOKEN), total, eligible: Vec::new() };
    pass.eligible = range
        .filter(|index| matches!(shapes[*index].kind, Kind::Whole { .. } | Kind::Trimmed))
        .map(|index| Eligible { index, kind: shapes[index].kind, chars: shapes[index].chars, cut: None })
        .collect();

    let by_ratio = !pass.is_under(settings.soft_trim_ratio);
    if !by_ratio && !pass.is_over_trigger() {
        return Err(NoRound::UnderRatio);
    }
    pass.soft();
    pass.hard();

    let changes: Vec<Change> = pass
        .eligible
        .iter()
        .filter_map(|result| Some(Change { index: result.index, cut: result.cut?, chars: result.chars }))
        .collect();
    let first = changes.first().ok_or(NoRound::NothingEligible)?.index;
    let mut tail_chars: u64 = shapes[first..].iter().map(|shape| shape.chars).sum();
    for change in &changes {
        tail_chars = (tail_chars + change.chars).saturating_sub(shapes[change.index].chars);
    }
    Ok(Round { changes, chars_before: total, chars_after: pass.total, by_trigger: !by_ratio, tail_chars })
}

/// Index from which on nothing changes; `None` with fewer answers than are to be kept.
fn cutoff(shapes: &[Shape], keep: usize) -> Option<usize> {
    let Some(after) = keep.checked_sub(1) else { return Some(shapes.len()) };
    let answers = shapes.iter().enumerate().rev().filter(|(_, shape)| shape.kind == Kind::Assistant);
    answers.map(|(index, _)| index).nth(after)
}

struct Eligible {
    index: usize,
    kind: Kind,
    chars: u64,
    cut: Option<Cut>,
}

struct Pass<'a> {
    settings: &'a Settings,
    window_chars: u64,
    total: u64,
    eligible: Vec<Eligible>,
}

impl Pass<'_> {
    #[expect(clippy::cast_precision_loss, reason = "sizes of conversations are far below 2^53")]
    fn is_under(&self, ratio: f64) -> bool {
        self.total as f64 / (self.window_chars as f64) < ratio
    }

    fn eligible_chars(&self) -> u64 {
        self.eligible.iter().map(|result| result.chars).sum()
    }

    /// Characters of eligible results at which a round runs whatever the ratio.
    fn trigger_chars(&self) -> Option<u64> {
        self.settings.absolute_trigger_tokens.map(|tokens| tokens.saturating_mul(CHARS_PER_TOKEN))
    }

    fn is_over_trigger(&self) -> bool {
        self.trigger_chars().is_some_and(|trigger| self.eligible_chars() >= trigger)
    }

    /// Trims every eligible result that is too long, oldest first, without an early stop.
    fn soft(&mut self) {
        let trim = self.settings.soft_trim;
        for at in 0..self.eligible.len() {
            let Kind::Whole { joined, images } = self.eligible[at].kind else { continue };
            if trim.applies(joined) {
                self.replace(at, Cut::Soft, trimmed_chars(joined, trim.head_chars, trim.tail_chars));
            } else if images {
                self.replace(at, Cut::Soft, joined);
            }
        }
    }

    /// Clears eligible results, oldest first, until the conversation is small enough.
    fn hard(&mut self) {
        let by_ratio = !self.is_under(self.settings.hard_clear_ratio);
        let by_trigger = self.is_over_trigger();
        let is_due = self.settings.hard_clear.enabled && (by_ratio || by_trigger);
        if !is_due || self.eligible_chars() < self.settings.min_prunable_tool_chars {
            return;
        }
        let placeholder = self.settings.hard_clear.placeholder.chars().count() as u64;
        let target = self.settings.hard_clear_ratio * self.settings.low_mark.unwrap_or(1.0);
        let half_trigger = self.trigger_chars().unwrap_or(0) / 2;
        let mut left = self.eligible_chars();
        for at in 0..self.eligible.len() {
            let before = self.eligible[at].chars;
            self.replace(at, Cut::Hard, placeholder);
            left = (left + self.eligible[at].chars).saturating_sub(before);
            if (!by_ratio || self.is_under(target)) && (!by_trigger || left <= half_trigger) {
                return;
            }
        }
    }

    fn replace(&mut self, at: usize, cut: Cut, chars: u64) {
        let result = &mut self.eligible[at];
        if self.settings.never_grow && chars > result.chars {
            return;
        }
        self.total = (self.total + chars).saturating_sub(result.chars);
        result.chars = chars;
        result.cut = Some(cut);
    }
}

/// What stands between head and tail of a trimmed result.
const GAP: &str = "\n...\n";

/// Length of a trimmed result, in characters: that of [`trimmed`] without its text.
pub fn trimmed_chars(joined: u64, head: u64, tail: u64) -> u64 {
    head + GAP.len() as u64 + tail + note(joined, head, tail).len() as u64
}

/// A text with its middle gone. Whole characters only; `joined` is its length in characters.
pub fn trimmed(text: &str, joined: u64, head: u64, tail: u64) -> String {
    let start = text.char_indices().nth(clamped(head)).map_or(text.len(), |(at, _)| at);
    let end = match clamped(tail).checked_sub(1) {
        None => text.len(),
        Some(before) => text.char_indices().rev().nth(before).map_or(0, |(at, _)| at),
    };
    [&text[..start], GAP, &text[end..], &note(joined, head, tail)].concat()
}

fn clamped(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn note(joined: u64, head: u64, tail: u64) -> String {
    format!("\n\n[Tool result trimmed: kept first {head} chars and last {tail} chars of {joined} chars.]")
}

/// Whether a round on a warm cache pays: what it removes, over the requests still to come, against writing
/// everything from the first change to the end again.
///
/// `read` and `write` are prices of a token relative to an uncached one.
#[expect(clippy::cast_precision_loss, reason = "sizes of conversations are far below 2^53")]
pub fn pays_while_warm(round: &Round, expected_requests: u32, read: f64, write: f64) -> bool {
    read * round.removed() as f64 * f64::from(expected_requests) > (write - read) * round.tail_chars as f64
}

#[cfg(test)]
mod tests;
