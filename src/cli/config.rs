//! `fia config check|show|schema`.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::project::{Project, is_installed};
use super::report::CliError;
use crate::config::{self, Facts};
use crate::engine;
use crate::ids::EngineName;
use crate::plan;
use crate::view::json;

/// Arguments of `fia config`.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Say all that is wrong or odd
    Check(ConfigArg),
    /// Print every value in force and where it comes from
    Show(ConfigArg),
    /// Print a JSON Schema for editors
    Schema,
}

#[derive(Debug, Args)]
struct ConfigArg {
    /// Look at this configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Looks at the configuration.
pub(super) fn config(args: &ConfigArgs) -> Result<ExitCode, CliError> {
    match &args.what {
        What::Check(arg) => check(arg),
        What::Show(arg) => show(arg),
        What::Schema => {
            json::write(&mut io::stdout().lock(), &config::json_schema())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(arg: &ConfigArg) -> Result<ExitCode, CliError> {
    let project = Project::open(arg.config.as_deref())?;
    let found = &project.loaded.config;
    plan::check::config(found)?;
    let advice = config::advise(found, &Machine { top: project.repository.top.clone() });
    let warnings: Vec<String> = project.loaded.warnings.iter().chain(&advice).map(ToString::to_string).collect();
    let mut out = io::stdout().lock();
    if arg.json {
        json::write(&mut out, &json!({ "ok": true, "warnings": warnings }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for warning in &warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let file =
        project.file.as_ref().map_or_else(|| "built-in configuration".to_owned(), |file| file.display().to_string());
    writeln!(out, "{file}: ok")?;
    Ok(ExitCode::SUCCESS)
}

fn show(arg: &ConfigArg) -> Result<ExitCode, CliError> {
    let project = Project::open(arg.config.as_deref())?;
    let found = &project.loaded.config;
    let mut out = io::stdout().lock();
    if arg.json {
        json::write(&mut out, &found.show())?;
    } else {
        out.write_all(found.show_text().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What this machine and the adapters know.
struct Machine {
    top: PathBuf,
}

impl Facts for Machine {
    fn is_installed(&self, engine: EngineName) -> bool {
        is_installed(engine, &self.top)
    }

    fn reports_usage(&self, engine: EngineName) -> bool {
        engine::for_name(engine).capabilities().context
    }

    /// Windows come from the configuration or from the stream; none is known before.
    fn window(&self, _engine: EngineName, _model: &str) -> Option<u64> {
        None
    }

    /// claude compacts by size only when it is told to (seen with 2.1.332 in November 2026).
    fn compacts_at(&self, engine: EngineName, _model: &str) -> Option<u64> {
        let told = std::env::var("CLAUDE_CODE_AUTO_COMPACT_WINDOW").ok().filter(|_| engine == EngineName::Claude)?;
        told.parse().ok()
    }
}
