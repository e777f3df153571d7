//! A repository of the plainest layout, found without git.
//!
//! Most repositories are a work tree with its `.git` folder in it, and no setting says otherwise. Then the layout
//! (gitrepository-layout(5)) answers what discovery asks, and a command that only reads starts no process. Anything
//! that could make git answer differently, such as a link, a file in place of the folder, another owner, another file
//! system or an extension, is left to git.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{ObjectFormat, Repository};

/// Words of a configuration that can move the work tree, change the layout, or read another file that does. None of
/// them stands in the configuration that `git init` or `git clone` writes.
const MOVING: [&str; 3] = ["worktree", "extensions", "include"];

/// The repository whose work tree holds `dir`; `None` when that is git's to say.
pub(super) fn find(dir: &Path) -> Option<Repository> {
    let dir = dir.canonicalize().ok()?;
    let device = fs::metadata(&dir).ok()?.dev();
    let top = dir.ancestors().find(|above| {
        // A bare repository has these itself.
        above.join(".git").symlink_metadata().is_ok() || above.join("objects").is_dir()
    })?;
    let git_dir = top.join(".git");
    let own = |path: &Path| {
        let is_own = |meta: &Metadata| meta.uid() == rustix::process::geteuid().as_raw() && meta.dev() == device;
        path.symlink_metadata().ok().filter(Metadata::is_dir).filter(is_own).map(drop)
    };
    own(top)?;
    own(&git_dir)?;
    own(&git_dir.join("objects"))?;
    own(&git_dir.join("refs"))?;
    if git_dir.join("commondir").exists() || !is_head(&fs::read(git_dir.join("HEAD")).ok()?) {
        return None;
    }
    is_plain(&fs::read_to_string(git_dir.join("config")).ok()?).then(|| Repository {
        top: top.to_owned(),
        common_dir: git_dir.clone(),
        objects: git_dir.join("objects"),
        git_dir,
        format: ObjectFormat::Sha1,
    })
}

/// Whether this is what git takes for the HEAD of a repository.
fn is_head(head: &[u8]) -> bool {
    let is_id = head.len() == 41 && head.trim_ascii_end().iter().all(u8::is_ascii_hexdigit);
    is_id || head.starts_with(b"ref: refs/")
}

/// Whether a configuration leaves the layout as it is.
fn is_plain(config: &str) -> bool {
    let config = config.to_ascii_lowercase();
    let lines = config.lines().map(|line| line.split_whitespace().collect::<String>());
    let mut lines = lines.filter(|line| line.contains("bare") || line.starts_with("repositoryformatversion"));
    MOVING.iter().all(|word| !config.contains(word))
        && lines.all(|line| line == "bare=false" || line == "repositoryformatversion=0")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::tree::TreeError;

    /// Runs a script in a new folder, and looks from another one in it: as found without git, and as git says.
    fn both(script: &str, from: &str) -> (Option<Repository>, Result<Repository, TreeError>) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-ec", &format!("mkdir t; cd t; {script}")]).current_dir(folder.path());
        let made = command.env("HOME", folder.path()).env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
        assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
        let dir = folder.path().join("t").join(from);
        (find(&dir), Repository::ask(&dir))
    }

    #[test]
    fn a_plain_repository_is_found_as_git_finds_it() {
        for (script, from) in [
            ("git init -q .", "."),
            ("git init -q .; mkdir -p a/b", "a/b"),
            ("git init -q .; mkdir a; ln -s a b", "b"),
            ("git init -q .; git init -q inner; mkdir inner/a", "inner/a"),
            ("git init -q 'a\nb'", "a\nb"),
            ("git init -q .; git config core.ignoreCase true; git config user.name Ann", "."),
            ("git init -q a; git clone -q a b", "b"),
            (
                "git init -q .; git -c user.name=a -c user.email=a commit -q --allow-empty -m a; git checkout -q --detach",
                ".",
            ),
        ] {
            let (found, asked) = both(script, from);
            assert_eq!(found, Some(asked.unwrap()), "{script}");
        }
    }

    #[test]
    fn whatever_could_be_otherwise_is_left_to_git() {
        for (script, from) in [
            ("true", "."),
            ("git init -q --bare .", "."),
            ("git init -q --bare .", "refs"),
            ("git init -q .", ".git"),
            ("git init -q .", ".git/refs"),
            ("git init -q .; git config core.bare true", "."),
            ("git init -q .; mkdir a; git config core.worktree ../a", "."),
            ("git init -q .; git config include.path other; git config -f .git/other core.bare true", "."),
            ("git init -q --object-format=sha256 .", "."),
            ("git init -q .; git config core.repositoryFormatVersion 9", "."),
            ("git init -q --separate-git-dir=g a", "a"),
            ("git init -q a; mv a/.git g; ln -s ../g a/.git", "a"),
            ("git init -q .; mv .git/objects o; ln -s ../o .git/objects", "."),
            (
                "git init -q .; git -c user.name=a -c user.email=a commit -q --allow-empty -m a; git worktree add -q ../l",
                "../l",
            ),
            ("git init -q .; echo nonsense > .git/HEAD", "."),
            ("git init -q .; rm -r .git/refs", "."),
        ] {
            let (found, asked) = both(script, from);
            if let Some(found) = found {
                panic!("{script}: {found:?}, and git says {asked:?}");
            }
        }
    }
}
