//! Finding the repository, and refusing without one.

use std::fs;

use fia::ids::RunId;
use fia::tree::{Head, Repository, TreeError, Worktree};
use pretty_assertions::assert_eq;

use crate::scratch::{Scratch, sh};

#[test]
fn r11_5_no_repository_and_no_work_tree_are_refused_with_a_hint() {
    let scratch = Scratch::empty();
    let error = Repository::discover(scratch.path()).unwrap_err();
    assert!(matches!(error, TreeError::NotARepository { .. }), "{error}");
    assert!(error.hint().is_some());
    scratch.sh("git init -q --bare .");
    let error = Repository::discover(scratch.path()).unwrap_err();
    assert!(matches!(error, TreeError::NoWorkTree { .. }), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn r11_5_a_damaged_repository_is_mended_or_named_and_never_nothing_changed() {
    let scratch = Scratch::with(&[("a", "1")]);
    let mut tree = scratch.tree();
    let start = tree.begin().unwrap();
    scratch.sh("echo 2 > a; echo nonsense > .git/HEAD");
    let end = tree.end(&start, &crate::scratch::may_write(&[])).unwrap();
    assert_eq!((end.git.put_back, end.git.not_put_back), (vec!["HEAD".to_owned()], vec![]));
    assert_eq!(scratch.sh("git status --porcelain --branch"), "## main\n");
    let start = tree.begin().unwrap();
    scratch.sh("echo 2 > a; rm -rf .git/objects");
    let end = tree.end(&start, &crate::scratch::may_write(&[])).unwrap();
    assert!(end.git.not_put_back[0].contains("is not what it was"), "{:?}", end.git.not_put_back);
    // Its content was in the objects that are gone.
    assert_eq!(end.not_restored[0].path, "a".into());
}

#[test]
fn branches_unborn_branches_and_detached_heads_are_told_apart() {
    let scratch = Scratch::empty();
    scratch.sh("git init -q -b main 'with space'; cd 'with space'; git config user.email a@example.invalid");
    let dir = scratch.path().join("with space");
    let repository = Repository::discover(&dir).unwrap();
    assert_eq!(repository.top, dir.canonicalize().unwrap());
    assert_eq!(repository.head().unwrap(), Head::Unborn { name: "refs/heads/main".to_owned() });
    sh(&dir, "mkdir sub; git -c user.name=a commit -q --allow-empty -m base");
    let commit = sh(&dir, "git rev-parse HEAD").trim().to_owned();
    let repository = Repository::discover(&dir.join("sub")).unwrap();
    let on_main = Head::Branch { name: "refs/heads/main".to_owned(), commit: commit.clone() };
    assert_eq!(repository.head().unwrap(), on_main);
    sh(&dir, "git checkout -q --detach");
    assert_eq!(repository.head().unwrap(), Head::Detached { commit });
}

#[test]
fn r11_7_a_work_tree_of_the_run_is_made_and_removed_and_its_branch_stays() {
    let scratch = Scratch::with(&[("a", "1")]);
    let repository = Repository::discover(scratch.path()).unwrap();
    let data_dir = repository.top.join(".fia");
    fs::create_dir(&data_dir).unwrap();
    fs::write(data_dir.join(".gitignore"), "*\n").unwrap();
    let run = RunId::new("20261130-142210-k3f9");
    let worktree = Worktree::of(&repository, &data_dir, &run).unwrap();
    let inside = worktree.create(&repository).unwrap();
    assert_eq!(inside.top, data_dir.join("worktrees/20261130-142210-k3f9"));
    assert!(inside.is_linked() && !repository.is_linked());
    assert_eq!(inside.head().unwrap().branch(), Some("refs/heads/fia/20261130-142210-k3f9"));
    assert_eq!(worktree.from.as_deref(), Some("main"));
    assert_eq!(worktree.commands()[0], "git merge fia/20261130-142210-k3f9");

    fs::write(inside.top.join("new"), "x").unwrap();
    assert!(worktree.remove(&repository).is_err(), "work that is not committed is not thrown away");
    sh(&inside.top, "git add new; git commit -q -m new");
    worktree.remove(&repository).unwrap();
    assert!(!inside.top.exists());
    assert_eq!(scratch.sh("git log --format=%s -1 fia/20261130-142210-k3f9"), "new\n");
    assert!(worktree.create(&repository).is_err(), "the branch is there already");
}

#[test]
fn r11_7_a_work_tree_can_be_made_on_an_unborn_branch() {
    let scratch = Scratch::empty();
    scratch.sh("git init -q -b main .; mkdir .fia");
    let repository = Repository::discover(scratch.path()).unwrap();
    let worktree = Worktree::of(&repository, &repository.top.join(".fia"), &RunId::new("one")).unwrap();
    let inside = worktree.create(&repository).unwrap();
    assert_eq!(inside.head().unwrap(), Head::Unborn { name: "refs/heads/fia/one".to_owned() });
}
