//! Config, workflow and prompt made into a [`Plan`].

use std::fmt::Write as _;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Action, Agent, AgentAction, Check, EngineChoice, Plan, PlannedStep, Stop, Writes, check};
use crate::config::{Choice, Config, ConfigError, Problem, level_fits};
use crate::ids::{AgentName, CheckName, EngineName};
use crate::workflow::{self, AgentStep, Kind, Step, Workflow};

/// What a run is asked to do.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Name of the workflow.
    pub workflow: &'a str,
    /// What is asked for.
    pub prompt: &'a str,
    /// Engines chosen for this run.
    pub choices: &'a [Choice],
}

/// Builds the plan of a run, and the limits that hold at its start.
///
/// # Errors
///
/// An empty prompt, an unknown workflow, and everything in the workflow and in the templates of its agents that
/// names what does not exist; all at once.
pub fn build(config: &Config, request: Request<'_>) -> Result<(Plan, Stop), ConfigError> {
    let config = config.clone().with_choices(request.choices)?;
    let workflow = match workflow::find(&config, request.workflow) {
        Ok(workflow) => workflow,
        Err(error) => {
            // What else is wrong with the file is told with it.
            check::config(&config)?;
            return Err(error);
        }
    };
    let mut problems = check::workflow(&config, &workflow);
    if request.prompt.trim().is_empty() {
        let message = "the prompt is empty; give it as words, by `-f FILE`, or by `-f -` on standard input";
        problems.push(Problem::with("the command line", message));
    }
    let agents = agents(&config, &workflow);
    for name in agents.keys() {
        problems.extend(check::templates(&config, name.as_str()));
    }
    ConfigError::unless_empty(problems)?;
    let steps: Vec<_> = workflow.steps.iter().map(step).collect();
    let plan = Plan {
        workflow: workflow.name.clone(),
        description: workflow.description.clone(),
        prompt: request.prompt.to_owned(),
        checks: checks(&config, &workflow),
        schemas: schemas(&config, &workflow),
        steps,
        accept: workflow.accept.clone(),
        agents,
        protected_files: config.at("/defaults/protected_files"),
        judge_files: config.judge_files.clone(),
        benign_paths: config.at("/defaults/permissions/benign_paths"),
        engines: engines(&config),
        relay: config.at("/defaults/relay"),
        session: config.at("/defaults/session"),
        context_pruning: pruning(&config),
        models: config.at("/models"),
    };
    Ok((plan, stop(&config)))
}

/// The limits of `stop:` in force, which a resume reads anew.
pub fn stop(config: &Config) -> Stop {
    config.at("/stop")
}

impl Plan {
    /// SHA-256 of the plan as JSON, in hexadecimal.
    pub fn digest(&self) -> String {
        // Through a value, which cannot fail: a plan has text keys only, and JSON null stands for no number.
        let json = serde_json::json!(self).to_string();
        Sha256::digest(json).iter().fold(String::with_capacity(64), |mut text, byte| {
            let _infallible = write!(text, "{byte:02x}");
            text
        })
    }

    /// Whether a step of it commits.
    pub fn commits(&self) -> bool {
        self.steps.iter().any(|step| step.action == Action::Commit)
    }
}

/// An agent in the shape of the file, with all that it inherits.
#[derive(Deserialize)]
struct Role {
    name: AgentName,
    tools: Vec<String>,
    harness_engineering: Vec<String>,
    session_rotation_context: u64,
    session_rotation: super::RotationPolicy,
    rotate_mid_phase: bool,
    #[serde(default)]
    writes: Option<Vec<String>>,
    #[serde(default)]
    phase_overrides: IndexMap<String, Levels>,
    #[serde(default)]
    fallbacks: Vec<Engaged>,
}

/// An engine as an agent or a fallback names it.
#[derive(Deserialize)]
struct Engaged {
    coding_agent: EngineName,
    #[serde(default)]
    model: String,
    #[serde(default)]
    effort: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
}

/// Effort and thinking are one knob under two names.
#[derive(Deserialize)]
struct Levels {
    #[serde(default)]
    effort: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
}

impl Levels {
    /// The engine's own word first, then the other one if the engine knows it.
    fn of(self, engine: EngineName) -> Option<String> {
        let words = if engine == EngineName::Pi { [self.thinking, self.effort] } else { [self.effort, self.thinking] };
        words.into_iter().flatten().find(|word| level_fits(engine, word))
    }
}

impl Engaged {
    fn choice(self) -> EngineChoice {
        let levels = Levels { effort: self.effort, thinking: self.thinking };
        EngineChoice { engine: self.coding_agent, model: self.model, level: levels.of(self.coding_agent) }
    }
}

