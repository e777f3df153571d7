//! `fia workflows`.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::project::Setup;
use super::report::CliError;
use super::{paint_stdout, width_stdout};
use crate::view::json;
use crate::view::table::{Align, Table};
use crate::visible;
use crate::workflow::{self, Origin};

/// Arguments of `fia workflows`.
#[derive(Debug, Args)]
pub(super) struct WorkflowsArgs {
    /// Print this workflow
    name: Option<String>,
    /// Use this configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists workflows, or prints one.
pub(super) fn workflows(args: &WorkflowsArgs) -> Result<ExitCode, CliError> {
    let setup = Setup::open(args.config.as_deref())?;
    let config = &setup.loaded.config;
    let mut out = io::stdout().lock();
    if let Some(name) = &args.name {
        let found = workflow::find(config, name)?;
        // A copy is exact; on a terminal nothing steers it.
        let source = found.source();
        let shown = if io::stdout().is_terminal() { visible::block(&source) } else { source.as_str().into() };
        out.write_all(shown.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let all = workflow::catalog(config)?;
    let origin = |origin| match origin {
        Origin::BuiltIn => "built in",
        Origin::Config => "config",
    };
    if args.json {
        let rows = all.iter().map(|workflow| {
            json!({"name": workflow.name, "description": workflow.description, "origin": origin(workflow.origin)})
        });
        json::write(&mut out, &json!({"workflows": rows.collect::<Vec<_>>()}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new([("WORKFLOW", Align::Left), ("FROM", Align::Left), ("DOES", Align::Left)]).wrap_last();
    for workflow in &all {
        table.row([
            workflow.name.as_str().into(),
            origin(workflow.origin).into(),
            workflow.description.as_str().into(),
        ]);
    }
    table.write(&mut out, width_stdout(), paint_stdout())?;
    Ok(ExitCode::SUCCESS)
}
