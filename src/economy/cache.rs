//! What usage says about the provider's cache: hit ratio, rewrites, and breaks with their likely cause.
//!
//! Readings are those of main-thread requests, once per message id, in order.

use std::time::Duration;

use crate::event::{BreakCause, Usage};

/// Tokens that a request may miss without it being called a break: providers cache in blocks.
const SLACK_TOKENS: u64 = 2048;

/// How requests in a row used the cache, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheUse {
    read: u64,
    written: u64,
    /// All input, cached or not.
    all: u64,
    /// The largest live context.
    largest: u64,
}

impl CacheUse {
    /// Takes in a request.
    pub fn push(&mut self, usage: &Usage) {
        self.read = self.read.saturating_add(usage.cache_read);
        self.written = self.written.saturating_add(usage.cache_write);
        self.all = self.all.saturating_add(usage.context());
        self.largest = self.largest.max(usage.context());
    }

    /// Share of the input tokens that came from the cache; `None` without any.
    pub fn hit_ratio(&self) -> Option<f64> {
        ratio(self.read, self.all)
    }

    /// Tokens written to the cache over the largest live context: 1 is each token written once. `None` without any.
    pub fn rewrite_factor(&self) -> Option<f64> {
        ratio(self.written, self.largest)
    }
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A request that found less in the cache than the last one left there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Miss {
    /// Tokens that the last request read from the cache or wrote to it.
    pub expected: u64,
    /// Tokens that this one read.
    pub seen: u64,
    /// Whether at least half of them were lost.
    pub full: bool,
}

impl Miss {
    /// Tokens that were expected and not read.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.seen)
    }
}

/// Compares two requests in a row; `None` when the cache held, or missed no more than blocks explain.
pub fn miss(previous: &Usage, this: &Usage) -> Option<Miss> {
    let expected = previous.cache_read.saturating_add(previous.cache_write);
    let lost = expected.saturating_sub(this.cache_read);
    // More than 5%, in whole numbers: 20 * lost > expected.
    let is_break = lost > SLACK_TOKENS && lost.saturating_mul(20) > expected;
    is_break.then(|| Miss { expected, seen: this.cache_read, full: lost.saturating_mul(2) >= expected })
}

/// What happened between two requests, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, read in the order of their weight")]
pub struct Between {
    /// The engine compacted the session.
    pub compacted: bool,
    /// fia gave the agent a fresh session.
    pub rotated: bool,
    /// A round of pruning changed old results.
    pub pruned: bool,
    /// Another model or effort.
    pub model_changed: bool,
    /// Another system prompt or tool set.
    pub prefix_changed: bool,
    /// Time from the start of one to the start of the other.
    pub gap: Option<Duration>,
    /// The request is the first one of its process.
    pub new_process: bool,
}

/// The likely cause of a break: the first that fits.
pub fn cause(between: &Between, ttl: Duration) -> BreakCause {
    let facts = [
        (between.compacted, BreakCause::Compaction),
        (between.rotated, BreakCause::Rotation),
        (between.pruned, BreakCause::Pruning),
        (between.model_changed, BreakCause::ModelChanged),
        (between.prefix_changed, BreakCause::PrefixChanged),
        (between.gap.is_some_and(|gap| gap >= ttl), BreakCause::TtlPassed),
        (between.new_process, BreakCause::ResumeRewrite),
    ];
    facts.into_iter().find(|(holds, _)| *holds).map_or(BreakCause::Unknown, |(_, cause)| cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cache_read: u64, cache_write: u64) -> Usage {
        Usage { input: 4, output: 9, cache_read, cache_write, cache_write_1h: 0 }
    }

    #[test]
    fn r6_8_a_shortfall_within_the_slack_is_no_break() {
        assert_eq!(miss(&usage(90_000, 10_000), &usage(100_000, 1000)), None);
        assert_eq!(miss(&usage(90_000, 10_000), &usage(95_000, 1000)), None);
        assert_eq!(miss(&usage(9000, 1000), &usage(7952, 0)), None);
        assert_eq!(miss(&usage(9000, 1000), &usage(7951, 0)), Some(Miss { expected: 10_000, seen: 7951, full: false }));
        let lost = miss(&usage(90_000, 10_000), &usage(94_999, 1000)).unwrap();
        assert_eq!((lost.lost(), lost.full), (5001, false));
    }

    #[test]
    fn r6_8_a_read_that_stays_flat_while_the_session_grows_is_seen() {
        let lost = miss(&usage(20_000, 60_000), &usage(20_000, 62_000)).unwrap();
        assert_eq!((lost.lost(), lost.full), (60_000, true));
    }

    #[test]
    fn r6_8_the_first_cause_that_fits_is_named() {
        let ttl = Duration::from_secs(300);
        let mut between = Between { gap: Some(ttl), new_process: true, ..Between::default() };
        assert_eq!(cause(&between, ttl), BreakCause::TtlPassed);
        between.gap = Some(Duration::from_millis(299_999));
        assert_eq!(cause(&between, ttl), BreakCause::ResumeRewrite);
        between.pruned = true;
        between.compacted = true;
        assert_eq!(cause(&between, ttl), BreakCause::Compaction);
        assert_eq!(cause(&Between::default(), ttl), BreakCause::Unknown);
    }

    #[test]
    fn ratios_of_nothing_are_unknown() {
        let mut used = CacheUse::default();
        used.push(&Usage::default());
        assert_eq!((used.hit_ratio(), used.rewrite_factor()), (None, None));
        for usage in [usage(0, 996), usage(1000, 0), usage(0, 996)] {
            used.push(&usage);
        }
        assert_eq!(used.hit_ratio(), Some(1000.0 / 3004.0));
        assert_eq!(used.rewrite_factor(), Some(1992.0 / 1004.0));
    }
}
