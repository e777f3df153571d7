//! Running `git` as a program, with an environment that nobody else decides.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::TreeError;

/// Variables of git that say who commits and where the user's settings are; every other `GIT_…` is removed,
/// since it could point git at another repository, index or object store.
const KEPT: [&str; 10] = [
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_EXEC_PATH",
];

/// `git` in one folder.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    dir: PathBuf,
    env: Vec<(&'static str, OsString)>,
}

impl Git {
    /// git as run in `dir`.
    pub(crate) fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), env: Vec::new() }
    }

    /// The same with one more variable.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// With the user's own language, for a git that runs the user's hooks.
    pub(crate) fn with_users_language(self) -> Self {
        let language = std::env::var_os("LC_ALL").unwrap_or_default();
        self.with("LC_ALL", language)
    }

    /// A command with the cleaned environment and no standard input.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_none_or(|name| name.starts_with("GIT_") && !KEPT.contains(&name)) {
                command.env_remove(name);
            }
        }
        command
            .args(args)
            .current_dir(&self.dir)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            // Ctrl-C in a terminal reaches the whole group of fia, which decides what becomes of git.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs git and returns what it printed.
    ///
    /// # Errors
    ///
    /// When git cannot be started or ends with another status than 0.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<Vec<u8>, TreeError> {
        succeeded(args, self.output(args, None)?)
    }

    /// Runs git with `input` on its standard input.
    ///
    /// # Errors
    ///
    /// As [`Git::run`].
    pub(crate) fn feed<A: AsRef<OsStr>>(&self, args: &[A], input: &[u8]) -> Result<Vec<u8>, TreeError> {
        succeeded(args, self.output(args, Some(input))?)
    }

    /// Runs a git that says "no" with status 1, which is `None`.
    ///
    /// # Errors
    ///
    /// When git cannot be started or ends with a status above 1.
    pub(crate) fn ask<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<Option<Vec<u8>>, TreeError> {
        let output = self.output(args, None)?;
        if output.status.code() == Some(1) { Ok(None) } else { succeeded(args, output).map(Some) }
    }

    /// Runs git to its end, whatever its status.
    pub(crate) fn output<A: AsRef<OsStr>>(&self, args: &[A], input: Option<&[u8]>) -> Result<Output, TreeError> {
        let mut command = self.command(args);
        let Some(input) = input else { return command.output().map_err(|source| self.unstarted(source)) };
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(|source| self.unstarted(source))?;
        let mut stdin = child.stdin.take();
        std::thread::scope(|scope| {
            // A git that fails stops reading; its status tells, not the broken pipe.
            scope.spawn(move || stdin.as_mut().map(|stdin| stdin.write_all(input)));
            child.wait_with_output()
        })
        .map_err(|source| self.unstarted(source))
    }

    /// Why git could not be started here.
    pub(crate) fn unstarted(&self, source: io::Error) -> TreeError {
        if self.dir.is_dir() { TreeError::NoGit { source } } else { TreeError::io("enter", &self.dir, source) }
    }
}

/// What a finished git printed.
///
/// # Errors
///
/// With git's own words when its status is not 0.
pub(crate) fn succeeded<A: AsRef<OsStr>>(args: &[A], output: Output) -> Result<Vec<u8>, TreeError> {
    if output.status.success() { Ok(output.stdout) } else { Err(failed(args, &output)) }
}

/// The error of a git that ended with another status than 0.
pub(crate) fn failed<A: AsRef<OsStr>>(args: &[A], output: &Output) -> TreeError {
    let said = String::from_utf8_lossy(&output.stderr);
    let words = if said.trim().is_empty() { output.status.to_string() } else { said.trim().to_owned() };
    // Options of git itself come before the command's name.
    let command =
        args.iter().map(|arg| arg.as_ref().to_string_lossy()).find(|arg| !arg.starts_with('-') && !arg.contains('='));
    TreeError::Git { command: command.unwrap_or_default().into_owned(), words }
}

/// Text that git printed, without its line end.
pub(crate) fn text(bytes: &[u8]) -> String {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    String::from_utf8_lossy(line).into_owned()
}

/// A path that git printed on a line of its own.
pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    Path::new(OsStr::from_bytes(bytes.strip_suffix(b"\n").unwrap_or(bytes))).to_owned()
}

/// The records of an answer in which each ends with a NUL.
pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty())
}
