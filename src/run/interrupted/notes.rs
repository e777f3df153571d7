//! What stood in the tree and in git before a leg, as it is written down: what differs from the leg before.
//!
//! `before_legs.jsonl` only grows, by as much as changed; `before_leg.json` is small, replaced whole, and says which
//! bytes of it count. So a kill at any moment leaves the leg before or this one, and a large tree costs no more than
//! what happens to it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};

use crate::event::{Content, RepoPath};
use crate::store::{RunDir, StoreError};
use crate::tree::{self, GitRecord, GitState, LegStart, Snapshot, Tree};

const FILE: &str = "before_legs.jsonl";

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Note {
    /// Every file of the tree.
    Tree(Vec<(RepoPath, Content)>),
    /// Paths that hold something else than before, or nothing.
    Changed(Vec<(RepoPath, Option<Content>)>),
    /// All of git's state.
    Git(GitRecord),
}

/// Which part of a leg's start is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The files alone.
    Tree,
    /// The files, and git's state.
    TreeAndGit,
}

/// Writes them down, and knows what was written last.
#[derive(Debug, Default)]
pub(in crate::run) struct Notes {
    last: Option<Last>,
}

#[derive(Debug)]
struct Last {
    snapshot: Snapshot,
    git: Option<GitState>,
    /// The bytes that count, from the line with every file.
    part: Range<u64>,
    stamp: Stamp,
}

impl Notes {
    /// Writes down how a leg starts; the bytes that say so. They are on the disk then.
    ///
    /// # Errors
    ///
    /// When the file cannot be written; the next call begins anew.
    pub(super) fn write(
        &mut self,
        dir: &RunDir,
        tree: &Tree,
        start: &LegStart,
        scope: Scope,
    ) -> Result<Range<u64>, StoreError> {
        let path = dir.path().join(FILE);
        // Another writer has been there: what it left does not count.
        let known = self.last.take().filter(|last| Stamp::at(&path) == Some(last.stamp));
        let mut notes = Vec::new();
        match &known {
            None => notes.push(Note::Tree(start.snapshot.files().clone().into_iter().collect())),
            Some(last) => {
                let changes = tree::compare(&last.snapshot, &start.snapshot);
                if !changes.is_empty() {
                    notes.push(Note::Changed(changes.into_iter().map(|change| (change.path, change.after)).collect()));
                }
            }
        }
        let from = known.as_ref().map(|last| last.part.start);
        let mut git = known.and_then(|last| last.git);
        if scope == Scope::TreeAndGit && git.as_ref() != Some(&start.git) {
            notes.push(Note::Git(tree.record_git(&start.git)));
            git = Some(start.git.clone());
        }
        let mut file = dir.open_append(Path::new(FILE))?;
        let end = file.seek(SeekFrom::End(0)).map_err(StoreError::io("open", &path))?;
        let written = append(&mut file, &notes).map_err(StoreError::io("append to", &path))?;
        let part = from.unwrap_or(end)..end + written;
        let stamp = Stamp::of(&file.metadata().map_err(StoreError::io("examine", &path))?);
        self.last = Some(Last { snapshot: start.snapshot.clone(), git, part: part.clone(), stamp });
        Ok(part)
    }
}

/// Appends lines and has them synced; how many bytes.
fn append(file: &mut File, notes: &[Note]) -> std::io::Result<u64> {
    if notes.is_empty() {
        return Ok(0);
    }
    let mut lines = Vec::new();
    for note in notes {
        serde_json::to_writer(&mut lines, note)?;
        lines.push(b'\n');
    }
    crate::fault::point("note: before");
    file.write_all(&lines)?;
    crate::fault::point("note: after");
    file.sync_data()?;
    Ok(lines.len() as u64)
}

/// How a leg started.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub(super) files: BTreeMap<RepoPath, Content>,
    pub(super) git: Option<GitRecord>,
}

/// Reads what some bytes say.
///
/// # Errors
///
/// When they are not there, or are not what was written.
pub(super) fn read(dir: &RunDir, part: Range<u64>) -> Result<Noted, StoreError> {
    let path = dir.path().join(FILE);
    let bytes = bytes(&path, &part).map_err(StoreError::io("read", &path))?;
    let damaged = |source| StoreError::Damaged { path: path.clone(), source };
    if bytes.len() as u64 != part.end.saturating_sub(part.start) {
        return Err(damaged(serde_json::Error::custom("the file is shorter than it was")));
    }
    let mut noted = Noted::default();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line).map_err(damaged)? {
            Note::Tree(files) => noted.files = files.into_iter().collect(),
            Note::Changed(files) => {
                for (path, content) in files {
                    match content {
                        Some(content) => noted.files.insert(path, content),
                        None => noted.files.remove(&path),
                    };
                }
            }
            Note::Git(git) => noted.git = Some(git),
        }
    }
    Ok(noted)
}

