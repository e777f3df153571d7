//! `fia stop`: by files that stop a run by being there (SPEC 10.5).

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::choose::{Wanted, choose};
use super::held;
use super::project::Project;
use super::reading;
use super::report::CliError;
use super::say;
use crate::event::Outcome;
use crate::host::Presence;
use crate::run::orphan::{self, Orphan};
use crate::solid;
use crate::store::{self, DataDir, RunDir, StoreError, atomic};
use crate::view::human::handle;
use crate::view::tables::Life;
use crate::visible;

/// Arguments of `fia stop`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct StopArgs {
    /// The run: its id or a unique part of it; the one live run if left out
    #[arg(conflicts_with_all = ["all", "clear", "status"])]
    run: Option<String>,
    /// End the turn that is under way, instead of stopping before the next phase
    #[arg(long)]
    now: bool,
    /// Say why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Stop every run of this repository, also those still to come
    #[arg(long, conflicts_with_all = ["clear", "status"])]
    all: bool,
    /// Take the stop of this repository back
    #[arg(long, conflicts_with_all = ["status", "now", "reason"])]
    clear: bool,
    /// Say what is stopped, and stop nothing
    #[arg(long, conflicts_with_all = ["now", "reason"])]
    status: bool,
}

/// What stands in a stop file. Its being there is what counts; the content is for the record.
#[derive(Debug, Serialize)]
struct Request<'a> {
    now: bool,
    reason: Option<&'a str>,
}

/// Asks runs to stop.
pub(super) fn stop(args: &StopArgs) -> Result<ExitCode, CliError> {
    let project = Project::look()?;
    if args.status {
        return status(&project.data);
    }
    if args.clear {
        return clear(&project.data);
    }
    let said = args.reason.as_deref().filter(|reason| !reason.trim().is_empty());
    let request = Request { now: args.now, reason: said };
    if args.all {
        return stop_all(&project, &request);
    }
    // Who reads the log later should see that it was asked for, and how.
    let asked = if args.now { "asked by `fia stop --now`" } else { "asked by `fia stop`" };
    stop_one(&project, args, &Request { reason: said.or(Some(asked)), ..request })
}

fn stop_one(project: &Project, args: &StopArgs, request: &Request<'_>) -> Result<ExitCode, CliError> {
    // Which run is meant need not be clear for what a killed fia left behind.
    if args.run.is_none() {
        end_orphans(project)?;
    }
    let chosen = choose(&project.data, args.run.as_deref(), Wanted::Live, "fia stop")?;
    let run = chosen.dir.run();
    if chosen.life == Life::Alive {
        write(&chosen.dir.stop(), request)?;
        held::ring(&project.data, run)?;
        let when = if args.now { "ends its turn" } else { "stops before its next phase" };
        return Ok(say(&format!("run {run} {when}; fia resume {} goes on later", handle(run))));
    }
    // Nobody is at the run; what a killed fia left of it is ended, under the lock.
    let ended = held::with_lock(project, run, || Ok(orphan::end_orphans(&chosen.dir)?))?;
    let told = match ended.len() {
        0 => "nothing of it runs".to_owned(),
        _ => ended.iter().map(name_ended).collect::<Vec<_>>().join("\n"),
    };
    Ok(say(&format!("run {run} does not go on: {told}")))
}

/// Ends what killed fias left of any run here, under the lock of its work tree, and names it.
fn end_orphans(project: &Project) -> Result<(), CliError> {
    for run in project.data.list()? {
        let dir = project.data.run(&run);
        if reading::life(&project.data, &dir)? != Life::Gone {
            continue;
        }
        // Taking the lock may end them already.
        let mut left = match orphan::orphans(&dir) {
            Ok(left) => left,
            Err(error) => {
                reading::pass_over(&dir, Some(error));
                continue;
            }
        };
        left.retain(|orphan| orphan.presence == Presence::Running);
        if left.is_empty() {
            continue;
        }
        held::with_lock(project, &run, || Ok(orphan::end_orphans(&dir)?))?;
        for orphan in &left {
            say(&format!("run {run}: {}", name_ended(orphan)));
        }
    }
    Ok(())
}

fn name_ended(orphan: &Orphan) -> String {
    held::name(orphan, "was ended")
}

fn stop_all(project: &Project, request: &Request<'_>) -> Result<ExitCode, CliError> {
    let data = &project.data;
    data.create()?;
    write(&data.stop(), request)?;
    let mut rung = 0;
    for run in data.list()? {
        rung += usize::from(held::ring(data, &run)?);
    }
    end_orphans(project)?;
    Ok(say(&format!("every run of this repository is stopped ({rung} live); fia stop --clear takes it back")))
}

fn clear(data: &DataDir) -> Result<ExitCode, CliError> {
    let path = data.stop();
    match solid::remove(&path) {
        Ok(()) => Ok(say("runs of this repository may go on")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(say("this repository is not stopped")),
        Err(error) => Err(CliError::machine(format!("cannot remove `{}`", path.display()), error)),
    }
}

fn status(data: &DataDir) -> Result<ExitCode, CliError> {
    let mut out = io::stdout().lock();
    if data.is_stopped() {
        writeln!(out, "stopped: every run of this repository ({})", reason(&data.stop()))?;
    } else {
        writeln!(out, "not stopped: this repository")?;
    }
    for run in data.list()? {
        let (dir, name) = (data.run(&run), visible::line(run.as_str()));
        let life = reading::life(data, &dir)?;
        // One that met its goal is stopped by nothing: the request came too late.
        let met = || {
            let known = reading::projection(&dir, life).ok().flatten();
            known.is_some_and(|known| known.run.outcome == Some(Outcome::GoalMet))
        };
        if there(&dir.stop()) && !met() {
            writeln!(out, "stopped: run {name} ({})", reason(&dir.stop()))?;
        }
        if life == Life::Gone {
            match orphan::orphans(&dir) {
                Ok(orphans) => name_orphans(&mut out, &dir, &orphans)?,
                Err(error) => reading::pass_over(&dir, Some(error)),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn name_orphans(out: &mut dyn io::Write, dir: &RunDir, orphans: &[Orphan]) -> io::Result<()> {
    for orphan in orphans {
        let how = format!("still works for run {}; `fia stop {}` ends it", dir.run(), handle(dir.run()));
        writeln!(out, "{}", visible::line(&held::name(orphan, &how)))?;
    }
    Ok(())
}

/// Anything of that name stops, also what cannot be read.
fn there(path: &Path) -> bool {
    !fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn reason(path: &Path) -> String {
    let stated: Result<Option<serde_json::Value>, StoreError> = atomic::load_json(path);
    let stated = stated.ok().flatten().and_then(|request| Some(request.get("reason")?.as_str()?.to_owned()));
    stated.map_or_else(|| "no reason given".to_owned(), |reason| visible::line(&reason).into_owned())
}

fn write(path: &Path, request: &Request<'_>) -> Result<(), StoreError> {
    atomic::replace_json(path, request, store::atomic::Durability::Unsynced)
}
