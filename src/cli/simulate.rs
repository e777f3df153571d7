//! `fia simulate`: what other policies would have cost, on made-up conversations or on a recorded one.

mod recorded;
mod transcript;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::project::Project;
use super::report::CliError;
use crate::simulate::{Simulation, pruning, rotation, watermark};
use crate::view::json;

/// Arguments of `fia simulate`.
#[derive(Debug, Args)]
pub(super) struct SimulateArgs {
    /// What to simulate
    what: What,
    /// Take the requests, pauses and results of this run
    #[arg(long, value_name = "RUN", conflicts_with = "from_transcript")]
    from_run: Option<String>,
    /// Take the requests of this file: a transcript of a run, or a session of claude or pi
    #[arg(long, value_name = "FILE")]
    from_transcript: Option<PathBuf>,
    /// Number of the first made-up conversation (pruning)
    #[arg(long, value_name = "N", default_value_t = 0)]
    first_run: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// What channel messages cost an agent, by the rule of delivery
    Watermark,
    /// When an agent's session is replaced
    Rotation,
    /// Which tool results shrink, and when
    Pruning,
}

/// What was read of a recording: a simulation an agent, and what had to be left out.
struct Replay {
    agents: Vec<(String, Simulation)>,
    left_out: Vec<String>,
}

/// Simulates.
pub(super) fn simulate(args: &SimulateArgs) -> Result<ExitCode, CliError> {
    let simulation = match (&args.from_run, &args.from_transcript) {
        (None, None) => made_up(args.what, args.first_run),
        (Some(run), _) => one(args.what, from_run(args.what, run)?)?,
        (None, Some(file)) => one(args.what, from_transcript(args.what, file)?)?,
    };
    let mut out = io::stdout().lock();
    if args.json {
        json::write(&mut out, &simulation)?;
    } else {
        out.write_all(simulation.text().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn made_up(what: What, first_run: u64) -> Simulation {
    match what {
        What::Watermark => watermark::simulate(),
        What::Rotation => rotation::simulate(),
        What::Pruning => pruning::simulate(first_run, pruning::RUNS),
    }
}

fn from_run(what: What, run: &str) -> Result<Replay, CliError> {
    let project = Project::look()?;
    let dir = project.data.find(run)?;
    let recording = recorded::Recording::read(&dir)?;
    match what {
        What::Rotation => Ok(recording.rotation()),
        What::Pruning => Ok(recording.pruning(&dir)),
        What::Watermark => recording.watermark(&dir),
    }
}

fn from_transcript(what: What, file: &Path) -> Result<Replay, CliError> {
    let text = std::fs::read(file).map_err(|error| CliError::Usage {
        message: format!("cannot read `{}`", file.display()),
        hint: Some("name a transcript of a run, or a session file of claude or pi".to_owned()),
        source: Some(Box::new(error)),
    })?;
    let requests = transcript::read(&text);
    match what {
        What::Rotation => Ok(transcript::rotation(&requests)),
        What::Pruning => Ok(transcript::pruning(&requests)),
        What::Watermark => {
            Err(CliError::usage("a transcript holds no channel", "name a run instead: `--from-run RUN`"))
        }
    }
}

/// One simulation of all agents: their rows say whose they are.
fn one(what: What, replay: Replay) -> Result<Simulation, CliError> {
    let Replay { agents, left_out } = replay;
    let mut agents = agents.into_iter();
    let Some((first, mut whole)) = agents.next() else {
        let missing = left_out.join("; ");
        let what = match what {
            What::Watermark => "deliveries of channel messages",
            What::Rotation => "requests whose live context is known",
            What::Pruning => "requests with their tool results",
        };
        return Err(CliError::usage(
            format!("it holds no {what}{}", if missing.is_empty() { String::new() } else { format!(" ({missing})") }),
            "`fia simulate` without a recording has made-up ones",
        ));
    };
    let named = |name: &str, simulation: &mut Simulation| {
        simulation.assumptions.iter_mut().for_each(|line| *line = format!("{name}: {line}"));
        simulation.rows.iter_mut().for_each(|row| {
            row.insert("agent".to_owned(), json!(name));
        });
        simulation.table.prefix_rows(name);
    };
    named(&first, &mut whole);
    for (name, mut simulation) in agents {
        named(&name, &mut simulation);
        whole.assumptions.append(&mut simulation.assumptions);
        whole.rows.append(&mut simulation.rows);
        whole.table.append(simulation.table);
    }
    whole.assumptions.extend(left_out);
    Ok(whole)
}
