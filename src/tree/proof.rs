//! That a repository still is the one it was: that it holds a commit with its folders. Asked of git, and asked again
//! only when a file that git reads for the answer has changed.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::stat_cache::Stamp;
use super::{Repository, TreeError};

/// Files of packs that are compared at most: one process is cheaper than more.
const MOST_PACKS: usize = 256;

/// What is in the place of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// The same one.
    Whole,
    /// None that git can use.
    Broken,
    /// One without what was checked out.
    Another { lost: String },
}

impl Found {
    /// Why a repository is not the one that was there, if so: what it does not hold is lost.
    pub(super) fn loss(&self, repository: &Repository) -> Option<String> {
        let gone = match self {
            Self::Whole => return None,
            Self::Broken => "git does not know it as one".to_owned(),
            Self::Another { lost } => format!("commit {lost} is not in it"),
        };
        let place = repository.git_dir.display();
        Some(format!("the repository in `{place}` is not what it was: {gone}, and fia cannot bring back its objects"))
    }
}

/// The last commit that was found, with the files that showed it.
#[derive(Debug, Default)]
pub(super) struct Proof {
    last: Option<Files>,
}

impl Proof {
    /// Looks whether a commit, with its folders, is in the repository; without a commit, whether git knows it as one.
    ///
    /// # Errors
    ///
    /// When git cannot be started.
    pub(super) fn find(&mut self, repository: &Repository, commit: Option<&str>) -> Result<Found, TreeError> {
        // Without this, git would go by a repository further up.
        if !repository.top.is_dir() || fs::symlink_metadata(repository.top.join(".git")).is_err() {
            return Ok(Found::Broken);
        }
        if self.knows(repository, commit) {
            return Ok(Found::Whole);
        }
        self.ask(repository, commit, SystemTime::now())
    }

    /// Whether the commit is the last one that was found, and nothing has changed since.
    fn knows(&self, repository: &Repository, commit: Option<&str>) -> bool {
        let last = self.last.as_ref().filter(|last| commit == Some(last.objects[0].as_str()));
        last.is_some_and(|last| Files::read(repository, last.objects.clone()).as_ref() == Some(last))
    }

    fn ask(&mut self, repository: &Repository, commit: Option<&str>, now: SystemTime) -> Result<Found, TreeError> {
        self.last = None;
        let (found, tree) = ask(repository, commit)?;
        if let (Found::Whole, Some(commit), Some(tree)) = (&found, commit, tree) {
            let files = Files::read(repository, [commit.to_owned(), tree]);
            self.last = files.filter(|files| files.are_settled(now));
        }
        Ok(found)
    }
}

/// Asks git; of a commit that is there, the id of its topmost folder too.
fn ask(repository: &Repository, commit: Option<&str>) -> Result<(Found, Option<String>), TreeError> {
    let asked = commit.map(|commit| format!("{commit}\n{commit}^{{tree}}\n")).unwrap_or_default();
    let git = repository.git().with("GIT_DIR", &repository.git_dir);
    let output = git.output(&["cat-file", "--batch-check"], Some(asked.as_bytes()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let found = match commit {
        Some(commit) if said.lines().any(|line| line.ends_with(" missing")) => {
            Found::Another { lost: commit.to_owned() }
        }
        Some(_) | None if output.status.success() => Found::Whole,
        Some(_) | None => Found::Broken,
    };
    let tree = said.lines().nth(1).and_then(|line| line.split_once(" tree "));
    Ok((found, tree.map(|(id, _)| id.to_owned())))
}

/// The files from which git answers.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    /// The commit and its topmost folder.
    objects: [String; 2],
    /// What makes the folder a repository, then both objects as files of their own.
    single: Vec<Option<Stamp>>,
    /// What is in the folder of packs, unless both are files.
    packs: Vec<(OsString, Stamp)>,
}

impl Files {
    /// Looks at them; `None` when they are many, cannot be looked at, or objects may lie elsewhere too.
    fn read(repository: &Repository, objects: [String; 2]) -> Option<Self> {
        let Repository { git_dir, common_dir, objects: folder, .. } = repository;
        if !folder.is_dir() || !common_dir.join("refs").is_dir() || folder.join("info/alternates").exists() {
            return None;
        }
        let mut paths = vec![common_dir.join("config")];
        paths.extend(["HEAD", "commondir", "config.worktree"].map(|name| git_dir.join(name)));
        let layout = paths.len();
        for id in &objects {
            paths.push(loose(folder, id)?);
        }
        let single: Vec<_> = paths.iter().map(|path| stamp(path)).collect::<Result<_, _>>().ok()?;
        let is_loose = single[layout..].iter().all(Option::is_some);
        let packs = if is_loose { Vec::new() } else { packs(&folder.join("pack"))? };
        Some(Self { objects, single, packs })
    }

    /// Whether a change of any of them after this moment is sure to be seen.
    fn are_settled(&self, moment: SystemTime) -> bool {
        let packs = self.packs.iter().map(|(_, stamp)| stamp);
        self.single.iter().flatten().chain(packs).all(|stamp| stamp.settled(moment))
    }
}

/// Where git keeps an object that is in no pack.
fn loose(folder: &Path, id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2)?;
    Some(folder.join(first).join(rest))
}

