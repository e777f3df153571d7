//! What can go wrong with files of runs.

use std::io;
use std::path::{Path, PathBuf};

use crate::solid::InTheWay;

/// Why something could not be read from the store or written to it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("cannot {action} `{path}`")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A projection holds something else than expected.
    #[error("`{path}` is damaged")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A newer fia wrote to the log; it is read, never appended to.
    #[error("`{path}` is of log format {format}, written by fia {fia_version}, and this fia writes format {known}")]
    NewerFormat {
        /// The log.
        path: PathBuf,
        /// Its format.
        format: u32,
        /// The newest format that this fia knows.
        known: u32,
        /// Which fia wrote it.
        fia_version: String,
    },
    /// The log is not as it was when it was read.
    #[error("`{path}` changed since it was read: {read} bytes then, {now} now")]
    Changed {
        /// The log.
        path: PathBuf,
        /// Its length then, in bytes.
        read: u64,
        /// Its length now, in bytes.
        now: u64,
    },
    /// An earlier append failed, so that the log may end in half a record.
    #[error("an earlier append to `{path}` failed")]
    Broken {
        /// The log.
        path: PathBuf,
    },
}

impl StoreError {
    /// Wraps what the system said about a path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// What the reader can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Io { path, source, .. } => hint(path, source),
            Self::Damaged { path, .. } => format!("remove `{}`: the event log has what matters", path.display()),
            Self::NewerFormat { fia_version, .. } => format!("go on with fia {fia_version} or later"),
            Self::Changed { .. } => "end what else writes to the run, then try again".to_owned(),
            Self::Broken { .. } => "remove the cause of the first error, then `fia resume`".to_owned(),
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the kinds of the standard library have no end")]
fn hint(path: &Path, source: &io::Error) -> String {
    use io::ErrorKind as Kind;
    if let Some(obstacle) = InTheWay::of(source) {
        return obstacle.hint();
    }
    match source.kind() {
        Kind::StorageFull | Kind::QuotaExceeded => again("free some space"),
        Kind::FileTooLarge => again("raise the file size limit (ulimit -f)"),
        Kind::ReadOnlyFilesystem => "set `data_dir` to a place that can be written to".to_owned(),
        Kind::PermissionDenied => format!("give yourself access to `{}`", path.display()),
        Kind::NotADirectory | Kind::AlreadyExists => {
            format!("a plain file is in the way of `{}`: move it, or set `data_dir` elsewhere", path.display())
        }
        Kind::NotFound => format!("look whether `{}` was moved or removed", path.display()),
        _ => format!("look at `{}`, then try again", path.display()),
    }
}

/// What to do after something was mended; whether a run had begun is not known here.
fn again(mend: &str) -> String {
    format!("{mend}, then try again; a run that had begun goes on with `fia resume`")
}
