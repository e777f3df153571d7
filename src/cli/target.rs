//! Which run an acting command means, and how its process hears of what was done to it.

use super::project::Project;
use super::query::{life, projection};
use super::report::CliError;
use crate::event::Outcome;
use crate::ids::RunId;
use crate::store::{self, DataDir, RunDir, StoreError};
use crate::view::tables::Life;

/// Runs that are listed when several could be meant.
const LISTED: usize = 8;

/// The named run; without a name the one that is live, else the one that has not met its goal.
pub(super) fn acting(project: &Project, part: Option<&str>) -> Result<RunDir, CliError> {
    if part.is_some() {
        return Ok(project.data.find(part)?);
    }
    let (mut live, mut unfinished) = (Vec::new(), Vec::new());
    for run in project.data.list()? {
        let dir = project.data.run(&run);
        match life(&project.data, &dir)? {
            Life::Alive => live.push(run),
            Life::Gone => match projection(&dir)? {
                Some(known) if known.run.outcome != Some(Outcome::GoalMet) => unfinished.push(run),
                Some(_) | None => {}
            },
        }
    }
    let (fit, what) = if live.is_empty() { (unfinished, "unfinished") } else { (live, "live") };
    match fit.as_slice() {
        [] => Err(CliError::usage("no run is live or unfinished", "name one: `fia runs` lists them")),
        [run] => Ok(project.data.run(run)),
        several => Err(CliError::usage(
            format!("several runs are {what}: {}", listed(several)),
            "name one of them; a unique part of its id is enough",
        )),
    }
}

fn listed(runs: &[RunId]) -> String {
    let shown: Vec<&str> = runs.iter().take(LISTED).map(RunId::as_str).collect();
    let more = runs.len() - shown.len();
    if more > 0 { format!("{}, and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

/// Rings the process that is at a run, if one of this machine is.
pub(super) fn ring(data: &DataDir, dir: &RunDir) -> Result<(), StoreError> {
    for lock in [data.lock(), data.worktree_lock(dir.run())] {
        if store::holder(&lock)?.is_some_and(|holder| holder.run == *dir.run()) {
            store::ring(&lock)?;
        }
    }
    Ok(())
}
