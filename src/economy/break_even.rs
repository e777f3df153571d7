//! When a fresh session is cheaper than the old one: the sums, and the rules of `session_rotation`.
//!
//! Only re-reading has a price here. Working memory that a fresh session lacks has none, so a ceiling that
//! is cheapest by these sums is a lower bound of what serves the work.

use std::collections::VecDeque;

use serde::Serialize;

use super::prices::{CacheLifetime, Rates};
use crate::event::RotationReason;
use crate::plan::RotationPolicy;

/// Tokens that a fresh session is taken to read again until it is as far as the old one, before one was measured.
const ASSUMED_REREAD: u64 = 12_000;

/// Requests after which a fresh session is taken to be as far as the old one.
const SETTLED_AFTER: usize = 8;

/// Requests whose growth counts: more than a long session has, and what a median is quickly found of.
const GROWTHS_KEPT: usize = 1024;

/// Limits of the requests that a one-shot turn is given.
const TURNS: std::ops::RangeInclusive<u64> = 5..=200;

/// What the provider's cache holds of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheState {
    /// All that its last request left there.
    Warm,
    /// Nothing: its last successful request began too long ago.
    Cold,
}

/// A session at the moment of a decision, and the fresh one that could take its place. Tokens throughout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Live context.
    pub context: u64,
    /// What a fresh session holds once it is as far.
    pub fresh: u64,
    /// The part of that which is in the cache already.
    pub prefix: u64,
    /// Requests still expected.
    pub expected: u32,
    /// What the cache holds.
    pub cache: CacheState,
    /// Relative prices.
    pub rates: Rates,
    /// How long the cache lasts.
    pub lifetime: CacheLifetime,
}

/// Both sides of a decision by price, in uncached tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Price {
    /// What the expected requests cost in the old session.
    pub keep_cost: f64,
    /// What they cost in a fresh one, its start included.
    pub fresh_cost: f64,
    /// Live context of the old session, in tokens.
    pub context: u64,
    /// Tokens of a fresh session once it is as far.
    pub fresh: u64,
    /// The part of it that is in the cache already.
    pub prefix: u64,
    /// Growth of a session by one request, in tokens; `None` is unknown.
    pub growth: Option<u64>,
    /// Requests after which the fresh session has paid for itself; `None` is never.
    pub break_even_requests: Option<f64>,
    /// Requests still expected.
    pub expected_requests: u32,
    /// What the cache holds.
    pub cache: CacheState,
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
fn real(tokens: u64) -> f64 {
    tokens as f64
}

impl Standing {
    /// What is cached of a fresh session at this moment: nothing once the cache is cold.
    fn cached_prefix(&self) -> u64 {
        match self.cache {
            CacheState::Warm => self.prefix.min(self.fresh),
            CacheState::Cold => 0,
        }
    }

    /// What the next request costs in the old session.
    fn next_request(&self) -> f64 {
        match self.cache {
            CacheState::Warm => self.rates.read * real(self.context),
            CacheState::Cold => self.rates.write(self.lifetime) * real(self.context),
        }
    }

    /// What a fresh session costs until it is as far.
    fn fresh_start(&self) -> f64 {
        let cached = self.cached_prefix();
        self.rates.write(self.lifetime) * real(self.fresh - cached) + self.rates.read * real(cached)
    }

    /// Requests after which a fresh session has paid for itself: 0 or less is at once, `None` never.
    pub fn break_even_requests(&self) -> Option<f64> {
        let saved = self.rates.read * real(self.context.checked_sub(self.fresh).filter(|tokens| *tokens > 0)?);
        Some((self.fresh_start() - self.next_request()) / saved)
    }

    /// Whether the cache is gone and the session is larger than a fresh one: cheaper to replace than to resume,
    /// whatever is still to come.
    pub fn is_expired(&self) -> bool {
        self.cache == CacheState::Cold && self.context > self.fresh
    }

    /// Whether a fresh session pays for itself within the requests still expected.
    pub fn pays(&self) -> bool {
        let saved = self.rates.read * real(self.context.saturating_sub(self.fresh)) * f64::from(self.expected);
        self.context > self.fresh && self.fresh_start() - self.next_request() < saved
    }

