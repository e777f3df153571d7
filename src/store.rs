//! Runs on disk: their directories, their logs and the lock of a work tree.
//!
//! `events.jsonl` is the truth of a run: append-only, one record a line, one writer. What was acknowledged
//! survives the death of fia at any moment, and no old byte ever changes. Everything else that fia writes
//! beside it is replaced whole by rename, so a reader sees the old content or the new one. Readers need no
//! lock. Directories are for the user alone (0700), and so are files (0600).
//!
//! The store refuses to append to a log of a newer format, to a log that changed behind its back, and to
//! one where an append has failed. It writes through no link: every file is opened for writing by `solid`.

pub mod atomic;
mod backward;
pub mod channel;
mod data_dir;
mod error;
mod journal;
mod kept;
mod lock;
mod read;
mod run_dir;
mod run_files;
mod session_lock;
mod shared_log;

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

pub use backward::offset_of_last;
pub use data_dir::{DataDir, FindError};
pub use error::StoreError;
pub use journal::{Guarded, Journal};
pub use kept::Kept;
pub use lock::{Holder, Lock, LockError, holder, ring};
pub use read::{Damage, DamageKind, Entry, LogEnd, LogReader, Sift, Tail};
pub use run_dir::{Leg, RunDir};
pub use run_files::set_aside;
pub use session_lock::SessionLock;
pub use shared_log::append_locked;

use crate::solid;

/// The mode of every file that fia writes for itself.
const FILE_MODE: u32 = 0o600;

/// Opens a file for appending and creates it if it is not there: for transcripts and other raw output.
///
/// # Errors
///
/// When it cannot be opened, for one because a link is in its place.
pub fn open_append(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(FILE_MODE);
    solid::open(&mut options, path).map_err(StoreError::io("open", path))
}

/// Creates a directory and what is missing above it.
///
/// # Errors
///
/// When it cannot be created, for one because a plain file is in the way, or it or a folder above it is a link.
pub fn create_dir(path: &Path) -> Result<(), StoreError> {
    solid::folders(path)
        .and_then(|()| DirBuilder::new().recursive(true).mode(0o700).create(path))
        .map_err(StoreError::io("create the directory", path))
}
