//! `fia init`: a configuration and prompts to begin with. Nothing that is there is overwritten.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use super::project::{Project, installed};
use super::report::CliError;
use super::{current_dir, say};
use crate::config::{self, FILE_NAME, Starter};
use crate::engine;
use crate::ids::EngineName;
use crate::plan;
use crate::tree::Repository;

/// Where a configuration of the wider system lies.
const OTHER_FOLDER: &str = "imp";

/// Writes the files at the top of the repository, the configuration last, and checks it.
pub(super) fn init() -> Result<ExitCode, CliError> {
    let top = Repository::discover(&current_dir()?)?.top;
    let file = top.join(FILE_NAME);
    if file.symlink_metadata().is_ok() {
        return Err(is_there());
    }
    let engines = installed(&top);
    let other = top.join(OTHER_FOLDER).join(FILE_NAME);
    let told = if other.is_file() {
        let text = config::taken_over(&other, &top)?;
        write(&top, FILE_NAME, &text)?;
        format!("{OTHER_FOLDER}/{FILE_NAME} is no longer read; the files that it names stay where they are")
    } else {
        let starter = Starter::new(&top, &engines);
        for (prompt, text) in &starter.prompts {
            write(&top, prompt, text)?;
        }
        write(&top, FILE_NAME, &starter.config)?;
        format!("{}\n{}", checks_found(&starter), engines_found(&engines))
    };
    say(&told);
    let project = Project::open_at(&top, Some(&file))?;
    plan::check::config(&project.loaded.config)?;
    project.warn();
    let workflow =
        if project.loaded.config.check_names().iter().any(|name| name == "test") { "build_test" } else { "build" };
    Ok(say(&format!("next:  fia doctor    fia run {workflow} --dry-run \"what to do\"")))
}

fn is_there() -> CliError {
    let hint = "`fia config check` looks at it, `fia config show` prints what is in force";
    CliError::usage(format!("`{FILE_NAME}` is there, and `fia init` overwrites nothing"), hint)
}

/// Writes a new file, or says that there is one; a configuration that came in between is an error.
fn write(top: &Path, path: &str, text: &str) -> Result<(), CliError> {
    let cannot = |error| CliError::machine(format!("cannot write `{path}`"), error);
    let target = top.join(path);
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    match OpenOptions::new().write(true).create_new(true).open(&target) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).map_err(cannot)?;
            say(&format!("wrote {path}"));
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path == FILE_NAME => Err(is_there()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            say(&format!("kept {path}, which was there"));
            Ok(())
        }
        Err(error) => Err(cannot(error)),
    }
}

fn checks_found(starter: &Starter) -> String {
    let found: Vec<_> = starter.checks.iter().map(|(name, run, file)| format!("{name} = {run} ({file})")).collect();
    if found.is_empty() {
        return format!("checks: none found; name the command of your tests under `checks:` in {FILE_NAME}");
    }
    format!("checks: {}", found.join(", "))
}

fn engines_found(engines: &[EngineName]) -> String {
    if engines.is_empty() {
        let facts = engine::for_name(EngineName::Claude).facts();
        return format!(
            "engines: none found; {}, then `{}`; or rehearse with --use scripted",
            facts.install, facts.login
        );
    }
    let names: Vec<_> = engines.iter().map(|engine| engine.as_str()).collect();
    format!("engines: {}", names.join(", "))
}
