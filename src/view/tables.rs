//! `runs`, `show`, `phases`, `agents` and `models` for people; `json` has the same for programs.

use std::io::{self, Write};

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::ending::Ending;
use super::lines::Lines;
use super::numbers::{self, UNKNOWN, ago, bar, count, or_unknown, percent, span};
use super::paint::{Ink, Paint};
use super::projection::Projection;
use super::rows::{AgentRow, ModelRow, PhaseRow, PhaseState, RunSummary};
use super::spark::sparkline;
use super::table::{Align, Cell, Table};
use super::{text, words};
use crate::event::{Outcome, Usage};

/// Columns of a sparkline.
const SPARK_COLUMNS: usize = 24;
/// Cells of the bar of a live context.
const BAR_CELLS: usize = 10;
/// Columns of `show` where the width is not known.
const USUAL_WIDTH: usize = 80;

/// Whether a process holds a run; the caller knows from its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// One does.
    Alive,
    /// None does.
    Gone,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// At work.
    Running,
    /// Alive and waiting.
    Waiting,
    /// Over, with an outcome.
    Ended,
    /// No outcome and no process: fia was killed, and `fia resume` goes on.
    Interrupted,
}

impl RunState {
    /// Where a run stands, from what is recorded and whether somebody is at it.
    pub fn of(run: &RunSummary, life: Life) -> Self {
        match (life, run.outcome, &run.waiting) {
            (_, Some(_), _) => Self::Ended,
            (Life::Gone, None, _) => Self::Interrupted,
            (Life::Alive, None, Some(_)) => Self::Waiting,
            (Life::Alive, None, None) => Self::Running,
        }
    }
}

/// The state of a run as one cell.
fn state_cell(run: &RunSummary, life: Life) -> Cell {
    match (RunState::of(run, life), run.outcome) {
        (RunState::Ended, Some(Outcome::GoalMet)) => Cell::from("✓ goal met").ink(Ink::Good),
        (RunState::Ended, Some(outcome)) => {
            Cell::from(format!("✗ {}", words::outcome_words(outcome.as_str()))).ink(Ink::Bad)
        }
        (RunState::Running, _) => Cell::from("▶ running").ink(Ink::Running),
        (RunState::Waiting, _) => Cell::from("⏸ waiting").ink(Ink::Note),
        (RunState::Interrupted | RunState::Ended, _) => Cell::from("· interrupted").ink(Ink::Note),
    }
}

/// Lists runs, in the order given.
pub fn runs<'a>(runs: impl IntoIterator<Item = (&'a RunSummary, Life)>, now: DateTime<Utc>) -> Table {
    let mut table = Table::new([
        ("RUN", Align::Left),
        ("WORKFLOW", Align::Left),
        ("STATE", Align::Left),
        ("STARTED", Align::Right),
        ("TIME", Align::Right),
        ("TOKENS", Align::Right),
        ("COST", Align::Right),
        ("PROMPT", Align::Left),
    ]);
    for (run, life) in runs {
        table.row([
            run.run.as_str().into(),
            run.workflow.as_str().into(),
            state_cell(run, life),
            ago(run.started_at, now).into(),
            span(run.elapsed_ms).into(),
            run.spend.tokens_text(Usage::total).into(),
            run.spend.cost_text().into(),
            text::fit(&text::line(&run.prompt), 40).into(),
        ]);
    }
    table
}

/// Lists the phases of a run.
pub fn phases(projection: &Projection) -> Table {
    let mut table = Table::new([
        ("PHASE", Align::Left),
        ("STATUS", Align::Left),
        ("AGENT", Align::Left),
        ("ENGINE", Align::Left),
        ("TIME", Align::Right),
        ("REQ", Align::Right),
        ("CONTEXT", Align::Right),
        ("COST", Align::Right),
        ("TRY", Align::Right),
        ("NOTE", Align::Left),
    ]);
    for row in &projection.phases {
        let agent = |cell: String| if row.agent.is_some() { Cell::from(cell) } else { Cell::default() };
        table.row([
            row.phase.as_str().into(),
            status_cell(row.status),
            row.agent.as_ref().map_or("", |agent| agent.as_str()).into(),
            engine(row).into(),
            or_unknown(row.elapsed_ms, span).into(),
            agent(row.spend.requests.to_string()),
            agent(context_course(row)),
            agent(row.spend.cost_text()),
            row.attempt.to_string().into(),
            phase_note(row).into(),
        ]);
    }
    table
}

/// Engine and model of a phase; empty where none works.
pub(super) fn engine(row: &PhaseRow) -> String {
    row.engine.map(|engine| words::engine_model(engine, row.model.as_deref().unwrap_or(""))).unwrap_or_default()
}