/// What a file looks like; `None` when it is not there.
fn stamp(path: &Path) -> io::Result<Option<Stamp>> {
    match fs::metadata(path) {
        Ok(meta) => Ok(Some(Stamp::of(&meta))),
        Err(absent) if matches!(absent.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

fn packs(folder: &Path) -> Option<Vec<(OsString, Stamp)>> {
    let mut packs = Vec::new();
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        if packs.len() == MOST_PACKS {
            return None;
        }
        packs.push((entry.file_name(), Stamp::of(&fs::metadata(entry.path()).ok()?)));
    }
    packs.sort_by(|(one, _), (other, _)| one.cmp(other));
    Some(packs)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use pretty_assertions::assert_eq;
    use tempfile::TempDir;

    use super::*;

    fn sh(dir: &Path, script: &str) {
        let mut command = Command::new("sh");
        command.arg("-ec").arg(script).current_dir(dir).env("HOME", dir).env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "a").env(format!("GIT_{who}_EMAIL"), "a@example.invalid");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A repository, whose commit was found long after it was made.
    fn found(script: &str) -> (TempDir, Repository, String, Proof) {
        let folder = tempfile::tempdir().unwrap();
        sh(folder.path(), &format!("git init -q -b main .; echo 1 > a; git add a; git commit -q -m one; {script}"));
        let repository = Repository::discover(folder.path()).unwrap();
        let commit = repository.head().unwrap().commit().unwrap().to_owned();
        let mut proof = Proof::default();
        let later = SystemTime::now() + Duration::from_secs(10);
        assert_eq!(proof.ask(&repository, Some(&commit), later).unwrap(), Found::Whole);
        (folder, repository, commit, proof)
    }

    const PACK: &str = "git repack -q -a -d";

    #[test]
    fn a_commit_that_was_found_is_known_until_a_file_that_git_reads_for_it_changes() {
        let gone = |commit: &String| Found::Another { lost: commit.clone() };
        for (before, script, wanted) in [
            ("", "rm -r .git/objects/??", None),
            ("", "rm .git/objects/$(git rev-parse HEAD^{tree} | sed 's,..,&/,')", None),
            (PACK, "rm -f .git/objects/pack/*", None),
            ("", "rm -r .git/objects", Some(Found::Broken)),
            ("", "rm -r .git/refs", Some(Found::Broken)),
            ("", "rm -r .git", Some(Found::Broken)),
            ("", "echo nonsense > .git/HEAD", Some(Found::Broken)),
            ("", "echo '[' > .git/config", Some(Found::Broken)),
            ("", PACK, Some(Found::Whole)),
            (PACK, "git commit -q --allow-empty -m two; git repack -q -a -d", Some(Found::Whole)),
        ] {
            let (_folder, repository, commit, mut proof) = found(before);
            assert!(proof.knows(&repository, Some(&commit)), "{script}");
            sh(&repository.top, script);
            assert!(!proof.knows(&repository, Some(&commit)), "{script}");
            assert_eq!(proof.find(&repository, Some(&commit)).unwrap(), wanted.unwrap_or(gone(&commit)), "{script}");
        }
    }

    #[test]
    fn work_beside_it_leaves_a_commit_known() {
        for before in ["", PACK] {
            let (_folder, repository, commit, proof) = found(before);
            sh(&repository.top, "echo 2 > a; git add a; git commit -q -m two; git tag t");
            assert!(proof.knows(&repository, Some(&commit)));
            assert!(!proof.knows(&repository, None));
        }
    }

    #[test]
    fn what_changed_just_now_may_change_again_unseen_and_is_asked_again() {
        let (_folder, repository, commit, mut proof) = found("");
        assert_eq!(proof.ask(&repository, Some(&commit), SystemTime::now()).unwrap(), Found::Whole);
        assert!(!proof.knows(&repository, Some(&commit)));
    }

    #[test]
    fn objects_of_another_repository_are_git_s_to_look_for() {
        let folder = tempfile::tempdir().unwrap();
        sh(
            folder.path(),
            "git init -q -b main a; cd a; git commit -q --allow-empty -m one; cd ..; git clone -q -s a b",
        );
        let repository = Repository::discover(&folder.path().join("b")).unwrap();
        let commit = repository.head().unwrap().commit().unwrap().to_owned();
        let mut proof = Proof::default();
        let later = SystemTime::now() + Duration::from_secs(10);
        assert_eq!(proof.ask(&repository, Some(&commit), later).unwrap(), Found::Whole);
        assert!(!proof.knows(&repository, Some(&commit)));
    }
}
