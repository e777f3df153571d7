//! `fia events`: the log, filtered, also while it grows.

use std::fs::File;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use chrono::Utc;
use clap::Args;
use memchr::memmem::Finder;

use super::message::roster;
use super::reading::life;
use super::report::CliError;
use super::{paint_stdout, reading, say};
use crate::config::did_you_mean;
use crate::event::Event;
use crate::event::wire::Line;
use crate::ids::AgentName;
use crate::store::{DataDir, Entry, LogReader, RunDir, StoreError, Tail, offset_of_last};
use crate::view::events::{Filter, Since, is_phase, write_text};
use crate::view::paint::Paint;
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
    let data = reading::data()?;
    let dir = reading::find(&data, args.run.as_deref())?;
    let filter = filter(args)?;
    let offset = match args.last {
        Some(last) => offset_of_matching(&dir, &filter, last)?,
        None => 0,
    };
    if !args.follow {
        warn_of_strangers(&data, &dir, &filter)?;
    }
    let needle = filter.needle();
    let out = io::BufWriter::new(io::stdout().lock());
    let mut printer = Printer { filter, json: args.json, paint: paint_stdout(), out, ended: false, any: false };
    if args.follow {
        // The end of the run must be seen, whatever is asked for: nothing is sifted.
        follow(&data, &dir, &mut printer, offset)?;
        return Ok(ExitCode::SUCCESS);
    }
    // No needle is found on every line.
    let mut sift = LogReader::open_at(&dir.events(), Tail::Final, offset)?.sift(&[&needle.unwrap_or_default()]);
    while let Some(entry) = sift.next()? {
        printer.print(entry)?;
    }
    printer.out.flush()?;
    if let ([name], false) = (args.names.as_slice(), printer.any) {
        let hint = did_you_mean(name, Event::LOG_NAMES.iter().copied());
        say(&format!("warning: no record that was asked for is called `{name}`{hint}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn filter(args: &EventsArgs) -> Result<Filter, CliError> {
    for unknown in args.types.iter().filter(|kind| !Event::KINDS.contains(&kind.as_str())) {
        say(&format!("warning: {}", unknown_type(unknown)));
    }
    let since = args.since.as_deref().map(|text| Since::parse(text, Utc::now())).transpose();
    Ok(Filter {
        types: args.types.clone(),
        names: args.names.clone(),
        phases: args.phases.clone(),
        agents: args.agents.clone(),
        since: since.map_err(|error| CliError::usage(error.to_string(), "try `--since 10m` or `--since 120`"))?,
    })
}

/// Says which of the phases and agents that are asked for the run does not have.
fn warn_of_strangers(data: &DataDir, dir: &RunDir, filter: &Filter) -> Result<(), CliError> {
    if filter.phases.is_empty() && filter.agents.is_empty() {
        return Ok(());
    }
    let known = reading::projection(dir, life(data, dir)?)?.unwrap_or_default();
    let phases: Vec<&str> = known.phases.iter().map(|row| row.phase.as_str()).collect();
    for wanted in filter.phases.iter().filter(|wanted| !phases.iter().any(|phase| is_phase(phase, wanted))) {
        say(&format!("warning: no phase `{wanted}` in this run; it has: {}", phases.join(", ")));
    }
    let agents = roster(dir)?;
    let agents: Vec<&str> = agents.iter().map(AgentName::as_str).collect();
    // The record that names them may be lost.
    let strange = |wanted: &&String| !agents.is_empty() && !agents.contains(&wanted.as_str());
    for wanted in filter.agents.iter().filter(strange) {
        say(&format!("warning: no agent `{wanted}` in this run; it has: {}", agents.join(", ")));
    }
    Ok(())
}

/// Why a type may find nothing; a newer fia may have written records of it.
fn unknown_type(kind: &str) -> String {
    if Event::LOG_NAMES.contains(&kind) {
        return format!("`{kind}` is the name of a record, not its type: `--name {kind}`");
    }
    format!("no type of records is called `{kind}`{}", did_you_mean(kind, Event::KINDS.iter().copied()))
}

/// Prints what is there and what comes, until the run ends or its process is gone.
fn follow<W: io::Write>(data: &DataDir, dir: &RunDir, printer: &mut Printer<W>, offset: u64) -> Result<(), CliError> {
    let mut reader = LogReader::open_at(&dir.events(), Tail::Growing, offset)?;
    printer.drain(&mut reader)?;
    let mut looks = 0;
    while !printer.ended {
        std::thread::sleep(LOOK);
        looks += 1;
        // Asked before the last look, so that nothing is missed that was written between the two.
        let dead = looks % LOOKS_A_PULSE == 0 && life(data, dir)? == Life::Gone;
        printer.drain(&mut reader)?;
        if dead {
            break;
        }
    }
    Ok(())
}

/// Where the last `count` records begin that the filter admits, found from the end of the log.
fn offset_of_matching(dir: &RunDir, filter: &Filter, count: usize) -> Result<u64, CliError> {
    let path = dir.events();
    let failed = |source| StoreError::Io { action: "read", path: path.clone(), source };
    let mut file = File::open(&path).map_err(failed)?;
    let needle = filter.needle().unwrap_or_default();
    let needle = Finder::new(&needle);
    let admits = |line: &[u8]| {
        if needle.find(line).is_none() {
            return false;
        }
        let Ok(line) = serde_json::from_slice::<Line<'_>>(line) else { return false };
        filter.admits_line(&line)
            && (filter.is_told_by_line() || line.decode().is_ok_and(|record| filter.admits(&record)))
    };
    Ok(offset_of_last(&mut file, count, admits).map_err(failed)?)
}

struct Printer<W: io::Write> {
    filter: Filter,
    json: bool,
    paint: Paint,
    out: W,
    /// Whether the last record seen ends a stretch.
    ended: bool,
    /// Whether anything was printed.
    any: bool,
}

impl<W: io::Write> Printer<W> {
    /// Prints what the log has now.
    fn drain(&mut self, reader: &mut LogReader) -> Result<(), CliError> {
        while let Some(entry) = reader.next()? {
            self.print(entry)?;
        }
        Ok(self.out.flush()?)
    }

    fn print(&mut self, entry: Entry<'_>) -> Result<(), CliError> {
        let (line, raw) = match entry {
            Entry::Record { line, raw } => (line, raw),
            Entry::Damaged(damage) => {
                say(&format!("warning: {damage}"));
                return Ok(());
            }
        };
        self.ended = line.kind == "run_end";
        if !self.filter.admits_line(&line) {
            return Ok(());
        }
        // As it stands in the log: also a record of a newer fia.
        if self.json && self.filter.is_told_by_line() {
            return Ok(self.write_raw(raw)?);
        }
        match line.decode() {
            Ok(record) if !self.filter.admits(&record) => {}
            Ok(_) if self.json => self.write_raw(raw)?,
            Ok(record) => {
                self.any = true;
                write_text(&mut self.out, &record, self.paint)?;
            }
            Err(error) => drop(say(&format!("warning: {error}"))),
        }
        Ok(())
    }

    fn write_raw(&mut self, raw: &[u8]) -> io::Result<()> {
        self.any = true;
        self.out.write_all(raw)?;
        self.out.write_all(b"\n")
    }
}
