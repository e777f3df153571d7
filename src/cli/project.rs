//! The repository that fia was started in, with its configuration and its runs.

use std::path::{Path, PathBuf};

use super::report::CliError;
use super::say;
use crate::config::{self, ConfigError, Loaded, Surroundings, Warning};
use crate::engine;
use crate::ids::EngineName;
use crate::plan;
use crate::process::{CommandSpec, find_program};
use crate::solid;
use crate::store::DataDir;
use crate::tree::Repository;
use crate::view::numbers::plural;

/// What commands work on.
pub(super) struct Project {
    pub(super) repository: Repository,
    /// The configuration file, if there is one.
    pub(super) file: Option<PathBuf>,
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
        let variable = std::env::var_os("FIA_CONFIG");
        let file = config::find(start, &repository.top, config, variable.as_deref());
        let near = config::misnamed(start, &repository.top, config, variable.as_deref());
        let near = near.iter().map(|path| config::misnamed_problem(path, &repository.top));
        let engines = installed(&repository.top);
        let around = Surroundings { top: &repository.top, engines: &engines };
        let mut loaded = config::load(file.as_deref(), around)?;
        if file.is_some() {
            loaded.warnings.extend(near.map(Warning));
        } else {
            // Whatever it limits would be limited nowhere.
            ConfigError::unless_empty(near.collect())?;
        }
        Self::with(repository, file, loaded)
    }

    /// The same for commands that look at runs or steer them: they work whatever is in the configuration, and say in
    /// one line that it cannot be used.
    pub(super) fn look() -> Result<Self, CliError> {
        let start = super::current_dir()?;
        let repository = Repository::discover(&start)?;
        let file = config::find(&start, &repository.top, None, std::env::var_os("FIA_CONFIG").as_deref());
        let engines = installed(&repository.top);
        let loaded = load_what_holds(file.as_deref(), Surroundings { top: &repository.top, engines: &engines })?;
        Self::with(repository, file, loaded)
    }

    fn with(repository: Repository, file: Option<PathBuf>, loaded: Loaded) -> Result<Self, CliError> {
        let data = DataDir::new(data_dir(&repository, &loaded.config.data_dir())?);
        Ok(Self { repository, file, loaded, data })
    }

    /// Says on standard error what of the configuration was not used as written.
    pub(super) fn warn(&self) {
        use std::io::Write as _;
        let mut err = anstream::stderr().lock();
        for warning in self.loaded.warnings.iter().chain(&plan::check::unused(&self.loaded.config)) {
            // A closed standard error takes no warnings.
            let _gone = writeln!(err, "warning: {warning}");
        }
    }
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

/// The data directory: that of the main work tree, which its linked work trees share. A bare repository has no main
/// work tree, and each linked one its own.
fn data_dir(repository: &Repository, configured: &str) -> Result<PathBuf, CliError> {
    let top = repository.main_top()?.unwrap_or_else(|| repository.top.clone());
    let path = top.join(configured);
    // As git names it, which tells whether a work tree lies in it.
    Ok(solid::resolved(&path))
}

/// Engines whose program is there, best first.
pub(super) fn installed(top: &Path) -> Vec<EngineName> {
    EngineName::ALL.into_iter().filter(|name| *name != EngineName::Scripted && is_installed(*name, top)).collect()
}

/// Whether the program of an engine is there; the scripted one always is.
pub(super) fn is_installed(name: EngineName, top: &Path) -> bool {
    let programs = engine::for_name(name).facts().programs;
    name == EngineName::Scripted
        || programs.iter().any(|program| find_program(&CommandSpec::new(*program, top)).is_ok())
}
