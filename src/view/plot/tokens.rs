//! Tokens by kind, a column a phase.

use super::WIDTH;
use super::axis::{Scale, decimal_ticks, float};
use super::context::{LEFT, RIGHT};
use super::labels::{HEIGHT, Label, place};
use super::scene::Scene;
use crate::event::Usage;
use crate::view::numbers::{UNKNOWN, count};
use crate::view::projection::Projection;
use crate::view::rows::PhaseRow;
use crate::view::text;

/// Height of the plotting area.
const TALL: f64 = 170.0;
/// No column is wider.
const WIDEST: f64 = 72.0;

/// A kind of tokens: its words, its class, and its part of a usage.
type Kind = (&'static str, &'static str, fn(&Usage) -> u64);

const KINDS: [Kind; 4] = [
    ("cache read", "read", |usage| usage.cache_read),
    ("cache write", "write", |usage| usage.cache_write),
    ("input", "input", |usage| usage.input),
    ("output", "output", |usage| usage.output),
];

/// Draws the plot below `above`.
pub(super) fn draw(state: &Projection, above: f64, scene: &mut Scene) {
    let phases: Vec<&PhaseRow> = state.phases.iter().filter(|phase| phase.agent.is_some()).collect();
    let head = above + 14.0;
    let (top, bottom) = (head + 42.0, head + 42.0 + TALL);
    scene.labels.push(Label::at("tokens by phase", LEFT, head, "ink"));
    legend(head, scene);
    let full = phases.iter().map(|phase| phase.spend.tokens_known.total()).max().unwrap_or(0).max(1);
    let y = Scale::new(full, bottom, top);
    for tick in decimal_ticks(full, 4) {
        let height = y.at(tick);
        scene.line((LEFT, height), (RIGHT, height), "grid");
        let label = Label::ending_at(&count(tick), LEFT - 6.0, height - HEIGHT / 2.0, "soft");
        place(&mut scene.labels, [label], 0.0, LEFT);
    }
    let pitch = (RIGHT - LEFT) / float(phases.len().max(1) as u64);
    for (index, phase) in phases.iter().enumerate() {
        let left = LEFT + pitch * float(index as u64);
        column(phase, left, pitch, y, scene);
    }
    scene.height = bottom + 2.0 * HEIGHT + 12.0;
}

fn legend(y: f64, scene: &mut Scene) {
    let mut x = 350.0;
    for (word, class, _) in KINDS {
        scene.rect((x, y + 2.0), (10.0, 10.0), class, word);
        let label = Label::at(word, x + 16.0, y, "soft");
        x += label.width + 36.0;
        scene.labels.push(label);
    }
}

fn column(phase: &PhaseRow, left: f64, pitch: f64, y: Scale, scene: &mut Scene) {
    let usage = &phase.spend.tokens_known;
    let wide = (pitch * 0.8).min(WIDEST);
    let (from, middle) = (left + (pitch - wide) / 2.0, left + pitch / 2.0);
    let mut stacked: u64 = 0;
    for (word, class, part) in KINDS {
        let (low, tokens) = (y.at(stacked), part(usage));
        stacked = stacked.saturating_add(tokens);
        let high = y.at(stacked);
        if tokens > 0 {
            let tip = format!("{}: {tokens} {word}", phase.phase);
            scene.rect((from, high), (wide, low - high), class, &tip);
        }
    }
    let total = phase.spend.tokens_text(Usage::total);
    let words = if total == UNKNOWN { "not reported".to_owned() } else { total.clone() };
    scene.hint((left, y.at(u64::MAX)), (pitch, y.at(0) - y.at(u64::MAX)), &format!("{}: {words}", phase.phase));
    let figure = Label::centred_at(&total, middle, y.at(stacked) - HEIGHT - 1.0, "soft");
    // Above a narrower column it would stand on its neighbours.
    if figure.width <= pitch {
        place(&mut scene.labels, [figure], LEFT, RIGHT);
    }
    let name = text::fit(&text::line(phase.phase.as_str()), 16).into_owned();
    let upper = Label::centred_at(&name, middle, y.at(0) + 4.0, "soft");
    let lower = Label::centred_at(&name, middle, y.at(0) + 5.0 + HEIGHT, "soft");
    place(&mut scene.labels, [upper, lower], 0.0, WIDTH);
}
