//! Live context over time.

use super::axis::{Scale, decimal_ticks, time_ticks};
use super::labels::{HEIGHT, Label, place, spread};
use super::scene::Scene;
use super::{MarkKind, PlotFold, WIDTH};
use crate::ids::AgentName;
use crate::view::numbers::{count, span};
use crate::view::projection::Projection;
use crate::view::text;
use crate::view::trace::Point;

/// Edges of the plotting area; the right margin holds the agents' names.
pub(super) const LEFT: f64 = 56.0;
pub(super) const RIGHT: f64 = WIDTH - 170.0;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 346.0;
/// Columns of an agent's name at the end of its line.
const NAME_COLUMNS: usize = 15;
/// Colours of lines; with more agents the same ones come again, dotted.
const COLOURS: usize = 6;

/// Draws the plot and answers where it ends.
pub(super) fn draw(plot: &PlotFold, state: &Projection, scene: &mut Scene) -> f64 {
    let ceilings = ceilings(state);
    let largest = plot.courses.values().flat_map(|course| course.trace.points()).map(|point| point.tokens).max();
    let full = largest.into_iter().chain(ceilings.iter().copied()).max().unwrap_or(1);
    // A little air above the highest line.
    let y = Scale::new(full.saturating_add(full / 20), BOTTOM, TOP);
    let x = Scale::new(plot.active_ms, LEFT, RIGHT);
    scene.labels.push(Label::at("live context over time", LEFT, 8.0, "ink"));
    legend(scene);
    axes(plot, full, x, y, scene);
    draw_ceilings(&ceilings, y, scene);
    borders(plot, x, scene);
    for (index, (agent, course)) in plot.courses.iter().enumerate() {
        draw_course(agent, index, course.trace.points(), x, y, scene);
    }
    names(plot, y, scene);
    marks(plot, x, y, scene);
    scene.height = BOTTOM + 24.0;
    scene.height
}

/// The different ceilings, smallest first.
fn ceilings(state: &Projection) -> Vec<u64> {
    let started = state.agents.iter().filter(|agent| agent.last_at.is_some());
    let mut ceilings: Vec<u64> = started.filter_map(|agent| agent.ceiling).filter(|&ceiling| ceiling > 0).collect();
    ceilings.sort_unstable();
    ceilings.dedup();
    ceilings
}

fn legend(scene: &mut Scene) {
    let y = 8.0;
    let middle = y + HEIGHT / 2.0;
    scene.line((350.0, middle), (374.0, middle), "ceiling");
    scene.labels.push(Label::at("ceiling", 380.0, y, "soft"));
    scene.triangle((452.0, middle + 5.0), "rotation");
    scene.labels.push(Label::at("rotation", 462.0, y, "soft"));
    scene.cross((536.0, middle), "cache break");
    scene.labels.push(Label::at("cache break", 546.0, y, "soft"));
    scene.line((638.0, y), (638.0, y + HEIGHT), "border");
    scene.labels.push(Label::at("phase", 646.0, y, "soft"));
}

fn axes(plot: &PlotFold, full: u64, x: Scale, y: Scale, scene: &mut Scene) {
    for tick in decimal_ticks(full, 5) {
        let height = y.at(tick);
        scene.line((LEFT, height), (RIGHT, height), "grid");
        let label = Label::ending_at(&count(tick), LEFT - 6.0, height - HEIGHT / 2.0, "soft");
        place(&mut scene.labels, [label], 0.0, LEFT);
    }
    for tick in time_ticks(plot.active_ms, 8) {
        let along = x.at(tick);
        scene.line((along, BOTTOM), (along, BOTTOM + 4.0), "border");
        let label = Label::centred_at(&tick_word(tick), along, BOTTOM + 8.0, "soft");
        place(&mut scene.labels, [label], 0.0, WIDTH);
    }
}

/// A round span without the part of it that is nothing: `2m`, `1h 30m`.
fn tick_word(ms: u64) -> String {
    let whole = span(ms);
    match whole.split_once(' ') {
        _ if ms == 0 => "0".to_owned(),
        Some((unit, "00s" | "00m" | "00h")) => unit.to_owned(),
        Some(_) | None => whole,
    }
}

