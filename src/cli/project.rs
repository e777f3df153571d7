//! The repository that fia was started in, with its configuration and its runs.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use super::report::CliError;
use super::say;
use crate::config::{self, ConfigError, Draft, Loaded, Surroundings, Warning};
use crate::engine;
use crate::ids::EngineName;
use crate::plan::{EngineSettings, check};
use crate::process::{CommandSpec, find_program};
use crate::rehearsal::script::Script;
use crate::solid;
use crate::store::DataDir;
use crate::tree::{Repository, TreeError};
use crate::view::numbers::plural;

/// What commands work on.
pub(super) struct Project {
    pub(super) repository: Repository,
    /// Where relative paths of the configuration begin.
    pub(super) config_top: PathBuf,
    pub(super) loaded: Loaded,
    /// The state of the main work tree, which its linked work trees share.
    pub(super) data: DataDir,
}

impl Project {
    /// Finds the repository around the current directory and reads its configuration.
    pub(super) fn open(config: Option<&Path>) -> Result<Self, CliError> {
        Self::open_at(&super::current_dir()?, config)
    }

    /// The same, from another directory.
    pub(super) fn open_at(start: &Path, config: Option<&Path>) -> Result<Self, CliError> {
        let repository = Repository::discover(start)?;
        let (start, config_top) = configured_at(start, &repository)?;
        let (_, loaded) = load(&start, &config_top, config)?;
        Self::with(repository, config_top, loaded)
    }

    /// The same for commands that look at runs or steer them: they work whatever is in the configuration, and say in
    /// one line that it cannot be used.
    pub(super) fn look() -> Result<Self, CliError> {
        let start = super::current_dir()?;
        let repository = Repository::discover(&start)?;
        let (start, config_top) = configured_at(&start, &repository)?;
        let (_, loaded) = look(&start, &config_top)?;
        Self::with(repository, config_top, loaded)
    }

    fn with(repository: Repository, config_top: PathBuf, loaded: Loaded) -> Result<Self, CliError> {
        let data = DataDir::new(data_dir(&repository, &loaded.config.data_dir())?);
        Ok(Self { repository, config_top, loaded, data })
    }

    /// Says on standard error what of the configuration was not used as written.
    pub(super) fn warn(&self) {
        warn(&self.loaded);
    }
}

/// What commands work on that ask for no run: a configuration, in a repository or not.
pub(super) struct Setup {
    /// Where relative paths begin: the top of the repository, else the current directory.
    pub(super) top: PathBuf,
    pub(super) repository: Option<Repository>,
    /// The configuration file, if there is one.
    pub(super) file: Option<PathBuf>,
    pub(super) loaded: Loaded,
}

impl Setup {
    /// Reads the configuration that holds in the current directory.
    pub(super) fn open(config: Option<&Path>) -> Result<Self, CliError> {
        Self::with(|start, top| load(start, top, config))
    }

    /// The same whatever is in the configuration, as [`Project::look`] does.
    pub(super) fn look() -> Result<Self, CliError> {
        Self::with(look)
    }

