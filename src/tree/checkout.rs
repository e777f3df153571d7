//! HEAD and the local refs, as git names them: asked of git, and asked again only when a file that git reads for the
//! answer has changed.
//!
//! Git's formats are git's own business, so nothing here reads them. The bytes of the files are kept beside the
//! answer: while each of them is the same, the answer is. Where that cannot be said of all files, for example behind
//! a link, or where they are many, git is asked every time.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::proof::{Found, Proof};
use super::{Head, Repository, TreeError};

/// Loose refs that are compared at most. Git itself reads each of them too, but one process is cheaper than more.
const MOST_LOOSE: usize = 256;

/// What is checked out, and where the local refs stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkout {
    pub(crate) head: Head,
    /// Local branches, tags and the newest stash, by full name. Refs that are names of other refs are left out.
    pub(crate) refs: BTreeMap<String, String>,
}

/// The last answer with the files that it came from.
#[derive(Debug, Default)]
pub(crate) struct Checkouts {
    last: Option<(Sources, Arc<Checkout>)>,
    proof: Proof,
}

impl Checkouts {
    /// What is checked out now.
    ///
    /// # Errors
    ///
    /// When git fails.
    pub(crate) fn now(&mut self, repository: &Repository) -> Result<Arc<Checkout>, TreeError> {
        // Read before git is asked: a change between the two makes them differ the next time.
        let sources = Sources::read(repository);
        if let (Some(now), Some((then, known))) = (&sources, &self.last)
            && now == then
        {
            return Ok(Arc::clone(known));
        }
        self.last = None;
        let answer = Arc::new(ask(repository)?);
        if let Some(sources) = sources.filter(|sources| sources.decide(&answer.head)) {
            self.last = Some((sources, Arc::clone(&answer)));
        }
        Ok(answer)
    }

    /// Looks whether the repository is the one in which this was checked out.
    ///
    /// # Errors
    ///
    /// When git cannot be started.
    pub(super) fn find(&mut self, repository: &Repository, head: &Head) -> Result<Found, TreeError> {
        self.proof.find(repository, head.commit())
    }
}

/// Asks git: one process on a branch with a commit, three else.
fn ask(repository: &Repository) -> Result<Checkout, TreeError> {
    let format = "--format=%(HEAD)%(objectname) %(symref) %(refname)";
    let listed = repository.git().run(&["for-each-ref", format, "refs/heads", "refs/tags", "refs/stash"])?;
    let (mut head, mut refs) = (None, BTreeMap::new());
    for line in String::from_utf8_lossy(&listed).lines() {
        // Two spaces: there is no symbolic name between them.
        let Some((id, name)) = line.split_once("  ").filter(|(id, _)| !id.is_empty()) else { continue };
        let (mark, id) = id.split_at(1);
        if mark == "*" {
            head = Some(Head::Branch { name: name.to_owned(), commit: id.to_owned() });
        }
        refs.insert(name.to_owned(), id.to_owned());
    }
    let head = head.map_or_else(|| repository.head(), Ok)?;
    Ok(Checkout { head, refs })
}

/// The bytes of every file from which git answers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sources {
    head: Vec<u8>,
    files: BTreeMap<PathBuf, Vec<u8>>,
    store: Store,
}

/// How a repository keeps its refs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Store {
    /// A file each, and one for those that are packed.
    #[default]
    Files,
    /// In tables, all of them, HEAD too.
    Tables,
}

impl Sources {
    /// Reads them; `None` when they are many, are reached through a link, or cannot be read now.
    fn read(repository: &Repository) -> Option<Self> {
        let Repository { top, git_dir, common_dir, objects, .. } = repository;
        // Without these there is no repository, and git says so.
        let refs = fs::symlink_metadata(common_dir.join("refs")).ok()?;
        if !objects.is_dir() || !refs.is_dir() {
            return None;
        }
        let mut found = Self { head: read_file(&git_dir.join("HEAD"))?, ..Self::default() };
        // A file there says which repository it is.
        let own = top.join(".git");
        if own != *git_dir {
            found.files.insert(own.clone(), read_file(&own)?);
        }
        if repository.is_linked() {
            let common = git_dir.join("commondir");
            found.files.insert(common.clone(), read_file(&common)?);
        }
        for place in ["packed-refs", "refs/heads", "refs/tags", "refs/stash"] {
            found.take(&common_dir.join(place))?;
        }
        for tables in [common_dir.join("reftable"), git_dir.join("reftable")] {
            if tables.is_dir() {
                found.store = Store::Tables;
                found.take(&tables)?;
            }
        }
        Some(found)
    }

    /// Takes in a file, or all files of a folder.
    fn take(&mut self, path: &Path) -> Option<()> {
        let meta = match fs::symlink_metadata(path) {
            Err(absent) if absent.kind() == ErrorKind::NotFound => return Some(()),
            meta => meta.ok()?,
        };
        if meta.is_dir() {
            for entry in fs::read_dir(path).ok()? {
                self.take(&entry.ok()?.path())?;
            }
        } else if self.files.len() > MOST_LOOSE {
            return None;
        } else {
            self.files.insert(path.to_owned(), read_file(path)?);
        }
        Some(())
    }

    /// Whether these files alone decide what is checked out: HEAD names the branch itself and not by way of a ref
    /// that is not looked at.
    fn decide(&self, head: &Head) -> bool {
        match (self.store, head.branch()) {
            (Store::Tables, _) | (Store::Files, None) => true,
            (Store::Files, Some(name)) => {
                name.starts_with("refs/heads/") && self.head.trim_ascii_end().ends_with(name.as_bytes())
            }
        }
    }
}

