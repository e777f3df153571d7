//! The one place where errors become text.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use chrono::Utc;

use crate::config::ConfigError;
use crate::host::{Mark, host_name};
use crate::run::{RunError, StartError};
use crate::store::{FindError, Holder, LockError, StoreError};
use crate::tree::TreeError;
use crate::view::human::handle;
use crate::view::numbers::span;
use crate::visible;

/// An error that ends a command.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// What was asked for cannot be done as asked.
    #[error("{message}")]
    Usage {
        message: String,
        hint: Option<String>,
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// Another run works here.
    #[error("another run holds this work tree: {}", held_by(.0))]
    Held(Box<Holder>),
    /// The configuration or a workflow.
    #[error("{0}")]
    Config(ConfigError),
    /// fia or the machine failed.
    #[error("{message}")]
    Machine {
        message: String,
        hint: Option<String>,
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// Standard output could not be written.
    #[error("cannot write to standard output")]
    Output(#[from] io::Error),
}

impl CliError {
    pub(super) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: Some(hint.into()), source: None }
    }

    pub(super) fn machine(message: impl Into<String>, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Machine { message: message.into(), hint: None, source: Some(Box::new(source)) }
    }

    /// Whether whoever read standard output went away: a quiet end.
    pub(super) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    pub(super) fn status(&self) -> ExitCode {
        match self {
            Self::Usage { .. } | Self::Held(_) | Self::Config(_) => ExitCode::from(2),
            Self::Machine { .. } | Self::Output(_) => ExitCode::from(3),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Usage { hint, .. } | Self::Machine { hint, .. } => hint.clone(),
            Self::Held(holder) => {
                let id = handle(&holder.run);
                Some(format!("fia watch {id}    fia stop {id}    or run beside it with --worktree"))
            }
            Self::Config(error) => Some(error.hint().to_owned()),
            Self::Output(_) => None,
        }
    }
}

/// Writes an error with its causes and what to do about it.
pub(super) fn render(error: &CliError, out: &mut dyn Write) {
    let mut text = format!("error: {error}\n");
    let mut cause = error.source();
    while let Some(inner) = cause {
        text += &format!("caused by: {inner}\n");
        cause = inner.source();
    }
    if let Some(hint) = error.hint() {
        text += &format!("\nhint: {hint}\n");
    }
    // Nothing can be told when standard error is gone.
    let _gone = out.write_all(visible::block(&text).as_bytes());
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Self::Machine { hint: Some(error.hint()), message: error.to_string(), source: error.source().map(boxed) }
    }
}

impl From<TreeError> for CliError {
    fn from(error: TreeError) -> Self {
        let hint = error.hint().map(str::to_owned);
        let (message, source) = (error.to_string(), error.source().map(boxed));
        match error {
            TreeError::NotARepository { .. }
            | TreeError::NoWorkTree { .. }
            | TreeError::NoIdentity
            | TreeError::Unfinished { .. }
            | TreeError::Pattern(_) => Self::Usage { message, hint, source },
            TreeError::NoGit { .. }
            | TreeError::Git { .. }
            | TreeError::Io { .. }
            | TreeError::Rules { .. }
            | TreeError::IndexLocked { .. } => Self::Machine { message, hint, source },
        }
    }
}

impl From<FindError> for CliError {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Store(error) => error.into(),
            FindError::Unknown(_) | FindError::Ambiguous { .. } => {
                Self::usage(error.to_string(), "`fia runs` lists the runs of this repository")
            }
        }
    }
}

impl From<LockError> for CliError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Store(error) => error.into(),
            LockError::Held { holder: Some(holder), .. } => Self::Held(holder),
            LockError::Held { holder: None, .. } | LockError::Session { .. } => {
                Self::usage(error.to_string(), error.hint())
            }
        }
    }
}

impl From<RunError> for CliError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(error) => error.into(),
            RunError::Session(error) => error.into(),
            RunError::Tree(error) => error.into(),
            RunError::Condition(_)
            | RunError::Schema(_)
            | RunError::Prompt { .. }
            | RunError::Archive { .. }
            | RunError::Log { .. }
            | RunError::File { .. } => {
                Self::Machine { message: error.to_string(), hint: None, source: error.source().map(boxed) }
            }
        }
    }
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Lock(error) => error.into(),
            StartError::Store(error) => error.into(),
            StartError::Tree(error) => error.into(),
            StartError::Run(error) => error.into(),
            StartError::WorktreeGone { ref path, .. } if path.is_relative() => {
                let hint = "`git worktree list` says where it was: bring it back there, or start anew";
                Self::usage(error.to_string(), hint)
            }
            StartError::WorktreeGone { ref run, ref path } => {
                // Git still knows a work tree that was removed by hand.
                let hint =
                    format!("`git worktree add -f {} fia/{run}` brings back what was committed", shell_word(path));
                Self::usage(error.to_string(), hint)
            }
            StartError::Taken { .. } => Self::usage(error.to_string(), "choose another id, or leave `--run` out"),
            StartError::Refused { ref run, ref workflow, refusal } => {
                Self::usage(error.to_string(), refusal.hint(handle(run), workflow))
            }
            StartError::Lost { ref run } => {
                let hint =
                    format!("put the whole log back, or start anew; `fia undo {run}` shows what the log still has");
                Self::Machine { message: error.to_string(), hint: Some(hint), source: None }
            }
            StartError::Verdict { ref run, .. } => Self::Usage {
                message: error.to_string(),
                hint: Some(format!("`fia verdict clear {run}`, then `fia verdict set {run} --missing \"…\"`")),
                source: error.source().map(boxed),
            },
            StartError::Log { .. } | StartError::NoPlan { .. } | StartError::Identity(_) | StartError::Random => {
                Self::Machine { message: error.to_string(), hint: None, source: error.source().map(boxed) }
            }
        }
    }
}

/// A path as one word of a command line.
pub(super) fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+,:@%".contains(letter);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The run, its process and for how long; the clock of another machine tells nothing.
fn held_by(holder: &Holder) -> String {
    let Mark { host, pid, .. } = &holder.mark;
    let run = &holder.run;
    if *host != host_name() {
        return format!("{run} (process {pid} on {host})");
    }
    let age = Utc::now().signed_duration_since(holder.since).num_milliseconds();
    format!("{run} (pid {pid}, {})", span(u64::try_from(age).unwrap_or(0)))
}

/// A cause as text with its own causes: the error types are not all cloneable.
fn boxed(source: &(dyn Error + 'static)) -> Box<dyn Error + Send + Sync> {
    let mut text = source.to_string();
    let mut cause = source.source();
    while let Some(inner) = cause {
        text += &format!(": {inner}");
        cause = inner.source();
    }
    text.into()
}