    fn with(read: impl FnOnce(&Path, &Path) -> Result<(Option<PathBuf>, Loaded), CliError>) -> Result<Self, CliError> {
        let start = super::current_dir()?;
        let repository = match Repository::discover(&start) {
            Ok(repository) => Some(repository),
            Err(TreeError::NotARepository { .. } | TreeError::NoWorkTree { .. } | TreeError::NoGit { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let (start, top) = match &repository {
            Some(repository) => configured_at(&start, repository)?,
            None => (start.clone(), start),
        };
        let (file, loaded) = read(&start, &top)?;
        Ok(Self { top, repository, file, loaded })
    }
}

/// Where the configuration is looked for, and the top up to which. A run's own work tree has that of the main one,
/// by which its limits are set whether it is gone on with from here or from there.
fn configured_at(start: &Path, repository: &Repository) -> Result<(PathBuf, PathBuf), CliError> {
    let top = &repository.top;
    let is_of_a_run = top
        .file_name()
        .zip(top.parent())
        .is_some_and(|(run, folder)| folder.ends_with("worktrees") && folder.with_file_name("runs").join(run).is_dir());
    let main = if is_of_a_run { repository.main_top()? } else { None };
    Ok(main.map_or_else(|| (start.to_owned(), top.clone()), |main| (main.clone(), main)))
}

/// The configuration file that holds at `start`, and what it says.
fn load(start: &Path, top: &Path, named: Option<&Path>) -> Result<(Option<PathBuf>, Loaded), CliError> {
    let variable = std::env::var_os("FIA_CONFIG");
    let file = config::find(start, top, named, variable.as_deref());
    let around = Surroundings { top, engines: &installed(top) };
    let Draft { mut loaded, problems } = config::draft(file.as_deref(), around)?;
    if !problems.is_empty() {
        check::draft(&loaded.config, problems)?;
    }
    let near = config::misnamed(start, top, named, variable.as_deref());
    let near = near.iter().map(|path| config::misnamed_problem(path, top));
    if file.is_some() {
        loaded.warnings.extend(near.map(Warning));
    } else {
        // Whatever it limits would be limited nowhere.
        ConfigError::unless_empty(near.collect())?;
    }
    Ok((file, loaded))
}

/// The same, and as much of it as holds.
fn look(start: &Path, top: &Path) -> Result<(Option<PathBuf>, Loaded), CliError> {
    let variable = std::env::var_os("FIA_CONFIG");
    let file = config::find(start, top, None, variable.as_deref());
    let mut loaded = load_what_holds(file.as_deref(), Surroundings { top, engines: &installed(top) })?;
    let near = config::misnamed(start, top, None, variable.as_deref());
    loaded.warnings.extend(near.iter().map(|path| Warning(config::misnamed_problem(path, top))));
    Ok((file, loaded))
}

/// As much of a configuration as holds; says on standard error that it is not all.
pub(super) fn load_what_holds(file: Option<&Path>, around: Surroundings<'_>) -> Result<Loaded, CliError> {
    let (loaded, error) = config::load_what_holds(file, around)?;
    if let (Some(file), Some(error)) = (file, error) {
        let file = file.strip_prefix(around.top).unwrap_or(file).display();
        let problems = plural(error.problems.len() as u64, "problem");
        let dir = loaded.config.data_dir();
        say(&format!(
            "warning: {file} cannot be used ({problems}: `fia config check`); runs are looked for in `{dir}`"
        ));
    }
    Ok(loaded)
}

/// Says on standard error what of a configuration was not used as written, or is for nobody.
pub(super) fn warn(loaded: &Loaded) {
    for warning in loaded.warnings.iter().chain(&check::unused(&loaded.config)) {
        say(&format!("warning: {warning}"));
    }
}

/// Reads the script of the scripted engine, if the configuration names one.
pub(super) fn check_script(loaded: &Loaded, top: &Path) -> Result<(), CliError> {
    let script: Option<String> = loaded.config.at("/engines/scripted/script");
    let Some(script) = script else { return Ok(()) };
    let read = Script::load(&top.join(&script), &script);
    let hint = "correct the script, or name another one as `engines.scripted.script`";
    read.map(drop).map_err(|problem| CliError::usage(format!("the script cannot be used: {problem}"), hint))
}

/// Makes the script's path a whole one, for a run that works elsewhere than in `top`, from where the path is given.
pub(super) fn anchor_script(engines: &mut IndexMap<EngineName, EngineSettings>, top: &Path) {
    if let Some(settings) = engines.get_mut(&EngineName::Scripted)
        && let [flag, script, ..] = &mut settings.args[..]
        && flag == "--script"
    {
        *script = top.join(&*script).display().to_string();
    }
}

/// The data directory: that of the main work tree, which its linked work trees share. A bare repository has no main
/// work tree, and each linked one its own.
pub(super) fn data_dir(repository: &Repository, configured: &str) -> Result<PathBuf, CliError> {
    let top = repository.main_top()?.unwrap_or_else(|| repository.top.clone());
    let path = top.join(configured);
    // As git names it, which tells whether a work tree lies in it.
    Ok(solid::resolved(&path))
}

/// Engines whose program is there, best first.
pub(super) fn installed(top: &Path) -> Vec<EngineName> {
    EngineName::ALL.into_iter().filter(|name| *name != EngineName::Scripted && is_installed(*name, None, top)).collect()
}

/// Whether the program of an engine is there; that of the scripted one always is, unless another is configured.
pub(super) fn is_installed(name: EngineName, settings: Option<&EngineSettings>, top: &Path) -> bool {
    let configured = settings.and_then(|settings| settings.program.as_deref());
    (name == EngineName::Scripted && configured.is_none()) || program(name, configured, top).is_some()
}

/// Where the program of an engine is: the configured one, else the first of its own names that is there.
pub(super) fn program(name: EngineName, configured: Option<&str>, top: &Path) -> Option<PathBuf> {
    let names = configured.map_or_else(|| engine::for_name(name).facts().programs.to_vec(), |program| vec![program]);
    names.iter().find_map(|name| find_program(&CommandSpec::new(*name, top)).ok())
}
