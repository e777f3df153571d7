//! The picture of a run as SVG: live context over time, a line an agent, and tokens by kind a phase.
//!
//! Time is the run's active time: pauses between stretches are left out, as times of two hosts are never compared.
//! However many requests there were, a line has about a thousand points, each the peak of its stretch. The file
//! stands alone, follows light and dark, uses the colour-blind safe palette of Okabe and Ito, and no two of its
//! labels overlap: a label without a free place is left out, its tooltip stays.

mod axis;
mod context;
mod labels;
mod scene;
mod tokens;

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;

pub use labels::Label;

use super::numbers::ms_between;
use super::projection::Projection;
use super::trace::Trace;
use crate::event::{Event, Record};
use crate::ids::{AgentName, PhaseName};
use scene::Scene;

/// Width of the picture in pixels.
pub const WIDTH: f64 = 960.0;
/// Marks that are kept; a run with more cache breaks than this shows the first.
const MARKS: usize = 512;

/// The fold that a picture is made of.
#[derive(Debug, Clone, Default)]
pub struct PlotFold {
    active_ms: u64,
    last: Option<DateTime<Utc>>,
    courses: IndexMap<AgentName, Course>,
    borders: Vec<Border>,
    marks: Vec<Mark>,
}

/// The live context of one agent.
#[derive(Debug, Clone)]
struct Course {
    trace: Trace,
    /// The last reading.
    tokens: Option<u64>,
}

/// The beginning of a phase.
#[derive(Debug, Clone)]
struct Border {
    at_ms: u64,
    phase: PhaseName,
}

/// Something that happened to a session.
#[derive(Debug, Clone)]
struct Mark {
    at_ms: u64,
    tokens: u64,
    kind: MarkKind,
    what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarkKind {
    Rotation,
    CacheBreak,
}

impl PlotFold {
    /// Takes in the next record.
    pub fn push(&mut self, record: &Record) {
        if matches!(record.event, Event::RunStart(_)) {
            self.last = None;
        }
        let passed = self.last.map_or(0, |last| ms_between(last, record.ts));
        self.active_ms = self.active_ms.saturating_add(passed);
        self.last = Some(record.ts);
        self.apply(record);
    }

    fn apply(&mut self, record: &Record) {
        let at_ms = self.active_ms;
        if let (Event::PhaseStart(_), Some(phase)) = (&record.event, &record.phase) {
            self.borders.push(Border { at_ms, phase: phase.clone() });
        } else if let Event::Context(read) = &record.event {
            if let Some(tokens) = read.context_tokens {
                let course = self.course(&read.agent);
                course.trace.push(at_ms, tokens);
                course.tokens = Some(tokens);
            }
        } else if let Event::AgentStart(start) = &record.event {
            if start.session_id.is_none() {
                self.course(&start.agent).trace.border();
            }
        } else if let Event::SessionRotation(rotation) = &record.event {
            self.course(&rotation.agent).trace.border();
            self.mark(&rotation.agent, MarkKind::Rotation, super::words::describe(&record.event, record.ts));
        } else if let Event::CacheBreak(broken) = &record.event {
            self.mark(&broken.agent, MarkKind::CacheBreak, super::words::describe(&record.event, record.ts));
        }
    }

    fn course(&mut self, agent: &AgentName) -> &mut Course {
        self.courses.entry(agent.clone()).or_insert_with(|| Course { trace: Trace::large(), tokens: None })
    }

    fn mark(&mut self, agent: &AgentName, kind: MarkKind, what: String) {
        let tokens = self.courses.get(agent).and_then(|course| course.tokens).unwrap_or(0);
        if self.marks.len() < MARKS {
            self.marks.push(Mark { at_ms: self.active_ms, tokens, kind, what });
        }
    }

    /// The picture as an SVG document; `state` is the projection of the same records.
    pub fn svg(&self, state: &Projection) -> String {
        let scene = self.scene(state);
        let title = format!("fia {} {}", state.run.run, state.run.workflow);
        let mut svg = String::new();
        let _infallible = write!(svg, "{}", scene.document(&title));
        svg
    }

    /// Every label of the picture with the box that it fills.
    pub fn labels(&self, state: &Projection) -> Vec<Label> {
        self.scene(state).labels
    }

    fn scene(&self, state: &Projection) -> Scene {
        let mut scene = Scene::new(WIDTH);
        let below = context::draw(self, state, &mut scene);
        tokens::draw(state, below, &mut scene);
        scene
    }
}

#[cfg(test)]
mod tests;
