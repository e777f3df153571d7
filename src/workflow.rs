//! Workflows as written: named lists of steps, those that ship and those of the config.
//!
//! Every workflow, shipped or not, is read from YAML of the same form by the same table. Here a step is
//! known to be of one kind with the keys of that kind; whether the names in it exist is decided when a plan
//! is built.

use serde_json::{Map, Value};

use crate::config::document::Document;
use crate::config::pointer::below;
use crate::config::table::{FILE, STEP_KINDS};
use crate::config::{Config, ConfigError, Problem, did_you_mean, value};
use crate::event::{ApprovalWait, Expect};
use crate::ids::{AgentName, CheckName, StepName};

/// A list of steps under a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// Its name.
    pub name: String,
    /// What it does, one line; may be empty.
    pub description: String,
    /// Whether it ships, or the config brings it.
    pub origin: Origin,
    pub(crate) steps: Vec<Step>,
    pub(crate) accept: Option<String>,
    /// The file that it stands in.
    pub(crate) document: Document,
    /// Where it stands there.
    pub(crate) at: String,
}

/// Where a workflow comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It ships.
    BuiltIn,
    /// The config brings it.
    Config,
}

/// A step as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(crate) name: StepName,
    pub(crate) when: Option<String>,
    pub(crate) kind: Kind,
    /// Where it stands in the file.
    pub(crate) at: String,
}

/// What a step does, by names that may not exist.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Agent(AgentStep),
    Check { checks: Vec<CheckName>, expect: Expect },
    Repair { checks: Vec<CheckName>, fix: AgentName },
    Commit,
    Approve { wait: ApprovalWait },
    Parallel { steps: Vec<Step> },
}

/// An agent phase as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgentStep {
    pub(crate) agent: AgentName,
    pub(crate) output: Option<String>,
    pub(crate) gates: Vec<String>,
    pub(crate) retries: u32,
    pub(crate) input: Option<StepName>,
    pub(crate) replay: bool,
}

/// Gate corrections allowed, unless configured.
const DEFAULT_RETRIES: u32 = 1;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("workflow/builtin/", $name, ".yaml")))),*]
    };
}

/// The workflows that ship: name and YAML.
static SHIPPED: [(&str, &str); 13] = shipped![
    "prompt",
    "scout",
    "plan",
    "build",
    "document",
    "review",
    "quality",
    "build_test",
    "plan_build_test",
    "sdlc",
    "bug",
    "quick",
    "prototype",
];

/// Whether a workflow of this name ships.
pub fn is_built_in(name: &str) -> bool {
    SHIPPED.iter().any(|(shipped, _)| *shipped == name)
}

/// Every workflow that can be run: those that ship in their order, each replaced by one of the config that has
/// its name, then the others of the config.
///
/// # Errors
///
/// Steps that are of no kind or of several, keys of another kind, names that repeat.
pub fn catalog(config: &Config) -> Result<Vec<Workflow>, ConfigError> {
    let (workflows, problems) = read_all(config);
    ConfigError::unless_empty(problems)?;
    Ok(workflows)
}

/// The same, with the steps that are wrong left out, and what is wrong.
pub(crate) fn read_all(config: &Config) -> (Vec<Workflow>, Vec<Problem>) {
    let own = config.document.value["workflows"].as_object().cloned().unwrap_or_default();
    let mut problems = Vec::new();
    let mut workflows = Vec::new();
    for (name, text) in &SHIPPED {
        if own.contains_key(*name) {
            workflows.extend(read(&config.document, name, Origin::Config, &mut problems));
        } else {
            let (document, findings) = Document::read(&format!("built-in:{name}.yaml"), (*text).to_owned(), FILE);
            problems.extend(findings.problems);
            workflows.extend(read(&document, name, Origin::BuiltIn, &mut problems));
        }
    }
    for name in own.keys().filter(|name| SHIPPED.iter().all(|(shipped, _)| shipped != name)) {
        workflows.extend(read(&config.document, name, Origin::Config, &mut problems));
    }
    (workflows, problems)
}

