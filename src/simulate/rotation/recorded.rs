//! A recorded run under other policies: its own growth, phases and pauses.

use super::{Outcome, Policy, Request, Rule, Script, row, run, saving};
use crate::economy::break_even::{Reading, Readings};
use crate::economy::prices::{CacheLifetime, Rates};
use crate::event::Usage;
use crate::simulate::table::Table;
use crate::simulate::{Simulation, number, real, rounded, thousands};

/// A request of a recorded run, of one agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recorded {
    /// When it answered, in milliseconds since 1970.
    pub at_ms: i64,
    /// Counts the phases of the run; only equality matters.
    pub phase: u32,
    /// Counts the sessions of the agent; only equality matters.
    pub session: u32,
    /// Live context, in tokens.
    pub context: u64,
    /// Usage of the request; `None` is unknown.
    pub usage: Option<Usage>,
}

impl Recorded {
    /// What it added to the session of the request before; `None` where that was replaced or compacted.
    fn growth_since(&self, before: &Self) -> Option<u64> {
        self.context.checked_sub(before.context).filter(|_| before.session == self.session)
    }

    fn reading(&self) -> Reading {
        let cache_read = self.usage.map_or(0, |usage| usage.cache_read);
        Reading { session: self.session, context: self.context, cache_read }
    }
}

impl Script {
    /// The requests of an agent as they were recorded; `None` without any.
    ///
    /// A session grows as it did. Where it was replaced or compacted, what the request added is not known, and
    /// the median growth stands for it.
    pub fn recorded(requests: &[Recorded], lifetime: CacheLifetime) -> Option<Self> {
        let first = requests.first()?;
        let mut readings = Readings::default();
        readings.extend(requests.iter().map(Recorded::reading));
        let estimate = readings.estimate()?;
        let median = estimate.growth.unwrap_or(0);
        let mut script = Self {
            base: estimate.prefix,
            brief: first.context.saturating_sub(estimate.prefix),
            preamble: PREAMBLE,
            reread: estimate.fresh.saturating_sub(first.context.max(estimate.prefix) + PREAMBLE),
            first: first.context,
            first_reread: 0,
            lifetime,
            compact_at: 0,
            requests: Vec::new(),
        };
        let ttl_ms = i64::try_from(lifetime.duration().as_millis()).unwrap_or(i64::MAX);
        let mut before: Option<&Recorded> = None;
        for phase in requests.chunk_by(|a, b| a.phase == b.phase) {
            for (done, request) in phase.iter().enumerate() {
                script.requests.push(Request {
                    opens_phase: done == 0,
                    left: u32::try_from(phase.len() - done).unwrap_or(u32::MAX),
                    cold: before.is_none_or(|before| request.at_ms.saturating_sub(before.at_ms) >= ttl_ms),
                    growth: before.map_or(0, |before| request.growth_since(before).unwrap_or(median)),
                });
                before = Some(request);
            }
        }
        Some(script)
    }
}

/// A recorded run under the policies of the table, and under a ceiling of one's own; what it really cost stands in the
/// first row where usage is known.
pub fn replay(requests: &[Recorded], lifetime: CacheLifetime, ceiling: Option<u64>) -> Option<Simulation> {
    let rates = Rates::STANDARD;
    let script = Script::recorded(requests, lifetime)?;
    let own = ceiling
        .into_iter()
        .flat_map(|tokens| [Policy::phase_start(Rule::Ceiling(tokens)), Policy::mid(Rule::Ceiling(tokens))]);
    let mut policies = Policy::ALL.to_vec();
    policies.extend(own.filter(|own| !Policy::ALL.contains(own)));
    let never = run(&script, Policy::ALL[0], &rates);
    let mut table = Table::new(["policy", "cost", "against never", "tokens", "read", "largest context", "rotations"]);
    let mut rows = Vec::new();
    let recorded = requests.iter().map(|request| request.usage).collect::<Option<Vec<Usage>>>();
    let real_run = recorded.as_deref().map(|usages| ("as recorded".to_owned(), as_recorded(requests, usages, &rates)));
    let under = policies.iter().map(|policy| (policy.name(), run(&script, *policy, &rates)));
    for (name, outcome) in real_run.into_iter().chain(under) {
        table.push([
            name.clone(),
            thousands(rounded(outcome.cost)),
            saving(&outcome, &never),
            number(real(outcome.tokens())),
            format!("{:.1}%", 100.0 * outcome.read_share()),
            number(real(outcome.largest)),
            outcome.rotations.to_string(),
        ]);
        rows.push(row("recorded", &name, &outcome, &never));
    }
    let assumptions = recorded_assumptions(&script, requests.len(), recorded.is_some());
    Some(Simulation { simulation: "rotation", prices: rates, assumptions, rows, published: Vec::new(), table })
}

/// Size of a reseed preamble, in tokens.
const PREAMBLE: u64 = 500;

fn as_recorded(requests: &[Recorded], usages: &[Usage], rates: &Rates) -> Outcome {
    let sessions = requests.chunk_by(|a, b| a.session == b.session).count();
    let sum = |tokens: fn(&Usage) -> u64| usages.iter().map(tokens).sum();
    Outcome {
        cost: usages.iter().map(|usage| rates.units(usage)).sum(),
        written: sum(|usage| usage.cache_write),
        read: sum(|usage| usage.cache_read),
        uncached: sum(|usage| usage.input),
        largest: requests.iter().map(|request| request.context).max().unwrap_or(0),
        rotations: u32::try_from(sessions.saturating_sub(1)).unwrap_or(u32::MAX),
    }
}

fn recorded_assumptions(script: &Script, requests: usize, usage_known: bool) -> Vec<String> {
    let fresh = script.base + script.brief + script.preamble + script.reread;
    let mut lines = vec![
        format!("{} requests as recorded: their growth, their phases and their pauses.", number(real(requests as u64))),
        format!(
            "A fresh session is taken to hold {} tokens once it is as far (S), {} of them cached already.",
            number(real(fresh)),
            number(real(script.base))
        ),
        "What a request added to a session that was replaced or compacted there is not known: the median growth stands for it.".to_owned(),
        "Only re-reading has a price: what a fresh session no longer knows has none here.".to_owned(),
    ];
    if !usage_known {
        lines.push("Usage of some requests is not known: what the run really cost is left out.".to_owned());
    }
    lines
}
