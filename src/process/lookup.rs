//! Finding a program before it is spawned, so that an error can say what is missing: after a failed
//! spawn a missing program, interpreter and directory all look the same.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::CommandSpec;

/// Why a child was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program is nowhere.
    #[error("program `{program}` not found{}", .on_path.then_some(" on PATH").unwrap_or_default())]
    NoProgram {
        /// What was asked for.
        program: String,
        /// Whether it was a name to look up.
        on_path: bool,
    },
    /// It is there and cannot be executed: no right to, a directory, or of another machine type.
    #[error("`{path}` is not executable")]
    NotExecutable {
        /// Where it was found.
        path: PathBuf,
    },
    /// It is a script whose interpreter is not there.
    #[error("the interpreter that `{path}` names in its first line is missing")]
    NoInterpreter {
        /// The script.
        path: PathBuf,
    },
    /// The directory to run in is not there.
    #[error("directory `{path}` does not exist")]
    NoDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// Arguments and environment are over the system's limit.
    #[error("the arguments or the environment of `{path}` are too long for the system")]
    ArgumentTooLong {
        /// The program.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot {action} `{path}`")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The program.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl SpawnError {
    /// What the reader can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NoProgram { program, on_path: true } => {
                format!("install `{program}`, put its directory on PATH, or name its path in the configuration")
            }
            Self::NoProgram { program, on_path: false } => format!("correct the path `{program}` in the configuration"),
            Self::NotExecutable { path } => format!("make `{0}` executable: chmod +x '{0}'", path.display()),
            Self::NoInterpreter { path } => format!("install the interpreter that `{}` names", path.display()),
            Self::NoDirectory { path } => format!("create `{}` or run from a directory that exists", path.display()),
            Self::ArgumentTooLong { .. } => "shorten the configured `args` or unset large variables".to_owned(),
            Self::Io { path, .. } => format!("try to start `{}` by hand", path.display()),
        }
    }

    /// Names the reason of a failed spawn of a program that was found.
    pub(super) fn from_spawn(path: PathBuf, source: io::Error) -> Self {
        use rustix::io::Errno;
        match Errno::from_io_error(&source) {
            Some(Errno::NOENT) => Self::NoInterpreter { path },
            Some(Errno::ACCESS | Errno::NOEXEC) => Self::NotExecutable { path },
            Some(Errno::TOOBIG) => Self::ArgumentTooLong { path },
            _ => Self::Io { action: "start", path, source },
        }
    }
}

/// Finds the program of a command as its child would: on the child's own `PATH`, relative to its own
/// directory, by the first of its names that is there. A name found only without the right to execute it is
/// `NotExecutable`.
///
/// # Errors
///
/// When the directory or the program is not there or cannot be executed; of several names, about the first.
pub fn find_program(spec: &CommandSpec) -> Result<PathBuf, SpawnError> {
    if !spec.cwd.is_dir() {
        return Err(SpawnError::NoDirectory { path: spec.cwd.clone() });
    }
    find_named(spec, &spec.program)
        .or_else(|error| spec.other_names.iter().find_map(|name| find_named(spec, name).ok()).ok_or(error))
}

fn find_named(spec: &CommandSpec, program: &OsStr) -> Result<PathBuf, SpawnError> {
    let on_path = !program.as_bytes().contains(&b'/');
    let program = Path::new(program);
    let candidates: Vec<PathBuf> = if on_path {
        let path = match spec.env.get(OsStr::new("PATH")) {
            Some(own) => own.clone(),
            None => std::env::var_os("PATH"),
        };
        path.iter().flat_map(std::env::split_paths).map(|entry| spec.cwd.join(entry).join(program)).collect()
    } else {
        vec![spec.cwd.join(program)]
    };
    if let Some(path) = candidates.iter().find(|path| is_executable(path)) {
        return Ok(path.clone());
    }
    match candidates.into_iter().find(|path| path.exists() && !(on_path && path.is_dir())) {
        Some(path) => Err(SpawnError::NotExecutable { path }),
        None => Err(SpawnError::NoProgram { program: program.display().to_string(), on_path }),
    }
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_is_found_by_the_first_of_its_names_that_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = CommandSpec::new("first", folder.path()).set("PATH", folder.path());
        spec.other_names = vec!["second".into(), "third".into()];
        let about = |found: Result<PathBuf, SpawnError>| found.unwrap_err().to_string();
        assert_eq!(about(find_program(&spec)), "program `first` not found on PATH");
        for name in ["third", "second", "first"] {
            let path = folder.path().join(name);
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            assert_eq!(find_program(&spec).unwrap(), path);
        }
    }
}
