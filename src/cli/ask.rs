//! `fia ask`: one question to an agent of a run that is not live.

use std::io::{self, Write as _};
use std::process::ExitCode;

use chrono::Utc;
use clap::Args;

use super::message::{roster, words};
use super::project::Project;
use super::reading;
use super::report::CliError;
use super::say;
use super::signals::Signals;
use crate::ids::AgentName;
use crate::plan::build::{engines, stop};
use crate::process::survive_file_size_limit;
use crate::run::ask::{Answer, Asked};
use crate::run::{self, Beginning, Level, Questioning};
use crate::store::RunDir;
use crate::visible;

/// Arguments of `fia ask`.
#[derive(Debug, Args)]
pub(super) struct AskArgs {
    /// The run: its id or a unique part of it; the newest if left out
    #[arg(long = "run", value_name = "RUN")]
    run: Option<String>,
    /// Whom to ask, as in `@builder`
    #[arg(value_name = "@AGENT")]
    agent: String,
    /// What to ask
    #[arg(required = true)]
    text: Vec<String>,
}

/// Asks an agent in its own session.
pub(super) fn ask(args: &AskArgs) -> Result<ExitCode, CliError> {
    let project = Project::open(None)?;
    project.warn();
    let dir = reading::find(&project.data, args.run.as_deref())?;
    let question = words(&args.text)?;
    let agent = agent(&dir, &args.agent)?;
    let (asked, signalled) = put(&project, &dir, &agent, &question)?;
    if let Some(rescue) = asked.rescue {
        // A closed standard error takes no words.
        let _gone = writeln!(
            anstream::stderr(),
            "warning: {agent} wrote to the work tree while it was asked, and that was undone: \
             `fia undo {} --rescue {rescue}` brings it back",
            dir.run()
        );
    }
    match asked.answer {
        Answer::Told(text) => {
            writeln!(io::stdout().lock(), "{}", visible::block(text.trim_end()))?;
            Ok(ExitCode::SUCCESS)
        }
        Answer::Failed(reason) => {
            let _gone = say(&format!("error: {agent} did not answer: {reason}"));
            Ok(signalled.unwrap_or(ExitCode::FAILURE))
        }
    }
}

fn put(
    project: &Project,
    dir: &RunDir,
    agent: &AgentName,
    question: &str,
) -> Result<(Asked, Option<ExitCode>), CliError> {
    let repository = run::home(&project.repository, &project.data, dir.run())?;
    let config = &project.loaded.config;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::machine("cannot start the runtime", error))?;
    let local = tokio::task::LocalSet::new();
    let asked = local.block_on(&runtime, async {
        survive_file_size_limit().map_err(|error| CliError::machine("cannot listen for signals", error))?;
        let signals = Signals::listen().map_err(|error| CliError::machine("cannot listen for signals", error))?;
        let beginning = Beginning {
            repository,
            data: project.data.clone(),
            bells: signals.bells.clone(),
            watchers: Vec::new(),
            now: Utc::now,
        };
        let questioning = Questioning { stop: stop(config), engines: engines(config) };
        let begun = run::question(beginning, dir.run(), questioning)?;
        let mut level = signals.bells.level.clone();
        let asked = tokio::select! {
            biased;
            // The second signal: whatever is under way is dropped, which kills its processes.
            _ = level.wait_for(|level| *level == Level::Kill) => {
                Asked { answer: Answer::Failed("interrupted".to_owned()), rescue: None }
            }
            asked = begun.run.ask(agent, question) => asked?,
        };
        Ok((asked, signals.status()))
    });
    // File work that a second signal left behind is not waited for.
    runtime.shutdown_background();
    asked
}

/// The agent of the run that is meant.
fn agent(dir: &RunDir, written: &str) -> Result<AgentName, CliError> {
    let name = written.strip_prefix('@').unwrap_or(written);
    let roster = roster(dir)?;
    roster.iter().find(|agent| agent.as_str() == name).cloned().ok_or_else(|| {
        let names: Vec<String> = roster.iter().map(|agent| format!("@{agent}")).collect();
        CliError::usage(
            format!("run `{}` has no agent `{name}`", dir.run()),
            format!("its agents are {}", names.join(", ")),
        )
    })
}
