//! When sessions rotate: the cost of one agent's day under several policies.

pub mod recorded;

use serde_json::{Map, Value, json};

use super::table::Table;
use super::{Published, Simulation, real, rounded, thousands};
use crate::economy::break_even::{CacheState, Standing};
use crate::economy::prices::{CacheLifetime, Rates};

/// Uncached input tokens of a request.
const UNCACHED: u64 = 4;

/// What a compaction leaves above the fixed part, in tokens.
const COMPACTED: u64 = 8000;

/// Requests over which a fresh session reads again what it needs.
const REREAD_STEPS: u64 = 8;

/// The requests of an agent and what a session of it is made of. Sizes in tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// Fixed part of a session: tools and system prompt, cached over sessions.
    pub base: u64,
    /// The prompt of a phase.
    pub brief: u64,
    /// The reseed preamble.
    pub preamble: u64,
    /// What a fresh session reads again.
    pub reread: u64,
    /// What the very first request holds.
    pub first: u64,
    /// What the very first session still has to read.
    pub first_reread: u64,
    /// How long the cache lasts.
    pub lifetime: CacheLifetime,
    /// Context from which on the engine compacts by itself; 0 never.
    pub compact_at: u64,
    /// The requests, in order.
    pub requests: Vec<Request>,
}

/// One request of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Whether it opens a phase.
    pub opens_phase: bool,
    /// Requests left in its phase, this one included.
    pub left: u32,
    /// Whether it finds the cache gone.
    pub cold: bool,
    /// What it adds to a session that goes on.
    pub growth: u64,
}

/// Phases of requests with pauses, as the tables assume them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// Its letter.
    pub name: &'static str,
    /// Requests of each phase.
    pub phases: Vec<u32>,
    /// Every so many requests the cache is found cold; 0 never.
    pub stall: u64,
    /// Pause between phases, in seconds.
    pub gap_secs: u64,
    /// What a fresh session reads again.
    pub reread: u64,
    /// Context from which on the engine compacts by itself; 0 never.
    pub compact_at: u64,
    /// How long the cache lasts; its price only, the pauses are those of five minutes.
    pub lifetime: CacheLifetime,
}

/// Time after which the cache is gone, in seconds.
const TTL_SECS: u64 = 300;

impl Scenario {
    fn of(name: &'static str) -> Self {
        Self {
            name,
            phases: vec![250, 60, 60, 120, 60, 40],
            stall: 25,
            gap_secs: 120,
            reread: 12_000,
            compact_at: 0,
            lifetime: CacheLifetime::FiveMinutes,
        }
    }

    /// The seven scenarios of the table.
    pub fn all() -> [Self; 7] {
        [
            Self { stall: 0, ..Self::of("A") },
            Self::of("B"),
            Self { gap_secs: 1800, ..Self::of("C") },
            Self { compact_at: 160_000, ..Self::of("D") },
            Self { reread: 60_000, ..Self::of("E") },
            Self { lifetime: CacheLifetime::OneHour, stall: 0, ..Self::of("F") },
            Self { phases: vec![40; 12], gap_secs: 1800, stall: 0, ..Self::of("G") },
        ]
    }

    /// One phase alone.
    pub fn one_phase(requests: u32, stall: u64) -> Self {
        Self { phases: vec![requests], stall, ..Self::of("one phase") }
    }

    /// Its requests.
    pub fn script(&self) -> Script {
        let (base, brief, preamble) = (20_000, 4000, 500);
        let mut requests = Vec::new();
        for phase in &self.phases {
            for done in 0..*phase {
                let number = requests.len() as u64;
                let stalls = self.stall > 0 && number.is_multiple_of(self.stall);
                let opens_phase = done == 0;
                let cold = number == 0 || (opens_phase && self.gap_secs > TTL_SECS) || stalls;
                let growth = 1000 + if opens_phase { brief } else { 0 };
                requests.push(Request { opens_phase, left: phase - done, cold, growth });
            }
        }
        Script {
            base,
            brief,
            preamble,
            reread: self.reread,
            first: base + brief + preamble,
            first_reread: self.reread,
            lifetime: self.lifetime,
            compact_at: self.compact_at,
            requests,
        }
    }
}

/// When a session rotates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// What decides.
    pub rule: Rule,
    /// Whether it may decide inside a phase.
    pub mid_phase: bool,
}

/// What decides about a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Nothing.
    Never,
    /// A ceiling of live context, in tokens.
    Ceiling(u64),
    /// The start of a phase.
    EachPhase,
    /// The price of the requests left in the phase.
    BreakEven,
    /// A cold cache and a session larger than a fresh one.
    Expired,
    /// The same, or a ceiling.
    ExpiredOrCeiling(u64),
}

impl Policy {
    const fn phase_start(rule: Rule) -> Self {
        Self { rule, mid_phase: false }
    }

