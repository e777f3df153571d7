//! What saved tokens are in dollars: cache reads are cheap and what is written again is not, so that fewer tokens may
//! be dearer.

use super::frame::Frame;
use super::numbers::{count, dollars};
use super::projection::Projection;
use super::savings::RotationSaving;
use crate::economy::prices::{self, Prices};
use crate::event::Usage;

/// Dollars for a million tokens of a model's cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CachePrices {
    /// Read from it.
    pub read: f64,
    /// Written to it.
    pub write: f64,
}

impl CachePrices {
    /// What the cache of a model costs a run: read, and written as long-lived as this run wrote it; `None` where the
    /// model has no price.
    pub fn of(state: &Projection, frame: &Frame, model: &str) -> Option<Self> {
        let found = prices::find(&frame.models, model)?;
        let rows = state.models.iter().filter(|row| row.model == model);
        let written = rows.fold(Usage::default(), |sum, row| sum + row.spend.tokens_known);
        found.prices.map(|prices| Self::at(&prices, written))
    }

    /// A write costs what the writes of `written` cost on average.
    fn at(prices: &Prices, written: Usage) -> Self {
        let Usage { cache_write, cache_write_1h, .. } = written;
        let only = Usage { cache_write, cache_write_1h, ..Usage::default() };
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
        let write = if cache_write == 0 { prices.write_5m } else { prices.cost_usd(&only) * 1e6 / cache_write as f64 };
        Self { read: prices.cache_read, write }
    }
}

/// Dollars that a rotation saved; below 0 it cost more than it saved, and `None` is unknown.
#[expect(clippy::cast_precision_loss, reason = "dollars for people; tokens stay far below 2^52")]
pub fn saved_usd(saving: &RotationSaving, prices: Option<CachePrices>) -> Option<f64> {
    let millions = |tokens: f64| tokens / 1e6;
    let prices = prices.filter(|_| saving.would.is_some())?;
    Some(millions(saving.reads_saved as f64) * prices.read - millions(saving.written_again as f64) * prices.write)
}

/// Dollars that all of these rotations saved, as far as they can be compared; `None` when one of them is unknown.
pub fn all_saved_usd(rotations: &[RotationSaving], state: &Projection, frame: &Frame) -> Option<f64> {
    let compared = rotations.iter().filter(|saving| saving.would.is_some());
    compared
        .map(|saving| saved_usd(saving, prices_of(saving, |model| CachePrices::of(state, frame, model), state)))
        .sum()
}

/// The prices of the model that works for the agent of a rotation.
pub fn prices_of(
    saving: &RotationSaving,
    prices: impl Fn(&str) -> Option<CachePrices>,
    state: &Projection,
) -> Option<CachePrices> {
    state.agent(&saving.agent).and_then(|agent| agent.model.as_deref()).and_then(prices)
}

/// What was saved, in words.
pub fn saved_words(tokens: i64) -> String {
    let count = count(tokens.unsigned_abs());
    if tokens < 0 { format!("cost about {count} tokens more") } else { format!("saved about {count} tokens") }
}

/// What the dollars say against it, where they have the other sign.
pub fn yet_words(tokens: i64, usd: f64) -> Option<String> {
    match (tokens < 0, usd < 0.0) {
        (false, true) => Some(format!(", but cost {} more", dollars(-usd))),
        (true, false) if usd > 0.0 => Some(format!(", but saved {}", dollars(usd))),
        (true | false, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_write_costs_what_the_writes_of_the_run_cost_on_average() {
        let prices = Prices { input: 4.0, output: 20.0, cache_read: 0.2, write_5m: 5.0, write_1h: 8.0 };
        let written = |cache_write, cache_write_1h| Usage { cache_write, cache_write_1h, ..Usage::default() };
        assert_eq!(CachePrices::at(&prices, written(0, 0)), CachePrices { read: 0.2, write: 5.0 });
        assert_eq!(CachePrices::at(&prices, written(100, 50)), CachePrices { read: 0.2, write: 6.5 });
    }

    #[test]
    fn dollars_are_named_apart_only_where_they_say_the_contrary() {
        assert_eq!(yet_words(124_000, -0.0491).as_deref(), Some(", but cost $0.05 more"));
        assert_eq!(yet_words(-9_000, 0.2).as_deref(), Some(", but saved $0.20"));
        assert_eq!(
            [yet_words(5, 0.1), yet_words(5, 0.0), yet_words(-5, -0.1), yet_words(-5, 0.0)],
            [None, None, None, None]
        );
    }
}
