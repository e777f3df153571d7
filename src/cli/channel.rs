//! `fia channel`: the messages of a run, a page at a time, from the newest backwards.

use std::io::{self, Write as _};
use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::Args;

use super::reading;
use super::report::CliError;
use crate::channel::Row;
use crate::event::wire::time_text;
use crate::store::channel;
use crate::view::text;

/// Arguments of `fia channel`.
#[derive(Debug, Args)]
pub(super) struct ChannelArgs {
    /// The run: its id or a unique part of it; the newest if left out
    run: Option<String>,
    /// Show what went before this message
    #[arg(long, value_name = "ID")]
    before: Option<String>,
    /// Show so many messages
    #[arg(short = 'n', value_name = "N", default_value_t = 30)]
    limit: usize,
}

/// Prints a page of messages, oldest first.
pub(super) fn channel(args: &ChannelArgs) -> Result<ExitCode, CliError> {
    let dir = reading::find(&reading::data()?, args.run.as_deref())?;
    let Some(page) = channel::page(&dir.channel(), args.before.as_deref(), args.limit)? else {
        let before = args.before.as_deref().unwrap_or_default();
        return Err(CliError::usage(
            format!("run `{}` has no message `{before}`", dir.run()),
            format!("`fia channel {}` shows the newest", dir.run()),
        ));
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    for row in &page.rows {
        out.write_all(shown(row).as_bytes())?;
    }
    out.flush()?;
    let told = match (page.rows.first(), page.more) {
        (Some(first), true) => format!("older: fia channel {} --before {}", dir.run(), first.id),
        (None, _) if args.before.is_none() && args.limit > 0 => {
            format!("no messages in run {}; `fia message --run {} TEXT` writes one", dir.run(), dir.run())
        }
        (Some(_) | None, _) => return Ok(ExitCode::SUCCESS),
    };
    // A closed standard error takes no words.
    let _gone = writeln!(anstream::stderr(), "{told}");
    Ok(ExitCode::SUCCESS)
}

/// A row as people read it: its id first, as commands take it; whom it names behind
/// an arrow, later lines of its text indented.
fn shown(row: &Row) -> String {
    let at = DateTime::<Utc>::from_timestamp_millis(row.at).map_or_else(|| row.at.to_string(), time_text);
    let from = row.from.as_ref().map(|from| format!(" {}", text::line(from))).unwrap_or_default();
    let to: Vec<String> = row.mentions.iter().map(|agent| format!("@{}", text::line(agent.as_str()))).collect();
    let to = if to.is_empty() { String::new() } else { format!(" → {}", to.join(" ")) };
    let thread = if row.thread.is_empty() { String::new() } else { format!(" in {}", text::line(&row.thread)) };
    let body = text::block(&row.text).trim_end().replace('\n', "\n    ");
    format!("{}  {at}  [{}]{from}{to}{thread}: {body}\n", text::line(&row.id), row.kind.as_str())
}