    const fn mid(rule: Rule) -> Self {
        Self { rule, mid_phase: true }
    }

    /// The policies of the table.
    pub const ALL: [Self; 13] = [
        Self::phase_start(Rule::Never),
        Self::phase_start(Rule::Ceiling(60_000)),
        Self::phase_start(Rule::EachPhase),
        Self::phase_start(Rule::BreakEven),
        Self::phase_start(Rule::Ceiling(120_000)),
        Self::phase_start(Rule::Ceiling(180_000)),
        Self::phase_start(Rule::Ceiling(300_000)),
        Self::mid(Rule::Ceiling(60_000)),
        Self::mid(Rule::Ceiling(120_000)),
        Self::mid(Rule::Ceiling(180_000)),
        Self::mid(Rule::BreakEven),
        Self::mid(Rule::Expired),
        Self::mid(Rule::ExpiredOrCeiling(180_000)),
    ];

    /// Its name in the table.
    pub fn name(self) -> String {
        let rule = match self.rule {
            Rule::Never => "never".to_owned(),
            Rule::Ceiling(tokens) => format!("{}k", tokens / 1000),
            Rule::EachPhase => "each phase".to_owned(),
            Rule::BreakEven => "break-even".to_owned(),
            Rule::Expired => "cold > S".to_owned(),
            Rule::ExpiredOrCeiling(tokens) => format!("cold > S or {}k", tokens / 1000),
        };
        if self.mid_phase { format!("{rule} mid") } else { rule }
    }

    fn rotates(self, request: &Request, standing: &Standing) -> bool {
        if !request.opens_phase && !self.mid_phase {
            return false;
        }
        match self.rule {
            Rule::Never => false,
            Rule::Ceiling(ceiling) => standing.context >= ceiling,
            Rule::EachPhase => request.opens_phase,
            Rule::BreakEven => standing.pays(),
            Rule::Expired => standing.is_expired(),
            Rule::ExpiredOrCeiling(ceiling) => standing.is_expired() || standing.context >= ceiling,
        }
    }
}

/// What a policy came to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// In uncached input tokens.
    pub cost: f64,
    /// Tokens written to the cache.
    pub written: u64,
    /// Tokens read from the cache.
    pub read: u64,
    /// Tokens in neither.
    pub uncached: u64,
    /// The largest live context.
    pub largest: u64,
    /// Fresh sessions, the first one not counted.
    pub rotations: u32,
}

impl Outcome {
    /// Share of all input tokens that were read from the cache.
    pub fn read_share(&self) -> f64 {
        real(self.read) / real(self.tokens()).max(1.0)
    }

    /// All input tokens.
    pub fn tokens(&self) -> u64 {
        self.read + self.written + self.uncached
    }
}

/// Runs a script under a policy.
pub fn run(script: &Script, policy: Policy, rates: &Rates) -> Outcome {
    let mut session = Session { script, policy, rates, context: 0, pending: 0, outcome: Outcome::default() };
    for (number, request) in script.requests.iter().enumerate() {
        session.send(number == 0, request);
    }
    session.outcome
}

/// A session under way.
struct Session<'a> {
    script: &'a Script,
    policy: Policy,
    rates: &'a Rates,
    /// Its live context.
    context: u64,
    /// What it still has to read again.
    pending: u64,
    outcome: Outcome,
}

impl Session<'_> {
    fn standing(&self, request: &Request) -> Standing {
        let script = self.script;
        Standing {
            context: self.context,
            fresh: script.base + script.brief + script.preamble + script.reread,
            prefix: script.base,
            expected: request.left,
            cache: if request.cold { CacheState::Cold } else { CacheState::Warm },
            rates: *self.rates,
            lifetime: script.lifetime,
        }
    }

    fn send(&mut self, is_first: bool, request: &Request) {
        let script = self.script;
        let rotates = !is_first && self.policy.rotates(request, &self.standing(request));
        let is_fresh = is_first || rotates;
        let added = match (is_first, rotates) {
            (true, _) => self.start(script.first, script.first_reread),
            (false, true) => self.start(script.base + script.brief + script.preamble, script.reread),
            (false, false) => request.growth + self.read_again(),
        };
        let mut read = match (request.cold, is_fresh) {
            (true, _) => 0,
            (false, true) => script.base.min(added),
            (false, false) => self.context,
        };
        let mut written = self.context + added - read;
        let mut after = self.context + added;
        if script.compact_at > 0 && after > script.compact_at {
            // One summary call reads everything, then the session goes on from what it left.
            self.outcome.read += self.context;
            self.outcome.cost += self.rates.read * real(self.context);
            (after, read, written) = (script.base + COMPACTED, script.base, COMPACTED);
        }
        self.context = after;
        let write_rate = self.rates.write(script.lifetime);
        self.outcome.cost += real(UNCACHED) + self.rates.read * real(read) + write_rate * real(written);
        self.outcome.read += read;
        self.outcome.written += written;
        self.outcome.uncached += UNCACHED;
        self.outcome.largest = self.outcome.largest.max(after);
        self.outcome.rotations += u32::from(rotates);
    }

    /// A fresh session: what its first request adds.
    fn start(&mut self, size: u64, reread: u64) -> u64 {
        (self.context, self.pending) = (0, reread);
        size
    }

    /// What this request reads again of what the old session knew.
    fn read_again(&mut self) -> u64 {
        let tokens = self.pending.min(self.script.reread / REREAD_STEPS);
        self.pending -= tokens;
        tokens
    }
}

