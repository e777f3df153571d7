//! Undoing a run, and bringing back what a rollback undid.

use fia::tree::{Tree, Undo, UndoState, digest, net};
use pretty_assertions::assert_eq;

use crate::scratch::{Scratch, listing, may_write};

fn states(undo: &Undo) -> Vec<(String, UndoState)> {
    undo.paths.iter().map(|path| (path.path.to_string(), path.state)).collect()
}

#[test]
fn undo_restores_what_the_run_changed_and_leaves_later_edits_alone() {
    let scratch = Scratch::with(&[("src/a", "1"), ("src/b", "1"), ("src/c", "1"), ("src/d", "1"), ("x", "1")]);
    scratch.sh("echo user > src/a");
    let mut tree = scratch.tree();
    let guard = may_write(&["src/"]);
    let mut changes = scratch
        .leg(&mut tree, &guard, "for f in a b c; do echo run > src/$f; done; mkdir src/n; echo n > src/n/n")
        .kept;
    changes.extend(scratch.leg(&mut tree, &guard, "echo again > src/a; rm src/d").kept);
    scratch.sh("echo later > src/b; git show HEAD:src/c > src/c; echo later > x");
    let now = tree.snapshot().unwrap();
    let undo = Tree::undo(&changes, &now);
    let expected = [
        ("src/a", UndoState::Restore),
        ("src/b", UndoState::Conflict),
        ("src/c", UndoState::Done),
        ("src/d", UndoState::Restore),
        ("src/n/n", UndoState::Restore),
    ];
    assert_eq!(states(&undo), expected.map(|(path, state)| (path.to_owned(), state)));
    assert_eq!(tree.apply(&undo).unwrap(), []);
    let contents = ["src/a", "src/b", "src/c", "src/d", "x"].map(|path| scratch.read(path).unwrap());
    assert_eq!(contents, ["user\n", "later\n", "1", "1", "later\n"]);
    assert!(!scratch.path().join("src/n").exists());
}

#[test]
fn undo_takes_no_file_of_the_users_away_to_make_room() {
    let scratch = Scratch::with(&[("src/a/x", "1"), ("src/f", "1")]);
    let mut tree = scratch.tree();
    let script = "rm -r src/a; echo run > src/a; rm src/f; mkdir src/f; echo run > src/f/r";
    let changes = scratch.leg(&mut tree, &may_write(&["src/"]), script).kept;
    scratch.sh("echo user > src/a; echo user > src/f/u");
    let undo = Tree::undo(&changes, &tree.snapshot().unwrap());
    let expected = [
        ("src/a", UndoState::Conflict),
        ("src/a/x", UndoState::Conflict),
        ("src/f", UndoState::Conflict),
        ("src/f/r", UndoState::Restore),
    ];
    assert_eq!(states(&undo), expected.map(|(path, state)| (path.to_owned(), state)));
    assert_eq!(tree.apply(&undo).unwrap(), []);
    assert_eq!((scratch.read("src/a").unwrap(), scratch.read("src/f/u").unwrap()), ("user\n".into(), "user\n".into()));
}

#[test]
fn r11_4_a_rescue_brings_back_what_a_rollback_undid() {
    let scratch = Scratch::with(&[("src/a", "1"), ("docs/a", "1"), ("docs/b", "1")]);
    let mut tree = scratch.tree();
    let start = tree.begin().unwrap();
    scratch.sh("echo agent > docs/a; rm docs/b; mkdir docs/n; ln -s a docs/n/l; chmod 700 src/a");
    let (agents, _) = listing(scratch.path());
    let end = tree.end(&start, &may_write(&[])).unwrap();
    assert_ne!(listing(scratch.path()).0, agents);
    drop(tree);
    // Another process, later.
    let mut tree = scratch.tree();
    let rescue = Tree::rescue(&end.violations, &tree.snapshot().unwrap());
    assert_eq!(rescue.of(UndoState::Restore).count(), 4);
    assert_eq!(tree.apply(&rescue).unwrap(), []);
    assert_eq!(listing(scratch.path()).0, agents);
}

#[test]
fn r10_3_breadth_and_r10_4_the_digest_follow_what_the_run_changed() {
    let scratch = Scratch::with(&[("src/a", "1"), ("src/b", "1")]);
    let mut tree = scratch.tree();
    let guard = may_write(&["src/"]);
    let first = scratch.leg(&mut tree, &guard, "echo 2 > src/a; echo 2 > src/b");
    let mut changes = first.kept.clone();
    let of = |changes: &[fia::event::PathChange], end: &fia::tree::LegEnd| {
        digest(changes.iter().map(|change| &change.path), &end.snapshot)
    };
    let digest_of_first = of(&changes, &first);
    let second = scratch.leg(&mut tree, &guard, "printf 1 > src/a; echo user > other");
    changes.extend(second.kept.clone());
    assert_eq!(net(&changes).len(), 1, "a path that is as before the run is not counted");
    assert_ne!(of(&changes, &second), digest_of_first);
    let third = scratch.leg(&mut tree, &guard, "echo 2 > src/a");
    changes.extend(third.kept.clone());
    assert_eq!(of(&changes, &third), digest_of_first);
}