/// What a file holds; `None` for a link, since what git reads through one may lie anywhere.
fn read_file(path: &Path) -> Option<Vec<u8>> {
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    fs::read(path).ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use pretty_assertions::assert_eq;
    use tempfile::TempDir;

    use super::*;

    /// Runs a script in a folder.
    fn sh(dir: &Path, script: &str) {
        let mut command = Command::new("sh");
        command.arg("-ec").arg(script).current_dir(dir).env("HOME", dir).env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "a").env(format!("GIT_{who}_EMAIL"), "a@example.invalid");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn repository(init: &str) -> (TempDir, Repository) {
        let folder = tempfile::tempdir().unwrap();
        sh(folder.path(), &format!("git init -q -b main {init} .; echo 1 > a; git add a; git commit -q -m one"));
        let repository = Repository::discover(folder.path()).unwrap();
        (folder, repository)
    }

    /// Whether the second of two questions was answered without git.
    fn is_remembered(checkouts: &mut Checkouts, repository: &Repository) -> bool {
        let first = checkouts.now(repository).unwrap();
        Arc::ptr_eq(&first, &checkouts.now(repository).unwrap())
    }

    /// Does one thing after another, and sees that each is answered as git answers it, and remembered.
    fn each_is_seen(repository: &Repository, steps: &[&str]) {
        let mut checkouts = Checkouts::default();
        let mut last = checkouts.now(repository).unwrap();
        for step in steps {
            sh(&repository.top, step);
            let now = checkouts.now(repository).unwrap();
            assert_eq!(*now, ask(repository).unwrap(), "{step}");
            assert_ne!(now, last, "{step}");
            assert!(is_remembered(&mut checkouts, repository), "{step}");
            last = now;
        }
    }

    const STEPS: [&str; 12] = [
        "git commit -q --allow-empty -m two",
        "git branch b",
        "git branch -f b HEAD~1",
        "git tag s; git tag t; git pack-refs --all",
        "git tag -d t >/dev/null",
        "git tag -m t t",
        "git tag -f -m other t",
        "echo 2 > a; git stash -q",
        "git checkout -q b",
        "git checkout -q --detach",
        "git checkout -q HEAD~0; git commit -q --allow-empty -m three",
        "git checkout -q --orphan new",
    ];

    #[test]
    fn r11_4_every_change_of_head_and_refs_is_seen_and_else_git_is_not_asked() {
        let (_folder, repository) = repository("");
        each_is_seen(&repository, &STEPS);
        sh(&repository.top, "git pack-refs --all");
        each_is_seen(&repository, &["git branch -D -q b", "git checkout -q -f main", "git branch -m main c"]);
    }

    #[test]
    fn r11_4_in_a_linked_work_tree_too() {
        let (_folder, main) = repository("");
        sh(&main.top, "git branch x; git worktree add -q linked x");
        let linked = Repository::discover(&main.top.join("linked")).unwrap();
        each_is_seen(&linked, &STEPS);
        let mut checkouts = Checkouts::default();
        checkouts.now(&linked).unwrap();
        sh(&main.top, "git commit -q --allow-empty -m elsewhere");
        assert_eq!(*checkouts.now(&linked).unwrap(), ask(&linked).unwrap());
        // It is made to be one of another repository.
        sh(&main.top, "git init -q -b main other; cd other; git commit -q --allow-empty -m other");
        sh(&linked.top, "echo gitdir: ../other/.git > .git");
        assert_eq!(*checkouts.now(&linked).unwrap(), ask(&linked).unwrap());
    }

    #[test]
    fn r11_5_git_that_fails_is_never_the_last_answer() {
        let (_folder, repository) = repository("");
        for name in ["objects", "refs", "HEAD"] {
            let mut checkouts = Checkouts::default();
            assert!(is_remembered(&mut checkouts, &repository));
            sh(&repository.top, &format!("mv .git/{name} kept"));
            checkouts.now(&repository).unwrap_err();
            sh(&repository.top, &format!("mv kept .git/{name}"));
        }
    }

    #[test]
    fn r11_4_refs_in_tables_are_seen_too() {
        let folder = tempfile::tempdir().unwrap();
        let init = ["init", "-q", "--ref-format=reftable", "."];
        if !Command::new("git").args(init).current_dir(folder.path()).output().unwrap().status.success() {
            // A git from before 2.45.
            return;
        }
        let (_folder, repository) = repository("--ref-format=reftable");
        each_is_seen(&repository, &STEPS);
    }

    #[test]
    fn r11_4_git_is_asked_every_time_where_the_files_do_not_decide() {
        for script in [
            // A branch by way of a ref that is not looked at.
            "git symbolic-ref refs/own/way refs/heads/main; git symbolic-ref HEAD refs/own/way",
            "git update-ref refs/own/here HEAD; git symbolic-ref HEAD refs/own/here",
            "mv .git/refs .git/elsewhere; ln -s elsewhere .git/refs",
            "mv .git ../elsewhere; ln -s ../elsewhere .git",
            "mv .git/refs/heads .git/elsewhere; ln -s ../elsewhere .git/refs/heads",
            "git pack-refs --all; mv .git/packed-refs .git/elsewhere; ln -s elsewhere .git/packed-refs",
            "for number in $(seq 300); do echo create refs/tags/$number $(git rev-parse HEAD); done > ../list
             git update-ref --stdin < ../list; rm ../list",
        ] {
            let folder = tempfile::tempdir().unwrap();
            let top = folder.path().join("top");
            fs::create_dir(&top).unwrap();
            sh(&top, "git init -q -b main .; git commit -q --allow-empty -m one");
            sh(&top, script);
            let repository = Repository::discover(&top).unwrap();
            let mut checkouts = Checkouts::default();
            assert!(!is_remembered(&mut checkouts, &repository), "{script}");
            assert_eq!(*checkouts.now(&repository).unwrap(), ask(&repository).unwrap());
        }
    }
}
