//! What is in a folder, and where paths lie to one another.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::ops::Bound;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use super::TreeError;
use crate::event::RepoPath;

/// One name in a folder.
pub(crate) struct Named {
    pub(crate) name: Vec<u8>,
    pub(crate) is_folder: bool,
    pub(crate) entry: DirEntry,
}

/// The names in a folder, sorted, so that what a walk sees comes nearly in the order of paths; none when it vanished.
///
/// # Errors
///
/// When it cannot be read.
pub(crate) fn entries(dir: &Path) -> Result<Vec<Named>, TreeError> {
    let listed = match fs::read_dir(dir) {
        Ok(listed) => listed,
        Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(TreeError::io("read the folder", dir, source)),
    };
    let named = listed.map(|entry| {
        let entry = entry?;
        Ok(Named { name: entry.file_name().into_vec(), is_folder: entry.file_type()?.is_dir(), entry })
    });
    let named: Result<Vec<_>, _> = named.collect();
    let mut named = named.map_err(|source| TreeError::io("read the folder", dir, source))?;
    named.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(named)
}

/// A name in a folder; the top is the empty path.
pub(crate) fn join(folder: &RepoPath, name: &[u8]) -> RepoPath {
    let folder = folder.as_bytes();
    let mut bytes = Vec::with_capacity(folder.len() + 1 + name.len());
    if !folder.is_empty() {
        bytes.extend_from_slice(folder);
        bytes.push(b'/');
    }
    bytes.extend_from_slice(name);
    RepoPath::new(bytes)
}

/// The folders above a path, the nearest first, without the top.
pub(crate) fn ancestors(path: &RepoPath) -> impl Iterator<Item = RepoPath> {
    let bytes = path.as_bytes();
    let slashes = (0..bytes.len()).rev().filter(|place| bytes[*place] == b'/');
    slashes.map(|slash| RepoPath::new(&bytes[..slash]))
}

/// Whether a set of paths has one below a folder.
pub(crate) fn any_below(paths: &BTreeSet<RepoPath>, folder: &RepoPath) -> bool {
    let start = join(folder, b"");
    let next = paths.range((Bound::Excluded(&start), Bound::Unbounded)).next();
    next.is_some_and(|path| path.as_bytes().starts_with(start.as_bytes()))
}
