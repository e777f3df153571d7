//! The commit step: what the run made and nothing else.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::lab::{Lab, shell};

fn steps() -> Value {
    json!([{"name": "build", "agent": "builder", "output": "build"}, {"name": "save", "commit": {}}])
}

fn turn(line: &str) -> Value {
    let mut turn = shell(&[line]);
    turn["answer"] = json!({"status": "success", "summary": "built", "changed_files": ["src/a", "src/never"],
                            "commit_message": "a: built\n\nFor a reason."});
    turn
}

fn files_of_head(lab: &Lab) -> String {
    lab.env.git(&["show", "--format=%s", "--name-only", "HEAD"])
}

#[test]
fn r11_6_only_what_the_run_made_is_committed_and_the_rest_is_listed() {
    let lab =
        Lab::new(&steps(), &json!({"build": [turn("echo built > src/a; echo more >> src/users; echo n > src/new")]}));
    lab.env.write("src/users", "begun by the user\n");
    lab.env.write("staged", "staged by the user\n");
    lab.env.git(&["add", "staged"]);
    lab.env.write("README", "edited by the user\n");
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    assert_eq!(files_of_head(&lab), "a: built\n\nsrc/a\nsrc/new\n");
    assert_eq!(lab.env.git(&["show", "--format=%b", "--no-patch", "HEAD"]).trim(), "For a reason.");
    assert_eq!(lab.status(), " M README\nA  staged\n?? src/users\n");
    for told in [&finished.stderr, &lab.fia(&["show", "r"]).stdout] {
        assert!(told.contains("not committed, as you had changed them too: src/users"), "{told}");
        assert!(told.contains("src/never"), "{told}");
    }
}

#[test]
fn r11_6_a_hook_that_refuses_is_reported_and_nothing_is_committed() {
    let lab = Lab::new(&steps(), &json!({"build": [turn("echo built > src/a")]}));
    hook(&lab, "#!/bin/sh\necho 'no tests, no commit' >&2\nexit 1\n");
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 1".to_owned(), "failed".to_owned()), "{finished}");
    assert!(finished.stderr.contains("no tests, no commit"), "{finished}");
    assert_eq!(files_of_head(&lab).lines().next(), Some("set up"));
    assert_eq!(lab.status(), " M src/a\n");
}

#[test]
fn r11_6_what_a_hook_changes_is_reported() {
    let lab = Lab::new(&steps(), &json!({"build": [turn("echo built > src/a")]}));
    hook(&lab, "#!/bin/sh\necho formatted > README\n");
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    assert!(finished.stderr.contains("commit hooks changed files, which are not committed: README"), "{finished}");
    assert_eq!(files_of_head(&lab), "a: built\n\nsrc/a\n");
}

fn hook(lab: &Lab, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    lab.env.write(".git/hooks/pre-commit", text);
    let hook = lab.env.work().join(".git/hooks/pre-commit");
    std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn r11_5_a_first_commit_is_made_on_an_unborn_branch() {
    let lab = Lab::new(&steps(), &json!({"build": [turn("mkdir -p src; echo built > src/new")]}));
    lab.env.git(&["checkout", "--quiet", "--orphan", "fresh"]);
    lab.env.git(&["rm", "--quiet", "--cached", "-r", "."]);
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    assert_eq!(files_of_head(&lab), "a: built\n\nsrc/new\n");
    assert_eq!(lab.env.git(&["rev-list", "--count", "fresh"]), "1\n");
}

#[test]
fn r11_6_what_a_check_made_is_committed_too() {
    let lab = Lab::with(
        json!({"checks": {"format": {"run": "echo generated > src/made"}}}),
        &json!([{"name": "build", "agent": "builder", "output": "build"}, {"name": "format", "check": ["format"]},
               {"name": "save", "commit": {}}]),
        &json!({"build": [turn("echo built > src/a")]}),
    );
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    assert_eq!(files_of_head(&lab), "a: built\n\nsrc/a\nsrc/made\n");
}
