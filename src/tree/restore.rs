//! Putting contents back, by path, never through a link.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::TreeError;
use super::folder::ancestors;
use super::objects::ObjectStore;
use crate::event::{Content, FileKind, PathChange, RepoPath};

/// A path that could not be put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotRestored {
    /// The path.
    pub path: RepoPath,
    /// Why.
    pub reason: String,
}

/// Puts paths of a work tree back.
pub(crate) struct Restore<'a> {
    pub(crate) top: &'a Path,
    pub(crate) store: &'a ObjectStore,
    /// Folders to make, with their permission bits; others get the usual ones.
    pub(crate) folders: &'a BTreeMap<RepoPath, u32>,
    /// Where what stands in the way goes, if it is in no snapshot.
    pub(crate) aside: &'a Path,
}

/// What is left to do for a path.
enum Prepared {
    Done,
    NeedsContent,
}

impl Restore<'_> {
    /// Gives every path the content *before* its change: one git process however many paths. Returns what failed.
    ///
    /// # Errors
    ///
    /// When git fails; a single path that cannot be written is in the answer instead.
    pub(crate) fn put_back(&self, changes: &[PathChange]) -> Result<Vec<NotRestored>, TreeError> {
        let mut failed = Vec::new();
        let mut note = |path: &RepoPath, error: io::Error| {
            failed.push(NotRestored { path: path.clone(), reason: error.to_string() });
        };
        self.remove_all(changes.iter().filter(|change| change.before.is_none()), &mut note);
        let mut made = HashSet::new();
        let mut contents = Vec::new();
        for change in changes {
            let Some(before) = &change.before else { continue };
            match self.prepare(change, before, &mut made) {
                Ok(Prepared::Done) => {}
                Ok(Prepared::NeedsContent) => contents.push((&change.path, before)),
                Err(error) => note(&change.path, error),
            }
        }
        let ids: Vec<&str> = contents.iter().map(|(_, content)| content.id.as_str()).collect();
        self.store.read(&ids, |place, bytes| {
            let (path, content) = contents[place];
            let gone = || io::Error::other(format!("its content {} is gone", content.id));
            let written = bytes.ok_or_else(gone).and_then(|bytes| self.write(&path.below(self.top), content, bytes));
            written.unwrap_or_else(|error| note(path, error));
            Ok(())
        })?;
        Ok(failed)
    }

    /// Removes what was made, and the new folders that this leaves empty.
    fn remove_all<'c>(&self, made: impl Iterator<Item = &'c PathChange>, note: &mut impl FnMut(&RepoPath, io::Error)) {
        let mut emptied = BTreeSet::new();
        for PathChange { path, .. } in made {
            self.remove(path).unwrap_or_else(|error| note(path, error));
            emptied.extend(ancestors(path).filter(|folder| !self.folders.contains_key(folder)));
        }
        // The deepest come last in the order of paths.
        for folder in emptied.iter().rev().filter(|folder| self.is_reachable(folder)) {
            let _stays_if_not_empty = fs::remove_dir(folder.below(self.top));
        }
    }

    /// Makes way for a content, and gives back the permission bits where nothing else changed.
    fn prepare(&self, change: &PathChange, before: &Content, made: &mut HashSet<RepoPath>) -> io::Result<Prepared> {
        self.make_way(&change.path, made)?;
        let same_bytes = change.after.as_ref().is_some_and(|now| now.kind == before.kind && now.id == before.id);
        match before.kind {
            FileKind::Special => Err(io::Error::other("it is no file, and cannot be made again")),
            FileKind::File if same_bytes => {
                fs::set_permissions(change.path.below(self.top), Permissions::from_mode(before.mode))?;
                Ok(Prepared::Done)
            }
            FileKind::File | FileKind::Symlink => Ok(Prepared::NeedsContent),
        }
    }

    /// Removes a file or link, never a folder.
    fn remove(&self, path: &RepoPath) -> io::Result<()> {
        let file = path.below(self.top);
        if !self.is_reachable(path) || fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_dir()) {
            return Ok(());
        }
        match fs::remove_file(file) {
            Err(gone) if gone.kind() == ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Whether every folder above a path is a real one.
    fn is_reachable(&self, path: &RepoPath) -> bool {
        ancestors(path).all(|folder| fs::symlink_metadata(folder.below(self.top)).is_ok_and(|meta| meta.is_dir()))
    }

    /// Makes the folders above a path, and moves away what stands in their place or, as a folder, in the path's.
    fn make_way(&self, path: &RepoPath, made: &mut HashSet<RepoPath>) -> io::Result<()> {
        let mut above: Vec<RepoPath> = ancestors(path).take_while(|folder| !made.contains(folder)).collect();
        above.reverse();
        for folder in above {
            let place = folder.below(self.top);
            if !fs::symlink_metadata(&place).is_ok_and(|meta| meta.is_dir()) {
                self.move_away(&place)?;
                let bits = self.folders.get(&folder).copied();
                fs::DirBuilder::new().mode(bits.unwrap_or(0o777)).create(&place)?;
                if let Some(bits) = bits {
                    // The umask has no say about a folder that was there.
                    fs::set_permissions(&place, Permissions::from_mode(bits))?;
                }
            }
            made.insert(folder);
        }
        let place = path.below(self.top);
        if fs::symlink_metadata(&place).is_ok_and(|meta| meta.is_dir()) { self.move_away(&place) } else { Ok(()) }
    }

    /// Moves what is not in any snapshot out of the way; it is kept.
    fn move_away(&self, place: &Path) -> io::Result<()> {
        if fs::symlink_metadata(place).is_err() {
            return Ok(());
        }
        super::objects::private_folder(self.aside)?;
        let kept = tempfile::tempdir_in(self.aside)?.keep();
        fs::rename(place, kept.join(place.file_name().unwrap_or_default()))
    }

    /// Writes a file or link elsewhere and renames it to its place, so that a link is replaced and never followed, and
    /// a fia that dies leaves nothing in the work tree that is nobody's.
    fn write(&self, place: &Path, content: &Content, bytes: &mut dyn Read) -> io::Result<()> {
        let beside = place.parent().map_or_else(PathBuf::new, Path::to_owned);
        super::objects::private_folder(self.aside)?;
        if content.kind == FileKind::Symlink {
            let mut target = Vec::new();
            bytes.read_to_end(&mut target)?;
            let link = |folder: &Path| {
                tempfile::Builder::new().make_in(folder, |name| symlink(OsStr::from_bytes(&target), name))
            };
            return match link(self.aside)?.persist(place) {
                Err(failed) if failed.error.kind() == ErrorKind::CrossesDevices => link(&beside)?.persist(place),
                persisted => persisted,
            }
            .map(drop)
            .map_err(|failed| failed.error);
        }
        let mut new = tempfile::NamedTempFile::new_in(self.aside)?;
        io::copy(bytes, new.as_file_mut())?;
        new.as_file().set_permissions(Permissions::from_mode(content.mode))?;
        crate::fault::point("restore: before");
        match new.persist(place) {
            // The data directory is on another file system.
            Err(failed) if failed.error.kind() == ErrorKind::CrossesDevices => {
                let near = tempfile::NamedTempFile::new_in(&beside)?;
                fs::copy(failed.file.path(), near.path())?;
                near.persist(place).map(drop).map_err(|failed| failed.error)
            }
            persisted => persisted.map(drop).map_err(|failed| failed.error),
        }
    }
}
