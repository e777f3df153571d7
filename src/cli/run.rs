//! `fia run`.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use chrono::Utc;
use clap::Args;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::asking::{self, Asker};
use super::notify;
use super::present;
use super::project::{Project, anchor_script, check_script};
use super::report::CliError;
use super::screen::{Loudness, Screen, TICK};
use super::signals::Signals;
use super::spans;
use super::worktree;
use crate::config::Choice;
use crate::event::Outcome;
use crate::ids::{EngineName, RunId};
use crate::plan::build::{Request, build};
use crate::plan::{Plan, Stop, describe};
use crate::process::survive_file_size_limit;
use crate::run::{self, Audience, Beginning, Begun, Bells, Level, StartError, Watch};
use crate::view::json::{self, Shown};
use crate::view::tables::Life;

/// What names standard input in place of a file or of words.
const STANDARD_INPUT: &str = "-";

/// Arguments of `fia run`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that a person types")]
pub(super) struct RunArgs {
    /// The workflow; `fia workflows` lists them
    workflow: String,
    /// What to do; `-` alone reads it from standard input
    prompt: Vec<String>,
    /// Read the prompt from a file, or from standard input with `-`
    #[arg(short, long, value_name = "FILE|-", conflicts_with = "prompt")]
    file: Option<PathBuf>,
    /// Give the run this id
    #[arg(long = "run", value_name = "ID")]
    id: Option<String>,
    /// Use this configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Use another engine: for one agent, or for all
    #[arg(long = "use", value_name = "[AGENT=]ENGINE[:MODEL[@LEVEL]]")]
    choices: Vec<Choice>,
    /// Work in a git worktree of the run's own, on the branch fia/RUN
    #[arg(long)]
    worktree: bool,
    /// Print what would run, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
    /// Show the end only
    #[arg(short, long)]
    quiet: bool,
}

/// Runs a workflow.
pub(super) fn run(args: &RunArgs) -> Result<ExitCode, CliError> {
    let project = Project::open(args.config.as_deref())?;
    project.warn();
    let prompt = prompt(args)?;
    let request = Request { workflow: &args.workflow, prompt: &prompt, choices: &args.choices };
    let (mut plan, stop) = build(&project.loaded.config, request)?;
    if args.dry_run {
        if plan.agents.values().flat_map(|agent| &agent.choices).any(|choice| choice.engine == EngineName::Scripted) {
            check_script(&project.loaded, &project.repository.top)?;
        }
        present::warn_of_engines(&project, &plan);
        present::warn_of_checks(&plan.checks, &project.repository.top);
        return dry_run(&plan, &stop, args.json);
    }
    // Before anything is spent: without an engine nothing is done, and a commit would fail at the end.
    present::refuse_without_engine(&project, &plan)?;
    present::warn_of_checks(&plan.checks, &project.repository.top);
    if plan.commits() {
        project.repository.check_identity()?;
        // A work tree of the run's own is not in the middle of anything.
        if !args.worktree {
            project.repository.check_finished()?;
        }
    }
    if args.worktree {
        anchor_script(&mut plan.engines, &project.config_top);
    }
    let id = args.id.as_deref().map(run_id).transpose()?;
    let loudness = if args.quiet || args.json { Loudness::Quiet } else { Loudness::Usual };
    let begin = if args.worktree { run::start_apart } else { run::start };
    let ran = go(&project, Screen::new(loudness), |beginning| begin(beginning, plan, stop, id))?;
    if args.json {
        json::write(&mut io::stdout().lock(), &Shown::of(&ran.screen.state(), Life::Gone))?;
    } else {
        ran.screen.end(&project.data);
        worktree::say(&project.repository, &project.data, &ran.screen.state(), &mut anstream::stderr());
    }
    Ok(ran.status)
}

/// A stretch that is over.
pub(super) struct Ran {
    pub(super) screen: Screen,
    pub(super) status: ExitCode,
}