/// The agents that the steps name, in roster order.
fn agents(config: &Config, workflow: &Workflow) -> IndexMap<AgentName, Agent> {
    let mut named: Vec<&AgentName> = Vec::new();
    for (_, step) in workflow.flat() {
        match &step.kind {
            Kind::Agent(agent) => named.push(&agent.agent),
            Kind::Repair { fix, .. } => named.push(fix),
            Kind::Check { .. } | Kind::Commit | Kind::Approve { .. } | Kind::Parallel { .. } => {}
        }
    }
    let roster = config.agents().iter().filter_map(|agent| self::agent(config, agent));
    roster.filter(|(name, _)| named.contains(&name)).collect()
}

fn agent(config: &Config, written: &Value) -> Option<(AgentName, Agent)> {
    let role = Role::deserialize(written).ok()?;
    let own = Engaged::deserialize(written).ok()?.choice();
    let engine = own.engine;
    let prompts = config.prompts.get(role.name.as_str())?;
    let levels = role.phase_overrides.into_iter().filter_map(|(step, levels)| Some((step, levels.of(engine)?)));
    let agent = Agent {
        choices: std::iter::once(own).chain(role.fallbacks.into_iter().map(Engaged::choice)).collect(),
        system: prompts.system.text.clone(),
        user: prompts.user.text.clone(),
        tools: role.tools,
        extensions: role.harness_engineering,
        writes: role.writes.map_or(Writes::Anywhere, Writes::Only),
        ceiling: role.session_rotation_context,
        rotation: role.session_rotation,
        rotate_mid_phase: role.rotate_mid_phase,
        phase_levels: levels.collect(),
    };
    Some((role.name, agent))
}

fn step(step: &Step) -> PlannedStep {
    let action = match &step.kind {
        Kind::Agent(agent) => Action::Agent(action(agent)),
        Kind::Check { checks, expect } => Action::Check { checks: checks.clone(), expect: expect.clone() },
        Kind::Repair { checks, fix } => Action::Repair {
            checks: checks.clone(),
            fix: AgentAction {
                agent: fix.clone(),
                output: default_output(fix).to_owned(),
                gates: Vec::new(),
                retries: 0,
                input: None,
                replay: true,
            },
        },
        Kind::Commit => Action::Commit,
        Kind::Approve { wait } => Action::Approve { wait: *wait },
        Kind::Parallel { steps } => Action::Parallel { steps: steps.iter().map(self::step).collect() },
    };
    PlannedStep { name: step.name.clone(), when: step.when.clone(), action }
}

fn action(agent: &AgentStep) -> AgentAction {
    AgentAction {
        agent: agent.agent.clone(),
        output: agent.output.clone().unwrap_or_else(|| default_output(&agent.agent).to_owned()),
        gates: agent.gates.clone(),
        retries: agent.retries,
        input: agent.input.clone(),
        replay: agent.replay,
    }
}

/// The report that the built-in prompts of a role ask for.
fn default_output(agent: &AgentName) -> &'static str {
    match agent.as_str() {
        "planner" => "plan",
        "builder" | "tester" => "build",
        "scout" => "scout",
        "reviewer" => "review",
        "documenter" => "document",
        _ => "generic",
    }
}

/// The checks that steps and gates name, in the order of the config.
fn checks(config: &Config, workflow: &Workflow) -> IndexMap<CheckName, Check> {
    let mut named: Vec<&str> = Vec::new();
    for (_, step) in workflow.flat() {
        match &step.kind {
            Kind::Agent(agent) => named.extend(agent.gates.iter().map(String::as_str)),
            Kind::Check { checks, .. } | Kind::Repair { checks, .. } => {
                named.extend(checks.iter().map(CheckName::as_str));
            }
            Kind::Commit | Kind::Approve { .. } | Kind::Parallel { .. } => {}
        }
    }
    let mut checks: IndexMap<CheckName, Check> = config.at("/checks");
    checks.retain(|name, _| named.contains(&name.as_str()));
    checks
}

fn schemas(config: &Config, workflow: &Workflow) -> IndexMap<String, Value> {
    let mut schemas = config.schemas.clone();
    schemas.retain(|file, _| {
        workflow.flat().any(|(_, step)| matches!(&step.kind, Kind::Agent(agent) if agent.output.as_ref() == Some(file)))
    });
    schemas
}

/// Settings of engines in force, which a resume reads anew for their variables.
pub fn engines(config: &Config) -> IndexMap<EngineName, super::EngineSettings> {
    let mut engines: IndexMap<EngineName, super::EngineSettings> = config.at("/engines");
    // The script of a rehearsal becomes arguments.
    let script: Option<String> = config.at("/engines/scripted/script");
    if let (Some(settings), Some(script)) = (engines.get_mut(&EngineName::Scripted), script) {
        settings.args.splice(0..0, ["--script".to_owned(), script]);
    }
    engines
}

fn pruning(config: &Config) -> Value {
    let section: Value = config.at("/context_pruning");
    if section["mode"].as_str().is_none_or(|mode| mode == "off") { Value::Null } else { section }
}

#[cfg(test)]
mod tests;
