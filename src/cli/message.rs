//! `fia message`: a line to the agents of a run.

use std::io::{self, Write as _};
use std::process::ExitCode;

use chrono::Utc;
use clap::Args;

use super::choose::{Wanted, choose};
use super::held::ring;
use super::project::Project;
use super::report::CliError;
use super::say;
use crate::channel::{Row, RowKind, mentioned};
use crate::event::{Event, Outcome};
use crate::ids::AgentName;
use crate::plan::Plan;
use crate::store::{DataDir, Entry, LogReader, RunDir, StoreError, Tail, channel};
use crate::view::human::handle;
use crate::view::tables::Life;

/// Arguments of `fia message`.
#[derive(Debug, Args)]
pub(super) struct MessageArgs {
    /// The run: its id or a unique part of it; the live or unfinished one if left out
    #[arg(long = "run", value_name = "RUN")]
    run: Option<String>,
    /// Who says it
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Answer in the thread of this message
    #[arg(long, value_name = "ID")]
    thread: Option<String>,
    /// What to say; `@NAME` names an agent
    #[arg(required = true)]
    text: Vec<String>,
}

/// Adds a message to the channel of a run.
pub(super) fn message(args: &MessageArgs) -> Result<ExitCode, CliError> {
    let project = Project::look()?;
    let chosen = choose(&project.data, args.run.as_deref(), Wanted::Live, "fia message --run")?;
    let dir = &chosen.dir;
    let text = words(&args.text)?;
    let thread = args.thread.as_deref().map(|id| root(dir, id)).transpose()?.unwrap_or_default();
    let row = send(&project.data, dir, Said { text, from: args.from.clone(), thread })?;
    writeln!(io::stdout().lock(), "{}", row.id)?;
    let heard = heard(dir, chosen.life, chosen.projection.run.outcome, &row.mentions);
    Ok(say(&format!("message {} in run {}: {heard}", row.id, dir.run())))
}

/// A message before it has an id.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) from: Option<String>,
    /// The row that opened its thread; empty opens one.
    pub(super) thread: String,
}

/// Adds a message to the channel of a run and rings the run.
pub(super) fn send(data: &DataDir, dir: &RunDir, said: Said) -> Result<Row, CliError> {
    let Said { text, from, thread } = said;
    let mentions = mentioned(&text, &roster(dir)?);
    let row = Row { id: String::new(), at: 0, kind: RowKind::User, from, thread, mentions, text, session: None };
    let row = channel::add_row(&dir.channel(), Utc::now().timestamp_millis(), row)?;
    ring(data, dir.run())?;
    Ok(row)
}

/// Who reads a message in a run that stands so, and when.
pub(super) fn heard(dir: &RunDir, life: Life, outcome: Option<Outcome>, mentions: &[AgentName]) -> String {
    let handle = handle(dir.run());
    let who = match mentions {
        [] => "its agents read it".to_owned(),
        named => format!("{} and whoever works next read it", list(named)),
    };
    match (life, outcome) {
        (Life::Alive, _) => format!("{who} at their next phase"),
        (Life::Gone, Some(Outcome::GoalMet)) => {
            format!("the run met its goal and goes on no more; an agent reads it when `fia ask --run {handle}` asks it")
        }
        (Life::Gone, _) => format!("nobody works on the run now; {who} once `fia resume {handle}` goes on"),
    }
}

/// The words of a message as one text.
pub(super) fn words(words: &[String]) -> Result<String, CliError> {
    whole(words.join(" "))
}

/// A message that can be sent.
pub(super) fn whole(text: String) -> Result<String, CliError> {
    if text.trim().is_empty() {
        return Err(CliError::usage("the message is empty", "say something after the command"));
    }
    if text.len() > channel::MAX_TEXT_BYTES {
        let hint = "put it in a file and name the file";
        return Err(CliError::usage(format!("the message has {} bytes, more than 1 MiB", text.len()), hint));
    }
    Ok(text)
}

/// The agents of a run, from its first record; none when that is lost.
pub(super) fn roster(dir: &RunDir) -> Result<Vec<AgentName>, StoreError> {
    let mut reader = LogReader::open(&dir.events(), Tail::Growing)?;
    let Some(Entry::Record { line, .. }) = reader.next()? else { return Ok(Vec::new()) };
    let plan = match line.decode().map(|record| record.event) {
        Ok(Event::RunStart(start)) => start.plan.and_then(|plan| serde_json::from_value::<Plan>(plan).ok()),
        Ok(_) | Err(_) => None,
    };
    Ok(plan.map(|plan| plan.agents.keys().cloned().collect()).unwrap_or_default())
}

/// The row that opened the thread which a row belongs to, or opens now.
fn root(dir: &RunDir, id: &str) -> Result<String, CliError> {
    match channel::row(&dir.channel(), id)? {
        Some(row) if row.thread.is_empty() => Ok(row.id),
        Some(row) => Ok(row.thread),
        None => Err(CliError::usage(
            format!("run `{}` has no message `{id}`", dir.run()),
            format!("`fia channel {}` shows its messages with their ids", dir.run()),
        )),
    }
}

fn list(agents: &[AgentName]) -> String {
    agents.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ")
}
