//! What agents and checks do to the repository itself: put back, or the run says that it could not be.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::lab::{Lab, shell};

fn build() -> Value {
    json!([{"name": "build", "agent": "builder", "output": "build"}])
}

/// What the run `r` said about changes beside its own.
fn told(lab: &Lab) -> String {
    lab.of("external_change").iter().map(|change| change["payload"]["what"].to_string()).collect()
}

#[test]
fn r11_4_an_index_that_nobody_can_read_is_put_back() {
    for harm in ["echo x > .git/index", ": > .git/index", "rm .git/index; mkdir .git/index"] {
        let lab = Lab::new(&build(), &json!({"build": [shell(&[harm])]}));
        let finished = lab.run();
        assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{harm}: {finished}");
        assert_eq!((told(&lab), lab.status()), (r#"["index"]"#.to_owned(), String::new()), "{harm}");
    }
}

#[test]
fn r11_4_a_folder_that_git_does_not_know_any_more_is_put_back() {
    for harm in ["rm .git/HEAD", "echo nonsense > .git/HEAD", "rm -r .git/refs"] {
        let lab = Lab::new(&build(), &json!({"build": [shell(&[harm])]}));
        let commit = lab.env.git(&["rev-parse", "HEAD"]);
        let finished = lab.run();
        assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{harm}: {finished}");
        assert_eq!((lab.env.git(&["rev-parse", "HEAD"]), lab.status()), (commit, String::new()), "{harm}");
    }
}

#[test]
fn r11_4_what_cannot_be_put_back_is_named_and_is_no_success() {
    let lab = Lab::new(&build(), &json!({"build": [shell(&["echo y >> src/a; git add src; : > .git/index.lock"])]}));
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 1".to_owned(), "blocked_by_gate".to_owned()), "{finished}");
    assert!(told(&lab).contains("not put back: index: "), "{}", told(&lab));
}

#[test]
fn r11_4_a_repository_that_was_replaced_is_no_success() {
    for harm in ["rm -rf .git; git init -q; git add .; git commit -qm evil", "rm -rf .git", "rm -rf .git/objects/*"] {
        let lab = Lab::new(&build(), &json!({"build": [shell(&[harm])]}));
        let finished = lab.run();
        assert_eq!(
            (finished.end(), lab.outcome()),
            ("exit 1".to_owned(), "blocked_by_gate".to_owned()),
            "{harm}: {finished}"
        );
        assert!(told(&lab).contains("is not what it was"), "{}", told(&lab));
        assert!(finished.stderr.contains("fia cannot bring back its objects"), "{finished}");
    }
}

#[test]
fn r11_4_a_block_that_replaces_the_repository_is_no_success() {
    let steps = json!([{"name": "look", "parallel": [{"name": "one", "agent": "reviewer", "output": "review"},
                                                     {"name": "two", "agent": "second", "output": "review"}]}]);
    let lab = Lab::new(&steps, &json!({"one": [shell(&["rm -rf .git"])]}));
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 1".to_owned(), "blocked_by_gate".to_owned()), "{finished}");
}

#[test]
fn r11_4_a_check_that_destroys_the_repository_fails_the_run() {
    for harm in ["rm -rf .git", "rm -rf .git; git init -q; git add .; git commit -qm evil"] {
        let steps = json!([{"name": "test", "check": ["test"]}]);
        let lab = Lab::with(json!({"checks": {"test": {"run": harm}}}), &steps, &json!({}));
        let finished = lab.run();
        assert_eq!((finished.end(), lab.outcome()), ("exit 1".to_owned(), "failed".to_owned()), "{harm}: {finished}");
        assert!(finished.stderr.contains("a check destroyed what git keeps"), "{finished}");
    }
}
