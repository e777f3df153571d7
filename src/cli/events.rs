//! `fia events`: the log, filtered, also while it grows.

use std::fs::File;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use chrono::Utc;
use clap::Args;

use super::paint_stdout;
use super::project::Project;
use super::query::life;
use super::report::CliError;
use crate::event::wire::Line;
use crate::event::{Event, Record};
use crate::store::{Entry, LogReader, RunDir, StoreError, Tail, offset_of_last};
use crate::view::events::{Filter, Since, write_json, write_text};
use crate::view::tables::Life;

/// How often a follower looks at the size of the log (SPEC 2.5).
const LOOK: Duration = Duration::from_millis(100);

/// How many looks pass between questions whether the run still lives.
const LOOKS_A_PULSE: u32 = 10;

/// Arguments of `fia events`.
#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    /// The run: its id or a unique part of it; the newest if left out
    run: Option<String>,
    /// Go on as the log grows, to the end of the run
    #[arg(short, long)]
    follow: bool,
    /// Of this type
    #[arg(long = "type", value_name = "T")]
    types: Vec<String>,
    /// Of this name
    #[arg(long = "name", value_name = "N")]
    names: Vec<String>,
    /// Of this phase: its name, its number or its step
    #[arg(long = "phase", value_name = "P")]
    phases: Vec<String>,
    /// About this agent
    #[arg(long = "agent", value_name = "A")]
    agents: Vec<String>,
    /// From a record number, a time, or a span before now (10m, 2h)
    #[arg(long, value_name = "SEQ|TIME")]
    since: Option<String>,
    /// The last N of them
    #[arg(short = 'n', value_name = "N")]
    last: Option<usize>,
    /// Print one JSON record a line
    #[arg(long)]
    json: bool,
}

/// Prints the events of a run.
pub(super) fn events(args: &EventsArgs) -> Result<ExitCode, CliError> {
    let project = Project::open(None)?;
    let dir = project.data.find(args.run.as_deref())?;
    let since = args.since.as_deref().map(|text| Since::parse(text, Utc::now())).transpose();
    let filter = Filter {
        types: args.types.clone(),
        names: args.names.clone(),
        phases: args.phases.clone(),
        agents: args.agents.clone(),
        since: since.map_err(|error| CliError::usage(error.to_string(), "try `--since 10m` or `--since 120`"))?,
    };
    let tail = if args.follow { Tail::Growing } else { Tail::Final };
    let offset = match args.last {
        Some(last) => offset_of_matching(&dir, &filter, last)?,
        None => 0,
    };
    let mut printer = Printer { filter, json: args.json, out: io::BufWriter::new(io::stdout().lock()), ended: false };
    let mut reader = LogReader::open_at(&dir.events(), tail, offset)?;
    printer.drain(&mut reader)?;
    let mut looks = 0;
    while args.follow && !printer.ended {
        std::thread::sleep(LOOK);
        looks += 1;
        let dead = looks % LOOKS_A_PULSE == 0 && life(&project.data, &dir)? == Life::Gone;
        printer.drain(&mut reader)?;
        if dead {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the last `count` records begin that the filter admits, found from the end of the log.
fn offset_of_matching(dir: &RunDir, filter: &Filter, count: usize) -> Result<u64, CliError> {
    let path = dir.events();
    let failed = |source| StoreError::Io { action: "read", path: path.clone(), source };
    let mut file = File::open(&path).map_err(failed)?;
    let admits = |line: &[u8]| {
        let line: Result<Line<'_>, _> = serde_json::from_slice(line);
        line.ok().and_then(|line| line.decode().ok()).is_some_and(|record| filter.admits(&record))
    };
    Ok(offset_of_last(&mut file, count, admits).map_err(failed)?)
}

struct Printer<W: io::Write> {
    filter: Filter,
    json: bool,
    out: W,
    /// Whether the last record seen ends a stretch.
    ended: bool,
}

impl<W: io::Write> Printer<W> {
    /// Prints what the log has now.
    fn drain(&mut self, reader: &mut LogReader) -> Result<(), CliError> {
        while let Some(entry) = reader.next()? {
            match entry {
                Entry::Record { line, raw } => match line.decode() {
                    Ok(record) => self.print(&record)?,
                    // A record of a newer fia is still a record: it is shown as it stands.
                    Err(_) if self.json => {
                        self.out.write_all(raw)?;
                        self.out.write_all(b"\n")?;
                    }
                    Err(error) => writeln!(io::stderr().lock(), "{error}")?,
                },
                Entry::Damaged(damage) => writeln!(io::stderr().lock(), "warning: {damage}")?,
            }
        }
        Ok(self.out.flush()?)
    }

    fn print(&mut self, record: &Record) -> io::Result<()> {
        self.ended = matches!(record.event, Event::RunEnd(_));
        if !self.filter.admits(record) {
            return Ok(());
        }
        if self.json { write_json(&mut self.out, record) } else { write_text(&mut self.out, record, paint_stdout()) }
    }
}