/// Finds one workflow.
///
/// # Errors
///
/// No workflow has this name, or one of [`catalog`] cannot be read.
pub fn find(config: &Config, name: &str) -> Result<Workflow, ConfigError> {
    let workflows = catalog(config)?;
    let names: Vec<_> = workflows.iter().map(|workflow| workflow.name.clone()).collect();
    workflows.into_iter().find(|workflow| workflow.name == name).ok_or_else(|| {
        let near = did_you_mean(name, names.iter().map(String::as_str));
        let message = format!("no workflow is called `{name}`; there are {}{near}", names.join(", "));
        Problem::with("the command line", message).into()
    })
}

fn read(document: &Document, name: &str, origin: Origin, problems: &mut Vec<Problem>) -> Option<Workflow> {
    let at = below("/workflows", name);
    let written = document.value.pointer(&at)?.as_object()?;
    let mut reader = Reader { document, names: Vec::new(), problems };
    let steps = reader.steps(written.get("steps"), &below(&at, "steps"));
    let text = |key: &str| written.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Workflow {
        name: name.to_owned(),
        description: text("description").unwrap_or_default(),
        origin,
        steps,
        accept: text("accept"),
        document: document.clone(),
        at,
    })
}

impl Workflow {
    /// The YAML of a workflow that ships; of the config's, the lines that hold it.
    pub fn source(&self) -> String {
        let lines: Vec<&str> = self.document.text.lines().collect();
        let whole = || self.document.text.clone();
        let (Origin::Config, Some(mark)) = (self.origin, self.document.mark(&self.at)) else { return whole() };
        let is_key = |line: &&str| line.trim_start().trim_start_matches(['"', '\'']).starts_with(&self.name);
        let Some(first) = lines.iter().take(mark.line).rposition(is_key) else { return whole() };
        let indent = |line: &str| line.len() - line.trim_start().len();
        let ends = |line: &&str| !line.trim().is_empty() && indent(line) <= indent(lines[first]);
        let length = lines[first + 1..].iter().position(ends).unwrap_or(lines.len() - first - 1);
        lines[first..=first + length].join("\n").trim_end().to_owned() + "\n"
    }

    /// What it is written as, in the shape of the file, checked.
    pub(crate) fn written(&self) -> &Value {
        self.document.value.pointer(&self.at).unwrap_or(&Value::Null)
    }

    /// A problem with what stands at `at`.
    pub(crate) fn problem(&self, at: &str, message: impl Into<String>) -> Problem {
        self.document.problem(at, message)
    }

    /// All steps in order, those inside of `parallel` included, each with its position at the top level.
    pub(crate) fn flat(&self) -> impl Iterator<Item = (usize, &Step)> {
        self.steps.iter().enumerate().flat_map(|(index, step)| {
            let inner = match &step.kind {
                Kind::Parallel { steps } => steps.as_slice(),
                Kind::Agent(_) | Kind::Check { .. } | Kind::Repair { .. } | Kind::Commit | Kind::Approve { .. } => &[],
            };
            std::iter::once((index, step)).chain(inner.iter().map(move |inner| (index, inner)))
        })
    }
}