fn draw_ceilings(ceilings: &[u64], y: Scale, scene: &mut Scene) {
    for &ceiling in ceilings {
        let height = y.at(ceiling);
        scene.line((LEFT, height), (RIGHT, height), "ceiling");
        let word = format!("ceiling {}", count(ceiling));
        let above = Label::at(&word, LEFT + 4.0, height - HEIGHT - 1.0, "soft");
        let below = Label::at(&word, LEFT + 4.0, height + 1.0, "soft");
        let right = Label::ending_at(&word, RIGHT - 4.0, height - HEIGHT - 1.0, "soft");
        place(&mut scene.labels, [above, below, right], LEFT, RIGHT);
    }
}

fn borders(plot: &PlotFold, x: Scale, scene: &mut Scene) {
    for (index, border) in plot.borders.iter().enumerate() {
        let from = x.at(border.at_ms);
        let to = plot.borders.get(index + 1).map_or(RIGHT, |next| x.at(next.at_ms));
        scene.line((from, TOP), (from, BOTTOM), "border");
        scene.hint((from, TOP), ((to - from).max(1.0), BOTTOM - TOP), border.phase.as_str());
        let name = text::fit(border.phase.as_str(), 16).into_owned();
        let upper = Label::at(&name, from + 2.0, TOP - 2.0 * HEIGHT - 4.0, "soft");
        let lower = Label::at(&name, from + 2.0, TOP - HEIGHT - 2.0, "soft");
        place(&mut scene.labels, [lower, upper], LEFT, WIDTH);
    }
}

fn colour(index: usize) -> String {
    let dotted = if index % (2 * COLOURS) < COLOURS { "" } else { " dotted" };
    format!("a{}{dotted}", index % COLOURS)
}

fn draw_course(agent: &AgentName, index: usize, points: &[Point], x: Scale, y: Scale, scene: &mut Scene) {
    let at = |point: &Point| (x.at(point.at_ms), y.at(point.tokens));
    for session in points.chunk_by(|_, next| !next.fresh) {
        let line: Vec<(f64, f64)> = session.iter().map(at).collect();
        scene.path(&line, &format!("course {}", colour(index)));
    }
    for pair in points.windows(2).filter(|pair| pair[1].fresh) {
        scene.line(at(&pair[0]), at(&pair[1]), &format!("drop a{}", index % COLOURS));
    }
    if let Some(last) = points.last() {
        let (along, height) = at(last);
        scene.hint((along - 4.0, height - 4.0), (8.0, 8.0), &format!("{agent}: {}", count(last.tokens)));
    }
}

/// Names of agents in the right margin, each as near to the end of its line as the others allow.
fn names(plot: &PlotFold, y: Scale, scene: &mut Scene) {
    let drawn: Vec<(usize, &AgentName, u64)> = plot
        .courses
        .iter()
        .enumerate()
        .filter_map(|(index, (agent, course))| course.tokens.map(|tokens| (index, agent, tokens)))
        .collect();
    let wanted: Vec<f64> = drawn.iter().map(|(.., tokens)| y.at(*tokens) - HEIGHT / 2.0).collect();
    let heights = spread(&wanted, TOP, BOTTOM);
    for ((index, agent, tokens), height) in drawn.into_iter().zip(heights) {
        let middle = height + HEIGHT / 2.0;
        scene.path(&[(RIGHT + 8.0, middle), (RIGHT + 26.0, middle)], &format!("course {}", colour(index)));
        let name = text::line(agent.as_str()).into_owned();
        let word = format!("{} {}", text::fit(&name, NAME_COLUMNS), count(tokens));
        place(&mut scene.labels, [Label::at(&word, RIGHT + 32.0, height, "ink")], RIGHT, WIDTH);
    }
}

fn marks(plot: &PlotFold, x: Scale, y: Scale, scene: &mut Scene) {
    for mark in &plot.marks {
        let place = (x.at(mark.at_ms), y.at(mark.tokens));
        match mark.kind {
            MarkKind::Rotation => scene.triangle(place, &mark.what),
            MarkKind::CacheBreak => scene.cross(place, &mark.what),
        }
    }
}
