//! Child processes that fia owns whole: each leads its own group, and no member of it outlives its `Child`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// What to start, made by an engine adapter or from a check; starting it is `process`'s business.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program: a path, or a name that is looked up on `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Changes to fia's own environment: a value sets a variable, `None` removes it.
    pub env: BTreeMap<OsString, Option<OsString>>,
    /// Where it runs.
    pub cwd: PathBuf,
}

impl CommandSpec {
    /// A command without arguments or changes of the environment.
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: BTreeMap::new(), cwd: cwd.into() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn set(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), Some(value.into()));
        self
    }

    /// Removes a variable of the environment.
    #[must_use]
    pub fn unset(mut self, name: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), None);
        self
    }
}

impl fmt::Debug for CommandSpec {
    /// Shows the names of variables only: their values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSpec")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// A part of a child's standard output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputLine {
    /// A line without its newline.
    Line(Vec<u8>),
    /// A line over the length limit, thrown away.
    TooLong {
        /// Its length in bytes.
        bytes: u64,
    },
}
