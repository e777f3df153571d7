//! Rollbacks: exact bytes, modes and kinds, earlier work kept, nothing followed out of the tree.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use fia::event::RepoPath;
use fia::tree::Guard;
use pretty_assertions::assert_eq;

use crate::scratch::{Scratch, listing, may_write, names};

#[test]
fn r11_4_a_file_that_another_phase_changed_goes_back_to_that_phases_content() {
    let scratch = Scratch::with(&[("docs/a.md", "committed\n"), ("src/a", "1")]);
    let mut tree = scratch.tree();
    let end = scratch.leg(&mut tree, &may_write(&["docs/"]), "echo 'of the documenter' > docs/a.md");
    assert_eq!(names(&end.kept), ["docs/a.md"]);
    let end = scratch.leg(&mut tree, &may_write(&["src/"]), "git checkout -q docs/a.md; echo 2 > src/a");
    assert_eq!(names(&end.violations), ["docs/a.md"]);
    assert_eq!(scratch.read("docs/a.md").as_deref(), Some("of the documenter\n"));
    assert_eq!(scratch.read("src/a").as_deref(), Some("2\n"));
}

#[test]
fn r11_4_links_modes_and_swapped_folders_come_back_as_they_were() {
    let scratch = Scratch::with(&[("dir/a", "1"), ("dir/b/c", "2"), ("file", "3"), ("x.sh", "4"), ("src/s", "5")]);
    scratch.sh("ln -s file link; ln -s nowhere dangling; chmod 640 file; chmod 750 x.sh dir/b; mkdir empty");
    let (before, folders) = listing(scratch.path());
    let end = scratch.leg(
        &mut scratch.tree(),
        &may_write(&["src/"]),
        "rm -r dir; echo x > dir; rm file; mkdir -p file/deep; echo y > file/deep/z; rm link; echo t > link
         ln -sf elsewhere dangling; chmod 777 x.sh; mkdir -p new/folder; echo n > new/folder/n; ln -s /tmp newlink",
    );
    assert_eq!(end.not_restored, []);
    assert_eq!(listing(scratch.path()), (before, folders));
    let mode = fs::metadata(scratch.path().join("dir/b")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o750);
}

#[test]
fn r11_4_a_link_out_of_the_tree_is_never_followed() {
    let outside = Scratch::empty();
    outside.write("a", "mine");
    outside.write("new", "mine");
    let out = outside.path().display();
    let scratch = Scratch::with(&[("dir/a", "1"), ("file", "2")]);
    let script = format!("rm -r dir; ln -s '{out}' dir; ln -sf '{out}/a' file; ln -s '{out}/new' made");
    let end = scratch.leg(&mut scratch.tree(), &may_write(&[]), &script);
    assert_eq!(end.not_restored, []);
    assert_eq!(names(&end.violations), ["dir", "dir/a", "file", "made"]);
    assert_eq!(scratch.read("dir/a").as_deref(), Some("1"));
    assert!(!fs::symlink_metadata(scratch.path().join("dir")).unwrap().is_symlink());
    assert_eq!((outside.read("a").as_deref(), outside.read("new").as_deref()), (Some("mine"), Some("mine")));
}

#[test]
fn r11_4_an_ignored_link_in_the_place_of_a_folder_is_moved_away_and_kept() {
    let outside = Scratch::empty();
    let scratch = Scratch::with(&[("dir/a", "1")]);
    scratch.write(".git/info/exclude", "dir\n");
    let script = format!("rm -r dir; ln -s '{}' dir", outside.path().display());
    let end = scratch.leg(&mut scratch.tree(), &may_write(&[]), &script);
    assert_eq!((names(&end.violations), end.not_restored), (vec!["dir/a".to_owned()], vec![]));
    assert_eq!(scratch.read("dir/a").as_deref(), Some("1"));
    assert_eq!(outside.read("a"), None);
    let aside = scratch.sh("find .fia/runs -type l -name dir");
    assert_eq!(aside.lines().count(), 1);
}

#[test]
fn r11_1_settings_of_the_users_change_no_byte() {
    let scratch = Scratch::with(&[("a.txt", "one\ntwo\n"), ("b.txt", "1"), ("c.txt", "2")]);
    scratch.sh(
        "git config core.autocrlf true; git config core.fileMode false; echo '*.txt text eol=crlf filter=up' > .gitattributes
         git config filter.up.clean 'tr a-z A-Z'; printf 'one\\r\\nmixed\\n' > a.txt
         git update-index --assume-unchanged b.txt; git update-index --skip-worktree c.txt; echo user > b.txt",
    );
    let (before, _) = listing(scratch.path());
    let end = scratch.leg(
        &mut scratch.tree(),
        &may_write(&[]),
        "echo x > a.txt; echo x > b.txt; echo x > c.txt; chmod +x .gitattributes",
    );
    assert_eq!(names(&end.violations), [".gitattributes", "a.txt", "b.txt", "c.txt"]);
    assert_eq!(listing(scratch.path()).0, before);
}

