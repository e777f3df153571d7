//! What pruning saves: one growing conversation under several rules, averaged over many of them.
//!
//! The round is the product's own, on lengths. Random sizes come from a small generator that is written
//! down in the assumptions, so that every figure can be computed again.

pub mod layout;

use serde_json::{Map, Value, json};

use layout::{Layout, Turn};

use super::table::Table;
use super::{Published, Simulation, real, rounded, thousands};
use crate::economy::prices::Rates;
use crate::economy::requests::ASSUMED_REQUESTS;
use crate::prune::round::{self, CHARS_PER_TOKEN, Cut, Kind, Shape};
use crate::prune::settings::{Mode, Settings};

/// Tools and system prompt, in characters; they are no part of the ratio.
const PREFIX_CHARS: u64 = 80_000;

/// The model's window, in tokens.
const WINDOW: u64 = 200_000;

/// Time after which the cache is gone, in seconds.
const TTL_SECS: u64 = 300;

/// What a rotated session holds: the prompt, one answer, and what was read again. Characters.
const FRESH: [Shape; 3] = [user(4000), assistant(400), result(24_000)];

/// What that is in tokens, the prefix included.
pub const FRESH_TOKENS: u64 = (PREFIX_CHARS + 4000 + 400 + 24_000) / CHARS_PER_TOKEN;

/// Conversations that are averaged.
pub const RUNS: u64 = 200;

const fn user(chars: u64) -> Shape {
    Shape { kind: Kind::User, chars }
}

const fn assistant(chars: u64) -> Shape {
    Shape { kind: Kind::Assistant, chars }
}

const fn result(chars: u64) -> Shape {
    Shape { kind: Kind::Whole { joined: chars, images: false }, chars }
}

/// A way to prune, and one to rotate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How results shrink.
    pub pruning: Pruning,
    /// When the session is replaced.
    pub rotation: Rotation,
}

/// How results shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pruning {
    /// Not at all.
    None,
    /// For one request each time the cache is cold.
    PerRequest,
    /// For good, when the cache is cold.
    Sticky,
    /// The same with lower ratios.
    Low,
    /// The same, and while warm when it pays.
    Warm,
    /// The same, down to a lower mark.
    Adaptive,
}

/// When the session is replaced: at the first request of a later block, if the cache is cold and the session large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// Never.
    Never,
    /// Over so many tokens, unpruned.
    Over(u64),
    /// Over what a fresh session holds, as last sent.
    OverFresh,
}

impl Policy {
    /// The policies of the table.
    pub const ALL: [Self; 11] = [
        Self { pruning: Pruning::None, rotation: Rotation::Never },
        Self { pruning: Pruning::PerRequest, rotation: Rotation::Never },
        Self { pruning: Pruning::Sticky, rotation: Rotation::Never },
        Self { pruning: Pruning::Low, rotation: Rotation::Never },
        Self { pruning: Pruning::Warm, rotation: Rotation::Never },
        Self { pruning: Pruning::Adaptive, rotation: Rotation::Never },
        Self { pruning: Pruning::None, rotation: Rotation::Over(90_000) },
        Self { pruning: Pruning::Sticky, rotation: Rotation::Over(90_000) },
        Self { pruning: Pruning::Adaptive, rotation: Rotation::Over(90_000) },
        Self { pruning: Pruning::None, rotation: Rotation::OverFresh },
        Self { pruning: Pruning::Adaptive, rotation: Rotation::OverFresh },
    ];

    /// Its name in the table.
    pub fn name(self) -> String {
        let pruning = match self.pruning {
            Pruning::None => "none",
            Pruning::PerRequest => "per request",
            Pruning::Sticky => "sticky",
            Pruning::Low => "low",
            Pruning::Warm => "warm",
            Pruning::Adaptive => "adaptive",
        };
        let rotation = match self.rotation {
            Rotation::Never => return pruning.to_owned(),
            Rotation::Over(tokens) => format!("rotate > {}k", tokens / 1000),
            Rotation::OverFresh => "rotate > S".to_owned(),
        };
        if self.pruning == Pruning::None { rotation } else { format!("{pruning}, {rotation}") }
    }
}

impl Pruning {
    fn settings(self) -> Option<Settings> {
        let reference = Settings::of(Mode::CacheTtl);
        let low = Settings { soft_trim_ratio: 0.1, hard_clear_ratio: 0.1, ..reference.clone() };
        match self {
            Self::None => None,
            Self::PerRequest | Self::Sticky => Some(reference),
            Self::Low => Some(low),
            Self::Warm => Some(Settings { warm_break_even: true, ..low }),
            Self::Adaptive => Some(Settings::of(Mode::Adaptive)),
        }
    }
}

/// What a policy came to. Tokens; costs in uncached ones.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// All requests.
    pub cost: f64,
    /// Written by the first request after a pause, on average; 0 without pauses.
    pub first_write: f64,
    /// Written by the second one.
    pub second_write: f64,
}