fn bytes(path: &Path, part: &Range<u64>) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(part.start))?;
    let mut bytes = Vec::new();
    file.take(part.end.saturating_sub(part.start)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What tells that nobody else has written to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(meta: &fs::Metadata) -> Self {
        Self { device: meta.dev(), inode: meta.ino(), bytes: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()) }
    }

    fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|meta| Self::of(&meta))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use pretty_assertions::assert_eq;
    use tempfile::TempDir;

    use super::*;
    use crate::ids::RunId;
    use crate::tree::{Repository, TreeOptions};

    struct Scene {
        top: TempDir,
        dir: RunDir,
        tree: Tree,
        notes: Notes,
    }

    impl Scene {
        fn new() -> Self {
            let top = tempfile::tempdir().unwrap();
            let init = ["init", "--quiet", "-b", "main", "."];
            assert!(Command::new("git").args(init).current_dir(top.path()).status().unwrap().success());
            let data = top.path().join(".fia");
            fs::create_dir(&data).unwrap();
            let dir = RunDir::new(RunId::new("r"), &data);
            let options = TreeOptions {
                run: dir.run(),
                data_dir: &data,
                store: &data.join("objects"),
                stat_cache: &data.join("stat_cache"),
                protected: &[],
                judge_files: &[],
            };
            let tree = Tree::open(Repository::discover(top.path()).unwrap(), &options).unwrap();
            let scene = Self { top, dir, tree, notes: Notes::default() };
            scene.put("kept", Some("1"));
            scene.put("edited", Some("1"));
            scene
        }

        /// Writes a file, or removes it.
        fn put(&self, name: &str, content: Option<&str>) {
            let path = self.top.path().join(name);
            match content {
                Some(content) => fs::write(path, content).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
        }

        /// Begins a leg; what a reader makes of its notes is what stands in the tree.
        fn leg(&mut self) -> Range<u64> {
            let start = self.tree.begin().unwrap();
            let part = self.notes.write(&self.dir, &self.tree, &start, Scope::TreeAndGit).unwrap();
            let noted = read(&self.dir, part.clone()).unwrap();
            assert_eq!(&noted.files, start.snapshot.files());
            assert_eq!(noted.git, Some(self.tree.record_git(&start.git)));
            part
        }
    }

    #[test]
    fn a_leg_is_written_down_as_what_differs_from_the_one_before() {
        let mut scene = Scene::new();
        let first = scene.leg();
        assert_eq!(scene.leg(), first, "nothing changed, so nothing is written");
        scene.put("edited", Some("2"));
        scene.put("made", Some("3"));
        let second = scene.leg();
        assert_eq!(second.start, first.start);
        let bytes = fs::read_to_string(scene.dir.path().join(FILE)).unwrap();
        let added = &bytes[usize::try_from(first.end).unwrap()..];
        assert!(added.contains("edited") && added.contains("made") && !added.contains("kept"), "{added}");
        scene.put("kept", None);
        scene.put(".git/config", Some("[core]\n\tbare = false\n"));
        let third = scene.leg();
        for part in [first, second, third] {
            read(&scene.dir, part).unwrap();
        }
    }

    #[test]
    fn another_stretch_begins_anew_and_what_was_written_before_stays_readable() {
        let mut scene = Scene::new();
        let first = scene.leg();
        let before = read(&scene.dir, first.clone()).unwrap().files;
        scene.notes = Notes::default();
        scene.put("made", Some("3"));
        let second = scene.leg();
        assert_eq!(second.start, first.end);
        assert_eq!(read(&scene.dir, first).unwrap().files, before);
    }

    #[test]
    fn notes_that_somebody_changed_are_written_anew_or_named() {
        let mut scene = Scene::new();
        let first = scene.leg();
        let file = scene.dir.path().join(FILE);
        let cut = fs::read(&file).unwrap();
        fs::write(&file, &cut[..cut.len() - 5]).unwrap();
        assert!(matches!(read(&scene.dir, first.clone()), Err(StoreError::Damaged { .. })));
        let second = scene.leg();
        assert_eq!(second.start, first.end - 5);
        fs::remove_file(&file).unwrap();
        assert!(matches!(read(&scene.dir, second), Err(StoreError::Io { .. })));
        assert_eq!(scene.leg().start, 0);
    }
}
