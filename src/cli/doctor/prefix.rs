//! `fia doctor --prefix`: whether two fresh sessions of a CLI share their prefix, byte for byte.
//!
//! Each CLI is started twice in one directory with different first prompts against a provider of our own on
//! loopback, in a home of its own, with the flags and environment that runs use. The first block that differs before the
//! messages is what would make the provider's cache miss at every rotation.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use super::super::project::{Setup, is_installed};
use super::super::report::CliError;
use super::first_agent;
use crate::engine::{self, BesideAccount, Launch, ProcessKind, SessionChoice};
use crate::event::LeaseKind;
use crate::ids::EngineName;
use crate::mask;
use crate::plan::Plan;
use crate::plan::build::{Request, build};
use crate::process::{Child, Finish, Keep, Limits};
use crate::provider::{Bodies, Options, Provider, Scenario};
use crate::prune::prefix::difference;
use crate::session::lease::{Framing, Texts, sent};
use crate::view::json;
use crate::visible;

/// How long a CLI may take for one made-up turn.
const TURN_LIMIT: Duration = Duration::from_secs(60);

/// First prompts that differ from their first byte on.
const PROMPTS: [&str; 2] = ["Alpha: say that you are there.", "Omega, in other words: are you there?"];

/// What was found for one CLI.
#[derive(Debug, Serialize)]
struct Found {
    engine: EngineName,
    /// Whether tools and system prompt are the same in both sessions; null when that could not be seen.
    stable: Option<bool>,
    /// The first block that differs.
    block: Option<String>,
    /// The first byte that differs in it.
    byte: Option<usize>,
    /// Both sides from there on.
    before: Option<String>,
    after: Option<String>,
    /// Why nothing could be seen.
    reason: Option<String>,
}

impl Found {
    fn unseen(engine: EngineName, reason: impl Into<String>) -> Self {
        Self { engine, stable: None, block: None, byte: None, before: None, after: None, reason: Some(reason.into()) }
    }
}

/// Examines every CLI that is installed.
pub(super) async fn examine(setup: &Setup, as_json: bool) -> Result<ExitCode, CliError> {
    let request = Request { workflow: "build", prompt: PROMPTS[0], choices: &[] };
    let (plan, _) = build(&setup.loaded.config, request)?;
    let mut found = Vec::new();
    for name in EngineName::ALL.into_iter().filter(|name| *name != EngineName::Scripted) {
        found.push(examine_one(setup, &plan, name).await);
    }
    let mut out = io::stdout().lock();
    if as_json {
        json::write(&mut out, &found)?;
    } else {
        found.iter().try_for_each(|found| write_text(&mut out, found))?;
    }
    let all_stable = found.iter().all(|found| found.stable != Some(false));
    Ok(if all_stable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_text(out: &mut impl io::Write, found: &Found) -> io::Result<()> {
    match (found.stable, &found.block) {
        (Some(true), _) => writeln!(out, "{}: ✓ fresh sessions share tools and system prompt", found.engine),
        (Some(false), block) => {
            let (block, byte) = (block.as_deref().unwrap_or("?"), found.byte.unwrap_or(0));
            writeln!(out, "{}: ✗ {block} differs at byte {byte}", found.engine)?;
            writeln!(out, "    first   {}", visible::line(found.before.as_deref().unwrap_or_default()))?;
            writeln!(out, "    second  {}", visible::line(found.after.as_deref().unwrap_or_default()))
        }
        (None, _) => {
            writeln!(out, "{}: – {}", found.engine, visible::line(found.reason.as_deref().unwrap_or_default()))
        }
    }
}

async fn examine_one(setup: &Setup, plan: &Plan, name: EngineName) -> Found {
    if !is_installed(name, plan.engines.get(&name), &setup.top) {
        return Found::unseen(name, "not found");
    }
    // One directory for both, as a run has; a session of its own for each.
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => return Found::unseen(name, format!("cannot make a scratch directory: {error}")),
    };
    let scratch = Scratch { home: folder.path(), plan, name };
    let mut bodies = Vec::new();
    for (number, prompt) in PROMPTS.into_iter().enumerate() {
        match first_request(&scratch, prompt, number).await {
            Ok(body) => bodies.push(body),
            Err(reason) => return Found::unseen(name, reason),
        }
    }
    let masked = |text: &str| mask::secrets(text).into_owned();
    match difference(&bodies[0], &bodies[1], masked) {
        // Messages differ on purpose: what counts is all before them.
        Some(found) if !found.block.starts_with("messages") => Found {
            engine: name,
            stable: Some(false),
            block: Some(found.block),
            byte: Some(found.byte),
            before: Some(found.before),
            after: Some(found.after),
            reason: None,
        },
        Some(_) | None => Found { stable: Some(true), reason: None, ..Found::unseen(name, "") },
    }
}

/// Where the sessions of one CLI begin.
struct Scratch<'a> {
    home: &'a Path,
    plan: &'a Plan,
    name: EngineName,
}

