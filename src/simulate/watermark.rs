//! What channel messages cost an agent: the same conversation under several rules of delivery.
//!
//! Rows are picked, rendered and remembered by `channel` itself; token counts of lines come from a table,
//! or from four characters a token for a recorded run.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::table::Table;
use super::{Published, Simulation, number, real, rounded};
use crate::channel::render::block;
use crate::channel::watermark::Watermarks;
use crate::channel::{BODY_CHARS, Contact, Heard, Listener, Memory, Row, delivery, hear};
use crate::economy::prices::Rates;
use crate::ids::{AgentName, SessionId};
use crate::prune::round::CHARS_PER_TOKEN;

mod data;

/// A channel and the times at which one agent is asked in it. Sizes in tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Tools and system prompt.
    pub prefix: u64,
    /// What stands in every prompt beside the question and the block.
    pub brief: u64,
    /// The heading of a session that has heard the channel before.
    pub heading_new: u64,
    /// The heading of a first contact.
    pub heading_recent: u64,
    /// A line that changes by turn before the system prompt, where there is one.
    pub status_line: u64,
    /// The part of it that stays.
    pub status_line_kept: u64,
    /// The part of a question that a new process finds in the cache beside the prefix.
    pub call_kept: u64,
    /// Rows of a block at most.
    pub cap: usize,
    /// All rows, oldest first, and the tokens of each one's line.
    pub rows: Vec<(Row, u64)>,
    /// The turns, oldest first.
    pub turns: Vec<Turn>,
}

/// One turn of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Index of the newest row that is there.
    pub row: usize,
    /// Whether it answers that row.
    pub replies: Replies,
    /// Tokens of the question.
    pub call: u64,
    /// Tokens of the answer.
    pub reply: u64,
}

/// What a turn answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replies {
    /// The newest row: a question to the agent.
    ToIt,
    /// No row: a phase has work of its own.
    ToNone,
}

impl Turn {
    /// Index of the row that it answers.
    fn answered(&self) -> Option<usize> {
        match self.replies {
            Replies::ToIt => Some(self.row),
            Replies::ToNone => None,
        }
    }
}

/// How rows are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The last twelve, whatever was shown before.
    Window,
    /// What is new by the channel note: the answered row is not counted as delivered.
    Watermark,
    /// The same, with a line before the system prompt that changes by turn.
    Unstable,
    /// What is new: the answered row counts as delivered.
    Delivered,
    /// The same, and rows of the agent's own session are left out.
    OwnOut,
    /// A new process without history at every turn, with the window's rows.
    Cold,
}

impl Rule {
    /// The rules of the table.
    pub const ALL: [Self; 6] =
        [Self::Window, Self::Watermark, Self::Unstable, Self::Delivered, Self::OwnOut, Self::Cold];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Watermark => "watermark",
            Self::Unstable => "unstable",
            Self::Delivered => "delivered",
            Self::OwnOut => "own out",
            Self::Cold => "cold",
        }
    }

    fn memory(self) -> Memory {
        match self {
            Self::Window | Self::Cold => Memory::None,
            Self::Watermark | Self::Unstable | Self::Delivered | Self::OwnOut => Memory::Kept,
        }
    }

    fn counts_the_answered_row(self) -> bool {
        match self {
            Self::Watermark | Self::Unstable => false,
            Self::Window | Self::Delivered | Self::OwnOut | Self::Cold => true,
        }
    }
}

/// What a rule came to. Tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// Input of all requests.
    pub input: u64,
    /// The part of it that the cache holds.
    pub cached: u64,
    /// What is not cached of a turn after the first, on average.
    pub uncached_per_turn: f64,
    /// Tokens of channel lines sent.
    pub channel: u64,
    /// Those of them that an earlier block had shown.
    pub seen_before: u64,
    /// Rows before the last question that no block showed, questions not counted.
    pub never_shown: usize,
    /// Channel lines sent.
    pub lines: usize,
    /// In uncached tokens.
    pub cost: f64,
}

impl Outcome {
    /// Share of the input that the cache holds.
    pub fn share(&self) -> f64 {
        real(self.cached) / real(self.input).max(1.0)
    }
}

