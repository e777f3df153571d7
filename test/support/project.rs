//! A repository with a configuration and a script for the scripted engine, and what a run in it left behind.
//!
//! A test reads as a sentence: `Project::new().config(…).script(…).run(&["build", "do it"])`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use fia::event::wire::Line;
use fia::event::{AgentStart, Event, Outcome, Record, SessionRotation};
use regex::Regex;
use serde_json::Value;

use super::program::{self, Finished, Running};
use super::test_env::TestEnv;

/// The engine that every project works on, unless its configuration says otherwise.
const ENGINE: &str = "\
defaults: { coding_agent: scripted, model: rehearsal }
engines: { scripted: { script: rehearsal.yaml } }
";

/// A repository to run fia in.
pub(crate) struct Project {
    env: Rc<TestEnv>,
}

impl Project {
    /// A repository with the scripted engine and an empty script: every prompt is answered with a success.
    pub(crate) fn new() -> Self {
        Self { env: Rc::new(TestEnv::new()) }.config(ENGINE).script("phases: {}\n")
    }

    /// With this configuration instead.
    pub(crate) fn config(self, yaml: &str) -> Self {
        self.file("fia.config.yaml", yaml)
    }

    /// With this in the configuration, beside the engine.
    pub(crate) fn with(self, yaml: &str) -> Self {
        self.config(&format!("{ENGINE}{yaml}"))
    }

    /// With this script.
    pub(crate) fn script(self, yaml: &str) -> Self {
        self.file("rehearsal.yaml", yaml)
    }

    /// With this file.
    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        self.env.write(path, text);
        self
    }

    /// With all of it committed.
    pub(crate) fn committed(self) -> Self {
        self.env.git(&["add", "-A"]);
        self.env.git(&["commit", "--quiet", "--message", "all"]);
        self
    }

    /// Where it lies.
    pub(crate) fn env(&self) -> &Rc<TestEnv> {
        &self.env
    }

    /// The command `fia`, in the work tree.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.env.command(env!("CARGO_BIN_EXE_fia"));
        command.args(args);
        command
    }

    /// Runs `fia` to its end.
    pub(crate) fn fia(&self, args: &[&str]) -> Finished {
        program::run(&mut self.command(args))
    }

    /// Starts `fia`.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(&mut self.command(args), "")
    }

    /// Runs a workflow, whatever comes of it, and reads its log.
    pub(crate) fn run(&self, workflow: &str) -> Log {
        let finished = self.fia(&["run", workflow, "do", "it", "-q"]);
        assert!(self.runs().len() == 1, "{finished}");
        self.log()
    }

    /// The answer of a query as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let finished = self.fia(args);
        assert!(finished.status.success(), "{args:?}: {finished}");
        serde_json::from_str(&finished.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {finished}"))
    }

    /// The ids of its runs.
    pub(crate) fn runs(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.env.work().join(".fia/runs")) else { return Vec::new() };
        let name = |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        let mut runs: Vec<_> = entries.filter_map(name).collect();
        runs.sort();
        runs
    }

    /// The directory of its newest run.
    pub(crate) fn run_dir(&self) -> PathBuf {
        let newest = self.runs().pop().expect("a run");
        self.env.work().join(".fia/runs").join(newest)
    }

    /// The log of its newest run.
    pub(crate) fn log(&self) -> Log {
        Log::read(&self.env, &self.run_dir())
    }

    /// Waits until the log of its newest run has a record of this type.
    pub(crate) fn wait_for(&self, running: &Running, kind: &str) {
        running.until(kind, || self.runs().pop().is_some_and(|run| self.has_record(&run, kind)));
    }

    /// Whether a record of this type stands in the log of a run.
    pub(crate) fn has_record(&self, run: &str, kind: &str) -> bool {
        let log = self.env.work().join(".fia/runs").join(run).join("events.jsonl");
        fs::read_to_string(log).is_ok_and(|log| log.contains(&format!("\"type\":\"{kind}\"")))
    }

    /// What `fia` printed and how it ended, without what differs from run to run.
    pub(crate) fn shown(&self, finished: &Finished) -> String {
        steady(&finished.to_string(), &self.env.work())
    }

    /// Everything that git sees of the work tree, to hold against a later look.
    pub(crate) fn tree(&self) -> String {
        self.env.git(&["status", "--porcelain", "--untracked-files=all"]) + &self.env.git(&["rev-parse", "HEAD"])
    }
}