/// Reads checked steps into their kinds.
struct Reader<'a> {
    document: &'a Document,
    names: Vec<StepName>,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, at: &str, message: impl Into<String>) {
        self.problems.push(self.document.problem(at, message));
    }

    fn steps(&mut self, written: Option<&Value>, at: &str) -> Vec<Step> {
        let written = written.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if written.is_empty() {
            self.problem(at, "no steps");
        }
        let steps = written.iter().enumerate();
        steps.filter_map(|(index, step)| self.step(step.as_object()?, &format!("{at}/{index}"))).collect()
    }

    fn step(&mut self, written: &Map<String, Value>, at: &str) -> Option<Step> {
        let kinds: Vec<_> = STEP_KINDS.iter().copied().filter(|kind| written.contains_key(*kind)).collect();
        let [kind] = kinds[..] else {
            let message = match kinds.len() {
                0 => format!("this step does nothing; it needs one of {}", STEP_KINDS.join(", ")),
                _ => format!("this step is {} at once; make it several steps", kinds.join(" and ")),
            };
            self.problem(at, message);
            return None;
        };
        for key in written.keys().filter(|key| owner(key).is_some_and(|owner| owner != kind)) {
            self.problem(&below(at, key), format!("`{key}` is for `{}:` steps", owner(key).unwrap_or_default()));
        }
        let text = |key: &str| written.get(key).and_then(Value::as_str);
        let name = self.name(text("name"), text("agent").unwrap_or(kind), at);
        let kind = match kind {
            "agent" => Kind::Agent(agent(written)),
            "check" => self.check(written, at),
            "repair" => Kind::Repair {
                checks: checks(&written["repair"]["check"]),
                fix: written["repair"]["fix"].as_str().unwrap_or_default().into(),
            },
            "commit" => Kind::Commit,
            "approve" => self.approve(written, at),
            _ => Kind::Parallel { steps: self.steps(written.get("parallel"), &below(at, "parallel")) },
        };
        Some(Step { name, when: text("when").map(str::to_owned), kind, at: at.to_owned() })
    }

    fn name(&mut self, written: Option<&str>, default: &str, at: &str) -> StepName {
        if written.is_none() && value::step_name(default).is_err() {
            self.problem(at, format!("`name` is missing; `{default}` cannot be the name of a step"));
        }
        let name = StepName::from(written.unwrap_or(default));
        if self.names.contains(&name) {
            let at = written.map_or_else(|| at.to_owned(), |_| below(at, "name"));
            self.problem(&at, format!("`{name}` is the name of an earlier step; give this one its own `name`"));
        }
        self.names.push(name.clone());
        name
    }

    /// `wait` stands beside `approve` or inside of it.
    fn approve(&mut self, written: &Map<String, Value>, at: &str) -> Kind {
        let waits = [written.get("wait"), written["approve"].get("wait")];
        let mut waits = waits.into_iter().flatten().filter_map(Value::as_str);
        let wait = wait(waits.next());
        if waits.next().is_some() {
            self.problem(&below(at, "wait"), "`wait` is given twice");
        }
        Kind::Approve { wait }
    }

    fn check(&mut self, written: &Map<String, Value>, at: &str) -> Kind {
        let pattern = written.get("red_pattern").and_then(Value::as_str).map(str::to_owned);
        if let Some(Err(error)) = pattern.as_deref().map(regex::Regex::new) {
            self.problem(&below(at, "red_pattern"), format!("no regular expression: {error}"));
        }
        let is_red = written.get("expect").and_then(Value::as_str) == Some("red");
        if pattern.is_some() && !is_red {
            self.problem(&below(at, "red_pattern"), "`red_pattern` needs `expect: red`");
        }
        let expect = if is_red { Expect::Red { pattern } } else { Expect::Green };
        Kind::Check { checks: checks(&written["check"]), expect }
    }
}

/// The kind of step that a key belongs to; `None` for keys of every step.
fn owner(key: &str) -> Option<&'static str> {
    match key {
        "output" | "gates" | "retries" | "input" | "replay" => Some("agent"),
        "expect" | "red_pattern" => Some("check"),
        "wait" => Some("approve"),
        _ => None,
    }
}

fn agent(written: &Map<String, Value>) -> AgentStep {
    let text = |key: &str| written.get(key).and_then(Value::as_str);
    let gates = written.get("gates").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let retries = written.get("retries").and_then(Value::as_u64);
    AgentStep {
        agent: text("agent").unwrap_or_default().into(),
        output: text("output").map(str::to_owned),
        gates: gates.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        retries: retries.map_or(DEFAULT_RETRIES, |retries| u32::try_from(retries).unwrap_or(u32::MAX)),
        input: text("input").map(StepName::from),
        replay: written.get("replay").and_then(Value::as_bool).unwrap_or(true),
    }
}

fn checks(written: &Value) -> Vec<CheckName> {
    written.as_array().into_iter().flatten().filter_map(Value::as_str).map(CheckName::from).collect()
}

fn wait(written: Option<&str>) -> ApprovalWait {
    match written {
        None => ApprovalWait::NotAtAll,
        Some("never") => ApprovalWait::Forever,
        Some(span) => value::duration_secs(span).map_or(ApprovalWait::NotAtAll, |secs| ApprovalWait::Seconds { secs }),
    }
}

#[cfg(test)]
mod tests;
