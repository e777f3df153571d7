//! `fia undo`.

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::resume::judged;
use crate::support::project::Project;

#[test]
fn an_undo_is_shown_first_and_spares_later_edits() {
    let project = judged();
    project.run("judged");
    let preview = project.fia(&["undo"]);
    assert_eq!(preview.end(), "exit 0");
    assert!(preview.stdout.contains("  is removed  src/new\n"), "{preview}");
    assert!(preview.stdout.contains("--apply"), "{preview}");
    assert_eq!(project.env().read("src/new"), "made");
    project.env().write("src/new", "edited");
    assert!(project.fia(&["undo", "--apply"]).stdout.contains("  left alone  src/new\n"));
    assert_eq!(project.env().read("src/new"), "edited");
    project.env().write("src/new", "made");
    assert_eq!(project.fia(&["undo", "--apply"]).end(), "exit 0");
    assert!(!project.env().work().join("src").exists());
    let none = project.fia(&["undo", "--rescue", "1"]);
    assert!(none.end() == "exit 2" && none.stderr.contains("nothing was rolled back"), "{none}");
}

#[test]
fn an_undo_answers_in_json_what_it_would_do_and_what_it_did() {
    let project = judged();
    project.run("judged");
    let made = json!({"kind": "file", "mode": 0o644, "id": blob(&project, "made")});
    let answer = |rescue: Option<u32>, applied: bool, state: &str, now: &Value, wanted: &Value| {
        let paths = json!([{"path": "src/new", "now": now, "wanted": wanted, "state": state}]);
        json!({"run": project.runs()[0], "rescue": rescue, "applied": applied, "paths": paths, "failed": []})
    };
    assert_eq!(project.json(&["undo", "--json"]), answer(None, false, "restore", &made, &Value::Null));
    project.env().write("src/new", "edited");
    let edited = json!({"kind": "file", "mode": 0o644, "id": blob(&project, "edited")});
    assert_eq!(project.json(&["undo", "--apply", "--json"]), answer(None, true, "conflict", &edited, &Value::Null));
    project.env().write("src/new", "made");
    assert_eq!(project.json(&["undo", "--apply", "--json"]), answer(None, true, "restore", &made, &Value::Null));
    assert_eq!(project.json(&["undo", "--json"]), answer(None, false, "done", &Value::Null, &Value::Null));
}

#[test]
fn an_undo_that_is_done_is_told_as_done_and_names_the_commit_that_stays() {
    let project = Project::new()
        .with("agents: [{ name: builder }]\nworkflows: { w: { steps: [{ agent: builder }, { name: save, commit: {} }] } }\n")
        .script("phases: { builder: [{ do: [{ write: { new: made } }], answer: { status: success, changed_files: [new] } }] }\n")
        .committed();
    project.run("w");
    let commit = project.env().git(&["rev-parse", "--short=7", "HEAD"]).trim().to_owned();
    let preview = project.fia(&["undo"]).stdout;
    let shown = format!(
        "  is removed  new\n1 to put back, 0 as wanted already, 0 edited since and left alone\n\
         commit {commit} stays; git revert {commit} takes it back with its files\n"
    );
    assert!(preview.starts_with(&shown), "{preview}");
    let done = project.fia(&["undo", "--apply"]).stdout;
    assert_eq!(
        done,
        format!(
            "  removed     new\n1 put back, 0 as wanted already, 0 edited since and left alone\n\
             commit {commit} stays; git commit -a commits what was put back\n"
        )
    );
    project.env().git(&["commit", "--quiet", "--all", "--message", "undone"]);
    assert_eq!(project.env().git(&["ls-files", "new"]), "");
}

/// The id of a content.
fn blob(project: &Project, text: &str) -> String {
    project.env().write_home("content", text);
    let path = project.env().home().join("content").display().to_string();
    project.env().git(&["hash-object", "--no-filters", &path]).trim().to_owned()
}

#[test]
fn r2_2_an_undo_that_cannot_put_a_file_back_failed_on_the_machine() {
    let project = Project::new()
        .with("agents: [{ name: builder }]\nworkflows:\n  one:\n    steps: [{ name: build, agent: builder }]\n")
        .script("phases: { build: [{ do: [{ write: { untracked: built } }] }] }\n")
        .committed();
    project.env().write("untracked", "the only copy\n");
    project.run("one");
    let packs = project.run_dir().join("objects/objects/pack");
    std::fs::remove_dir_all(&packs).unwrap();
    std::fs::create_dir(&packs).unwrap();
    let undone = project.fia(&["undo", "--apply"]);
    assert_eq!(undone.end(), "exit 3", "{undone}");
    assert!(undone.stderr.contains("not all could be put back") && undone.stderr.contains("`untracked`"), "{undone}");
    assert_eq!(project.env().read("untracked"), "built");
}

/// A run killed in its first leg, in which its builder made a file, changed one, and hangs.
fn killed(config: &str) -> Project {
    let project = Project::new()
        .with(config)
        .script(
            "phases: { build: [{ do: [{ write: { a.txt: theirs, ok: changed } }, { run: touch ../ready }], hang: true }] }\n",
        )
        .file("ok", "committed")
        .committed();
    let running = project.start(&["run", "one", "x"]);
    running.until("ready", || project.env().work().with_file_name("ready").exists());
    running.signal(Signal::KILL);
    drop(running.finish());
    project
}

#[test]
fn what_a_leg_had_changed_when_fia_was_killed_is_undone_too() {
    let project = killed("workflows:\n  one:\n    steps: [{ name: build, agent: builder }]\n");
    let preview = project.fia(&["undo"]);
    assert!(
        preview.stdout.contains(
            "  is removed  a.txt  (in the leg that was killed, or since)\n  \
             is put back ok  (in the leg that was killed, or since)\n2 to put back, "
        ),
        "{preview}"
    );
    assert_eq!(project.env().read("ok"), "changed");
    assert_eq!(project.fia(&["undo", "--apply"]).end(), "exit 0");
    assert_eq!(project.env().read("ok"), "committed");
    assert!(!project.env().work().join("a.txt").exists());
}

#[test]
fn what_the_agent_of_a_killed_leg_may_not_write_is_named_and_left() {
    let agents = "agents: [{ name: builder, writes: [\"ok\"] }]\n";
    let project = killed(&format!("{agents}workflows:\n  one:\n    steps: [{{ name: build, agent: builder }}]\n"));
    let undone = project.fia(&["undo", "--apply"]);
    let left = "  left alone  a.txt  (in the leg that was killed, or since; the agent may not write it)\n1 put back";
    assert!(undone.stdout.contains(left), "{undone}");
    assert_eq!((project.env().read("a.txt"), project.env().read("ok")), ("theirs".to_owned(), "committed".to_owned()));
}
