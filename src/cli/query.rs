//! `fia runs`, `show`, `phases` and `agents`: from the run file, so that they do not depend on the size of a log.

use std::fs::File;
use std::io;
use std::process::ExitCode;

use chrono::Utc;
use clap::Args;

use super::reading::{self, life, projection};
use super::report::CliError;
use super::worktree;
use super::{paint_stdout, say, width_stdout};
use crate::event::Event;
use crate::event::wire::Line;
use crate::run::orphan;
use crate::store::{DataDir, Entry, LogReader, RunDir, StoreError, Tail, offset_of_last};
use crate::tree::Repository;
use crate::view::ending::{Brake, Ending};
use crate::view::frame::Frame;
use crate::view::human::handle;
use crate::view::json::{self, AgentList, PhaseList, RunList, Shown};
use crate::view::projection::Projection;
use crate::view::tables::{self, Life};

/// Which run.
#[derive(Debug, Args)]
pub(super) struct RunArg {
    /// The run: its id or a unique part of it; the newest if left out
    run: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `fia runs`.
#[derive(Debug, Args)]
pub(super) struct RunsArgs {
    /// List so many at most, newest first; 0 lists all
    #[arg(short = 'n', value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists the runs.
pub(super) fn runs(args: &RunsArgs) -> Result<ExitCode, CliError> {
    let data = reading::data()?;
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let rows: Vec<_> = reading::known(&data)?.take(limit).map(|known| (known.projection.run, known.life)).collect();
    let listed = rows.iter().map(|(run, life)| (run, *life));
    let mut out = io::stdout().lock();
    if args.json {
        json::write(&mut out, &RunList::of(listed))?;
    } else {
        tables::runs(listed, Utc::now()).write(&mut out, width_stdout(), paint_stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows a run.
pub(super) fn show(args: &RunArg) -> Result<ExitCode, CliError> {
    let One { projection, life, dir, data } = one(args)?;
    let brake = Brake::of(&data);
    let frame = frame(&dir, projection.run.stretches)?;
    let mut out = io::stdout().lock();
    if args.json {
        json::write(&mut out, &Shown::of(&projection, life))?;
    } else {
        let ending = Ending { state: &projection, frame: &frame, savings: None, brake, instead: None };
        tables::show(&mut out, ending, life, Utc::now(), width_stdout(), paint_stdout())?;
        if projection.run.worktree {
            worktree::say(&Repository::discover(&super::current_dir()?)?, &data, &projection, &mut out);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the phases of a run.
pub(super) fn phases(args: &RunArg) -> Result<ExitCode, CliError> {
    let projection = one(args)?.projection;
    let mut out = io::stdout().lock();
    if args.json {
        json::write(&mut out, &PhaseList::of(&projection))?;
    } else {
        tables::phases(&projection).write(&mut out, width_stdout(), paint_stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the agents of a run.
pub(super) fn agents(args: &RunArg) -> Result<ExitCode, CliError> {
    let projection = one(args)?.projection;
    let mut out = io::stdout().lock();
    if args.json {
        json::write(&mut out, &AgentList::of(&projection))?;
    } else {
        tables::agents(&projection, Utc::now()).write(&mut out, width_stdout(), paint_stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One run and where it is kept.
struct One {
    data: DataDir,
    dir: RunDir,
    life: Life,
    projection: Projection,
}

fn one(args: &RunArg) -> Result<One, CliError> {
    let data = reading::data()?;
    let dir = reading::find(&data, args.run.as_deref())?;
    let life = life(&data, &dir)?;
    let projection = projection(&dir, life)?.ok_or_else(|| {
        CliError::usage(format!("run `{}` has no records", dir.run()), "it was killed before it began; start another")
    })?;
    if life == Life::Gone && projection.run.outcome.is_none() {
        name_orphans(&dir)?;
    }
    Ok(One { data, dir, life, projection })
}

/// Names the engines that a killed fia left at work; a reading command ends nothing.
fn name_orphans(dir: &RunDir) -> Result<(), CliError> {
    for orphan in orphan::orphans(dir)? {
        let how = format!(
            "still works for run {0}; `fia resume {1}` or `fia stop {1}` ends it",
            dir.run(),
            handle(dir.run())
        );
        say(&format!("warning: {}", super::held::name(&orphan, &how)));
    }
    Ok(())
}

/// What a run is shown against: the plan of its first stretch, the limits of its last.
fn frame(dir: &RunDir, stretches: u32) -> Result<Frame, StoreError> {
    let mut frame = Frame::default();
    push_start(&mut frame, LogReader::open(&dir.events(), Tail::Final)?)?;
    if stretches > 1 {
        let path = dir.events();
        let failed = |source| StoreError::Io { action: "read", path: path.clone(), source };
        let starts = |line: &[u8]| serde_json::from_slice::<Line<'_>>(line).is_ok_and(|line| line.kind == "run_start");
        let start = File::open(&path).and_then(|mut log| offset_of_last(&mut log, 1, starts)).map_err(failed)?;
        push_start(&mut frame, LogReader::open_at(&path, Tail::Final, start)?)?;
    }
    Ok(frame)
}

/// Takes in the start of a stretch, which is the next record.
fn push_start(frame: &mut Frame, mut log: LogReader) -> Result<(), StoreError> {
    if let Some(Entry::Record { line, .. }) = log.next()?
        && let Ok(Event::RunStart(start)) = line.decode().map(|record| record.event)
    {
        frame.push(&start);
    }
    Ok(())
}