    /// Both sides, with all numbers.
    pub fn price(&self, growth: Option<u64>) -> Price {
        let requests = f64::from(self.expected);
        Price {
            keep_cost: self.next_request() + self.rates.read * real(self.context) * requests,
            fresh_cost: self.fresh_start() + self.rates.read * real(self.fresh) * requests,
            context: self.context,
            fresh: self.fresh,
            prefix: self.cached_prefix(),
            growth,
            break_even_requests: self.break_even_requests(),
            expected_requests: self.expected,
            cache: self.cache,
        }
    }
}

/// Why a session is to be replaced, if it is. `ceiling` 0 never does; without a `standing` there is no price.
pub fn reason(
    policy: RotationPolicy,
    ceiling: u64,
    context: u64,
    standing: Option<&Standing>,
) -> Option<RotationReason> {
    if ceiling > 0 && context >= ceiling {
        return Some(RotationReason::Ceiling);
    }
    let standing = standing.filter(|_| policy == RotationPolicy::BreakEven && ceiling > 0)?;
    if standing.is_expired() {
        Some(RotationReason::Expired)
    } else {
        standing.pays().then_some(RotationReason::BreakEven)
    }
}

/// The ceiling at which a session that may rotate at any request costs least: its start, read once for every
/// token that it grows by, against the start of the next. Tokens.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^53")]
pub fn cheapest_ceiling(fresh: u64, growth: u64, rates: &Rates, lifetime: CacheLifetime) -> u64 {
    let product = 2.0 * rates.write(lifetime) * real(fresh) * real(growth) / rates.read;
    fresh + product.sqrt().round() as u64
}

/// Whether a ceiling can never be reached: the window is no larger, or the engine compacts first.
pub fn never_fires(ceiling: u64, window: Option<u64>, compacts_at: Option<u64>) -> bool {
    ceiling > 0 && [window, compacts_at].into_iter().flatten().any(|limit| ceiling >= limit)
}

/// Requests that a one-shot turn may make before it is likely to pass the ceiling.
pub fn turns_to_ceiling(ceiling: u64, context: u64, growth: u64) -> u32 {
    let turns = ceiling.saturating_sub(context).div_ceil(growth.max(1)).clamp(*TURNS.start(), *TURNS.end());
    u32::try_from(turns).unwrap_or(u32::MAX)
}

/// A main-thread request of an agent, as the log knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Counts the agent's sessions; only equality matters.
    pub session: u32,
    /// Live context, in tokens.
    pub context: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
}

/// What an agent's sessions have been like. Tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// What a fresh session holds once it is as far as the old one.
    pub fresh: u64,
    /// The part of that which was in the cache already.
    pub prefix: u64,
    /// Growth by one request; `None` before there were two.
    pub growth: Option<u64>,
}

/// An agent's requests so far, in bounded memory whatever their number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Readings {
    /// By how much each of the last requests grew its session; oldest first.
    growths: VecDeque<u64>,
    last: Option<Reading>,
    /// The session that is going on.
    session: Option<Session>,
    /// The last one that came as far as [`SETTLED_AFTER`] requests.
    settled: Option<Session>,
}

/// What counts of one session.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Session {
    first: Reading,
    requests: usize,
    /// Live context at request [`SETTLED_AFTER`].
    settled: u64,
}

impl Readings {
    /// Takes in a request.
    pub fn push(&mut self, reading: Reading) {
        let before = self.last.replace(reading).filter(|last| last.session == reading.session);
        let Some((before, session)) = before.zip(self.session.as_mut()) else {
            self.session = Some(Session { first: reading, requests: 1, settled: 0 });
            return;
        };
        session.requests += 1;
        if session.requests == SETTLED_AFTER {
            session.settled = reading.context;
            self.settled = Some(*session);
        }
        if let Some(growth) = reading.context.checked_sub(before.context) {
            if self.growths.len() == GROWTHS_KEPT {
                self.growths.pop_front();
            }
            self.growths.push_back(growth);
        }
    }

