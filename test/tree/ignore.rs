//! Ignore rules: the same answers as git's, frozen at run start.

use std::fs;

use fia::tree::{Entry, IgnoreRules, Repository};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use crate::scratch::{self, Scratch, may_write, names};

/// Text out of few letters, so that patterns and paths often meet.
fn text(letters: &'static str, most: usize) -> impl Strategy<Value = String> {
    let letters: Vec<char> = letters.chars().collect();
    prop::collection::vec(prop::sample::select(letters), 1..=most).prop_map(String::from_iter)
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => text("aab*?/!.", 6),
        2 => text("ab[]^!-c:*/\\ ", 8),
        1 => prop::sample::select(vec![
            "**/a", "a/**", "a/**/b", "/a", "a/", "!a/b", "\\#a", "#a", "*.b", "{a,b}", "[[:alpha:]]", "a ", "a\\ ",
            "a**/b", "**b/a", "/**", "!*", "a\r", "[a-", "a[]]b",
        ])
        .prop_map(str::to_owned),
    ]
}

fn file() -> impl Strategy<Value = String> {
    prop::collection::vec(line(), 1..6).prop_map(|lines| lines.join("\n") + "\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn r11_2_a_path_is_ignored_exactly_when_git_ignores_it(
        top in file(),
        inner in file(),
        exclude in file(),
        paths in prop::collection::vec(text("aab.c", 3), 1..12),
    ) {
        let scratch = Scratch::with(&[]);
        scratch.write(".git/info/exclude", &exclude);
        scratch.write(".gitignore", &top);
        for (place, name) in paths.iter().enumerate().filter(|(_, name)| !matches!(name.as_str(), "." | "..")) {
            // As a file at the top, as a folder with a file in it, or deeper below the folder that has rules too.
            let path = match place % 3 {
                0 => name.clone(),
                1 => format!("{name}/{name}"),
                _ => format!("a/{name}/{}", paths[0].replace('.', "c")),
            };
            let file = scratch.path().join(path);
            if fs::create_dir_all(file.parent().unwrap()).is_ok() && !file.exists() {
                fs::write(file, "").unwrap();
            }
        }
        if scratch.path().join("a").is_dir() {
            scratch.write("a/.gitignore", &inner);
        }
        let visible = scratch.sh("git ls-files -z --others --exclude-standard");
        let mut expected: Vec<&str> = visible.split('\0').filter(|path| !path.is_empty()).collect();
        expected.sort_unstable();
        let snapshot = scratch.tree().snapshot().unwrap();
        let found: Vec<String> = snapshot.files().keys().map(ToString::to_string).collect();
        prop_assert_eq!(found, expected, "top {:?} inner {:?} exclude {:?}", top, inner, exclude);
    }
}

#[test]
fn r11_2_rules_are_those_of_run_start_also_after_a_resume() {
    let scratch = Scratch::with(&[(".gitignore", "*.log\nbuild/\n"), ("src/a", "1")]);
    scratch.sh("mkdir build; echo x > build/out; echo x > a.log");
    let mut tree = scratch.tree();
    let guard = may_write(&["src/"]);
    let end =
        scratch.leg(&mut tree, &guard, "echo 'infra' > .gitignore; mkdir infra; echo x > infra/a; echo y > b.log");
    assert_eq!(names(&end.violations), [".gitignore", "infra/a"]);
    drop(tree);
    scratch.sh("echo '*.tf' > .gitignore");
    let end = scratch.leg(&mut scratch.tree(), &guard, "echo x > n.tf; echo z > c.log");
    assert_eq!(names(&end.violations), ["n.tf"]);
}

#[test]
fn r11_2_what_the_index_tracks_is_never_ignored() {
    let scratch = Scratch::with(&[("build/keep/a", "1"), ("kept.log", "1")]);
    scratch.write(".gitignore", "build/\n*.log\n");
    scratch.write("build/other", "x");
    let end = scratch.leg(
        &mut scratch.tree(),
        &may_write(&["src/"]),
        "echo 2 > build/keep/a; echo 2 > build/other; echo 2 > kept.log; echo 2 > new.log; git rm -q --cached kept.log",
    );
    assert_eq!(names(&end.violations), ["build/keep/a", "kept.log"]);
    assert_eq!(scratch.read("build/keep/a").as_deref(), Some("1"));
    assert_eq!(scratch.read("build/other").as_deref(), Some("2\n"));
}

#[test]
fn r11_2_protected_files_bring_ignored_paths_back_but_two_stars_do_not_enter_an_ignored_folder() {
    let scratch = Scratch::with(&[(".gitignore", ".env*\nbuild/\nnode_modules/\n")]);
    scratch.sh("mkdir -p build/deep node_modules/x; echo key > .env; echo k > build/secret; echo k > build/other");
    scratch.sh("echo k > build/deep/secret; echo k > node_modules/x/secret");
    let mut tree = scratch::open(scratch.path(), &[".env*", "build/secret", "**/secret"]);
    let script = "for f in .env .env.local build/secret build/other build/deep/secret node_modules/x/secret
        do echo mine > $f; done";
    let start = tree.begin().unwrap();
    scratch.sh(script);
    let end = tree.end(&start, &may_write(&["src/"])).unwrap();
    assert_eq!(names(&end.violations), [".env", ".env.local", "build/secret"]);
    assert_eq!(scratch.read(".env").as_deref(), Some("key\n"));
    assert_eq!(scratch.read("build/other").as_deref(), Some("mine\n"));
}

#[test]
fn a_nested_repository_has_its_own_rules_and_its_own_index() {
    let scratch = Scratch::with(&[]);
    scratch.sh("git init -q nested; cd nested; echo '*.o' > .gitignore; echo 1 > kept.o; echo 1 > b.o; echo 1 > a");
    scratch.sh("cd nested; git add -f kept.o");
    let rules = IgnoreRules::capture(&Repository::discover(scratch.path()).unwrap(), None).unwrap();
    let ignores = |path: &str| rules.ignores(&path.into(), Entry::Leaf);
    assert_eq!(["nested/kept.o", "nested/b.o", "nested/a"].map(ignores), [false, true, false]);
}
