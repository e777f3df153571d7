//! `fia doctor`: what is installed, who is logged in, what is reported, and whether a ceiling can fire.
//!
//! It changes nothing: a CLI is asked for its version and its login only, and for the latter only where a
//! login has left a trace, since asking may otherwise create files.

mod prefix;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::project::{Setup, data_dir, program, warn};
use super::reading;
use super::report::CliError;
use super::{paint_stdout, width_stdout};
use crate::engine::{self, Facts, LoginCheck, MidPhase};
use crate::ids::EngineName;
use crate::plan::{EngineSettings, Plan};
use crate::process::{self, CommandSpec, Exit, Said};
use crate::store::DataDir;
use crate::view::json;
use crate::view::numbers::count;
use crate::view::rows::ModelRow;
use crate::view::table::{Align, Table};
use crate::visible;

/// How long a CLI may take to say its version or whether somebody is logged in.
const ASK_LIMIT: Duration = Duration::from_secs(15);

/// Runs that are looked through for what engines told of their models.
const RUNS_SEEN: usize = 20;

/// Arguments of `fia doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Start each CLI against a provider on loopback, and name what would break the provider's cache
    #[arg(long)]
    prefix: bool,
    /// Use this configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is known of one engine.
#[derive(Debug, Serialize)]
struct Row {
    engine: EngineName,
    /// Where its program is; null when it is not found.
    program: Option<PathBuf>,
    /// What it says its version is; null when it does not.
    version: Option<String>,
    /// The version that fia was tried with; null where none was.
    tested: Option<&'static str>,
    login: Login,
    /// Whether the stream shows the live context.
    reports_context: bool,
    resident: bool,
    /// Where `rotate_mid_phase` works.
    rotates_mid_phase: MidPhase,
    /// Ceilings of the roster on this engine, with whether each can fire.
    ceilings: Vec<Ceiling>,
    /// What to do when something is missing.
    hint: Option<String>,
}

/// Whether somebody is logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Login {
    Yes,
    No,
    /// By a key in the environment.
    Key,
    Unknown,
}

