//! Our own walk over a work tree: every file by lstat, nested repositories entered, no `.git` and not the data
//! directory, nor the files that fia's own output goes to.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::LazyLock;

use super::TreeError;
use super::folder::{entries, join};
use super::ignore::{Entry, IgnoreRules};
use super::pattern::Pattern;
use crate::event::RepoPath;

/// More threads than this find no more of a file system's time.
const MAX_THREADS: usize = 4;

/// How many a walk uses. The system reads a handful of files to tell.
static THREADS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS));

/// Folders that are not worth a thread.
const MIN_SHARE: usize = 16;

/// What decides which paths a walk sees.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) top: &'a Path,
    pub(crate) ignore: &'a IgnoreRules,
    /// Patterns that bring ignored paths back into the guard.
    pub(crate) named: &'a [Pattern],
    /// The data directory, when it is in the work tree.
    pub(crate) skip: Option<&'a RepoPath>,
    /// Where fia's own output goes.
    pub(crate) output: &'a Output,
}

/// The files that the standard output and error of this process go to: fia writes to them while an agent works.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// By device and inode.
    files: Vec<(u64, u64)>,
}

impl Output {
    /// Those of this process.
    pub(crate) fn of_this_process() -> Self {
        let streams = [io::stdout().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()];
        let files = streams.into_iter().flatten().filter_map(|stream| fs::File::from(stream).metadata().ok());
        Self { files: files.filter(Metadata::is_file).map(|meta| (meta.dev(), meta.ino())).collect() }
    }

    fn has(&self, meta: &Metadata) -> bool {
        self.files.contains(&(meta.dev(), meta.ino()))
    }
}

/// What a walk saw, in no order.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Everything that is no folder.
    pub(crate) leaves: Vec<(RepoPath, Metadata)>,
    /// Folders and their permission bits.
    pub(crate) folders: BTreeMap<RepoPath, u32>,
}

/// Where the walk is: outside every ignored folder, or in one, with the patterns that name it.
#[derive(Clone)]
enum Place<'a> {
    Open,
    Ignored(Vec<&'a Pattern>),
}

impl<'a> Walk<'a> {
    /// Walks the tree, one level after another, the folders of a level shared out among threads: nearly all of the
    /// time is lstat.
    ///
    /// # Errors
    ///
    /// When a folder cannot be read or a path not examined; one that vanishes meanwhile counts as absent.
    pub(crate) fn run(&self) -> Result<Seen, TreeError> {
        let mut seen = Seen::default();
        let mut level = vec![(RepoPath::new(""), Place::Open)];
        while !level.is_empty() {
            let share = level.len().div_ceil(*THREADS).max(MIN_SHARE);
            let parts: Vec<_> = if level.len() <= share {
                vec![self.folders(&level)]
            } else {
                std::thread::scope(|scope| {
                    let parts = level.chunks(share).map(|share| scope.spawn(|| self.folders(share)));
                    let running: Vec<_> = parts.collect();
                    running.into_iter().map(|part| part.join().expect("a walk does not panic")).collect()
                })
            };
            level = Vec::new();
            for part in parts {
                let (found, below) = part?;
                seen.leaves.extend(found.leaves);
                seen.folders.extend(found.folders);
                level.extend(below);
            }
        }
        Ok(seen)
    }

    /// Looks at what is in some folders; also returns the folders to look into next.
    fn folders(&self, folders: &[(RepoPath, Place<'a>)]) -> Result<(Seen, Vec<(RepoPath, Place<'a>)>), TreeError> {
        let (mut seen, mut below) = (Seen::default(), Vec::new());
        for (folder, place) in folders {
            for entry in entries(&folder.below(self.top))? {
                let path = join(folder, &entry.name);
                if entry.name == b".git" || self.skip == Some(&path) {
                    continue;
                }
                let inside = if entry.is_folder { self.inside(&path, place) } else { None };
                if inside.is_none() && (entry.is_folder || !self.shows(&path, place)) {
                    continue;
                }
                let meta = match entry.entry.metadata() {
                    Ok(meta) => meta,
                    Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => continue,
                    Err(source) => return Err(TreeError::io("examine", path.below(self.top), source)),
                };
                match inside {
                    Some(inside) if meta.is_dir() => {
                        seen.folders.insert(path.clone(), meta.mode() & 0o7777);
                        below.push((path, inside));
                    }
                    _ if self.output.has(&meta) => {}
                    _ => seen.leaves.push((path, meta)),
                }
            }
        }
        Ok((seen, below))
    }

    /// Whether a file or link is in the guard.
    fn shows(&self, path: &RepoPath, place: &Place<'a>) -> bool {
        match place {
            Place::Open => {
                !self.ignore.ignores(path, Entry::Leaf)
                    || self.named.iter().any(|pattern| pattern.matches(path.as_bytes()))
            }
            Place::Ignored(named) => {
                self.ignore.tracks(path) || named.iter().any(|pattern| pattern.matches(path.as_bytes()))
            }
        }
    }

    /// How a folder is entered; `None` when nothing in it is in the guard.
    fn inside(&self, folder: &RepoPath, place: &Place<'a>) -> Option<Place<'a>> {
        let named: Vec<&Pattern> = match place {
            Place::Open if !self.ignore.ignores(folder, Entry::Folder) => return Some(Place::Open),
            Place::Open => self.named.iter().filter(|pattern| pattern.names_folder(folder.as_bytes())).collect(),
            Place::Ignored(named) => {
                named.iter().copied().filter(|pattern| pattern.reaches_below(folder.as_bytes())).collect()
            }
        };
        (!named.is_empty() || self.ignore.tracks_below(folder)).then_some(Place::Ignored(named))
    }
}
