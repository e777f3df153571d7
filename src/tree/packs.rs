//! The packs of a run's store, held open.
//!
//! An agent may remove the data directory (`git clean -fdx` does), and with it the only copy of what it removed
//! from the work tree besides. A file that is held open keeps its bytes, so the store can be made whole again.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};

use super::TreeError;
use super::git::Git;
use super::objects::private_folder;

/// Packs above this many are made one: each holds a file open, and a process may have 256 on macOS.
const MOST: usize = 64;

/// Open packs by the name of their file.
#[derive(Debug, Default)]
pub(crate) struct Packs {
    held: BTreeMap<OsString, File>,
}

impl Packs {
    /// Takes in the packs that are new in the store, whose git is `git`.
    ///
    /// # Errors
    ///
    /// When one cannot be opened or git fails.
    pub(crate) fn take_in(&mut self, store: &Path, git: &Git) -> Result<(), TreeError> {
        self.open_new(store)?;
        if self.held.len() > MOST {
            // Nothing refers to the contents, so git must be told to keep what is unreachable.
            git.run(&["repack", "-a", "-d", "-k", "-q"])?;
            self.held.clear();
            self.open_new(store)?;
        }
        Ok(())
    }

    fn open_new(&mut self, store: &Path) -> Result<(), TreeError> {
        let folder = folder(store);
        let error = |source| TreeError::io("look for packs in", &folder, source);
        for entry in fs::read_dir(&folder).map_err(error)? {
            let entry = entry.map_err(error)?;
            let (name, path) = (entry.file_name(), entry.path());
            if path.extension().is_some_and(|extension| extension == "pack") && !self.held.contains_key(&name) {
                let pack = File::open(&path).map_err(|source| TreeError::io("open", path, source))?;
                self.held.insert(name, pack);
            }
        }
        Ok(())
    }

    /// The packs that the store has lost.
    fn lost(&self, store: &Path) -> impl Iterator<Item = (PathBuf, &File)> {
        let folder = folder(store);
        let places = self.held.iter().map(move |(name, pack)| (folder.join(name), pack));
        places.filter(|(place, _)| !place.is_file() || !place.with_extension("idx").is_file())
    }

    /// Whether the store has all of them.
    pub(crate) fn are_there(&self, store: &Path) -> bool {
        self.lost(store).next().is_none()
    }

    /// Writes the lost ones back.
    ///
    /// # Errors
    ///
    /// When one cannot be written or git fails.
    pub(crate) fn put_back(&self, store: &Path, git: &Git) -> Result<(), TreeError> {
        for (place, pack) in self.lost(store) {
            let error = |source| TreeError::io("put back", &place, source);
            copy(pack, &place).map_err(error)?;
            git.run(&["index-pack".as_ref(), place.as_os_str()])?;
        }
        Ok(())
    }
}

fn folder(store: &Path) -> PathBuf {
    store.join("objects/pack")
}

fn copy(mut pack: &File, place: &Path) -> io::Result<()> {
    let folder = place.parent().unwrap_or(Path::new("."));
    private_folder(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    pack.rewind()?;
    io::copy(&mut pack, new.as_file_mut())?;
    new.persist(place).map(drop).map_err(|failed| failed.error)
}
