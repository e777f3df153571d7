//! Child processes that fia owns whole: each leads its own group, and no member of it outlives its [`Child`].
//!
//! The output of a child is read by whoever asks for its next line, straight from the pipe into the
//! buffer that the lines are cut from: there is no channel in between, so a slow reader slows the child
//! and nothing is copied or dropped. Its standard error is always read by a task of its own, and its
//! standard input is fed by another, so a child that reads late cannot block the one who writes to it.
//!
//! The leader is reaped only when the group is gone. Until then its id, which is the id of the group,
//! cannot come to mean anything else, so a signal to the group never meets a stranger.

mod child;
mod lookup;
mod question;
mod stderr;
mod stop;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

pub use child::{Child, Keep};
pub use lookup::{SpawnError, find_program};
pub use question::{Said, ask};
pub use stop::{Ended, Finish};

/// The variable that tells all that a child starts for its own: tools of coding agents run in sessions of their own,
/// where a signal to the group does not reach them (claude 2.1.332 and pi 1.6.0, seen in November 2026).
pub const OWNER: &str = "FIA_CHILD";

/// What to start, made by an engine adapter or from a check; starting it is `process`'s business.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program: a path, or a name that is looked up on `PATH`.
    pub program: OsString,
    /// Other names that it goes by, for where that one is not found.
    pub other_names: Vec<OsString>,
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
        Self {
            program: program.into(),
            other_names: Vec::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: cwd.into(),
        }
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
            .field("other_names", &self.other_names)
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

/// How long a child is waited for, and how much it may say in one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest line of output, in bytes; a longer one is counted and thrown away.
    pub max_line_bytes: usize,
    /// From the closing event to SIGTERM: time to exit by itself.
    pub exit_grace: Duration,
    /// From SIGTERM to SIGKILL.
    pub term_grace: Duration,
    /// From the leader's exit to the end of its output, which a grandchild may hold open.
    pub drain: Duration,
}

impl Default for Limits {
    /// 8 MiB a line, which holds an image of the 5 MB that providers take at most; 2 s to exit, 10 s after SIGTERM, 2 s to drain.
    fn default() -> Self {
        Self {
            max_line_bytes: 8 * 1024 * 1024,
            exit_grace: Duration::from_secs(2),
            term_grace: Duration::from_secs(10),
            drain: Duration::from_secs(2),
        }
    }
}

/// Makes a write over the file size limit fail with `EFBIG` instead of killing fia by SIGXFSZ.
///
/// Children are not affected: a signal that is handled goes back to its default in them. Once is enough
/// for the whole process, within a tokio runtime.
///
/// # Errors
///
/// When the handler cannot be installed.
pub fn survive_file_size_limit() -> io::Result<()> {
    let signal = tokio::signal::unix::SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    // The handler stays when the listener is dropped.
    tokio::signal::unix::signal(signal).map(drop)
}
