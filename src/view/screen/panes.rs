//! The parts of the screen as lines: head, agents, phases, events and the last row.

use chrono::{DateTime, Utc};
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{Dashboard, Foot, inked, marked};
use crate::event::{Event, Outcome, Usage};
use crate::ids::PhaseName;
use crate::view::lines::Lines;
use crate::view::numbers::{bar, clock, count, dollars, due, percent, plural, span};
use crate::view::paint::{Ink, Paint};
use crate::view::rows::AgentRow;
use crate::view::tables::{Life, RunState, phase_lines};
use crate::view::{events, text, words};

/// Cells of the bar of a live context.
const BAR_CELLS: usize = 20;
/// Columns of the name of an agent and of a phase.
const NAME_COLUMNS: usize = 11;

impl Dashboard {
    /// Which run this is, where it stands, and what it has used of its limits.
    pub(super) fn head(&self, life: Life, now: DateTime<Utc>, width: usize) -> Vec<Line<'static>> {
        let run = &self.state.run;
        let title = text::line(&format!("fia {}  {}  “{}”", run.run, run.workflow, run.prompt)).into_owned();
        vec![
            inked(&title, width, Ink::Strong),
            marked(&text::line(&self.standing(life, now)), width),
            marked(&format!("  {}", self.spent()), width),
        ]
    }

    fn standing(&self, life: Life, now: DateTime<Utc>) -> String {
        let run = &self.state.run;
        let so_far = run.so_far(now);
        match (RunState::of(run, life), run.outcome) {
            (RunState::Ended, Some(Outcome::GoalMet)) => format!("✓ goal met in {}", span(run.elapsed_ms)),
            (RunState::Ended, outcome) => {
                let outcome = outcome.map(|outcome| words::outcome_words(outcome.as_str())).unwrap_or_default();
                format!("✗ {outcome} after {}: {}", span(run.elapsed_ms), run.reason.as_deref().unwrap_or_default())
            }
            (RunState::Interrupted, _) => {
                format!("· interrupted after {}: no process is at it", span(run.elapsed_ms))
            }
            (RunState::Waiting, _) => {
                let wait = run.waiting.as_ref();
                let who = wait.and_then(|wait| wait.agent.as_ref()).map(|agent| format!("{agent}: "));
                let until = wait.and_then(|wait| wait.until).map(|until| format!(", until {}", due(until, now)));
                let reason = wait.map(|wait| wait.reason.as_str()).unwrap_or_default();
                format!("⏸ {}{reason}{}", who.unwrap_or_default(), until.unwrap_or_default())
            }
            (RunState::Running, _) => format!("▶ running {}", span(so_far)),
        }
    }

    fn spent(&self) -> String {
        let (run, spend) = (&self.state.run, self.state.spend_so_far());
        let stop = self.frame.stop.as_ref();
        let of = |limit: Option<String>| limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
        let tokens = stop.map(|stop| stop.token_budget).filter(|&budget| budget > 0).map(count);
        let cost = stop.map(|stop| stop.cost_budget_usd).filter(|&budget| budget > 0.0).map(dollars);
        let cache = spend.cache_hit_ratio().map(|share| format!("   cache {}", percent(share))).unwrap_or_default();
        let mut line = format!(
            "tokens {}{}   cost {}{}   {}{cache}",
            spend.tokens_text(Usage::total),
            of(tokens),
            spend.cost_text(),
            of(cost),
            plural(spend.requests, "request")
        );
        for (times, noun) in [(run.rotations, "rotation"), (run.relays, "relay"), (run.cache_breaks, "cache break")] {
            if times > 0 {
                line += &format!("   {}", plural(u64::from(times), noun));
            }
        }
        line
    }

    /// The agents with their live contexts, in at most so many rows.
    pub(super) fn agents(&self, width: usize, rows: usize) -> Vec<Line<'static>> {
        let agents = &self.state.agents;
        let room = rows.saturating_sub(1);
        let shown = if agents.len() > room { room.saturating_sub(1) } else { agents.len() };
        // Those at work come first when there is no room for all.
        let mut order: Vec<&AgentRow> = agents.iter().collect();
        if shown < agents.len() {
            order.sort_by_key(|agent| (agent.open.is_none(), agent.last_at.is_none()));
        }
        let mut lines = vec![title("context", width)];
        lines.extend(order.iter().take(shown).map(|agent| marked(&self.agent(agent), width)));
        if shown < agents.len() {
            lines.push(inked(&format!("  and {} more", agents.len() - shown), width, Ink::Quiet));
        }
        lines
    }

    fn agent(&self, agent: &AgentRow) -> String {
        let symbol = if agent.open.is_some() { "▶" } else { " " };
        let full = self.frame.ceiling(&agent.agent).or(agent.window);
        let context = match (agent.context_tokens, full) {
            (Some(context), Some(full)) => {
                format!("{} {} of {}", bar(context, full, BAR_CELLS), text::right(&count(context), 4), count(full))
            }
            (Some(context), None) => format!("{} {}", bar(0, 1, BAR_CELLS), text::right(&count(context), 4)),
            (None, _) if agent.unmetered => "not reported".to_owned(),
            (None, _) if agent.last_at.is_none() => "not started".to_owned(),
            (None, _) => "–".to_owned(),
        };
        let model = agent.engine.map(|engine| words::engine_model(engine, agent.model.as_deref().unwrap_or("")));
        let requests = agent.spend.requests + agent.open.as_ref().map_or(0, |open| open.requests);
        let rotated = if agent.rotations > 0 { format!("  ↻{}", agent.rotations) } else { String::new() };
        let requests = if requests > 0 { format!("  {}", plural(requests, "request")) } else { String::new() };
        format!(
            "{symbol} {} {}  {}{requests}{rotated}",
            text::left(&text::line(agent.agent.as_str()), NAME_COLUMNS - 2),
            text::left(&context, BAR_CELLS + 16),
            text::line(&model.unwrap_or_default())
        )
    }

    /// The last phases, in at most so many rows.
    pub(super) fn phases(&self, width: usize, rows: usize, now: DateTime<Utc>) -> Vec<Line<'static>> {
        if rows < 2 {
            return Vec::new();
        }
        let lines = Lines { frame: &self.frame, paint: Paint::Plain, width, place: None };
        // Newest first until there is no room.
        let mut shown: Vec<Vec<String>> = Vec::new();
        let mut left = rows - 1;
        for phase in self.state.phases.iter().rev() {
            let mut of_phase = phase_lines(&lines, phase, now);
            if of_phase.len() > left {
                if !shown.is_empty() {
                    break;
                }
                of_phase.truncate(left);
            }
            left -= of_phase.len();
            shown.push(of_phase);
        }
        let hidden = self.state.phases.len() - shown.len();
        let earlier = if hidden > 0 { format!("phases ({hidden} earlier)") } else { "phases".to_owned() };
        let mut all = vec![title(&earlier, width)];
        all.extend(shown.into_iter().rev().flatten().map(|line| marked(&line, width)));
        all
    }

    /// The last events that fit.
    pub(super) fn events(&self, area: Rect) -> Vec<Line<'static>> {
        let width = usize::from(area.width);
        let room = usize::from(area.height).saturating_sub(1);
        let mut shown: Vec<Line<'static>> = Vec::new();
        // A reading of context is in the bars above.
        let worth = |event: &Event| !matches!(event, Event::Context(_));
        for record in self.last.records().filter(|record| worth(&record.event)) {
            let phase = record.phase.as_ref().map_or("", PhaseName::as_str);
            let said = words::describe(&record.event, record.ts);
            let line = format!("{} {} {said}", clock(record.ts), text::left(&text::line(phase), NAME_COLUMNS));
            shown.push(inked(&text::line(&line), width, events::ink(&record.event)));
        }
        shown.drain(..shown.len().saturating_sub(room));
        let mut lines = vec![title("events", width)];
        lines.extend(shown);
        lines.truncate(usize::from(area.height));
        lines
    }

    /// The last row.
    pub(super) fn foot(&self, foot: &Foot, life: Life, width: usize) -> Line<'static> {
        match foot {
            Foot::Keys => {
                let asked = self.state.run.approval_open && life == Life::Alive;
                let live = self.state.run.outcome.is_none() && life == Life::Alive;
                let mut keys = vec!["q leave"];
                keys.extend(live.then_some("s stop before the next phase"));
                keys.extend(live.then_some("m message"));
                keys.extend(asked.then_some("a approve   r reject"));
                inked(&keys.join("   "), width, Ink::Quiet)
            }
            Foot::Question(question) => inked(&format!("{} y / n", text::line(question)), width, Ink::Note),
            Foot::Said(said) => inked(&text::line(said), width, Ink::Note),
            Foot::Typing(typed) => {
                // The end of a long text is what is being typed.
                let line = text::line(typed).into_owned();
                let room = width.saturating_sub(10);
                let mut from = 0;
                while text::width(&line[from..]) > room {
                    from += line[from..].chars().next().map_or(1, char::len_utf8);
                }
                inked(&format!("message: {}▏", &line[from..]), width, Ink::Note)
            }
        }
    }
}

fn title(name: &str, width: usize) -> Line<'static> {
    let line = format!("── {name} ");
    let dashes = "─".repeat(width.saturating_sub(text::width(&line)));
    inked(&format!("{line}{dashes}"), width, Ink::Quiet)
}
