//! Finding and reading the file, and laying it over what ships.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::document::Document;
use super::files::{Files, read_text};
use super::findings::{Degraded, Findings};
use super::layer::Layers;
use super::problem::{BUILT_IN, ConfigError, Problem, Warning};
use super::table::{FILE, MAX_FALLBACKS};
use super::{Config, found, pointer};
use crate::ids::EngineName;

/// The name of the file.
pub const FILE_NAME: &str = "fia.config.yaml";

/// The data directory that ships, as the built-in layer says too.
const DATA_DIR: &str = ".fia";

/// The key that names another place.
const DATA_DIR_KEY: &str = "/defaults/data_dir";

/// What a config is read against.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The top of the work tree.
    pub top: &'a Path,
    /// Engines that are installed, best first; the first one serves where no file names one.
    pub engines: &'a [EngineName],
}

/// A configuration and what is odd about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Values that could not be used as written, each said once.
    pub warnings: Vec<Warning>,
}

/// Finds the file (SPEC 3.1): the one that was named, `$FIA_CONFIG`, `fia.config.yaml` from `start` up to
/// `top`, then `imp/fia.config.yaml` at `top`. A file that was named need not exist; loading says so.
pub fn find(start: &Path, top: &Path, named: Option<&Path>, variable: Option<&OsStr>) -> Option<PathBuf> {
    if let Some(path) = named.or_else(|| variable.filter(|text| !text.is_empty()).map(Path::new)) {
        return Some(start.join(path));
    }
    let inside = start.ancestors().take_while(|folder| folder.starts_with(top));
    let candidates = inside.map(|folder| folder.join(FILE_NAME));
    candidates.chain([top.join("imp").join(FILE_NAME)]).find(|path| is_there(path))
}

/// Files whose name is near to that of the configuration where it is looked for: nobody would know that they are not
/// read. None where the file was named.
pub fn misnamed(start: &Path, top: &Path, named: Option<&Path>, variable: Option<&OsStr>) -> Vec<PathBuf> {
    if named.is_some() || variable.is_some_and(|text| !text.is_empty()) {
        return Vec::new();
    }
    let inside = start.ancestors().take_while(|folder| folder.starts_with(top)).map(Path::to_owned);
    let entries =
        inside.chain([top.join("imp")]).flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let near = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_near_name));
    let mut near: Vec<PathBuf> = near.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    near.sort();
    near
}

/// `fia.config.yml`, `.fia.config.yaml`, `fia-config.json`, `Fia.config.yaml` and the like.
fn is_near_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(['.', '_', '-']).filter(|word| !word.is_empty()).collect();
    let is_near = match words.as_slice() {
        ["fia", "config" | "yaml" | "yml"] => true,
        ["fia", "config" | "conf", ending] => matches!(*ending, "yaml" | "yml" | "json" | "toml"),
        _ => false,
    };
    is_near && name != FILE_NAME
}

/// What is said of such a file.
pub fn misnamed_problem(path: &Path, top: &Path) -> Problem {
    let shown = path.strip_prefix(top).unwrap_or(path).display().to_string();
    Problem::with(shown, format!("found and not read: the name is `{FILE_NAME}`"))
}

