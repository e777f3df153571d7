//! What a turn spends while it runs: readings, dollars, and the budget that it may use up.

use super::Live;
use crate::economy::cache::CacheUse;
use crate::event::{ContextRead, Event, Unreported, Usage, UsageUnknown};
use crate::run::RunError;

/// What the requests of a turn add up to.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    pub(super) requests: u32,
    pub(super) context: Option<u64>,
    /// Live context of the first request.
    pub(super) began: Option<u64>,
    pub(super) cache: CacheUse,
    pub(super) sum: Usage,
    /// Dollars, as long as every request can be priced.
    pub(super) cost: Option<f64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self { requests: 0, context: None, began: None, cache: CacheUse::default(), sum: Usage::NONE, cost: Some(0.0) }
    }
}

/// Whether the request that used up a budget is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestEnd {
    /// It may still bring the answer.
    Open,
    /// It asked for tools, or another request followed.
    Over,
}

impl Live<'_> {
    pub(super) fn request(&mut self, usage: Option<Usage>, window: Option<u64>) -> Result<(), RunError> {
        self.request_over();
        self.window = window.or(self.window);
        self.tally.requests += 1;
        let Some(usage) = usage else {
            self.tally.cost = None;
            return Ok(());
        };
        let context = usage.context();
        self.tally.context = Some(context);
        self.tally.began.get_or_insert(context);
        self.tally.cache.push(&usage);
        self.tally.sum += usage;
        let known = self.prices.as_ref().and_then(|known| known.of_request(context));
        let price = known.map(|prices| prices.cost_usd(&usage));
        self.tally.cost = self.tally.cost.zip(price).map(|(sum, price)| sum + price);
        self.record(Event::Context(ContextRead {
            agent: self.asked.agent.clone(),
            context_tokens: Some(context),
            window: self.window,
            usage: Some(usage),
            cost_usd: price,
        }))?;
        if self.over.is_none() {
            let over = self.run.over_budget(self.asked.phase)?;
            // A message that asks for a tool may show it before its usage.
            let end = if self.tools.is_empty() { RequestEnd::Open } else { RequestEnd::Over };
            self.over = over.map(|over| (over, end));
        }
        Ok(())
    }

    /// The request before this moment has come to its end.
    pub(super) fn request_over(&mut self) {
        if let Some((_, end)) = &mut self.over {
            *end = RequestEnd::Over;
        }
    }

    /// Dollars of a turn whose engine told none, if its model has prices and its usage is known.
    pub(super) fn priced(&self, usage: Option<Usage>) -> Option<f64> {
        let usage = usage?;
        if usage == self.tally.sum {
            return self.tally.cost;
        }
        // Sub-agents are in it, whose requests are not seen one by one.
        Some(self.prices.as_ref()?.prices?.cost_usd(&usage))
    }

    /// Says once that something is not known, since a limit can then not hold it.
    pub(super) fn say_unreported(&self, what: Unreported) -> Result<(), RunError> {
        let agent = self.asked.agent.clone();
        if self.run.with_state(|state| state.usage_unknown.contains(&(agent.clone(), what))) {
            return Ok(());
        }
        self.record(Event::UsageUnknown(UsageUnknown { agent, engine: self.asked.choice.engine, what }))
    }
}
