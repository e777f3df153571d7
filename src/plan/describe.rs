//! A plan as people and programs read it before anything runs (SPEC 4.3).

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Action, Agent, AgentAction, EngineChoice, Plan, PlannedStep, RotationPolicy, Stop, Writes};
use crate::event::{ApprovalWait, Expect};
use crate::ids::{AgentName, CheckName};
use crate::visible;

/// Phases, agents, engines, shared sessions, gates, checks and limits, as text for a terminal.
pub fn text(plan: &Plan, stop: &Stop) -> String {
    let mut text = String::new();
    let dash = if plan.description.is_empty() { "" } else { ": " };
    line(&mut text, &visible::line(&format!("{}{dash}{}", plan.workflow, plan.description)));
    let rows: Vec<_> = plan.steps.iter().enumerate().flat_map(|(index, step)| rows(plan, stop, index, step)).collect();
    table(&mut text, &rows);
    if let Some(accept) = &plan.accept {
        line(&mut text, &visible::line(&format!("accepted when {accept}")));
    }
    line(&mut text, "\nagents, one session each");
    table(&mut text, &plan.agents.iter().map(|(name, agent)| agent_row(plan, name, agent)).collect::<Vec<_>>());
    if !plan.checks.is_empty() {
        line(&mut text, "\nchecks");
        let rows = plan.checks.iter().map(|(name, check)| {
            [name.to_string(), check.run.clone(), limit(check.timeout_minutes, |minutes| format!("{minutes} min"))]
        });
        table(&mut text, &rows.map(Vec::from).collect::<Vec<_>>());
    }
    line(&mut text, "\nlimits");
    table(&mut text, &limits(stop));
    text
}

/// The same for programs.
pub fn json(plan: &Plan, stop: &Stop) -> Value {
    let agents = plan.agents.iter().map(|(name, agent)| {
        let description = json!({
            "choices": agent.choices,
            "phases": phases(plan, name),
            "session_rotation_context": agent.ceiling,
            "writes": agent.writes,
            "phase_levels": agent.phase_levels,
        });
        (name.to_string(), description)
    });
    json!({
        "workflow": plan.workflow,
        "description": plan.description,
        "digest": plan.digest(),
        "steps": plan.steps,
        "accept": plan.accept,
        "agents": agents.collect::<serde_json::Map<_, _>>(),
        "checks": plan.checks,
        "relay": plan.relay,
        "session": plan.session,
        "stop": stop,
    })
}

/// The rows of a step: number, name, who or what, how, condition.
fn rows(plan: &Plan, limits: &Stop, index: usize, step: &PlannedStep) -> Vec<Vec<String>> {
    let row = |number: String, name: &str, who: String, what: String| {
        let when = step.when.as_ref().map_or_else(String::new, |when| format!("when {when}"));
        vec![number, name.to_owned(), who, what, when]
    };
    let number = (index + 1).to_string();
    let name = step.name.as_str();
    match &step.action {
        Action::Agent(action) => vec![row(number, name, who(plan, action), report(action))],
        Action::Check { checks, expect } => {
            vec![row(number, name, format!("check {}", join(checks)), verdict(expect).to_owned())]
        }
        Action::Repair { checks, fix } => {
            let rounds = match limits.attempt_cap {
                0 => "test_1, no fix".to_owned(),
                cap => format!("test_1, then fix_i and test_i+1 while red, at most {cap} fixes"),
            };
            vec![row(number, name, format!("check {}, fix {}", join(checks), who(plan, fix)), rounds)]
        }
        Action::Commit => vec![row(number, name, "commit".to_owned(), "what the run made".to_owned())],
        Action::Approve { wait } => vec![row(number, name, "approve".to_owned(), patience(*wait))],
        Action::Parallel { steps } => {
            let mut all = vec![row(number, name, "side by side".to_owned(), String::new())];
            for inner in steps {
                if let Action::Agent(action) = &inner.action {
                    all.push(row(String::new(), inner.name.as_str(), who(plan, action), report(action)));
                }
            }
            all
        }
    }
}

fn who(plan: &Plan, action: &AgentAction) -> String {
    let engine = plan.agents.get(&action.agent).and_then(|agent| agent.choices.first());
    format!("{} on {}", action.agent, engine.map_or_else(String::new, choice))
}

fn report(action: &AgentAction) -> String {
    let gates = (!action.gates.is_empty()).then(|| format!("gates {}", action.gates.join(", ")));
    let input = action.input.as_ref().map(|input| format!("given {input}"));
    [Some(format!("report {}", action.output)), gates, input].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn verdict(expect: &Expect) -> &'static str {
    match expect {
        Expect::Green => "green passes",
        Expect::Red { .. } => "red passes",
    }
}

fn patience(wait: ApprovalWait) -> String {
    match wait {
        ApprovalWait::NotAtAll => "on a terminal, else the run ends resumable".to_owned(),
        ApprovalWait::Seconds { secs } if secs.is_multiple_of(3600) => format!("waits {} h", secs / 3600),
        ApprovalWait::Seconds { secs } => format!("waits {} min", secs.div_ceil(60)),
        ApprovalWait::Forever => "waits".to_owned(),
    }
}