/// What is under way.
struct Session<'a> {
    script: &'a Script,
    rows: Vec<Row>,
    rule: Rule,
    agent: AgentName,
    native: SessionId,
    marks: Watermarks,
    shown: BTreeSet<usize>,
    outcome: Outcome,
}

/// Runs a script under a rule. `lost_at` names the turn, from 1, at which the session and its history are lost.
pub fn run(script: &Script, rule: Rule, lost_at: Option<usize>, rates: &Rates) -> Outcome {
    let mut session = Session {
        script,
        rows: script.rows.iter().map(|(row, _)| with_session_as(row, rule)).collect(),
        rule,
        agent: AgentName::from("agent"),
        native: SessionId::from(NATIVE),
        marks: Watermarks::default(),
        shown: BTreeSet::new(),
        outcome: Outcome::default(),
    };
    // What the session holds beyond the prefix, and what its last request left in the cache.
    let (mut history, mut before) = (0, None);
    let mut warm_uncached = 0;
    for (number, turn) in script.turns.iter().enumerate() {
        if lost_at == Some(number + 1) {
            session.native = SessionId::from("another");
            (history, before) = (0, None);
        }
        let status = if rule == Rule::Unstable { script.status_line } else { 0 };
        let sent = turn.call + script.brief + session.deliver(number, turn);
        let request = status + script.prefix + history + sent;
        let cached = match (rule, before) {
            (_, None) => 0,
            (Rule::Unstable, Some(_)) => script.status_line_kept,
            (Rule::Cold, Some(_)) => script.prefix + script.call_kept,
            (Rule::Window | Rule::Watermark | Rule::Delivered | Rule::OwnOut, Some(before)) => before,
        };
        session.outcome.input += request;
        session.outcome.cached += cached;
        session.outcome.cost += rates.read * real(cached) + rates.write_5m * real(request - cached);
        if number > 0 {
            warm_uncached += request - cached;
        }
        if rule != Rule::Cold {
            history += sent + turn.reply;
        }
        before = Some(request);
    }
    session.finish(warm_uncached)
}

/// The session that answers, and that wrote its own rows.
const NATIVE: &str = "session";

/// Rows of the agent's own session are told apart by the one rule that leaves them out.
fn with_session_as(row: &Row, rule: Rule) -> Row {
    let session = if rule == Rule::OwnOut { row.session.clone() } else { None };
    Row { session, ..row.clone() }
}

impl Session<'_> {
    /// Delivers what the rule shows before this turn; the tokens of its block.
    fn deliver(&mut self, number: usize, turn: &Turn) -> u64 {
        let rows = &self.rows[..=turn.row];
        let answered = turn.answered().map(|at| rows[at].id.as_str());
        let listener = Listener {
            agent: &self.agent,
            channel: "channel",
            session: Some(&self.native),
            memory: self.rule.memory(),
            answered,
            elsewhere: &[],
            cap: self.script.cap,
        };
        let mut heard = hear(rows, &listener, &self.marks);
        if !self.rule.counts_the_answered_row() {
            for list in &mut heard {
                list.delivered.retain(|row| Some(row.id.as_str()) != answered);
            }
        }
        let tokens = block_tokens(self.script, rows, &heard);
        for row in heard.iter().flat_map(|list| &list.shown) {
            let Some(at) = rows.iter().position(|other| other.id == row.id) else { continue };
            let line = self.script.rows[at].1;
            self.outcome.lines += 1;
            self.outcome.channel += line;
            if !self.shown.insert(at) {
                self.outcome.seen_before += line;
            }
        }
        if let Some(event) = delivery(&self.agent, &number.to_string(), &heard) {
            self.marks.commit("channel", &event, &self.native);
        }
        tokens
    }

    fn finish(mut self, warm_uncached: u64) -> Outcome {
        let questions: BTreeSet<usize> = self.script.turns.iter().filter_map(Turn::answered).collect();
        let last = self.script.turns.last().map_or(0, |turn| turn.row);
        let is_own = |at: usize| self.rows[at].session.is_some();
        let missed = (0..last).filter(|at| !questions.contains(at) && !self.shown.contains(at) && !is_own(*at));
        self.outcome.never_shown = missed.count();
        self.outcome.uncached_per_turn = real(warm_uncached) / real((self.script.turns.len() as u64).max(2) - 1);
        self.outcome
    }
}

