//! Which run an acting command means (SPEC 2.1).

use super::reading::{self, life, projection};
use super::report::CliError;
use super::say;
use crate::event::Outcome;
use crate::store::{DataDir, RunDir};
use crate::view::human::handle;
use crate::view::projection::Projection;
use crate::view::tables::Life;
use crate::view::words::outcome_words;

/// Runs that are listed at most when several could be meant.
const LISTED: usize = 10;

/// What a command acts on when no run is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A run that goes on; without any, one that did not meet its goal.
    Live,
    /// A run that did not meet its goal and does not go on.
    Unfinished,
}

/// The run that is meant.
pub(super) struct Chosen {
    pub(super) dir: RunDir,
    pub(super) projection: Projection,
    pub(super) life: Life,
}

/// Finds the run: the one that is named, else the only one that fits, which is then said on standard error.
/// `command` is what was asked for, as people type it.
pub(super) fn choose(data: &DataDir, part: Option<&str>, wanted: Wanted, command: &str) -> Result<Chosen, CliError> {
    if let Some(part) = part {
        let dir = data.find(part)?;
        return look(data, dir)?
            .ok_or_else(|| CliError::usage("this run has no records", "it was killed before it began; start another"));
    }
    let mut fitting = candidates(data, wanted)?;
    match (fitting.pop(), fitting.len()) {
        (Some(only), 0) => {
            say(&format!("{command}: run {}", only.dir.run()));
            Ok(only)
        }
        (Some(last), _) => {
            fitting.push(last);
            let newest = handle(fitting[0].dir.run()).to_owned();
            Err(CliError::usage(several(&fitting), format!("name one, as in `{command} {newest}`")))
        }
        (None, _) => {
            let message = match wanted {
                Wanted::Live => "no run is live or unfinished",
                Wanted::Unfinished => "no run is unfinished",
            };
            Err(CliError::usage(message, "`fia runs` lists the runs of this repository"))
        }
    }
}

/// Whether a run of this repository goes on.
pub(super) fn is_any_live(data: &DataDir) -> Result<bool, CliError> {
    Ok(reading::known(data)?.any(|known| known.life == Life::Alive))
}

fn candidates(data: &DataDir, wanted: Wanted) -> Result<Vec<Chosen>, CliError> {
    let (mut live, mut unfinished) = (Vec::new(), Vec::new());
    for reading::Known { dir, life, projection } in reading::known(data)? {
        let found = Chosen { dir, projection, life };
        match (found.life, found.projection.run.outcome) {
            (Life::Alive, _) => live.push(found),
            (Life::Gone, Some(Outcome::GoalMet)) => {}
            (Life::Gone, _) => unfinished.push(found),
        }
    }
    Ok(match wanted {
        Wanted::Live if !live.is_empty() => live,
        Wanted::Live | Wanted::Unfinished => unfinished,
    })
}

fn look(data: &DataDir, dir: RunDir) -> Result<Option<Chosen>, CliError> {
    let life = life(data, &dir)?;
    Ok(projection(&dir, life)?.map(|projection| Chosen { dir, projection, life }))
}

fn several(fitting: &[Chosen]) -> String {
    let mut text = format!("{} runs could be meant", fitting.len());
    for chosen in fitting.iter().take(LISTED) {
        let run = &chosen.projection.run;
        let state = match (chosen.life, run.outcome) {
            (Life::Alive, _) => "goes on".to_owned(),
            (Life::Gone, Some(outcome)) => outcome_words(outcome.as_str()),
            (Life::Gone, None) => "was killed".to_owned(),
        };
        text += &format!("\n  {}  {}  {state}", chosen.dir.run(), run.workflow);
    }
    if fitting.len() > LISTED {
        text += &format!("\n  (+{} more: fia runs)", fitting.len() - LISTED);
    }
    text
}