/// A conversation under way.
struct Session<'a> {
    policy: Policy,
    settings: Option<&'a Settings>,
    rates: Rates,
    /// The messages as they came.
    whole: Vec<Shape>,
    /// The messages with what was replaced in them.
    kept: Vec<Shape>,
    /// Sizes in the last request.
    sent: Vec<u64>,
}

/// What one request read from the cache and wrote to it, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Traffic {
    read: u64,
    written: u64,
}

impl Session<'_> {
    fn append(&mut self, shape: Shape) {
        self.whole.push(shape);
        self.kept.push(shape);
    }

    /// Replaces the session if it is large; asked at the first request of a later block, the cache cold.
    fn rotate(&mut self) {
        let is_large = match self.policy.rotation {
            Rotation::Never => false,
            Rotation::Over(tokens) => {
                let all: u64 = self.whole.iter().map(|shape| shape.chars).sum();
                PREFIX_CHARS + all > tokens * CHARS_PER_TOKEN
            }
            Rotation::OverFresh => PREFIX_CHARS + self.sent.iter().sum::<u64>() > FRESH_TOKENS * CHARS_PER_TOKEN,
        };
        if is_large {
            self.whole = FRESH.to_vec();
            self.kept = FRESH.to_vec();
        }
    }

    /// Sends what the policy leaves, and counts it.
    fn send(&mut self, is_cold: bool) -> Traffic {
        let now = self.pruned(is_cold);
        let read = if is_cold {
            0
        } else {
            let same = now.iter().zip(&self.sent).take_while(|(now, before)| now == before);
            PREFIX_CHARS + same.map(|(now, _)| now).sum::<u64>()
        };
        let all = PREFIX_CHARS + now.iter().sum::<u64>();
        self.sent = now;
        Traffic { read, written: all - read }
    }

    fn pruned(&mut self, is_cold: bool) -> Vec<u64> {
        let per_request = self.policy.pruning == Pruning::PerRequest;
        let shapes = if per_request { &self.whole } else { &self.kept };
        let mut sizes: Vec<u64> = shapes.iter().map(|shape| shape.chars).collect();
        let Some(settings) = self.settings.filter(|settings| is_cold || settings.warm_break_even) else { return sizes };
        let Ok(round) = round::decide(shapes, settings, Some(WINDOW), None) else { return sizes };
        let write = self.rates.write_5m;
        if !is_cold && !round::pays_while_warm(&round, ASSUMED_REQUESTS, self.rates.read, write) {
            return sizes;
        }
        for change in &round.changes {
            sizes[change.index] = change.chars;
            if !per_request {
                let kind = match change.cut {
                    Cut::Soft => Kind::Trimmed,
                    Cut::Hard => Kind::Fixed,
                };
                self.kept[change.index] = Shape { kind, chars: change.chars };
            }
        }
        sizes
    }
}

/// Runs one conversation under a policy.
pub fn run(turns: &[Turn], policy: Policy, rates: &Rates) -> Outcome {
    let settings = policy.pruning.settings();
    let (whole, kept, sent) = (Vec::new(), Vec::new(), Vec::new());
    let mut session = Session { policy, settings: settings.as_ref(), rates: *rates, whole, kept, sent };
    let mut outcome = Outcome::default();
    let mut pauses = 0_u32;
    let mut since_pause = u32::MAX;
    for (number, turn) in turns.iter().enumerate() {
        let is_first = number == 0;
        let is_cold = is_first || turn.gap_secs >= TTL_SECS;
        if turn.text > 0 {
            session.append(user(turn.text));
        }
        if is_cold && !is_first && turn.text > 0 {
            session.rotate();
        }
        let traffic = session.send(is_cold);
        let tokens = |chars: u64| real(chars) / real(CHARS_PER_TOKEN);
        outcome.cost += rates.read * tokens(traffic.read) + rates.write_5m * tokens(traffic.written);
        if is_cold && !is_first {
            pauses += 1;
            since_pause = 0;
        }
        match since_pause {
            0 => outcome.first_write += tokens(traffic.written),
            1 => outcome.second_write += tokens(traffic.written),
            _ => {}
        }
        since_pause = since_pause.saturating_add(1);
        session.append(assistant(turn.answer));
        session.append(result(turn.result));
    }
    if pauses > 0 {
        outcome.first_write /= f64::from(pauses);
        outcome.second_write /= f64::from(pauses);
    }
    outcome
}

/// The mean over several conversations of a layout.
pub fn mean(layout: Layout, policy: Policy, first_run: u64, runs: u64, rates: &Rates) -> Outcome {
    let mut sum = Outcome::default();
    for run_number in first_run..first_run.saturating_add(runs) {
        let outcome = run(&layout.conversation(run_number), policy, rates);
        sum.cost += outcome.cost;
        sum.first_write += outcome.first_write;
        sum.second_write += outcome.second_write;
    }
    let runs = real(runs.max(1));
    Outcome { cost: sum.cost / runs, first_write: sum.first_write / runs, second_write: sum.second_write / runs }
}

