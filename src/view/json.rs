//! Answers for programs: one JSON object, exact figures, null for what is not known.

use std::io::{self, Write};

use serde::Serialize;

use super::projection::Projection;
use super::rows::{AgentRow, ModelRow, PhaseRow, RunSummary, SkipRow};
use super::tables::{Life, RunState};
use crate::ids::RunId;

/// Writes a value and a newline, indented for eyes too.
///
/// # Errors
///
/// What `out` answers; values of this program always are JSON.
pub fn write(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// The answer of `fia runs --json`.
#[derive(Debug, Serialize)]
pub struct RunList<'a> {
    runs: Vec<ListedRun<'a>>,
}

#[derive(Debug, Serialize)]
struct ListedRun<'a> {
    state: RunState,
    #[serde(flatten)]
    run: &'a RunSummary,
}

impl<'a> RunList<'a> {
    /// The runs in this order.
    pub fn of(runs: impl IntoIterator<Item = (&'a RunSummary, Life)>) -> Self {
        let runs = runs.into_iter().map(|(run, life)| ListedRun { state: RunState::of(run, life), run }).collect();
        Self { runs }
    }
}

/// The answer of `fia show --json`.
#[derive(Debug, Serialize)]
pub struct Shown<'a> {
    state: RunState,
    #[serde(flatten)]
    projection: &'a Projection,
}

impl<'a> Shown<'a> {
    /// All that is known of a run.
    pub fn of(projection: &'a Projection, life: Life) -> Self {
        Self { state: RunState::of(&projection.run, life), projection }
    }
}

/// The answer of `fia phases --json`.
#[derive(Debug, Serialize)]
pub struct PhaseList<'a> {
    run: &'a RunId,
    phases: &'a [PhaseRow],
    skipped: &'a [SkipRow],
}

impl<'a> PhaseList<'a> {
    /// The phases of a run.
    pub fn of(projection: &'a Projection) -> Self {
        Self { run: &projection.run.run, phases: &projection.phases, skipped: &projection.skipped }
    }
}

/// The answer of `fia agents --json`.
#[derive(Debug, Serialize)]
pub struct AgentList<'a> {
    run: &'a RunId,
    agents: &'a [AgentRow],
}

impl<'a> AgentList<'a> {
    /// The agents of a run.
    pub fn of(projection: &'a Projection) -> Self {
        Self { run: &projection.run.run, agents: &projection.agents }
    }
}

/// The answer of `fia models --json`.
#[derive(Debug, Serialize)]
pub struct ModelList {
    models: Vec<ModelRow>,
}

impl ModelList {
    /// The rows of several runs, added up.
    pub fn over(runs: impl IntoIterator<Item = ModelRow>) -> Self {
        Self { models: ModelRow::over(runs) }
    }
}