/// The text with run ids, times, spans, commits, processes and the work tree's path named instead.
pub(crate) fn steady(text: &str, work: &Path) -> String {
    let text = text.replace(&work.canonicalize().expect("a work tree").display().to_string(), "WORK");
    let rules = [
        (r"\d{8}-\d{6}-[0-9a-z]{4}", "RUN"),
        (r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}", "DATE"),
        (r"\b\d{2}:\d{2}:\d{2}\b", "TIME"),
        (r"\b\d+(\.\d+)?(ms|s)\b", "SPAN"),
        (r"(as|commit) [0-9a-f]{7}\b", "$1 COMMIT"),
        (r"pid \d+", "pid PID"),
        (r"\bs-[0-9a-f]{8}\b", "SESSION"),
        (r"\b(now|SPAN ago)\b", "WHEN"),
        // Columns are as wide as what stands in them.
        (r"(\S) {2,}", "$1  "),
        (r"(?m) +$", ""),
    ];
    rules.iter().fold(text, |text, (pattern, name)| {
        Regex::new(pattern).expect("a pattern of this file").replace_all(&text, *name).into_owned()
    })
}

/// The records of a run, parsed.
pub(crate) struct Log {
    dir: PathBuf,
    /// Keeps the files there.
    _env: Rc<TestEnv>,
    pub(crate) records: Vec<Record>,
}

impl Log {
    /// Reads the log of a run directory; every line must be a record.
    pub(crate) fn read(env: &Rc<TestEnv>, dir: &Path) -> Self {
        let text = fs::read_to_string(dir.join("events.jsonl")).expect("a log");
        let record = |line: &str| {
            let line: Line<'_> = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            line.decode().unwrap_or_else(|error| panic!("{error}"))
        };
        Self { dir: dir.to_owned(), _env: Rc::clone(env), records: text.lines().map(record).collect() }
    }

    /// What a look at each event finds.
    pub(crate) fn all<'a, T>(&'a self, look: impl Fn(&'a Event) -> Option<T>) -> Vec<T> {
        self.records.iter().filter_map(|record| look(&record.event)).collect()
    }

    /// `phase type name` of every record of these types or log names.
    pub(crate) fn story(&self, kinds: &[&str]) -> Vec<String> {
        let told = |record: &Record| {
            let (kind, name) = (record.event.kind(), record.event.name());
            let kind = if kind == "log" { name } else { kind };
            let phase = record.phase.as_ref().map_or("", |phase| phase.as_str());
            kinds.contains(&kind).then(|| format!("{phase} {kind}").trim().to_owned())
        };
        self.records.iter().filter_map(told).collect()
    }

    /// The rotations, each with its phase.
    pub(crate) fn rotations(&self) -> Vec<(String, &SessionRotation)> {
        let rotation = |record: &'_ Record| record.phase.as_ref().map(ToString::to_string).unwrap_or_default();
        self.records
            .iter()
            .filter_map(|record| match &record.event {
                Event::SessionRotation(payload) => Some((rotation(record), payload)),
                _ => None,
            })
            .collect()
    }

    /// The phases in which a rotation took place.
    pub(crate) fn rotated_in(&self) -> Vec<String> {
        self.rotations().into_iter().map(|(phase, _)| phase).collect()
    }

    /// The turns that were started, each with its phase.
    pub(crate) fn starts(&self) -> Vec<(String, &AgentStart)> {
        self.records
            .iter()
            .filter_map(|record| match (&record.phase, &record.event) {
                (Some(phase), Event::AgentStart(start)) => Some((phase.to_string(), start)),
                _ => None,
            })
            .collect()
    }

    /// The only turn that was started in a phase.
    pub(crate) fn start(&self, phase: &str) -> &AgentStart {
        let starts: Vec<_> = self.starts().into_iter().filter(|(of, _)| of == phase).collect();
        assert_eq!(starts.len(), 1, "turns of {phase}");
        starts[0].1
    }

    /// How the run ended; exactly one record says so.
    pub(crate) fn outcome(&self) -> Outcome {
        let ends = self.all(|event| match event {
            Event::RunEnd(end) => Some(end.outcome),
            _ => None,
        });
        assert_eq!(ends.len(), 1, "ends of the run");
        ends[0]
    }

    /// The user prompt of a turn as it was sent.
    pub(crate) fn prompt(&self, agent: &str, phase: &str, leg: u32, turn: u32) -> String {
        self.file(&format!("agents/{agent}/{phase}.{leg}.{turn}.user.md"))
    }

    /// A file of the run directory.
    pub(crate) fn file(&self, place: &str) -> String {
        let path = self.dir.join(place);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The names in a directory of the run that contain a word.
    pub(crate) fn names(&self, place: &str, word: &str) -> Vec<String> {
        let entries = fs::read_dir(self.dir.join(place)).expect("a directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name.contains(word)).collect();
        names.sort();
        names
    }
}