    /// Measures the sessions; `None` before the first request.
    ///
    /// The last session of at least eight requests counts: its context then, less what it grew since. Before there
    /// is one it is the first request of the last session, and an assumption about what will be read again.
    pub fn estimate(&self) -> Option<Estimate> {
        let growth = self.median_growth();
        let (first, fresh) = if let (Some(session), Some(growth)) = (self.settled, growth) {
            let grown = growth.saturating_mul(SETTLED_AFTER as u64 - 1);
            (session.first, session.settled.saturating_sub(grown))
        } else {
            let first = self.session?.first;
            (first, first.context.saturating_add(ASSUMED_REREAD))
        };
        Some(Estimate { fresh, prefix: first.cache_read.min(fresh), growth })
    }

    fn median_growth(&self) -> Option<u64> {
        let mut growths: Vec<u64> = self.growths.iter().copied().collect();
        growths.sort_unstable();
        growths.get(growths.len().checked_sub(1)? / 2).copied()
    }
}

impl Extend<Reading> for Readings {
    fn extend<T: IntoIterator<Item = Reading>>(&mut self, readings: T) {
        readings.into_iter().for_each(|reading| self.push(reading));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn standing(context: u64, fresh: u64, prefix: u64, cache: CacheState) -> Standing {
        let (rates, lifetime) = (Rates::STANDARD, CacheLifetime::FiveMinutes);
        Standing { context, fresh, prefix, expected: 10, cache, rates, lifetime }
    }

    fn cell(context: u64, fresh: u64) -> String {
        let k = |prefix, cache| standing(context * 1000, fresh * 1000, prefix, cache).break_even_requests();
        match [k(20_000, CacheState::Warm), k(0, CacheState::Warm), k(0, CacheState::Cold)] {
            [Some(cached), Some(warm), Some(cold)] => {
                let shown = |k: f64| if k < 0.05 { "0".to_owned() } else { format!("{k:.1}") };
                format!("{} / {} / {}", shown(cached), shown(warm), shown(cold))
            }
            _ => "never".to_owned(),
        }
    }

    #[test]
    fn r6_9_the_break_even_table() {
        let table = [
            (60, ["0.6 / 7.2 / 0", "10.5 / 22.0 / 0", "never", "never"]),
            (90, ["0 / 3.4 / 0", "3.6 / 8.2 / 0", "14.3 / 22.0 / 0", "never"]),
            (120, ["0 / 2.0 / 0", "1.9 / 4.8 / 0", "6.7 / 10.5 / 0", "45.0 / 56.5 / 0"]),
            (180, ["0 / 0.9 / 0", "0.6 / 2.3 / 0", "2.8 / 4.8 / 0", "10.5 / 13.4 / 0"]),
            (300, ["0 / 0 / 0", "0 / 0.8 / 0", "0.9 / 1.9 / 0", "3.6 / 4.8 / 0"]),
        ];
        for (context, cells) in table {
            let ours = [25, 40, 60, 100].map(|fresh| cell(context, fresh));
            assert_eq!(ours, cells, "{context}k");
        }
    }

    #[test]
    fn r6_9_the_cheapest_ceilings() {
        let rates = Rates::STANDARD;
        let thousands = |fresh, growth, lifetime| (cheapest_ceiling(fresh, growth, &rates, lifetime) + 500) / 1000;
        for (fresh, ceilings) in [
            (25_000, [44, 50, 56, 68]),
            (40_000, [64, 72, 79, 95]),
            (60_000, [90, 99, 107, 127]),
            (90_000, [127, 137, 148, 172]),
        ] {
            let ours = [600, 1000, 1500, 3000].map(|growth| thousands(fresh, growth, CacheLifetime::FiveMinutes));
            assert_eq!(ours, ceilings, "{fresh}");
        }
        assert_eq!(cheapest_ceiling(40_000, 1000, &rates, CacheLifetime::OneHour), 80_000);
    }

    #[test]
    fn r6_9_the_reason_is_the_first_rule_that_holds() {
        let policy = RotationPolicy::BreakEven;
        let warm = standing(120_000, 40_000, 20_000, CacheState::Warm);
        assert_eq!(reason(policy, 180_000, 180_000, Some(&warm)), Some(RotationReason::Ceiling));
        assert_eq!(reason(policy, 180_000, 120_000, Some(&warm)), Some(RotationReason::BreakEven));
        assert_eq!(reason(RotationPolicy::Ceiling, 180_000, 120_000, Some(&warm)), None);
        assert_eq!(reason(policy, 0, 900_000, Some(&warm)), None);
        assert_eq!(reason(policy, 180_000, 120_000, None), None);
        let cold = standing(41_000, 40_000, 0, CacheState::Cold);
        assert_eq!(reason(policy, 180_000, 41_000, Some(&cold)), Some(RotationReason::Expired));
        let short = Standing { expected: 1, ..warm };
        assert_eq!(reason(policy, 180_000, 120_000, Some(&short)), None);
    }

    #[test]
    fn r6_9_both_sides_cross_at_the_break_even() {
        let standing = standing(120_000, 40_000, 20_000, CacheState::Warm);
        let k = standing.break_even_requests().unwrap();
        for (expected, pays) in [(1, false), (2, true), (9, true)] {
            let standing = Standing { expected, ..standing };
            let price = standing.price(Some(1000));
            assert_eq!(price.fresh_cost < price.keep_cost, pays, "{expected} requests, break-even {k}");
            assert_eq!(standing.pays(), pays);
        }
    }

    fn readings(session: u32, contexts: &[u64]) -> Vec<Reading> {
        contexts.iter().map(|context| Reading { session, context: *context, cache_read: context / 2 }).collect()
    }

    #[test]
    fn r6_9_sessions_are_measured_at_their_eighth_request() {
        let mut all = Readings::default();
        assert_eq!(all.estimate(), None);
        all.extend(readings(1, &[20_000]));
        assert_eq!(all.estimate(), Some(Estimate { fresh: 32_000, prefix: 10_000, growth: None }));
        all.extend(readings(1, &[26_000, 31_000, 32_000, 33_000, 34_000, 35_000, 36_000, 37_000]));
        assert_eq!(all.estimate(), Some(Estimate { fresh: 29_000, prefix: 10_000, growth: Some(1000) }));
        all.extend(readings(2, &[24_000, 30_000]));
        assert_eq!(all.estimate(), Some(Estimate { fresh: 29_000, prefix: 10_000, growth: Some(1000) }));
    }

    #[test]
    fn r6_9_the_growth_is_that_of_the_last_thousand_requests() {
        let mut all = Readings::default();
        let contexts: Vec<u64> = (0..=2000).map(|request| 1000 + 7 * request).collect();
        all.extend(readings(1, &contexts));
        assert_eq!((all.growths.len(), all.estimate().unwrap().growth), (GROWTHS_KEPT, Some(7)));
        let contexts: Vec<u64> = (0..=GROWTHS_KEPT as u64).map(|request| 15_000 + 11 * request).collect();
        all.extend(readings(1, &contexts));
        assert_eq!((all.growths.len(), all.estimate().unwrap().growth), (GROWTHS_KEPT, Some(11)));
    }

    #[test]
    fn r6_10_a_one_shot_turn_gets_the_requests_that_its_growth_allows() {
        assert_eq!(turns_to_ceiling(180_000, 100_000, 1000), 80);
        assert_eq!(turns_to_ceiling(180_000, 179_000, 1000), 5);
        assert_eq!(turns_to_ceiling(180_000, 0, 0), 200);
    }

    #[test]
    fn r3_6_a_ceiling_above_what_the_engine_holds_never_fires() {
        assert!(never_fires(200_000, Some(200_000), None));
        assert!(never_fires(180_000, Some(1_000_000), Some(160_000)));
        assert!(!never_fires(180_000, Some(200_000), None));
        assert!(!never_fires(0, Some(1), None));
    }
}