/// What a fresh session sends first.
async fn first_request(scratch: &Scratch<'_>, prompt: &str, number: usize) -> Result<Vec<u8>, String> {
    let adapter = engine::for_name(scratch.name);
    let scenario = Scenario::builtin("plain").ok_or("the provider lost its plain answer")?;
    let options = Options { bodies: Bodies::Keep, ..Options::default() };
    let provider = Provider::start(scenario, options).map_err(|error| format!("cannot start a provider: {error}"))?;
    let setup = adapter
        .beside_account(scratch.home, &provider.base_url())
        .ok_or("cannot be pointed at another provider, so its prefix cannot be seen")?;
    let launch = scratch.launch(&setup, number)?;
    let spec = adapter.launch(&launch).map_err(|error| format!("{error}; {}", error.hint))?;
    let mut child = Child::spawn(&spec, Keep::default(), Limits::default())
        .map_err(|error| format!("{error}; {}", error.hint()))?;
    let framing = Framing::of(&launch.system, adapter.facts().system_by_flag);
    let text = sent(LeaseKind::Cold, Texts { framing, replay: prompt, newest: prompt });
    child.send(adapter.prompt(&text, ProcessKind::OneShot));
    child.close_stdin();
    let all = async { while child.line().await.is_some() {} };
    let in_time = tokio::time::timeout(TURN_LIMIT, all).await.is_ok();
    let how = if in_time { Finish::Closing } else { Finish::KillNow };
    let ended = child.finish(how, &mut |_| {}).await;
    let sent = provider.requests().into_iter().find_map(|request| request.prompt.and(request.body));
    let body = sent.ok_or_else(|| {
        let stderr = String::from_utf8_lossy(&ended.stderr_tail).into_owned();
        format!("sent no request: {}", stderr.lines().last().unwrap_or("no word on standard error"))
    })?;
    Ok(body.to_vec())
}

impl Scratch<'_> {
    /// What a run would start, in a home of its own; writes the files that it needs.
    fn launch(&self, setup: &BesideAccount, number: usize) -> Result<Launch, String> {
        let agent = first_agent(self.plan, self.name);
        let system = agent.map_or_else(|| "You build.".to_owned(), |agent| agent.system.clone());
        let system_file = self.home.join("system.md");
        let (work, agent_dir) = (self.home.join("work"), self.home.join(format!("session-{number}")));
        let mut files: Vec<(&Path, &str)> =
            setup.files.iter().map(|(path, text)| (path.as_path(), text.as_str())).collect();
        files.push((&system_file, &system));
        let folders = [work.as_path(), &agent_dir].into_iter().map(fs::create_dir_all);
        let written = files
            .iter()
            .map(|(path, text)| path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text)));
        let made: io::Result<()> = folders.chain(written).collect();
        made.map_err(|error| format!("cannot write a scratch file: {error}"))?;
        let settings = self.plan.engines.get(&self.name).cloned().unwrap_or_default();
        let mut env: BTreeMap<_, _> = settings.env.into_iter().collect();
        env.insert("HOME".to_owned(), Some(self.home.display().to_string()));
        env.extend(setup.env.iter().map(|(name, value)| (name.clone(), Some(value.clone()))));
        Ok(Launch {
            cwd: work.clone(),
            run_dir: work,
            agent_dir,
            program: settings.program,
            args: settings.args,
            env,
            model: setup.model.clone(),
            level: None,
            tools: agent.map(|agent| agent.tools.clone()).unwrap_or_default(),
            extensions: Vec::new(),
            permission_mode: settings.permission_mode,
            system_file,
            system,
            session: SessionChoice::Fresh,
            process: ProcessKind::OneShot,
            max_turns: None,
            base_url: None,
            phase: "01_doctor".to_owned(),
            leg: 1,
            turn: 1,
        })
    }
}
