//! `fia config check|show|schema`.

mod shipped;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use indexmap::IndexMap;
use serde_json::json;

use super::project::{Setup, check_script, is_installed};
use super::report::CliError;
use crate::config::{self, Facts};
use crate::economy::windows;
use crate::engine;
use crate::ids::EngineName;
use crate::plan::{self, EngineSettings};
use crate::view::json;
use crate::visible;

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
    let setup = Setup::open(arg.config.as_deref())?;
    let found = &setup.loaded.config;
    plan::check::config(found)?;
    check_script(&setup.loaded, &setup.top)?;
    let machine = Machine { top: setup.top.clone(), engines: plan::build::engines(found) };
    let unused = plan::check::unused(found);
    let advice = config::advise(found, &machine);
    let warnings: Vec<String> =
        setup.loaded.warnings.iter().chain(&unused).chain(&advice).map(ToString::to_string).collect();
    let mut out = io::stdout().lock();
    if arg.json {
        json::write(&mut out, &json!({ "ok": true, "warnings": warnings }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for warning in &warnings {
        writeln!(out, "warning: {}", visible::block(warning))?;
    }
    let file =
        setup.file.as_ref().map_or_else(|| "built-in configuration".to_owned(), |file| file.display().to_string());
    writeln!(out, "{}: ok", visible::line(&file))?;
    Ok(ExitCode::SUCCESS)
}

fn show(arg: &ConfigArg) -> Result<ExitCode, CliError> {
    let setup = Setup::open(arg.config.as_deref())?;
    let found = &setup.loaded.config;
    let found = found.clone().over(&shipped::shipped(found)?);
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
    engines: IndexMap<EngineName, EngineSettings>,
}

impl Facts for Machine {
    fn is_installed(&self, engine: EngineName) -> bool {
        is_installed(engine, self.engines.get(&engine), &self.top)
    }

    fn reports_usage(&self, engine: EngineName) -> bool {
        engine::for_name(engine).capabilities().context
    }

    fn window(&self, engine: EngineName, model: &str) -> Option<u64> {
        known_window(engine, model)
    }

    /// claude compacts by size only when it is told to (seen with 2.1.332 in November 2026).
    fn compacts_at(&self, engine: EngineName, _model: &str) -> Option<u64> {
        if engine != EngineName::Claude {
            return None;
        }
        let settings = self.engines.get(&engine).cloned().unwrap_or_default();
        let configured = settings.env.get(COMPACT_VARIABLE).cloned();
        let variable = configured.unwrap_or_else(|| std::env::var(COMPACT_VARIABLE).ok());
        let told = [compact_flag(&settings.args), variable.and_then(|told| told.parse().ok())];
        told.into_iter().flatten().min().map(|tokens: u64| tokens.max(LEAST_COMPACTION_TOKENS))
    }
}

/// What fits into a model before any stream has said it; pi's and cursor's models are not known.
pub(super) fn known_window(engine: EngineName, model: &str) -> Option<u64> {
    (engine == EngineName::Claude).then(|| windows::of_claude(model)).flatten()
}

/// The variable that does the same as `--autocompact`.
const COMPACT_VARIABLE: &str = "CLAUDE_CODE_AUTO_COMPACT_WINDOW";

/// claude takes a smaller number for this one.
const LEAST_COMPACTION_TOKENS: u64 = 100_000;

/// `--autocompact N` or `--autocompact=N`, the last one.
fn compact_flag(args: &[String]) -> Option<u64> {
    let apart = args.iter().zip(args.iter().skip(1)).filter(|(flag, _)| *flag == "--autocompact");
    let joined = args.iter().filter_map(|arg| arg.strip_prefix("--autocompact="));
    apart.map(|(_, tokens)| tokens.as_str()).chain(joined).last()?.parse().ok()
}