/// Whether anything is of this name, also what cannot be read: a configuration that is meant is never passed over.
fn is_there(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

/// Reads the file at `path`, or none, and lays it over what ships.
///
/// # Errors
///
/// Every problem of the file, and of the prompt and schema files that it names.
pub fn load(path: Option<&Path>, around: Surroundings<'_>) -> Result<Loaded, ConfigError> {
    let (document, mut findings) = read(path, around.top)?;
    findings.problems.extend(roster_problems(&document));
    let mut layers = Layers::new(&document, around.engines, &found::checks(around.top));
    let mut files = Files::new(path, around.top);
    files.script(&mut layers);
    let prompts = files.prompts(&document, &layers);
    let schemas = files.schemas(&document);
    findings.problems.append(&mut files.problems);
    ConfigError::unless_empty(findings.problems)?;
    let mut warnings = findings.warnings;
    warnings.extend(findings.degraded.iter().map(|knob| degraded(knob, &document, &layers)));
    warnings.sort_by_key(|warning| warning.0.mark);
    let judge_files = files.judge_files();
    let not_served = findings.not_served;
    Ok(Loaded { config: Config { document, layers, prompts, schemas, judge_files, not_served }, warnings })
}

/// Where runs are kept by the file at `path`, or without one: what commands that only read need to know. Neither
/// what ships nor another file is read for it.
///
/// # Errors
///
/// Every problem of the file itself.
pub fn data_dir(path: Option<&Path>, top: &Path) -> Result<String, ConfigError> {
    let (document, findings) = read(path, top)?;
    ConfigError::unless_empty(findings.problems)?;
    let written = pointer::at(&document.value, DATA_DIR_KEY).and_then(Value::as_str);
    Ok(written.unwrap_or(DATA_DIR).to_owned())
}

/// Reads the file itself, without those that it names.
fn read(path: Option<&Path>, top: &Path) -> Result<(Document, Findings), ConfigError> {
    let Some(path) = path else { return Ok(Document::read(BUILT_IN, String::new(), FILE)) };
    let shown = path.strip_prefix(top).unwrap_or(path).display().to_string();
    let text = read_text(path).map_err(|message| Problem::with(&shown, message))?;
    Ok(Document::read(&shown, text, FILE))
}

/// As much of a configuration as holds, for commands that look at runs or steer them and have to work whatever is in
/// it: where it cannot be used, why, and what ships with the `data_dir` of the file, if that can still be read.
///
/// # Errors
///
/// Problems of what ships, of which there are none.
pub fn load_what_holds(
    path: Option<&Path>,
    around: Surroundings<'_>,
) -> Result<(Loaded, Option<ConfigError>), ConfigError> {
    let error = match load(path, around) {
        Ok(loaded) => return Ok((loaded, None)),
        Err(error) => error,
    };
    let mut loaded = load(None, around)?;
    if let Some(path) = path
        && let Some(written) = written_data_dir(path)
    {
        loaded.config.layers.set(DATA_DIR_KEY, written, path.display().to_string());
    }
    Ok((loaded, Some(error)))
}

/// The `data_dir` of a file that cannot be used: the key where the file is YAML, else the line that it stands in.
fn written_data_dir(path: &Path) -> Option<Value> {
    let read = |text: String| Document::read("", text, FILE).0.value.pointer(DATA_DIR_KEY).cloned();
    let text = read_text(path).ok()?;
    let alone = || {
        let line = text.lines().map(str::trim).find(|line| line.starts_with("data_dir:"))?;
        read(format!("defaults:\n  {line}\n"))
    };
    read(text.clone()).or_else(alone)
}

/// The warning about a knob: the default that stands may be that of the agent's `defaults`.
fn degraded(knob: &Degraded, document: &Document, layers: &Layers) -> Warning {
    let written = if knob.written.is_empty() { "nothing".to_owned() } else { format!("`{}`", knob.written) };
    let unit = knob.unit.as_str();
    let default = layers.get(&knob.at).map_or_else(|| knob.default.to_string(), Value::to_string);
    let message = format!("{written} is no usable number of {unit}; the default of {default} {unit} stands");
    Warning(document.problem(&knob.at, message))
}

/// Agents that are there twice, and chains of fallbacks that are too long.
pub(crate) fn roster_problems(document: &Document) -> Vec<Problem> {
    let agents = document.value["agents"].as_array().map_or(&[][..], Vec::as_slice);
    let mut problems = Vec::new();
    for (index, agent) in agents.iter().enumerate() {
        let at = format!("/agents/{index}");
        let name = agent["name"].as_str();
        if name.is_some() && agents[..index].iter().any(|earlier| earlier["name"].as_str() == name) {
            let message = format!("`{}` is the name of an earlier agent", name.unwrap_or_default());
            problems.push(document.problem(&format!("{at}/name"), message));
        }
        let fallbacks = agent["fallbacks"].as_array().map_or(0, Vec::len);
        if fallbacks > MAX_FALLBACKS {
            let message = format!("{fallbacks} fallbacks; at most {MAX_FALLBACKS}");
            problems.push(document.problem(&format!("{at}/fallbacks"), message));
        }
    }
    problems
}