/// Begins a stretch and sees it to its end, on a screen that may know earlier ones.
pub(super) fn go(
    project: &Project,
    screen: Screen,
    begin: impl FnOnce(Beginning) -> Result<Begun, StartError>,
) -> Result<Ran, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::machine("cannot start the runtime", error))?;
    let local = tokio::task::LocalSet::new();
    let outcome = local.block_on(&runtime, async {
        survive_file_size_limit().map_err(|error| CliError::machine("cannot listen for signals", error))?;
        let signals = Signals::listen().map_err(|error| CliError::machine("cannot listen for signals", error))?;
        let (notifier, sending) = notify::start(&project.loaded.config.notify()).unzip();
        let mut watchers: Vec<Box<dyn Watch>> = vec![Box::new(screen.clone())];
        watchers.extend(notifier.map(|notifier| Box::new(notifier) as Box<dyn Watch>));
        let audience = asking::audience(screen.loudness());
        if audience == Audience::Terminal {
            let (screen, data) = (screen.clone(), project.data.clone());
            watchers.push(Box::new(Asker { screen, data, bell: Rc::clone(&signals.news), open: None }));
        }
        let begun = begin(Beginning {
            repository: project.repository.clone(),
            data: project.data.clone(),
            bells: Bells { audience, ..signals.bells.clone() },
            watchers,
            now: Utc::now,
        })?;
        let outcome = see_through(&begun, &screen, signals.bells.level.clone()).await;
        // The notifier goes with the run, and with it the queue that it fills.
        drop(begun);
        let status = signals.status();
        let dir = project.data.run(&screen.state().run.run);
        let has_ended = outcome.is_ok();
        let tell_others = async {
            if let Some(sending) = sending {
                sending.finish().await;
            }
            if has_ended {
                // One that failed to send has said so.
                let _sent = tokio::task::spawn_blocking(move || spans::export_stretch(&dir)).await;
            }
        };
        signals.unless_another(tell_others).await;
        Ok::<_, CliError>((outcome?, status))
    });
    // File work and messages that a signal left behind are not waited for.
    runtime.shutdown_background();
    let (outcome, signalled) = outcome?;
    let status = match (outcome, signalled) {
        (Outcome::Aborted, Some(status)) => status,
        (Outcome::GoalMet, _) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    };
    Ok(Ran { screen, status })
}

async fn see_through(begun: &Begun, screen: &Screen, mut level: watch::Receiver<Level>) -> Result<Outcome, CliError> {
    let going = begun.run.go();
    tokio::pin!(going);
    let mut ticks = tokio::time::interval(TICK);
    // After a long question there is one tick to make good, not one for each that was missed.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut first, mut told) = (level.clone(), false);
    loop {
        tokio::select! {
            biased;
            // The second signal: whatever is under way is dropped, which kills its processes.
            _ = level.wait_for(|level| *level == Level::Kill) => return Ok(Outcome::Aborted),
            outcome = &mut going => return Ok(outcome?),
            Ok(_) = first.wait_for(|level| *level >= Level::Interrupt), if !told => {
                told = true;
                screen.tell("stopping: the turn is being ended and recorded; one more signal kills it at once");
            }
            _ = ticks.tick(), if screen.ticks() => screen.tick(),
        }
    }
}

fn dry_run(plan: &Plan, stop: &Stop, as_json: bool) -> Result<ExitCode, CliError> {
    let mut out = io::stdout().lock();
    if as_json {
        json::write(&mut out, &describe::json(plan, stop))?;
    } else {
        out.write_all(describe::text(plan, stop).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_id(text: &str) -> Result<RunId, CliError> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    // What begins with a dash is an option wherever a run is named.
    if text.is_empty() || text.len() > 64 || text.starts_with('-') || !text.chars().all(plain) {
        let hint = "use letters, digits, `-` and `_`, at most 64 of them, and no `-` in front";
        return Err(CliError::usage(format!("`{text}` cannot be the id of a run"), hint));
    }
    Ok(RunId::new(text))
}

fn prompt(args: &RunArgs) -> Result<String, CliError> {
    let file = match (&args.file, args.prompt.as_slice()) {
        (Some(file), _) => file.as_path(),
        (None, [only]) if only == STANDARD_INPUT => Path::new(STANDARD_INPUT),
        (None, [first, ..]) if first == STANDARD_INPUT => {
            let hint = "leave the words out, or the `-`";
            return Err(CliError::usage("a prompt is read from standard input or given as words, not both", hint));
        }
        (None, words) => return Ok(words.join(" ")),
    };
    let (shown, bytes) = if file == Path::new(STANDARD_INPUT) {
        let mut bytes = Vec::new();
        ("standard input".to_owned(), io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes))
    } else {
        (format!("`{}`", file.display()), fs::read(file))
    };
    let bytes = bytes.map_err(|error| CliError::Usage {
        message: format!("cannot read the prompt from {shown}"),
        hint: Some("give the prompt as words, or as a file with `-f`".to_owned()),
        source: Some(Box::new(error)),
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| CliError::usage(format!("the prompt in {shown} is not UTF-8"), "save it as UTF-8 text"))?;
    if text.trim().is_empty() {
        return Err(CliError::usage(format!("the prompt in {shown} is empty"), "say there what to do"));
    }
    Ok(text)
}
