//! Whether what a run would start is there: engines, and the programs of checks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use indexmap::IndexMap;

use super::project::{Project, is_installed};
use super::report::CliError;
use super::say;
use crate::engine;
use crate::ids::{CheckName, EngineName};
use crate::plan::{Check, EngineChoice, Plan};
use crate::run::check::missing_program;

/// Refuses a plan of which nobody can work: no agent's engine is there, and no fallback of one.
pub(super) fn refuse_without_engine(project: &Project, plan: &Plan) -> Result<(), CliError> {
    let named: BTreeSet<EngineName> =
        plan.agents.values().flat_map(|agent| &agent.choices).map(|choice| choice.engine).collect();
    // Where a program is configured the run says what is wrong with it.
    let is_there = |engine: &EngineName| {
        let settings = plan.engines.get(engine);
        settings.is_some_and(|settings| settings.program.is_some())
            || is_installed(*engine, settings, &project.repository.top)
    };
    if named.is_empty() || named.iter().any(is_there) {
        return Ok(());
    }
    let verb = if named.len() == 1 { "is" } else { "are" };
    let engines = named.iter().map(|engine| engine.as_str()).collect::<Vec<_>>().join(", ");
    let install = named.first().map_or("", |engine| engine::for_name(*engine).facts().install);
    let hint =
        format!("{install}; `fia doctor` says what is there, `--use` takes another engine, `fia demo` needs none");
    Err(CliError::usage(format!("{engines} {verb} not installed, so no agent can work"), hint))
}

/// Says which agents of a plan work on an engine that is not there.
pub(super) fn warn_of_engines(project: &Project, plan: &Plan) {
    let mut absent: BTreeMap<EngineName, Vec<&str>> = BTreeMap::new();
    for (name, agent) in &plan.agents {
        if let Some(EngineChoice { engine, .. }) = agent.choices.first()
            && !is_installed(*engine, plan.engines.get(engine), &project.repository.top)
        {
            absent.entry(*engine).or_default().push(name.as_str());
        }
    }
    for (engine, agents) in absent {
        let verb = if agents.len() == 1 { "works" } else { "work" };
        let agents = agents.join(", ");
        say(&format!("warning: {engine} is not installed, and {agents} {verb} on it: `fia doctor` says more"));
    }
}

/// Says which checks cannot start.
pub(super) fn warn_of_checks(checks: &IndexMap<CheckName, Check>, top: &Path) {
    for missing in missing_checks(checks, top) {
        say(&format!("warning: {missing}"));
    }
}

/// Checks whose program is not there, each as a sentence.
pub(super) fn missing_checks(checks: &IndexMap<CheckName, Check>, top: &Path) -> Vec<String> {
    let missing = checks.iter().filter_map(|(name, check)| Some((name, missing_program(check, top)?)));
    missing.map(|(name, error)| format!("check `{name}` cannot start: {error}")).collect()
}
