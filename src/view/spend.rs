//! Sums of what turns cost, in which the unknown stays visible.

use serde::{Deserialize, Serialize};

use super::numbers;
use super::rows::OpenTurn;
use crate::event::{AgentEnd, Usage};

/// What a phase, an agent or a run has spent.
///
/// A sum with an unknown part is unknown; what is known of it is a lower bound and stands beside it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spend {
    /// Turns that ended.
    pub turns: u64,
    /// Model calls of the main thread.
    pub requests: u64,
    /// Tokens; null when a turn did not report them.
    pub tokens: Option<Usage>,
    /// Tokens of the turns and requests that reported them.
    pub tokens_known: Usage,
    /// Dollars; null when a turn did not report them.
    pub cost_usd: Option<f64>,
    /// Dollars of the turns that reported them.
    pub cost_known_usd: f64,
}

impl Default for Spend {
    /// Nothing spent, and that is known.
    fn default() -> Self {
        Self {
            turns: 0,
            requests: 0,
            tokens: Some(Usage::default()),
            tokens_known: Usage::default(),
            cost_usd: Some(0.0),
            cost_known_usd: 0.0,
        }
    }
}

impl Spend {
    /// Adds a turn. `seen` is what its requests showed one by one, which counts where the turn itself says nothing.
    pub fn add_turn(&mut self, end: &AgentEnd, seen: &OpenTurn) {
        self.turns += 1;
        self.requests += u64::from(end.requests);
        self.add_amounts(end.usage, end.cost_usd, seen);
    }

    /// Adds a turn whose end was never recorded.
    pub fn add_lost_turn(&mut self, seen: &OpenTurn) {
        self.turns += 1;
        self.add_open_turn(seen);
    }

    /// Adds a turn that goes on: what the request under way takes is not known.
    pub fn add_open_turn(&mut self, seen: &OpenTurn) {
        self.requests += seen.requests;
        self.add_amounts(None, None, seen);
    }

    fn add_amounts(&mut self, usage: Option<Usage>, cost_usd: Option<f64>, seen: &OpenTurn) {
        self.tokens = self.tokens.zip(usage).map(|(sum, usage)| sum + usage);
        self.tokens_known += usage.unwrap_or(seen.tokens);
        self.cost_usd = self.cost_usd.zip(cost_usd).map(|(sum, cost)| sum + cost);
        self.cost_known_usd += cost_usd.unwrap_or(seen.cost_usd);
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.requests += other.requests;
        self.tokens = self.tokens.zip(other.tokens).map(|(sum, more)| sum + more);
        self.tokens_known += other.tokens_known;
        self.cost_usd = self.cost_usd.zip(other.cost_usd).map(|(sum, more)| sum + more);
        self.cost_known_usd += other.cost_known_usd;
    }

    /// Share of the known input tokens that came from the cache; `None` when there were none.
    pub fn cache_hit_ratio(&self) -> Option<f64> {
        numbers::share(self.tokens_known.cache_read, self.tokens_known.context())
    }

    /// Share of all known tokens that were cache reads; `None` when there were none.
    pub fn read_share(&self) -> Option<f64> {
        numbers::share(self.tokens_known.cache_read, self.tokens_known.total())
    }

    /// One kind of tokens for people: `–` when they are unknown, `≥` before a lower bound.
    pub fn tokens_text(&self, kind: impl Fn(&Usage) -> u64) -> String {
        match self.tokens {
            Some(usage) => numbers::count(kind(&usage)),
            None if self.tokens_known.is_zero() => numbers::UNKNOWN.to_owned(),
            None => format!("≥{}", numbers::count(kind(&self.tokens_known))),
        }
    }

    /// Dollars for people, in the same way. What requests cost is known once their turn has ended.
    pub fn cost_text(&self) -> String {
        match self.cost_usd {
            Some(cost) if self.turns > 0 || self.requests == 0 => numbers::dollars(cost),
            None if self.cost_known_usd > 0.0 => match numbers::dollars(self.cost_known_usd) {
                // Less than a cent is known, and perhaps it is more.
                tiny if tiny.starts_with('<') => ">$0.00".to_owned(),
                known => format!("≥{known}"),
            },
            Some(_) | None => numbers::UNKNOWN.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_bound_of_less_than_a_cent_reads_well() {
        let known = |cost_known_usd| Spend { turns: 2, cost_usd: None, cost_known_usd, ..Spend::default() }.cost_text();
        assert_eq!([0.0, 0.001, 0.94].map(known), ["–", ">$0.00", "≥$0.94"]);
    }
}
