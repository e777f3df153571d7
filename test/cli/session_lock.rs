//! One run a native session (SPEC 6.2).

use std::fs;
use std::path::Path;
use std::process::Command;

use pretty_assertions::assert_eq;
use rustix::process::Signal;

use super::resume::hanging;
use crate::support::project::Project;

/// The locks of sessions that are held.
fn held(project: &Project) -> usize {
    fs::read_dir(project.env().work().join(".fia/sessions")).map_or(0, Iterator::count)
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-R").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn r6_2_a_session_that_a_run_has_open_is_resumed_by_no_other() {
    let project = hanging();
    let running = project.start(&["run", "slow", "x", "--run", "z", "--worktree", "-q"]);
    project.wait_for(&running, "session");
    assert_eq!(held(&project), 1);
    running.signal(Signal::INT);
    assert_eq!(running.finish().end(), "exit 130");
    assert_eq!(held(&project), 0);
    // A run directory may be copied, and then there are two that name the same session.
    let data = project.env().work().join(".fia");
    copy(&data.join("runs/z"), &data.join("runs/a"));
    project.env().git(&["worktree", "add", "--quiet", "-b", "fia/a", ".fia/worktrees/a"]);

    let first = project.start(&["resume", "z", "-q"]);
    // Which it takes before it does anything with it.
    first.until("its session", || held(&project) > 0);
    for command in [&["resume", "a"][..], &["ask", "--run", "a", "@builder", "well?"]] {
        let refused = project.fia(command);
        assert_eq!(refused.end(), "exit 2", "{refused}");
        assert!(refused.stderr.contains("error: session `"), "{refused}");
        assert!(refused.stderr.contains("` is in use by run z (process "), "{refused}");
        assert!(refused.stderr.ends_with("\nhint: wait for it, or end it with `fia stop z --now`\n"), "{refused}");
    }
    assert_eq!(fs::read(data.join("runs/a/events.jsonl")).unwrap().last(), Some(&b'\n'));
    // A fia that is killed holds nothing any more.
    first.signal(Signal::KILL);
    assert_eq!(first.finish().end(), "signal 9");
    project.env().write("rehearsal.yaml", "phases: {}\n");
    let second = project.fia(&["resume", "a", "-q"]);
    assert_eq!(second.end(), "exit 0", "{second}");
    assert_eq!(held(&project), 0);
}