/// Tokens of a block: its heading, its lines, and the line breaks that no tokenizer joins to a neighbour.
fn block_tokens(script: &Script, rows: &[Row], heard: &[Heard<'_>]) -> u64 {
    let Some(written) = block(heard, |_| "channel_history".to_owned()) else { return 0 };
    let shown: Vec<&Row> = heard.iter().flat_map(|list| list.shown.iter().copied()).collect();
    let mut tokens = match heard.first().map(|list| list.contact) {
        Some(Contact::Again) => script.heading_new,
        Some(Contact::First) | None => script.heading_recent,
    };
    for (place, row) in shown.iter().enumerate() {
        let line = rows.iter().position(|other| other.id == row.id).map_or(0, |at| script.rows[at].1);
        let is_last = place + 1 == shown.len();
        let is_cut = written.cut.iter().any(|cut| cut.id == row.id);
        tokens += line + u64::from(!is_last && !is_cut);
    }
    tokens
}

impl Script {
    /// The channel of 200 rows with 30 questions.
    pub fn published() -> Self {
        data::published()
    }

    /// A recorded channel: its rows, each line taken for four characters a token, and the rows that were answered.
    /// The agent's own rows are those that name a session.
    pub fn recorded(rows: Vec<Row>, turns: Vec<Turn>, prefix: u64) -> Self {
        let with_tokens = |row: Row| {
            let shown = row.text.chars().count().min(BODY_CHARS) + format!("- [{}] ", row.kind.as_str()).len();
            let session = row.session.as_ref().map(|_| SessionId::from(NATIVE));
            (Row { session, ..row }, (shown as u64).div_ceil(CHARS_PER_TOKEN))
        };
        let rows = rows.into_iter().map(with_tokens).collect();
        Self { prefix, brief: 0, rows, turns, ..data::published() }
    }
}

/// The table of six rules on the published channel.
pub fn simulate() -> Simulation {
    let rates = Rates::STANDARD;
    let script = Script::published();
    let outcomes = Rule::ALL.map(|rule| run(&script, rule, None, &rates));
    let lost = Rule::ALL.map(|rule| run(&script, rule, Some(15), &rates));
    let mut simulation = of_script(&script, &outcomes, &rates);
    simulation.assumptions.push("Line sizes were counted with the cl100k tokenizer.".to_owned());
    simulation.published = published(&outcomes, &lost);
    for (rule, outcome) in
        Rule::ALL.into_iter().zip(&lost).filter(|(rule, _)| !matches!(rule, Rule::Unstable | Rule::Cold))
    {
        simulation.rows.push(row(&format!("{}, session lost at turn 15", rule.name()), outcome));
    }
    simulation
}

/// The table of six rules on any channel.
pub fn replay(script: &Script) -> Simulation {
    let rates = Rates::STANDARD;
    let mut simulation = of_script(script, &Rule::ALL.map(|rule| run(script, rule, None, &rates)), &rates);
    simulation
        .assumptions
        .push("Line sizes are taken for four characters a token; texts of prompts are left out.".to_owned());
    simulation
}

/// One line of the table.
type Figure = fn(&Outcome) -> f64;

fn of_script(script: &Script, outcomes: &[Outcome; 6], rates: &Rates) -> Simulation {
    let mut table = Table::new([String::new()].into_iter().chain(Rule::ALL.map(|rule| rule.name().to_owned())));
    let figures: [(&str, Figure); 9] = [
        ("input tokens", |o| real(o.input)),
        ("cacheable prefix", |o| real(o.cached)),
        ("share", Outcome::share),
        ("uncached per warm turn", |o| o.uncached_per_turn.round()),
        ("channel tokens sent", |o| real(o.channel)),
        ("of them seen before", |o| real(o.seen_before)),
        ("never shown", |o| real(o.never_shown as u64)),
        ("channel lines", |o| real(o.lines as u64)),
        ("cost", |o| o.cost.round()),
    ];
    for (name, figure) in figures {
        let cells = outcomes
            .iter()
            .map(|outcome| if name == "share" { format!("{:.3}", figure(outcome)) } else { number(figure(outcome)) });
        table.push([name.to_owned()].into_iter().chain(cells));
    }
    Simulation {
        simulation: "watermark",
        prices: *rates,
        assumptions: assumptions(script),
        rows: Rule::ALL.into_iter().zip(outcomes).map(|(rule, outcome)| row(rule.name(), outcome)).collect(),
        published: Vec::new(),
        table,
    }
}

fn assumptions(script: &Script) -> Vec<String> {
    vec![
        format!("{} rows, {} turns of one agent.", script.rows.len(), script.turns.len()),
        format!("Every request extends the last one; {} tokens of tools and system prompt.", script.prefix),
        "watermark: the channel note's rule, the answered row is not counted as delivered; unstable: the same with a changing first line.".to_owned(),
        "delivered: fia's rule; own out: and rows of the agent's own session are left out; cold: no history, a new process at every turn.".to_owned(),
        "never shown: rows before the last turn that are no question and stood in no block.".to_owned(),
    ]
}

fn row(rule: &str, outcome: &Outcome) -> Map<String, Value> {
    let value = json!({
        "rule": rule,
        "input_tokens": outcome.input,
        "cached_tokens": outcome.cached,
        "share": outcome.share(),
        "uncached_per_warm_turn": outcome.uncached_per_turn,
        "channel_tokens": outcome.channel,
        "seen_before_tokens": outcome.seen_before,
        "never_shown": outcome.never_shown,
        "channel_lines": outcome.lines,
        "cost": rounded(outcome.cost),
    });
    value.as_object().cloned().unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "counts of lines")]
