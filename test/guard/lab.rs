//! A repository whose agents are acted by a script, and what runs in it leave behind.

use std::process::Command;

use serde_json::{Value, json};

use super::support::program::{Finished, Running, run};
use super::support::test_env::TestEnv;

pub(crate) const FIA: &str = env!("CARGO_BIN_EXE_fia");

/// A builder that may write `src/`, and three reviewers that may write nothing.
pub(crate) struct Lab {
    pub(crate) env: TestEnv,
}

impl Lab {
    /// Commits a configuration with one workflow `w`, and the script that its agents act.
    pub(crate) fn new(steps: &Value, phases: &Value) -> Self {
        Self::with(json!({}), steps, phases)
    }

    /// The same, with more keys of the configuration.
    pub(crate) fn with(mut config: Value, steps: &Value, phases: &Value) -> Self {
        let lab = Self { env: TestEnv::new() };
        let defaults = json!({"coding_agent": "scripted", "model": "rehearsal"});
        let agents = json!([
            {"name": "builder", "writes": ["src/"]},
            {"name": "reviewer", "writes": []},
            {"name": "auditor", "writes": [], "model": "another"},
            {"name": "second", "writes": []},
        ]);
        let defaults = merged(config.as_object_mut().unwrap().remove("defaults").unwrap_or_default(), defaults);
        let own = json!({"defaults": defaults, "agents": agents, "engines": {"scripted": {"script": "script.yaml"}},
                         "workflows": {"w": {"steps": steps}}});
        lab.env.write("fia.config.yaml", &merged(config, own).to_string());
        lab.env.write("script.yaml", &json!({"phases": phases}).to_string());
        lab.env.write("src/a", "committed\n");
        lab.commit_all();
        lab
    }

    pub(crate) fn commit_all(&self) {
        self.env.git(&["add", "--all"]);
        self.env.git(&["commit", "--quiet", "--message", "set up"]);
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.env.command(FIA);
        command.args(args);
        command
    }

    pub(crate) fn fia(&self, args: &[&str]) -> Finished {
        run(&mut self.command(args))
    }

    /// Runs the workflow as the run `r`.
    pub(crate) fn run(&self) -> Finished {
        self.fia(&["run", "w", "do it", "--run", "r"])
    }

    /// Starts the run `r` and waits until a file is there.
    pub(crate) fn start_until(&self, there: &str) -> Running {
        let running = Running::start(&mut self.command(&["run", "w", "do it", "--run", "r"]), "");
        running.until(there, || self.env.work().join(there).exists());
        running
    }

    /// The records of a run.
    pub(crate) fn events(&self, run: &str) -> Vec<Value> {
        let text = self.env.read(&format!(".fia/runs/{run}/events.jsonl"));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The records of the run `r` of one type or one name of a `log`.
    pub(crate) fn of(&self, kind: &str) -> Vec<Value> {
        self.events("r").into_iter().filter(|event| event["type"] == kind || event["name"] == kind).collect()
    }

    /// How the last stretch of the run `r` ended.
    pub(crate) fn outcome(&self) -> String {
        self.of("run_end").last().unwrap()["payload"]["outcome"].as_str().unwrap().to_owned()
    }

    /// Paths that rollbacks of the run `r` undid, each with whether the phase was tried again.
    pub(crate) fn undone(&self) -> Vec<(Vec<String>, bool)> {
        let paths = |event: &Value| {
            let undone = event["payload"]["undone"].as_array().unwrap().clone();
            undone.iter().map(|change| change["path"].as_str().unwrap().to_owned()).collect()
        };
        let again = |event: &Value| event["payload"]["again"].as_bool().unwrap();
        self.of("permission_retry").iter().map(|event| (paths(event), again(event))).collect()
    }

    pub(crate) fn status(&self) -> String {
        self.env.git(&["status", "--porcelain"])
    }
}

/// One object over another.
fn merged(over: Value, mut under: Value) -> Value {
    if let (Value::Object(over), Value::Object(under)) = (over, &mut under) {
        under.extend(over);
    }
    under
}

/// A turn that does these lines of shell.
pub(crate) fn shell(lines: &[&str]) -> Value {
    json!({"do": lines.iter().map(|line| json!({"run": line})).collect::<Vec<_>>()})
}