impl Login {
    fn word(self) -> &'static str {
        match self {
            Self::Yes => "logged in",
            Self::No => "no login",
            Self::Key => "key",
            Self::Unknown => "–",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Ceiling {
    agent: String,
    tokens: u64,
    /// The model's window as configured, else as its engine told it in an earlier run; null is unknown.
    window: Option<u64>,
    fires: Fires,
}

/// Whether a ceiling can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fires {
    Yes,
    /// The engine does not report how full a session is.
    NoUsage,
    /// It is above the model's window.
    AboveWindow,
    /// It is switched off.
    Off,
}

/// Examines this machine, or the prefixes of its CLIs.
pub(super) fn doctor(args: &DoctorArgs) -> Result<ExitCode, CliError> {
    // A prefix is that of a plan, and a file that was named is meant.
    let strict = args.prefix || args.config.is_some();
    let setup = if strict { Setup::open(args.config.as_deref())? } else { Setup::look()? };
    warn(&setup.loaded);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::machine("cannot start the runtime", error))?;
    if args.prefix {
        return runtime.block_on(prefix::examine(&setup, args.json));
    }
    let seen = windows_seen(&setup)?;
    let rows = runtime.block_on(rows(&setup, &seen));
    let mut out = io::stdout().lock();
    if args.json {
        let checks = setup.loaded.config.show();
        let report = serde_json::json!({
            "engines": rows, "git": git_version(), "repository": setup.repository.as_ref().map(|repository| &repository.top),
            "config": setup.file, "checks": checks["config"]["checks"],
        });
        json::write(&mut out, &report)?;
    } else {
        write_text(&mut out, &setup, &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Models whose window an engine told in one of the last runs, the newest first.
fn windows_seen(setup: &Setup) -> Result<Vec<ModelRow>, CliError> {
    let Some(repository) = &setup.repository else { return Ok(Vec::new()) };
    let data = DataDir::new(data_dir(repository, &setup.loaded.config.data_dir())?);
    let models = reading::known(&data)?.take(RUNS_SEEN).flat_map(|known| known.projection.models);
    Ok(models.filter(|row| row.window.is_some()).collect())
}

async fn rows(setup: &Setup, seen: &[ModelRow]) -> Vec<Row> {
    let mut rows = Vec::new();
    for name in EngineName::ALL.into_iter().filter(|name| *name != EngineName::Scripted) {
        rows.push(row(setup, name, seen).await);
    }
    rows
}

async fn row(setup: &Setup, name: EngineName, seen: &[ModelRow]) -> Row {
    let (top, adapter) = (&setup.top, engine::for_name(name));
    let facts = adapter.facts();
    let settings = crate::plan::build::engines(&setup.loaded.config).swap_remove(&name).unwrap_or_default();
    let program = program(name, settings.program.as_deref(), top);
    let version = match &program {
        Some(_) => {
            let said = ask(&engine::question(facts, &settings, top, facts.version_args)).await;
            said.and_then(|said| version_in(&said.text))
        }
        None => None,
    };
    let login = match &program {
        Some(_) => login(facts, &settings, top).await,
        None => Login::Unknown,
    };
    let capabilities = adapter.capabilities();
    let hint = match (&program, login) {
        (None, _) => Some(format!("not found; {}, then `{}`", facts.install, facts.login)),
        (Some(_), Login::No) => Some(format!("log in with `{}`", facts.login)),
        (Some(_), Login::Yes | Login::Key | Login::Unknown) => None,
    };
    Row {
        engine: name,
        program,
        version,
        tested: Some(facts.tested_version).filter(|version| !version.is_empty()),
        login,
        reports_context: capabilities.context,
        resident: capabilities.resident,
        rotates_mid_phase: capabilities.mid_phase(),
        ceilings: ceilings(setup, name, capabilities.context, seen),
        hint,
    }
}

/// Asks a CLI something. Nothing when it cannot be started or takes too long.
async fn ask(spec: &CommandSpec) -> Option<Said> {
    process::ask(spec, tokio::time::sleep(ASK_LIMIT)).await.ok()?.ok()
}

/// The first word of a text that looks like a version.
fn version_in(text: &str) -> Option<String> {
    let is_version = |word: &&str| word.starts_with(|letter: char| letter.is_ascii_digit()) && word.contains('.');
    text.split(|letter: char| letter.is_whitespace() || letter == 'v').find(is_version).map(str::to_owned)
}

async fn login(facts: &Facts, settings: &EngineSettings, top: &Path) -> Login {
    let variable = |name: &str| match settings.env.get(name) {
        Some(configured) => configured.as_ref().map(OsString::from),
        None => std::env::var_os(name),
    };
    if facts.login_keys.iter().any(|name| variable(name).is_some_and(|value| !value.is_empty())) {
        return Login::Key;
    }
    if let Some(trace) = facts.login_trace {
        let folder = match variable(trace.variable) {
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from(variable("HOME").unwrap_or_default()).join(trace.folder),
        };
        if !folder.join(trace.file).exists() {
            return Login::No;
        }
    }
    match facts.login_check {
        LoginCheck::None | LoginCheck::ArgsAndModel(_) => Login::Unknown,
        LoginCheck::Args(words) => match ask(&engine::question(facts, settings, top, words)).await {
            Some(Said { exit: Exit::Code(0), .. }) => Login::Yes,
            Some(_) => Login::No,
            None => Login::Unknown,
        },
    }
}

/// The ceilings of agents whose own engine this is.
fn ceilings(setup: &Setup, name: EngineName, reports: bool, seen: &[ModelRow]) -> Vec<Ceiling> {
    let shown = setup.loaded.config.show();
    let agents = shown["config"]["agents"].as_array().cloned().unwrap_or_default();
    let on_engine =
        |agent: &&serde_json::Value| agent["coding_agent"].as_str().and_then(EngineName::parse) == Some(name);
    let ceiling = |agent: &serde_json::Value| {
        let tokens = agent["session_rotation_context"].as_u64().unwrap_or(0);
        let model = agent["model"].as_str().unwrap_or_default();
        let told = || seen.iter().find(|row| row.engine == name && row.model == model)?.window;
        let window =
            setup.loaded.config.window(model).or_else(|| super::config::known_window(name, model)).or_else(told);
        let fires = match window {
            _ if tokens == 0 => Fires::Off,
            _ if !reports => Fires::NoUsage,
            Some(window) if window < tokens => Fires::AboveWindow,
            Some(_) | None => Fires::Yes,
        };
        Ceiling { agent: agent["name"].as_str().unwrap_or_default().to_owned(), tokens, window, fires }
    };
    agents.iter().filter(on_engine).map(ceiling).collect()
}

fn git_version() -> Option<String> {
    let output = std::process::Command::new("git").arg("--version").stdin(Stdio::null()).output().ok()?;
    version_in(&String::from_utf8_lossy(&output.stdout))
}

fn write_text(out: &mut dyn Write, setup: &Setup, rows: &[Row]) -> io::Result<()> {
    let mut table = Table::new([
        ("ENGINE", Align::Left),
        ("PROGRAM", Align::Left),
        ("VERSION", Align::Left),
        ("TESTED", Align::Left),
        ("LOGIN", Align::Left),
        ("REPORTS", Align::Left),
        ("RESIDENT", Align::Left),
        ("MID-PHASE", Align::Left),
        ("CEILING", Align::Left),
    ]);
    let unknown = || "–".to_owned();
    for row in rows {
        table.row([
            row.engine.as_str().into(),
            row.program.as_ref().map_or_else(unknown, |path| path.display().to_string()).into(),
            row.version.clone().unwrap_or_else(unknown).into(),
            row.tested.map_or_else(unknown, str::to_owned).into(),
            row.login.word().into(),
            if row.reports_context { "context" } else { "no context" }.into(),
            if row.resident { "yes" } else { "no" }.into(),
            match row.rotates_mid_phase {
                MidPhase::Always => "yes",
                MidPhase::WhenResident => "resident only",
                MidPhase::Never => "no",
            }
            .into(),
            ceiling_cell(&row.ceilings).into(),
        ]);
    }
    table.write(out, width_stdout(), paint_stdout())?;
    for row in rows.iter().filter(|row| row.hint.is_some()) {
        writeln!(out, "{}: {}", row.engine, visible::line(row.hint.as_deref().unwrap_or_default()))?;
    }
    let git = git_version().map_or_else(|| "git –".to_owned(), |version| format!("git {version} ✓"));
    let repository = match &setup.repository {
        Some(repository) => format!("repository {} ✓", repository.top.display()),
        None => "repository – (none here)".to_owned(),
    };
    writeln!(out, "{}   {}", visible::line(&git), visible::line(&repository))?;
    let shown = setup.loaded.config.show();
    let checks = shown["config"]["checks"].as_object().cloned().unwrap_or_default();
    let named: Vec<String> =
        checks.iter().map(|(name, check)| format!("{name} = {}", check["run"].as_str().unwrap_or_default())).collect();
    let named = if named.is_empty() { "none found".to_owned() } else { named.join(", ") };
    writeln!(out, "checks: {}", visible::line(&named))
}

fn ceiling_cell(ceilings: &[Ceiling]) -> String {
    let mut cells: Vec<String> = ceilings
        .iter()
        .map(|ceiling| {
            let tokens = count(ceiling.tokens);
            match (ceiling.fires, ceiling.window) {
                (Fires::Yes, Some(window)) => format!("{tokens} fires (window {})", count(window)),
                (Fires::Yes, None) => format!("{tokens} (window known once it runs)"),
                (Fires::NoUsage, _) => format!("{tokens} never fires: no usage"),
                (Fires::AboveWindow, Some(window)) => format!("{tokens} never fires: window {}", count(window)),
                (Fires::AboveWindow, None) | (Fires::Off, _) => "off".to_owned(),
            }
        })
        .collect();
    cells.sort();
    cells.dedup();
    if cells.is_empty() { "no agent uses it".to_owned() } else { cells.join("; ") }
}

/// The system prompt, tools and level that the first agent of the roster on an engine is started with.
fn first_agent(plan: &Plan, name: EngineName) -> Option<&crate::plan::Agent> {
    plan.agents.values().find(|agent| agent.choices.first().is_some_and(|choice| choice.engine == name))
}
