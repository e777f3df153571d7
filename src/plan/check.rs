//! Whether names mean something: agents, checks, gates, outputs, steps, and what templates ask for.
//!
//! Every name that a workflow uses is looked up in the config in force and in the steps before it. All that is
//! wrong is reported at once, each with its place and what there is instead.

use std::collections::BTreeSet;

use super::prompt::{self, Kind as PromptKind};
use super::when;
use crate::config::pointer::below;
use crate::config::{Config, ConfigError, Mark, Problem, Template, Warning, did_you_mean, is_schema_file};
use crate::ids::{AgentName, CheckName};
use crate::workflow::{self, AgentStep, Kind, Origin, Step, Workflow};

/// Envelope types that ship (SPEC 4.5).
pub const OUTPUTS: [&str; 7] = ["generic", "plan", "build", "scout", "review", "document", "verify"];

/// Gates that ship (SPEC 4.7); any check is one too.
pub const GATES: [&str; 4] = ["artifacts_exist", "files_non_empty", "diff_matches_claims", "verdict_consistent"];

/// Checks all that a file brings: its prompts, and its workflows as they would be planned.
///
/// # Errors
///
/// Every problem of every workflow and template. Workflows that ship are checked when they are planned, since
/// a repository need not have what each of them wants.
pub fn config(config: &Config) -> Result<(), ConfigError> {
    let workflows = workflow::catalog(config)?;
    let own = workflows.iter().filter(|workflow| workflow.origin == Origin::Config);
    let mut problems: Vec<_> = own.flat_map(|own| self::workflow(config, own)).collect();
    for name in config.agent_names() {
        problems.extend(templates(config, name));
    }
    ConfigError::unless_empty(problems)
}

/// The agents of the file that no workflow uses: a name that is mistyped limits nobody.
pub fn unused(config: &Config) -> Vec<Warning> {
    let Ok(workflows) = workflow::catalog(config) else { return Vec::new() };
    let steps = workflows.iter().flat_map(Workflow::flat);
    let used: BTreeSet<&str> = steps.filter_map(|(_, step)| agent_of(&step.kind)).map(AgentName::as_str).collect();
    let written = config.document.value["agents"].as_array().map_or(&[][..], Vec::as_slice);
    let names = written.iter().enumerate().filter_map(|(index, agent)| Some((index, agent["name"].as_str()?)));
    let unused = names.filter(|(_, name)| !used.contains(name));
    let warning = |(index, name): (usize, &str)| {
        let message = format!("no workflow uses agent `{name}`{}", did_you_mean(name, used.iter().copied()));
        Warning(config.document.problem(&format!("/agents/{index}/name"), message))
    };
    unused.map(warning).collect()
}

/// The agent that a step gives work to.
fn agent_of(kind: &Kind) -> Option<&AgentName> {
    match kind {
        Kind::Agent(step) => Some(&step.agent),
        Kind::Repair { fix, .. } => Some(fix),
        Kind::Check { .. } | Kind::Parallel { .. } | Kind::Commit | Kind::Approve { .. } => None,
    }
}

/// The problems of the two templates of an agent.
pub(super) fn templates(config: &Config, agent: &str) -> Vec<Problem> {
    let Some(prompts) = config.prompts.get(agent) else { return Vec::new() };
    let flaws = |template: &Template, kind: PromptKind| {
        let located = |flaw: prompt::Flaw| Problem {
            mark: Some(Mark { line: flaw.line, column: 1 }),
            ..Problem::with(&template.file, flaw.message)
        };
        prompt::check(&template.text, kind).into_iter().map(located).collect::<Vec<_>>()
    };
    [flaws(&prompts.system, PromptKind::System), flaws(&prompts.user, PromptKind::User)].concat()
}

/// The problems of one workflow.
pub(super) fn workflow(config: &Config, workflow: &Workflow) -> Vec<Problem> {
    let mut checker = Checker { config, workflow, problems: Vec::new() };
    for (index, step) in workflow.flat() {
        checker.step(index, step);
    }
    if let Some(accept) = &workflow.accept {
        let names: Vec<_> = workflow.flat().map(|(_, step)| step.name.as_str()).collect();
        let at = below(&workflow.at, "accept");
        for flaw in when::check(accept, &names, &[]) {
            checker.problem(&at, flaw);
        }
    }
    checker.problems
}

struct Checker<'a> {
    config: &'a Config,
    workflow: &'a Workflow,
    problems: Vec<Problem>,
}