/// Live context before and after a phase, `↻` in front when its session was rotated.
pub(super) fn context_course(row: &PhaseRow) -> String {
    let rotated = if row.rotations > 0 { "↻ " } else { "" };
    let (before, after) = (row.context_before, row.context_after);
    if before.is_none() && after.is_none() {
        return format!("{rotated}{UNKNOWN}");
    }
    format!("{rotated}{}→{}", or_unknown(before, count), or_unknown(after, count))
}

fn status_cell(status: PhaseState) -> Cell {
    let (symbol, ink) = match status {
        PhaseState::Running => ("▶", Ink::Running),
        PhaseState::Success => ("✓", Ink::Good),
        PhaseState::Red | PhaseState::Failed => ("✗", Ink::Bad),
        PhaseState::Stopped | PhaseState::Interrupted => ("·", Ink::Note),
    };
    Cell::from(format!("{symbol} {}", status.as_str())).ink(ink)
}

/// What deserves a word about a phase.
pub(super) fn phase_note(row: &PhaseRow) -> String {
    let mut notes = Vec::new();
    notes.extend(row.reused.then(|| "taken over by a later stretch".to_owned()));
    notes.extend((row.relays > 0).then(|| format!("⇄ {}", numbers::plural(u64::from(row.relays), "relay"))));
    notes.extend((row.cache_breaks > 0).then(|| numbers::plural(u64::from(row.cache_breaks), "cache break")));
    notes.extend(
        row.checks
            .iter()
            .filter(|check| !check.passed)
            .map(|check| format!("{} red{}: {}", check.check, words::timed_out(check.timed_out_minutes), check.log)),
    );
    notes.extend(row.gates.iter().filter(|gate| !gate.passed).map(|gate| format!("gate {}", gate.gate)));
    notes.extend(row.reason.clone());
    notes.join("; ")
}

/// Lists the agents of a run.
pub fn agents(projection: &Projection, now: DateTime<Utc>) -> Table {
    let mut table = Table::new([
        ("AGENT", Align::Left),
        ("ENGINE", Align::Left),
        ("SESSION", Align::Left),
        ("CONTEXT", Align::Left),
        ("CEILING", Align::Right),
        ("ROTATED", Align::Right),
        ("CACHE", Align::Right),
        ("LAST", Align::Left),
    ]);
    for row in &projection.agents {
        let engine = row.engine.map(|engine| words::engine_model(engine, row.model.as_deref().unwrap_or("")));
        let session = row.session_id.as_ref().map(|id| words::short_session(id.as_str()).to_owned());
        let started = row.last_at.is_some();
        table.row([
            row.agent.as_str().into(),
            or_unknown(engine, |engine| engine).into(),
            or_unknown(session, |session| session).into(),
            context_bar(row).into(),
            or_unknown(row.ceiling.filter(|_| !row.unmetered), ceiling).into(),
            or_unknown(started.then_some(row.rotations), |rotations| rotations.to_string()).into(),
            or_unknown(row.spend.cache_hit_ratio(), percent).into(),
            row.last_at.map_or_else(|| "not started".to_owned(), |at| ago(at, now)).into(),
        ]);
    }
    table
}

/// Lists engines and models.
pub fn models(rows: &[ModelRow]) -> Table {
    let mut table = Table::new([
        ("ENGINE", Align::Left),
        ("MODEL", Align::Left),
        ("RUNS", Align::Right),
        ("TURNS", Align::Right),
        ("REQ", Align::Right),
        ("TOKENS", Align::Right),
        ("CACHE", Align::Right),
        ("COST", Align::Right),
        ("LARGEST", Align::Right),
        ("WINDOW", Align::Right),
    ]);
    for row in rows {
        table.row([
            row.engine.as_str().into(),
            if row.model.is_empty() { UNKNOWN.into() } else { row.model.as_str().into() },
            row.runs.to_string().into(),
            count(row.spend.turns).into(),
            count(row.spend.requests).into(),
            row.spend.tokens_text(Usage::total).into(),
            or_unknown(row.spend.cache_hit_ratio(), percent).into(),
            row.spend.cost_text().into(),
            or_unknown(row.context_max, count).into(),
            or_unknown(row.window, count).into(),
        ]);
    }
    table
}

fn ceiling(tokens: u64) -> String {
    if tokens == 0 { "off".to_owned() } else { count(tokens) }
}

fn context_bar(row: &AgentRow) -> String {
    let full = row.ceiling.filter(|&ceiling| ceiling > 0).or(row.window);
    match (row.context_tokens, full) {
        (Some(context), Some(full)) => format!("{} {}", text::right(&count(context), 4), bar(context, full, BAR_CELLS)),
        (Some(context), None) => text::right(&count(context), 4),
        (None, _) if row.unmetered => format!("   {UNKNOWN} not reported"),
        (None, _) => format!("   {UNKNOWN}"),
    }
}