fn choice(choice: &EngineChoice) -> String {
    let words = [Some(choice.engine.as_str()), Some(choice.model.as_str()), choice.level.as_deref()];
    words.into_iter().flatten().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn agent_row(plan: &Plan, name: &AgentName, agent: &Agent) -> Vec<String> {
    let writes = match &agent.writes {
        Writes::Anywhere => "writes anywhere".to_owned(),
        Writes::Only(patterns) if patterns.is_empty() => "reads only".to_owned(),
        Writes::Only(patterns) => format!("writes {}", patterns.join(" ")),
    };
    let ceiling = match (agent.ceiling, agent.rotation) {
        (0, RotationPolicy::Ceiling) => "never rotates".to_owned(),
        (0, RotationPolicy::BreakEven) => "rotates by price".to_owned(),
        (ceiling, RotationPolicy::Ceiling) => format!("rotates at {}", tokens(ceiling)),
        (ceiling, RotationPolicy::BreakEven) => format!("rotates by price, at the latest at {}", tokens(ceiling)),
    };
    let fallbacks: Vec<_> = agent.choices.iter().skip(1).map(choice).collect();
    let fallbacks = if fallbacks.is_empty() { String::new() } else { format!("then {}", fallbacks.join(", ")) };
    let engine = agent.choices.first().map_or_else(String::new, choice);
    vec![name.to_string(), engine, phases(plan, name).join(", "), ceiling, writes, fallbacks]
}

/// The phases that share the session of an agent.
fn phases(plan: &Plan, agent: &AgentName) -> Vec<String> {
    let of = |step: &PlannedStep| match &step.action {
        Action::Agent(action) if action.agent == *agent => vec![step.name.to_string()],
        Action::Repair { fix, .. } if fix.agent == *agent => vec!["fix_i".to_owned()],
        Action::Parallel { steps } => steps
            .iter()
            .filter(|inner| matches!(&inner.action, Action::Agent(action) if action.agent == *agent))
            .map(|inner| inner.name.to_string())
            .collect(),
        Action::Agent(_) | Action::Repair { .. } | Action::Check { .. } | Action::Commit | Action::Approve { .. } => {
            Vec::new()
        }
    };
    plan.steps.iter().flat_map(of).collect()
}

fn limits(stop: &Stop) -> Vec<Vec<String>> {
    let minutes = |value: f64| limit(value, |minutes| format!("{minutes} min"));
    let count = |value: u64| if value == 0 { "no limit".to_owned() } else { tokens(value) };
    [
        ("fixes of a repair", stop.attempt_cap.to_string()),
        ("tokens of the run", count(stop.token_budget)),
        ("tokens of a phase", count(stop.phase_token_budget)),
        ("cost of the run", limit(stop.cost_budget_usd, |dollars| format!("${dollars:.2}"))),
        ("time of the run", minutes(stop.budget_minutes)),
        ("time of a phase", minutes(stop.phase_timeout_minutes)),
        ("silence of an engine", minutes(stop.idle_timeout_minutes)),
        ("wait for a plan limit", minutes(stop.limit_wait_minutes)),
        ("paths changed", count(stop.breadth_ceiling)),
    ]
    .map(|(what, much)| vec![what.to_owned(), much])
    .into()
}

fn limit(value: f64, shown: impl Fn(f64) -> String) -> String {
    if value > 0.0 { shown(value) } else { "no limit".to_owned() }
}

/// Tokens as people read them: `180k`, `30M`, and exactly where rounding would hide something.
fn tokens(count: u64) -> String {
    match count {
        1_000_000.. if count.is_multiple_of(100_000) => format!("{}M", decimal(count, 1_000_000)),
        1000.. if count.is_multiple_of(100) => format!("{}k", decimal(count, 1000)),
        _ => count.to_string(),
    }
}

fn decimal(count: u64, unit: u64) -> String {
    match (count / unit, count % unit * 10 / unit) {
        (whole, 0) => whole.to_string(),
        (whole, tenth) => format!("{whole}.{tenth}"),
    }
}

fn join(checks: &[CheckName]) -> String {
    checks.iter().map(CheckName::as_str).collect::<Vec<_>>().join(", ")
}

/// Aligns rows in columns, two spaces apart; trailing space is left out. What could steer a terminal is made visible.
fn table(text: &mut String, rows: &[Vec<String>]) {
    let shown = |row: &Vec<String>| row.iter().map(|cell| visible::line(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(shown).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        line(text, format!("  {}", cells.join("  ")).trim_end());
    }
}

fn line(text: &mut String, line: &str) {
    let _infallible = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_rounded_only_where_nothing_is_hidden() {
        let rows = [
            (180_000, "180k"),
            (30_000_000, "30M"),
            (1_500_000, "1.5M"),
            (999, "999"),
            (180_001, "180001"),
            (1_234_500, "1234.5k"),
        ];
        for (count, expected) in rows {
            assert_eq!(tokens(count), expected);
        }
    }
}
