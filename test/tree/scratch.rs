//! A repository in a temporary folder, and what stands in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use fia::event::{PathChange, RepoPath};
use fia::ids::RunId;
use fia::tree::{Guard, LegEnd, Repository, Tree, TreeOptions};
use tempfile::TempDir;

/// A temporary folder with a repository in it.
pub(crate) struct Scratch {
    folder: TempDir,
}

/// What a path holds, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Held {
    File { mode: u32, bytes: Vec<u8> },
    Link { target: PathBuf },
    Special,
}

impl Scratch {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    /// A repository with the given files committed.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let scratch = Self::empty();
        scratch.sh("git init -q -b main . && git config user.email a@example.invalid && git config user.name a \
             && git config commit.gpgsign false && git config core.excludesFile /dev/null");
        for (path, text) in files {
            scratch.write(path, text);
        }
        scratch.sh("git add -A && git commit -q --allow-empty -m base");
        scratch
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a shell script in the folder; it must succeed.
    pub(crate) fn sh(&self, script: &str) -> String {
        sh(self.path(), script)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let file = self.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path().join(path)).ok()
    }

    /// The tree of a run here.
    pub(crate) fn tree(&self) -> Tree {
        open(self.path(), &[])
    }

    /// One leg: `script` is what the agent does.
    pub(crate) fn leg(&self, tree: &mut Tree, guard: &Guard, script: &str) -> LegEnd {
        let start = tree.begin().unwrap();
        self.sh(script);
        tree.end(&start, guard).unwrap()
    }
}

pub(crate) fn sh(dir: &Path, script: &str) -> String {
    let output = Command::new("sh").arg("-ec").arg(script).current_dir(dir).output().unwrap();
    assert!(
        output.status.success(),
        "{script}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Opens the tree of a run in `dir`; its data directory is `.fia` at the top.
pub(crate) fn open(dir: &Path, protected: &[&str]) -> Tree {
    let repository = Repository::discover(dir).unwrap();
    let data_dir = repository.top.join(".fia");
    let protected: Vec<String> = protected.iter().map(|text| (*text).to_owned()).collect();
    fs::create_dir_all(&data_dir).unwrap();
    fs::write(data_dir.join(".gitignore"), "*\n").unwrap();
    let options = TreeOptions {
        run: &RunId::new("20261130-142210-k3f9"),
        data_dir: &data_dir,
        store: &data_dir.join("runs/20261130-142210-k3f9/objects"),
        stat_cache: &data_dir.join("stat_cache"),
        protected: &protected,
        judge_files: &[],
    };
    Tree::open(repository, &options).unwrap()
}

/// The rules for an agent that may write there.
pub(crate) fn may_write(writes: &[&str]) -> Guard {
    let writes: Vec<String> = writes.iter().map(|text| (*text).to_owned()).collect();
    Guard::new(Some(&writes), &[], &[], &[]).unwrap()
}

pub(crate) fn names(changes: &[PathChange]) -> Vec<String> {
    changes.iter().map(|change| String::from_utf8_lossy(change.path.as_bytes()).into_owned()).collect()
}

/// Everything below a folder except `.git` and `.fia`, and the folders in it.
pub(crate) fn listing(top: &Path) -> (BTreeMap<RepoPath, Held>, BTreeSet<RepoPath>) {
    let (mut files, mut folders) = (BTreeMap::new(), BTreeSet::new());
    list(top, &mut Vec::new(), &mut files, &mut folders);
    (files, folders)
}

fn list(dir: &Path, prefix: &mut Vec<u8>, files: &mut BTreeMap<RepoPath, Held>, folders: &mut BTreeSet<RepoPath>) {
    use std::os::unix::ffi::OsStrExt as _;
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name == ".git" || name == ".fia" {
            continue;
        }
        let length = prefix.len();
        prefix.extend_from_slice(name.as_bytes());
        let path = RepoPath::new(prefix.clone());
        let meta = entry.metadata().unwrap();
        if meta.is_dir() {
            prefix.push(b'/');
            list(&entry.path(), prefix, files, folders);
            folders.insert(path);
        } else if meta.is_symlink() {
            files.insert(path, Held::Link { target: fs::read_link(entry.path()).unwrap() });
        } else if meta.is_file() {
            let bytes = fs::read(entry.path()).unwrap();
            files.insert(path, Held::File { mode: meta.permissions().mode() & 0o7777, bytes });
        } else {
            assert_ne!(meta.mode(), 0);
            files.insert(path, Held::Special);
        }
        prefix.truncate(length);
    }
}

/// The listing that a rollback has to leave: of the allowed paths what the agent left, of the others what was.
pub(crate) fn expected(
    before: &BTreeMap<RepoPath, Held>,
    after: &BTreeMap<RepoPath, Held>,
    allowed: impl Fn(&RepoPath) -> bool,
) -> BTreeMap<RepoPath, Held> {
    let old = before.iter().filter(|(path, _)| !allowed(path));
    let new = after.iter().filter(|(path, _)| allowed(path));
    old.chain(new).map(|(path, held)| (path.clone(), held.clone())).collect()
}