/// The table of eleven policies and five layouts, over so many conversations from `first_run` on.
pub fn simulate(first_run: u64, runs: u64) -> Simulation {
    let rates = Rates::STANDARD;
    let mut rows = Vec::new();
    let heading = ["cost; written by the 1st / 2nd request after a pause".to_owned()];
    let mut table = Table::new(heading.into_iter().chain(Layout::ALL.map(Layout::name)));
    let base = Layout::ALL.map(|layout| mean(layout, Policy::ALL[0], first_run, runs, &rates));
    let mut first_layout = Vec::new();
    for policy in Policy::ALL {
        let mut line = vec![policy.name()];
        for (layout, base) in Layout::ALL.into_iter().zip(&base) {
            let outcome = if policy == Policy::ALL[0] { *base } else { mean(layout, policy, first_run, runs, &rates) };
            line.push(cell(policy, &outcome, base));
            rows.push(row(&layout.name(), policy, &outcome, base));
            if layout == Layout::ALL[0] {
                first_layout.push(outcome);
            }
        }
        table.push(line);
    }
    Simulation {
        simulation: "pruning",
        prices: rates,
        assumptions: assumptions(first_run, runs),
        rows,
        published: published(&first_layout),
        table,
    }
}

/// A recorded conversation under the policies of the table.
pub fn replay(turns: &[Turn]) -> Simulation {
    let rates = Rates::STANDARD;
    let mut table = Table::new(["policy", "cost; written by the 1st / 2nd request after a pause"]);
    let base = run(turns, Policy::ALL[0], &rates);
    let mut rows = Vec::new();
    for policy in Policy::ALL {
        let outcome = run(turns, policy, &rates);
        table.push([policy.name(), cell(policy, &outcome, &base)]);
        rows.push(row("recorded", policy, &outcome, &base));
    }
    let assumptions = vec![
        format!(
            "{} requests as recorded; four characters a token, 80,000 characters of tools and system prompt.",
            turns.len()
        ),
        "Window 200,000 tokens, cache of five minutes; pruning with the defaults, 15 requests expected.".to_owned(),
        "Not counted: a pruned text that is needed again.".to_owned(),
    ];
    Simulation { simulation: "pruning", prices: rates, assumptions, rows, published: Vec::new(), table }
}

fn percent(outcome: &Outcome, base: &Outcome) -> f64 {
    100.0 * (outcome.cost / base.cost - 1.0)
}

fn cell(policy: Policy, outcome: &Outcome, base: &Outcome) -> String {
    let cost = if policy == Policy::ALL[0] {
        thousands(rounded(outcome.cost))
    } else {
        format!("{:+.1}%", percent(outcome, base))
    };
    if outcome.first_write > 0.0 {
        let writes = [outcome.first_write, outcome.second_write].map(|tokens| thousands(rounded(tokens)));
        return format!("{cost}; {} / {}", writes[0], writes[1]);
    }
    cost
}

fn row(layout: &str, policy: Policy, outcome: &Outcome, base: &Outcome) -> Map<String, Value> {
    let after_pause = |tokens: f64| (outcome.first_write > 0.0).then_some(tokens);
    let value = json!({
        "layout": layout,
        "policy": policy.name(),
        "cost": outcome.cost,
        "against_none_percent": percent(outcome, base),
        "first_write": after_pause(outcome.first_write),
        "second_write": after_pause(outcome.second_write),
    });
    value.as_object().cloned().unwrap_or_default()
}

fn assumptions(first_run: u64, runs: u64) -> Vec<String> {
    vec![
        format!("{runs} conversations, run numbers from {first_run} on; four characters a token, 80,000 characters of tools and system prompt."),
        "Window 200,000 tokens, cache of five minutes, a request every 20 s; after a block of requests a pause of the length named.".to_owned(),
        "A request adds an answer of 400 to 2,000 characters and a result of min(100000, 0.5 * exp(8.6 + 1.1 z)); SplitMix64, state = run number.".to_owned(),
        "Pruning with the defaults; low, warm and adaptive with ratios 0.1 and 0.1; 15 requests expected.".to_owned(),
        format!("Rotation leaves {} tokens (S).", thousands(i64::try_from(FRESH_TOKENS).unwrap_or(i64::MAX))),
        "Not counted: a pruned text that is needed again.".to_owned(),
    ]
}

fn published(first_layout: &[Outcome]) -> Vec<Published> {
    let [none, per_request, sticky, ..] = first_layout else { return Vec::new() };
    let line =
        |figure: &str, published, ours| Published { figure: figure.to_owned(), note: "pruning note", published, ours };
    vec![
        line("percent of cost that pruning adds, one request at a time (8 x 14)", 0.0, percent(per_request, none)),
        line("the same, kept for good", 0.0, percent(sticky, none)),
    ]
}

#[cfg(test)]
mod tests;