fn published(outcomes: &[Outcome; 6], lost: &[Outcome; 6]) -> Vec<Published> {
    let line =
        |figure: &str, published, ours| Published { figure: figure.to_owned(), note: "channel note", published, ours };
    let [window, watermark, unstable, delivered, ..] = outcomes;
    let [window_lost, watermark_lost, ..] = lost;
    vec![
        line("window: input tokens", 515_784.0, real(window.input)),
        line("watermark: input tokens", 417_419.0, real(watermark.input)),
        line("unstable: input tokens", 418_259.0, real(unstable.input)),
        line("window: cacheable prefix", 485_477.0, real(window.cached)),
        line("watermark: cacheable prefix", 392_256.0, real(watermark.cached)),
        line("unstable: cacheable prefix", 145.0, real(unstable.cached)),
        line("window: share", 0.941, window.share()),
        line("watermark: share", 0.940, watermark.share()),
        line("unstable: share", 0.0, unstable.share()),
        line("window: uncached per warm turn", 943.0, window.uncached_per_turn),
        line("watermark: uncached per warm turn", 766.0, watermark.uncached_per_turn),
        line("unstable: uncached per warm turn", 14_315.0, unstable.uncached_per_turn),
        line("window: channel tokens sent", 9132.0, real(window.channel)),
        line("watermark: channel tokens sent", 4075.0, real(watermark.channel)),
        line("window: tokens seen before", 5057.0, real(window.seen_before)),
        line("watermark: tokens seen before", 0.0, real(watermark.seen_before)),
        line("window: channel lines", 360.0, window.lines as f64),
        line("watermark: channel lines", 162.0, watermark.lines as f64),
        line("watermark: rows never shown", 25.0, watermark.never_shown as f64),
        line("window, session lost at turn 15: input tokens", 290_000.0, real(window_lost.input)),
        line("watermark, session lost at turn 15: input tokens", 245_000.0, real(watermark_lost.input)),
        line("watermark, session lost at turn 15: tokens sent again", 23.0, real(watermark_lost.seen_before)),
        line("delivered, against the note's watermark: input tokens", 417_419.0, real(delivered.input)),
        line("delivered, against the note's watermark: channel tokens", 4075.0, real(delivered.channel)),
    ]
}

#[cfg(test)]
mod tests;
