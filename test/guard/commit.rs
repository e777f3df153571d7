//! The commit step: what the run made and nothing else.

use fia::host::{Mark, Presence, identity};
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
    lab.env.write_program(".git/hooks/pre-commit", text);
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

#[test]
fn r11_6_what_a_leg_made_that_was_killed_with_fia_is_committed_after_a_resume() {
    let mut first = turn("echo built > src/a; echo n > src/new; touch .fia/runs/r/context_handoff/there");
    first["hang"] = json!(true);
    let lab = Lab::new(&steps(), &json!({"build": [first], "build@2": [turn("echo built > src/a")]}));
    let running = lab.start_until(".fia/runs/r/context_handoff/there");
    running.signal(rustix::process::Signal::KILL);
    assert_eq!(running.finish().end(), "signal 9");
    lab.env.write("README", "edited by the user meanwhile\n");
    let finished = lab.fia(&["resume", "r"]);
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    assert_eq!(files_of_head(&lab), "a: built\n\nsrc/a\nsrc/new\n");
    assert_eq!(lab.status(), " M README\n");
    assert!(!lab.env.work().join(".fia/runs/r/leg_start.json").exists());
}

/// A repository in the middle of a merge.
fn merging() -> Lab {
    let lab = Lab::new(&steps(), &json!({"build": [turn("echo built > src/a")]}));
    lab.env.git(&["checkout", "--quiet", "-b", "side"]);
    lab.env.write("other", "of the side\n");
    lab.commit_all();
    lab.env.git(&["checkout", "--quiet", "-"]);
    lab.env.git(&["merge", "--quiet", "--no-ff", "--no-commit", "side"]);
    lab
}

#[test]
fn r11_6_a_workflow_that_commits_does_not_begin_in_an_unfinished_merge() {
    let lab = merging();
    let refused = lab.run();
    assert_eq!(refused.end(), "exit 2", "{refused}");
    assert!(refused.stderr.contains("a merge is not finished here, and the workflow commits"), "{refused}");
    assert!(!lab.env.work().join(".fia/runs").exists());
    // Its own work tree is in no merge.
    let apart = lab.fia(&["run", "w", "do it", "--run", "r", "--worktree"]);
    assert_eq!((apart.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{apart}");
}

#[test]
fn r11_6_a_commit_that_git_refuses_fails_the_run_in_the_words_of_git() {
    // A check may begin a merge, and that stays.
    let steps = json!([{"name": "build", "agent": "builder", "output": "build"}, {"name": "test", "check": ["test"]},
                       {"name": "save", "commit": {}}]);
    let checks = json!({"checks": {"test": {"run": "git rev-parse HEAD > .git/MERGE_HEAD"}}});
    let lab = Lab::with(checks, &steps, &json!({"build": [turn("echo built > src/a")]}));
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 1".to_owned(), "failed".to_owned()), "{finished}");
    assert!(finished.stderr.contains("cannot do a partial commit during a merge"), "{finished}");
    assert_eq!(lab.status(), " M src/a\n");
}

/// The locks that a commit that was ended left. Its hook is gone, or goes: it may be dying still.
fn locks(lab: &Lab) -> Vec<String> {
    let hook: u32 = lab.env.read(".git/hook.pid").trim().parse().unwrap();
    let started = std::time::Instant::now();
    while identity(hook).and_then(Mark::new).is_ok_and(|mark| mark.presence().unwrap() == Presence::Running) {
        assert!(started.elapsed().as_secs() < 60, "the hook runs on");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let names = std::fs::read_dir(lab.env.work().join(".git")).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name.contains(".lock")).collect()
}

/// A hook that says that it runs and then does not end by itself.
const SLOW_HOOK: &str = "#!/bin/sh\necho $$ > .git/hook.new; mv .git/hook.new .git/hook.pid; exec sleep 600\n";

#[test]
fn r10_7_a_commit_that_is_interrupted_leaves_nothing_and_is_made_by_a_resume() {
    let lab = Lab::new(&steps(), &json!({"build": [turn("echo built > src/a; echo n > src/new")]}));
    hook(&lab, SLOW_HOOK);
    let running = lab.start_until(".git/hook.pid");
    running.signal(rustix::process::Signal::INT);
    let finished = running.finish();
    assert_eq!((finished.end(), lab.outcome()), ("exit 130".to_owned(), "aborted".to_owned()), "{finished}");
    assert_eq!((locks(&lab), lab.status()), (Vec::new(), " M src/a\n?? src/new\n".to_owned()));
    std::fs::remove_file(lab.env.work().join(".git/hooks/pre-commit")).unwrap();
    let resumed = lab.fia(&["resume", "r"]);
    assert_eq!((resumed.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{resumed}");
    assert_eq!(files_of_head(&lab), "a: built\n\nsrc/a\nsrc/new\n");
}

#[test]
fn r10_7_a_commit_that_is_killed_by_a_second_signal_leaves_nothing() {
    let lab = Lab::new(&steps(), &json!({"build": [turn("echo built > src/a; echo n > src/new")]}));
    // Neither git nor its hook hears of SIGTERM.
    hook(
        &lab,
        &SLOW_HOOK.replace("\necho", "\ntrap '' TERM\necho").replace("exec sleep 600", "while :; do sleep 1; done"),
    );
    let running = lab.start_until(".git/hook.pid");
    running.signal(rustix::process::Signal::INT);
    // Two signals of one kind that come together are one.
    running.signal(rustix::process::Signal::TERM);
    let finished = running.finish();
    assert_eq!(finished.end(), "exit 130", "{finished}");
    assert_eq!((locks(&lab), lab.status()), (Vec::new(), " M src/a\n?? src/new\n".to_owned()));
}

#[test]
fn r10_5_a_stop_now_ends_a_commit() {
    let lab = Lab::new(&steps(), &json!({"build": [turn("echo built > src/a")]}));
    hook(&lab, SLOW_HOOK);
    let running = lab.start_until(".git/hook.pid");
    assert_eq!(lab.fia(&["stop", "r", "--now"]).end(), "exit 0");
    let finished = running.finish();
    assert_eq!((finished.end(), lab.outcome()), ("exit 1".to_owned(), "stopped_by_request".to_owned()), "{finished}");
    assert_eq!((locks(&lab), lab.status()), (Vec::new(), " M src/a\n".to_owned()));
}
