//! `fia watch`: a whole screen about one run, live or over.
//!
//! A fold like every view: it is pushed records and draws what is known into a frame of whatever size, down to
//! 80×24 and below. The terminal, the clock and the keys are the caller's.

mod panes;

use chrono::{DateTime, Utc};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::events::Last;
use super::frame::Frame;
use super::paint::Ink;
use super::projection::Projection;
use super::tables::Life;
use super::text;
use crate::event::{Event, Record};

/// Events that are kept for the screen: more than any terminal has rows.
const EVENTS: usize = 200;
/// From this width on the events stand beside the phases, not below.
const WIDE: u16 = 140;

/// What stands in the last row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Foot {
    /// The keys.
    Keys,
    /// A question that `y` answers with yes and any other key with no.
    Question(String),
    /// What came of a key.
    Said(String),
    /// A text being typed.
    Typing(String),
}

/// The screen of one run.
#[derive(Debug)]
pub struct Dashboard {
    state: Projection,
    frame: Frame,
    last: Last,
}

impl Default for Dashboard {
    fn default() -> Self {
        Self { state: Projection::default(), frame: Frame::default(), last: Last::new(EVENTS) }
    }
}

impl Dashboard {
    /// Takes in the next record.
    pub fn push(&mut self, record: Record) {
        self.state.push(&record);
        if let Event::RunStart(start) = &record.event {
            self.frame.push(start);
        }
        self.last.push(record);
    }

    /// What is known of the run so far.
    pub fn state(&self) -> &Projection {
        &self.state
    }

    /// Draws all of it.
    pub fn draw(&self, screen: &mut ratatui::Frame<'_>, foot: &Foot, life: Life, now: DateTime<Utc>) {
        let area = screen.area();
        let width = usize::from(area.width);
        let [head, rest, foot_row] =
            Layout::vertical([Constraint::Length(3), Constraint::Min(0), Constraint::Length(1)]).areas(area);
        show(screen, head, self.head(life, now, width));
        if area.width >= WIDE {
            let [left, right] = Layout::horizontal([Constraint::Percentage(50), Constraint::Min(0)]).areas(rest);
            let left = Rect { width: left.width.saturating_sub(2), ..left };
            self.draw_work(screen, left, now, left.height);
            show(screen, right, self.events(right));
        } else {
            // Half of the screen belongs to the agents and phases, the other to the events.
            let above = self.draw_work(screen, rest, now, rest.height.div_ceil(2));
            let below = Rect { y: rest.y + above, height: rest.height - above, ..rest };
            show(screen, below, self.events(below));
        }
        show(screen, foot_row, vec![self.foot(foot, life, width)]);
    }

    /// Draws agents and phases in at most so many rows and says how many they took.
    fn draw_work(&self, screen: &mut ratatui::Frame<'_>, area: Rect, now: DateTime<Utc>, rows: u16) -> u16 {
        let width = usize::from(area.width);
        let mut lines = self.agents(width, usize::from(rows) / 2);
        let left = usize::from(rows).saturating_sub(lines.len());
        lines.extend(self.phases(width, left, now));
        let taken = u16::try_from(lines.len()).unwrap_or(rows).min(area.height);
        show(screen, Rect { height: taken, ..area }, lines);
        taken
    }
}

fn show(screen: &mut ratatui::Frame<'_>, area: Rect, lines: Vec<Line<'static>>) {
    screen.render_widget(Paragraph::new(lines), area);
}

/// A line cut to the width, in one ink.
fn inked(line: &str, width: usize, ink: Ink) -> Line<'static> {
    Line::styled(text::fit(line, width).into_owned(), style(ink))
}

/// A line cut to the width, of which the symbol that it begins with has an ink.
fn marked(line: &str, width: usize) -> Line<'static> {
    let line = text::fit(line, width).into_owned();
    let cut = line.chars().next().map_or(0, char::len_utf8);
    let (symbol, rest) = line.split_at(cut);
    let ink = match symbol {
        "▶" => Ink::Running,
        "✓" => Ink::Good,
        "✗" => Ink::Bad,
        "↻" | "⇄" | "⏸" => Ink::Note,
        "·" => Ink::Quiet,
        _ => Ink::Text,
    };
    Line::from(vec![Span::styled(symbol.to_owned(), style(ink)), Span::raw(rest.to_owned())])
}

/// An ink as the terminal library says it.
fn style(ink: Ink) -> Style {
    let coloured = |colour: Color| Style::new().fg(colour);
    match ink {
        Ink::Text => Style::new(),
        Ink::Good => coloured(Color::Green),
        Ink::Bad => coloured(Color::Red),
        Ink::Running => coloured(Color::Cyan),
        Ink::Note => coloured(Color::Yellow),
        Ink::Quiet => Style::new().add_modifier(Modifier::DIM),
        Ink::Strong => Style::new().add_modifier(Modifier::BOLD),
    }
}

#[cfg(test)]
mod tests;