/// Writes `show` of a run [so far](Projection::so_far): the run, its phases, the story of its contexts, and its last words or where it stands.
///
/// # Errors
///
/// What `out` answers.
pub fn show(
    out: &mut dyn Write,
    ending: Ending<'_>,
    process: Life,
    now: DateTime<Utc>,
    width: Option<usize>,
    paint: Paint,
) -> io::Result<()> {
    let width = width.unwrap_or(USUAL_WIDTH);
    let Ending { state, frame, .. } = ending;
    let run = &state.run;
    let head = text::line(&format!("fia {}", run.run)).into_owned();
    let rest = text::line(&format!("  {}  “{}”", run.workflow, run.prompt)).into_owned();
    writeln!(out, "{}{}", paint.ink(Ink::Strong, &head), text::fit(&rest, width.saturating_sub(text::width(&head))))?;
    writeln!(out, "{}", text::fit(&text::line(&origin(run)), width))?;
    writeln!(out)?;
    let lines = Lines { frame, paint, width };
    for phase in &state.phases {
        for line in phase_lines(&lines, phase, now) {
            writeln!(out, "{line}")?;
        }
        if let Some(line) = lines.so_far(phase) {
            writeln!(out, "{line}")?;
        }
    }
    for skipped in &state.skipped {
        let line = words::step_skipped(skipped.step.as_str(), &skipped.when);
        writeln!(out, "{} {}", paint.ink(Ink::Quiet, "·"), text::fit(&text::line(&line), width.saturating_sub(2)))?;
    }
    writeln!(out)?;
    for line in context_story(state, width) {
        writeln!(out, "{line}")?;
    }
    match RunState::of(run, process) {
        RunState::Ended => ending.write(out, now, paint),
        RunState::Interrupted => {
            writeln!(out, "{} interrupted: no process is at it and no outcome is recorded", paint.ink(Ink::Note, "·"))?;
            writeln!(out, "  next:  {}", paint.ink(Ink::Strong, &ending.next_command(Outcome::Aborted)))
        }
        RunState::Waiting | RunState::Running => writeln!(out, "{}", standing(state, now)),
    }
}

fn origin(run: &RunSummary) -> String {
    let started = run.started_at.format("%Y-%m-%d %H:%M:%S UTC");
    let branch = run.branch.as_ref().map(|branch| format!(", on {branch}")).unwrap_or_default();
    let worktree = if run.worktree { ", in a work tree of its own" } else { "" };
    let stretches = if run.stretches > 1 { format!(", {} stretches", run.stretches) } else { String::new() };
    format!("started {started}{branch}{worktree}{stretches}")
}

/// A phase as `show` lists it, running or over.
pub(super) fn phase_lines(lines: &Lines<'_>, phase: &PhaseRow, now: DateTime<Utc>) -> Vec<String> {
    let rotated = phase.rotation.as_ref().zip(phase.agent.as_ref());
    let mut shown: Vec<String> =
        rotated.map(|(rotation, agent)| lines.rotated(&phase.phase, agent.as_str(), rotation)).into_iter().collect();
    if phase.status == PhaseState::Running {
        let doing = phase.last_tool.as_deref().unwrap_or("");
        shown.push(lines.running(phase, numbers::ms_between(phase.started_at, now), doing));
    } else {
        shown.extend(lines.ended(phase));
    }
    shown
}

/// The course of each agent's live context, as many beside one another as fit.
fn context_story(state: &Projection, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for agent in &state.agents {
        let full = agent.ceiling.filter(|&ceiling| ceiling > 0).max(agent.context_max).unwrap_or(0);
        let spark = sparkline(&agent.trace, full, SPARK_COLUMNS);
        if spark.is_empty() {
            continue;
        }
        let drawn = format!("{} {spark}", text::line(agent.agent.as_str()));
        match lines.last_mut() {
            Some(line) if text::width(line) + 3 + text::width(&drawn) <= width => {
                line.push_str("   ");
                line.push_str(&drawn);
            }
            Some(_) => lines.push(format!("         {drawn}")),
            None => lines.push(format!("context  {drawn}")),
        }
    }
    lines
}

fn standing(state: &Projection, now: DateTime<Utc>) -> String {
    let spend = &state.run.spend;
    let tokens = spend.tokens_text(Usage::total);
    let line = format!(
        "tokens   {tokens} so far   cost {}   last record {}",
        spend.cost_text(),
        ago(state.run.updated_at, now)
    );
    match &state.run.waiting {
        Some(wait) => {
            let until = wait.until.map(|until| format!(", until {}", numbers::due(until, now))).unwrap_or_default();
            format!("{line}\n⏸ {}{until}", text::line(&wait.reason))
        }
        None => line,
    }
}

#[cfg(test)]
mod tests;