#[test]
fn r11_1_an_edit_of_the_same_size_in_the_same_moment_is_seen() {
    let scratch = Scratch::with(&[("a", "1")]);
    let mut tree = scratch.tree();
    let guard = may_write(&[]);
    for round in 0..5 {
        scratch.write("a", "1");
        let end = scratch.leg(&mut tree, &guard, "printf 2 > a; touch -d '2020-01-01' a");
        assert_eq!(names(&end.violations), ["a"], "round {round}");
    }
}

#[test]
fn r11_1_nested_repositories_without_commits_and_any_byte_in_a_name_are_in_the_guard() {
    let scratch = Scratch::with(&[]);
    scratch.sh("git init -q nested; echo 1 > nested/a; printf 1 > \"$(printf 'line\\nend \\377')\"");
    let (before, _) = listing(scratch.path());
    let end = scratch.leg(
        &mut scratch.tree(),
        &may_write(&[]),
        "echo 2 > nested/a; echo 2 > \"$(printf 'line\\nend \\377')\"; echo 2 > \"$(printf 'new\\nx')\"",
    );
    let expected = [&b"line\nend \xff"[..], b"nested/a", b"new\nx"].map(RepoPath::new);
    assert_eq!(end.violations.iter().map(|change| change.path.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(listing(scratch.path()).0, before);
}

#[test]
fn r11_1_large_and_sparse_contents_come_back() {
    let scratch = Scratch::with(&[]);
    let large = "0123456\n".repeat(1 << 17) + "the end";
    let large = large.repeat(9);
    assert!(large.len() > 8 << 20);
    scratch.write("large", &large);
    let end = scratch.leg(&mut scratch.tree(), &may_write(&[]), "printf x >> large; : > empty");
    assert_eq!((names(&end.violations), end.not_restored), (vec!["empty".to_owned(), "large".to_owned()], vec![]));
    assert_eq!(scratch.read("large"), Some(large));
    assert_eq!(scratch.read("empty"), None);
}

#[test]
fn r11_3_by_products_are_reverted_and_nobody_is_blamed() {
    let scratch = Scratch::with(&[("lock", "1"), ("src/a", "1")]);
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let guard = Guard::new(Some(&texts(&["src/"])), &[], &[], &texts(&["lock", "*.tmp"])).unwrap();
    let end = scratch.leg(&mut scratch.tree(), &guard, "echo 2 > lock; echo 2 > a.tmp; echo 2 > src/a");
    assert_eq!((names(&end.violations), names(&end.benign)), (vec![], vec!["a.tmp".to_owned(), "lock".to_owned()]));
    assert_eq!((scratch.read("lock").as_deref(), scratch.read("a.tmp")), (Some("1"), None));
}

#[test]
fn what_cannot_be_put_back_is_named() {
    let scratch = Scratch::with(&[]);
    scratch.sh("mkfifo pipe");
    let end = scratch.leg(&mut scratch.tree(), &may_write(&[]), "rm pipe");
    assert_eq!(end.not_restored.iter().map(|failed| failed.path.to_string()).collect::<Vec<_>>(), ["pipe"]);
}

#[test]
fn r11_1_nothing_of_fia_enters_the_users_repository() {
    let scratch = Scratch::with(&[("a", "1")]);
    scratch.sh("echo user > a; echo '*' > .fia-ignore");
    let objects =
        || scratch.sh("git count-objects -v; git status --porcelain; find .git -newer .git/HEAD -type f | sort");
    scratch.sh("mkdir .fia; echo '*' > .fia/.gitignore");
    let before = objects();
    let mut tree = scratch.tree();
    let start = tree.begin().unwrap();
    scratch.write("a", "agent");
    tree.end(&start, &may_write(&[])).unwrap();
    assert_eq!(objects(), before);
    assert!(Path::new(&scratch.path().join(".fia/runs/20261130-142210-k3f9/objects/HEAD")).is_file());
}

#[test]
fn r11_2_contents_come_back_although_the_agent_removed_the_store() {
    let scratch = Scratch::with(&[("src/a", "1")]);
    let guard = may_write(&[]);
    let mut tree = scratch.tree();
    for round in 0..70 {
        // Each round makes a pack; they are made one when they are many.
        scratch.write("untracked", &format!("only copy {round}"));
        tree.begin().unwrap();
    }
    let end = scratch.leg(&mut tree, &guard, "rm -rf .fia untracked; mkdir .fia");
    assert_eq!((names(&end.violations), end.not_restored), (vec!["untracked".to_owned()], Vec::new()));
    assert_eq!(scratch.read("untracked").as_deref(), Some("only copy 69"));
    scratch.write("untracked", "another");
    let end = scratch.leg(&mut tree, &guard, "rm -rf .fia/runs/*/objects/objects/pack untracked");
    assert_eq!((names(&end.violations), end.not_restored), (vec!["untracked".to_owned()], Vec::new()));
    assert_eq!(scratch.read("untracked").as_deref(), Some("another"));
}
