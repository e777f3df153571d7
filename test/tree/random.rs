//! Random trees and random agents: every byte outside the lane is that of the snapshot, every byte inside is what
//! the agent left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use fia::event::RepoPath;
use fia::tree::Guard;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use crate::scratch::{self, Held, Scratch, listing, may_write};

const FOLDERS: [&str; 6] = ["", "src/", "src/in/", "docs/", "docs/in/", "ign/"];
const NAMES: [&str; 5] = ["a", "b", "in", "c.log", "d e"];

fn path() -> impl Strategy<Value = String> {
    (prop::sample::select(&FOLDERS[..]), prop::sample::select(&NAMES[..]))
        .prop_map(|(dir, name)| format!("{dir}{name}"))
}

/// One thing that somebody does, as a line of shell; what cannot be done is not.
fn action() -> impl Strategy<Value = String> {
    let text = prop::sample::select(vec!["", "one", "two", "three\\nlines\\n", "\\r\\n\\000\\377"]);
    let git = prop::sample::select(vec![
        "git add -A",
        "git add -A; git commit -q -m work",
        "git commit -q --amend -m other",
        "git stash -q -u",
        "git stash pop -q",
        "git stash drop -q",
        "git reset -q --hard",
        "git reset -q --soft HEAD~1",
        "git checkout -q -- .",
        "git checkout -q -b topic",
        "git checkout -q main",
        "git checkout -q --detach",
        "git branch -f other",
        "git branch -D -q other",
        "git tag -f mark",
        "git clean -fdq",
        "git rm -r -q --cached src",
        "git update-index --assume-unchanged docs/a",
        "git config core.autocrlf true",
        "git merge -q topic",
    ]);
    prop_oneof![
        6 => (path(), text).prop_map(|(path, text)| {
            format!("mkdir -p \"$(dirname '{path}')\"; printf '{text}' > '{path}'")
        }),
        3 => path().prop_map(|path| format!("echo more >> '{path}'")),
        3 => path().prop_map(|path| format!("rm -rf '{path}'")),
        3 => (path(), path()).prop_map(|(from, to)| format!("mv -T '{from}' '{to}'")),
        1 => (path(), path()).prop_map(|(from, to)| format!("git mv '{from}' '{to}'")),
        2 => (path(), prop::sample::select(vec!["755", "600", "444"]))
            .prop_map(|(path, mode)| format!("test -f '{path}' && chmod {mode} '{path}'")),
        2 => (path(), path()).prop_map(|(path, to)| format!("ln -sfT \"$PWD/{to}\" '{path}'")),
        2 => path().prop_map(|path| format!("rm -f '{path}'; mkdir -p '{path}'")),
        1 => prop::sample::select(vec!["*", "docs", "!*.log", "src/in/"])
            .prop_map(|line| format!("echo '{line}' >> .gitignore")),
        1 => Just("echo '*' >> .git/info/exclude".to_owned()),
        6 => git.prop_map(str::to_owned),
    ]
}

fn script(most: usize) -> impl Strategy<Value = String> {
    // Whoever acts fails now and then, and goes on.
    prop::collection::vec(action(), 1..most).prop_map(|lines| format!("set +e\n{}\ntrue", lines.join("\n")))
}

/// What `.git/info/exclude` said at run start. A folder moved to `c.log` is ignored with all that is in it.
fn is_ignored(path: &RepoPath) -> bool {
    path.as_bytes().starts_with(b"ign/")
        || path.as_bytes().split(|byte| *byte == b'/').any(|name| name.ends_with(b".log"))
}

fn meet(one: &RepoPath, other: &RepoPath) -> bool {
    let below = |path: &RepoPath, folder: &RepoPath| {
        path.as_bytes().strip_prefix(folder.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
    };
    below(one, other) || below(other, one)
}

/// The tree that has to stand after a leg.
fn wanted(
    before: &BTreeMap<RepoPath, Held>,
    after: &BTreeMap<RepoPath, Held>,
    guard: &Guard,
) -> BTreeMap<RepoPath, Held> {
    let fixed = |path: &RepoPath| !guard.allows(path) && !is_ignored(path);
    let mut wanted: BTreeMap<_, _> =
        before.iter().filter(|(path, _)| fixed(path)).map(|(path, held)| (path.clone(), held.clone())).collect();
    let restored: BTreeSet<RepoPath> = wanted.keys().cloned().collect();
    for path in before.keys().chain(after.keys()).filter(|path| !fixed(path)) {
        // What cannot stand beside a restored path is undone with it.
        let blocked = after.contains_key(path) && restored.iter().any(|fixed| meet(fixed, path));
        let held = if blocked { before.get(path).filter(|_| !is_ignored(path)) } else { after.get(path) };
        if let Some(held) = held {
            wanted.insert(path.clone(), held.clone());
        }
    }
    wanted
}

const GIT: &str = "git symbolic-ref -q HEAD || git rev-parse HEAD; git for-each-ref; git ls-files -s; git ls-files -v
    git reflog show stash 2>/dev/null || :; git config --local --list; cat .git/info/exclude";

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn r11_4_every_byte_outside_the_lane_stays_and_every_byte_inside_is_the_agents(
        committed in script(12),
        users in script(8),
        first in script(8),
        second in script(8),
        writes in prop::sample::select(vec![&["src/"][..], &["docs/in/", "a"], &["src/in", "*/b"], &[]]),
    ) {
        let scratch = Scratch::with(&[("src/a", "1"), ("docs/a", "2"), (".gitignore", "")]);
        scratch.sh("printf '*.log\\nign/\\n' > .git/info/exclude");
        scratch.sh(&format!("{committed}\ngit add -A; git commit -q -m more\ntrue"));
        scratch.sh(&users);
        scratch.sh("printf '*.log\\nign/\\n' > .git/info/exclude; : > .gitignore; git rm -r -q --cached --ignore-unmatch ign '*.log' '*.log/*'");
        let guard = may_write(writes);
        let mut tree = scratch.tree();
        for agent in [&first, &second] {
            let (before, _) = listing(scratch.path());
            let git = scratch.sh(GIT);
            let start = tree.begin().unwrap();
            scratch.sh(agent);
            let (after, _) = listing(scratch.path());
            let end = tree.end(&start, &guard).unwrap();
            assert_eq!(end.not_restored, []);
            assert_eq!(listing(scratch.path()).0, wanted(&before, &after, &guard));
            assert_eq!(scratch.sh(GIT), git);
            fs::remove_file(scratch.path().join(".fia/stat_cache")).unwrap();
            assert_eq!(scratch::open(scratch.path(), &[]).snapshot().unwrap(), end.snapshot);
        }
    }
}
