//! The `git-*` cases: what an agent changed, what of it is a violation, and the tree once that is undone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde::Deserialize;

use crate::scratch::{self, Scratch, expected, listing, may_write, names};

#[derive(Deserialize)]
struct Case {
    kind: String,
    allow: Vec<String>,
    #[serde(default)]
    run_in: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    changed_paths: Option<Vec<String>>,
    violations: Vec<String>,
    #[serde(default)]
    violations_may_also_name: Vec<String>,
    violations_cover_folder: Option<String>,
    #[serde(default)]
    head_moved: bool,
    #[serde(default)]
    after_rollback: BTreeMap<String, Option<String>>,
    #[serde(rename = "note")]
    _note: Option<String>,
}

fn read<T: for<'de> Deserialize<'de>>(file: &Path) -> T {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn r11_3_every_git_case_is_judged_and_rolled_back_as_expected() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("test/cases");
    let mut seen = 0;
    for entry in fs::read_dir(cases).unwrap() {
        let folder = entry.unwrap().path();
        if folder.file_name().unwrap().to_str().unwrap().starts_with("git-") {
            seen += 1;
            check(&folder);
        }
    }
    assert_eq!(seen, 10);
}

fn check(folder: &Path) {
    let name = folder.file_name().unwrap().to_str().unwrap();
    let (case, expect): (Case, Expect) = (read(&folder.join("case.json")), read(&folder.join("expect.json")));
    assert_eq!(case.kind, "git");
    let scratch = Scratch::empty();
    let script = |name: &str| scratch.sh(&format!("exec '{}'", folder.join(name).display()));
    script("setup.sh");
    let top = scratch.path().join(&case.run_in);
    let allow: Vec<&str> = case.allow.iter().map(String::as_str).collect();
    let guard = may_write(&allow);
    let mut tree = scratch::open(&top, &[]);
    let (before, folders_before) = listing(&top);
    let index_before = scratch::sh(&top, "git ls-files --stage; git for-each-ref; git rev-parse --verify -q HEAD || :");

    let start = tree.begin().unwrap();
    script("agent.sh");
    let (after, _) = listing(&top);
    let end = tree.end(&start, &guard).unwrap();

    let mut changed = [names(&end.kept), names(&end.violations)].concat();
    changed.sort();
    if let Some(expected) = expect.changed_paths {
        assert_eq!(changed, expected, "{name}: changed paths");
    }
    let violations = names(&end.violations);
    assert!(expect.violations.iter().all(|path| violations.contains(path)), "{name}: {violations:?}");
    let may_be_named = |path| expect.violations.contains(path) || expect.violations_may_also_name.contains(path);
    if let Some(folder) = &expect.violations_cover_folder {
        let covers = |path: &String| path == folder || path.starts_with(&format!("{folder}/"));
        assert!(violations.iter().any(covers), "{name}: {violations:?}");
    } else {
        assert!(violations.iter().all(may_be_named), "{name}: {violations:?}");
    }
    assert_eq!(end.git.head_moved_to.is_some(), expect.head_moved, "{name}: HEAD moved");
    assert_eq!(end.not_restored, [], "{name}");
    for (path, text) in &expect.after_rollback {
        assert_eq!(&fs::read_to_string(top.join(path)).ok(), text, "{name}: {path}");
    }

    let (now, folders) = listing(&top);
    let wanted = expected(&before, &after, |path| guard.allows(path));
    assert_eq!(now, wanted, "{name}: the tree after the rollback");
    let is_wanted = |folder: &fia::event::RepoPath| {
        let start = [folder.as_bytes(), b"/"].concat();
        folders_before.contains(folder) || wanted.keys().any(|path| path.as_bytes().starts_with(&start))
    };
    assert!(folders.iter().all(is_wanted), "{name}: {folders:?}");
    let index = scratch::sh(&top, "git ls-files --stage; git for-each-ref; git rev-parse --verify -q HEAD || :");
    assert_eq!(index, index_before, "{name}: index, refs and HEAD");
    assert_eq!(tree.snapshot().unwrap(), end.snapshot, "{name}: the snapshot is that of the tree");
}