impl Checker<'_> {
    fn problem(&mut self, at: &str, message: impl Into<String>) {
        self.problems.push(self.workflow.problem(at, message));
    }

    fn step(&mut self, index: usize, step: &Step) {
        if let Some(expression) = &step.when {
            let earlier = self.names(|at| at < index);
            let later = self.names(|at| at >= index);
            for flaw in when::check(expression, &earlier, &later) {
                self.problem(&below(&step.at, "when"), flaw);
            }
        }
        match &step.kind {
            Kind::Agent(agent) => self.agent_step(index, agent, &step.at),
            Kind::Check { checks, .. } => self.checks(checks, &below(&step.at, "check")),
            Kind::Repair { checks, fix } => {
                self.checks(checks, &format!("{}/repair/check", step.at));
                self.agent(fix, &format!("{}/repair/fix", step.at));
            }
            Kind::Parallel { steps } => self.parallel(steps),
            Kind::Commit | Kind::Approve { .. } => {}
        }
    }

    /// Names of the steps whose position passes.
    fn names(&self, is_meant: impl Fn(usize) -> bool) -> Vec<&str> {
        let meant = self.workflow.flat().filter(|(at, _)| is_meant(*at));
        meant.map(|(_, step)| step.name.as_str()).collect()
    }

    fn agent_step(&mut self, index: usize, agent: &AgentStep, at: &str) {
        self.agent(&agent.agent, &below(at, "agent"));
        if let Some(output) = &agent.output {
            let is_file = is_schema_file(output) && self.config.schemas.contains_key(output);
            if !is_file && !OUTPUTS.contains(&output.as_str()) {
                let near = did_you_mean(output, OUTPUTS);
                let known = OUTPUTS.join(", ");
                let message =
                    format!("no envelope type is called `{output}`; there are {known}, or a .json file{near}");
                self.problem(&below(at, "output"), message);
            }
        }
        for (place, gate) in agent.gates.iter().enumerate() {
            if !GATES.contains(&gate.as_str()) && !self.known_checks().contains(gate) {
                let known: Vec<_> = GATES.iter().map(|gate| (*gate).to_owned()).chain(self.known_checks()).collect();
                let near = did_you_mean(gate, known.iter().map(String::as_str));
                let message = format!("no gate or check is called `{gate}`; there are {}{near}", known.join(", "));
                self.problem(&format!("{at}/gates/{place}"), message);
            }
        }
        if let Some(input) = &agent.input {
            self.input(index, input.as_str(), &below(at, "input"));
        }
    }

    fn input(&mut self, index: usize, input: &str, at: &str) {
        let earlier = self.names(|at| at < index);
        let Some((_, step)) = self.workflow.flat().find(|(at, step)| *at < index && step.name.as_str() == input) else {
            let near = did_you_mean(input, earlier.iter().copied());
            let message = format!("no earlier step is called `{input}`; before it: {}{near}", join(&earlier));
            return self.problem(at, message);
        };
        match &step.kind {
            Kind::Agent(_) | Kind::Check { .. } | Kind::Repair { .. } => {}
            Kind::Commit | Kind::Approve { .. } | Kind::Parallel { .. } => {
                self.problem(at, format!("`{input}` leaves no report; name an agent, a check or a repair"));
            }
        }
    }

    fn agent(&mut self, name: &AgentName, at: &str) {
        let known: Vec<_> = self.config.agent_names().collect();
        if !known.contains(&name.as_str()) {
            let near = did_you_mean(name.as_str(), known.iter().copied());
            self.problem(at, format!("no agent is called `{name}`; there are {}{near}", join(&known)));
        }
    }

    fn known_checks(&self) -> Vec<String> {
        self.config.check_names()
    }

    fn checks(&mut self, checks: &[CheckName], at: &str) {
        let known = self.known_checks();
        for (place, check) in
            checks.iter().enumerate().filter(|(_, check)| !known.iter().any(|name| name == check.as_str()))
        {
            let near = did_you_mean(check.as_str(), known.iter().map(String::as_str));
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            let message = format!(
                "no check is called `{check}`; `checks:` and the manifests at the top of the repository name {}{near}",
                join(&known)
            );
            self.problem(&format!("{at}/{place}"), message);
        }
    }

    fn parallel(&mut self, steps: &[Step]) {
        let mut agents: Vec<&AgentName> = Vec::new();
        for step in steps {
            let Kind::Agent(AgentStep { agent, .. }) = &step.kind else { continue };
            let at = below(&step.at, "agent");
            if agents.contains(&agent) {
                self.problem(&at, format!("`{agent}` works beside itself; agents of `parallel` are distinct"));
            }
            agents.push(agent);
            if self.config.may_write(agent.as_str()) {
                self.problem(&at, format!("`{agent}` may write; agents of `parallel` have `writes: []`"));
            }
        }
    }
}

fn join(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;