/// The table of seven scenarios, and what the notes say about them.
pub fn simulate() -> Simulation {
    let rates = Rates::STANDARD;
    let scenarios = Scenario::all();
    let mut rows = Vec::new();
    let mut table =
        Table::new(["cost in thousands".to_owned()].into_iter().chain(scenarios.iter().map(|s| s.name.to_owned())));
    let scripts = scenarios.each_ref().map(Scenario::script);
    let base = scripts.each_ref().map(|script| run(script, Policy::ALL[0], &rates));
    for policy in Policy::ALL {
        let mut line = vec![policy.name()];
        for ((scenario, script), base) in scenarios.iter().zip(&scripts).zip(&base) {
            let outcome = run(script, policy, &rates);
            line.push(format!("{} ({})", thousands(rounded(outcome.cost / 1000.0)), saving(&outcome, base)));
            rows.push(row(scenario.name, &policy.name(), &outcome, base));
        }
        table.push(line);
    }
    for requests in [60, 120, 250, 590] {
        for stall in [0, 50, 25, 18, 10] {
            let outcome = run(&Scenario::one_phase(requests, stall).script(), Policy::ALL[0], &rates);
            let name = format!("one phase of {requests}, cold one in {stall}");
            rows.push(row(&name, "never", &outcome, &outcome));
        }
    }
    Simulation {
        simulation: "rotation",
        prices: rates,
        assumptions: assumptions(),
        rows,
        published: published(&rates),
        table,
    }
}

fn assumptions() -> Vec<String> {
    [
        "A session starts with 20,000 tokens of tools and system prompt, 4,000 of prompt and 500 of preamble; a fresh one reads 12,000 again.",
        "A request adds 1,000 tokens. Phases of 250, 60, 60, 120, 60 and 40 requests, 120 s apart; the cache lasts 300 s.",
        "A as is; B every 25th request cold; C = B with pauses of 1800 s; D = B, the CLI compacts at 160,000;",
        "E = B, 60,000 read again; F = A with a cache of one hour; G twelve phases of 40, 1800 s apart.",
        "Only re-reading has a price: what a fresh session no longer knows has none here.",
        "mid: also inside a phase. S: what a fresh session holds once it is as far.",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn saving(outcome: &Outcome, base: &Outcome) -> String {
    format!("{:.0}%", 100.0 * (outcome.cost / base.cost - 1.0)).replace("-0%", "0%")
}

fn row(scenario: &str, policy: &str, outcome: &Outcome, base: &Outcome) -> Map<String, Value> {
    let value = json!({
        "scenario": scenario,
        "policy": policy,
        "cost": rounded(outcome.cost),
        "against_never_percent": 100.0 * (outcome.cost / base.cost - 1.0),
        "written": outcome.written,
        "read": outcome.read,
        "tokens": outcome.tokens(),
        "read_share": outcome.read_share(),
        "largest_context": outcome.largest,
        "rotations": outcome.rotations,
    });
    value.as_object().cloned().unwrap_or_default()
}

const NOTE: &str = "rotation note";

fn published(rates: &Rates) -> Vec<Published> {
    let phase = |stall| run(&Scenario::one_phase(250, stall).script(), Policy::ALL[0], rates);
    let (reads, others) = (755e6, 49e6);
    let (read_cost, write_cost) = (rates.read * reads, rates.write_5m * others);
    let line = |figure: &str, published, ours| Published { figure: figure.to_owned(), note: NOTE, published, ours };
    vec![
        line("tokens of one build phase (ours: 250 requests)", 36e6, real(phase(25).tokens())),
        line(
            "percent of tokens read from the cache (ours: one request in 18 cold)",
            94.0,
            100.0 * phase(18).read_share(),
        ),
        line("the same, a long session that stays warm", 94.0, 100.0 * phase(0).read_share()),
        line("units of 755M cache reads", 75.5e6, read_cost),
        line("units of the other 49M tokens, if written to a cache of five minutes", 61.25e6, write_cost),
        line("percent of those units that are reads", 55.0, 100.0 * read_cost / (read_cost + write_cost)),
    ]
}

#[cfg(test)]
mod tests;
