//! `fia stop`, and signals: how a live run ends before its time (SPEC 10.5, 10.7).

use std::fs;

use fia::event::{Event, Outcome, Usage};
use fia::host::Presence;
use pretty_assertions::assert_eq;
use rustix::process::Signal;

use super::resume::{await_presence, hanging, mark, marks};
use crate::support::program::wait;

#[test]
fn r10_5_stop_now_ends_the_turn_and_resume_takes_the_stop_back() {
    let project = hanging();
    let running = project.start(&["run", "slow", "x"]);
    project.wait_for(&running, "session");
    let stopped = project.fia(&["stop", "--now", "--reason", "lunch"]);
    assert_eq!(stopped.end(), "exit 0", "{stopped}");
    let finished = running.finish();
    assert_eq!(finished.end(), "exit 1", "{finished}");
    let log = project.log();
    assert_eq!(log.outcome(), Outcome::StoppedByRequest);
    await_presence(&marks(&log)[0], Presence::Gone);
    let status = project.fia(&["stop", "--status"]);
    assert!(status.stdout.contains("(lunch)"), "{status}");
    project.env().write("rehearsal.yaml", "phases: {}\n");
    assert_eq!(project.fia(&["resume", "--json"]).end(), "exit 0");
    assert!(!project.run_dir().join("stop").exists());
}

#[test]
fn r10_5_a_stop_of_everything_holds_until_it_is_cleared() {
    let project = hanging();
    project.env().write("rehearsal.yaml", "phases: {}\n");
    assert_eq!(project.fia(&["stop", "--all"]).end(), "exit 0");
    assert_eq!(project.fia(&["run", "slow", "x", "-q"]).end(), "exit 1");
    assert_eq!(project.log().outcome(), Outcome::StoppedByRequest);
    assert_eq!(project.fia(&["stop", "--clear"]).end(), "exit 0");
    assert_eq!(project.fia(&["resume", "--json"]).end(), "exit 0");
}

#[test]
fn r10_7_a_first_signal_ends_the_turn_records_it_and_frees_the_lock() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let project = hanging();
        let running = project.start(&["run", "slow", "x"]);
        project.wait_for(&running, "session");
        running.signal(signal);
        let finished = running.finish();
        assert_eq!(finished.end(), format!("exit {status}"), "{finished}");
        let log = project.log();
        assert_eq!(log.outcome(), Outcome::Aborted);
        await_presence(&marks(&log)[0], Presence::Gone);
        assert_eq!(fs::read_to_string(project.env().work().join(".fia/lock")).unwrap(), "");
        assert!(finished.stderr.contains("next:  fia resume"), "{finished}");
        assert!(finished.stderr.contains("\nstopping: the turn is being ended and recorded;"), "{finished}");
        project.env().write("rehearsal.yaml", "phases: {}\n");
        assert_eq!(project.fia(&["resume", "--json"]).end(), "exit 0");
    }
}

#[test]
fn r10_7_writes_of_an_interrupted_turn_are_judged() {
    let project = hanging()
        .with("agents: [{ name: builder, writes: [src/] }]\nworkflows:\n  slow:\n    steps:\n      - { name: build, agent: builder, output: build }\n")
        .script("phases: { build: [{ do: [{ write: { src/a: a, other: b } }], hang: true }] }\n");
    let running = project.start(&["run", "slow", "x"]);
    project.wait_for(&running, "tool_call");
    running.signal(Signal::INT);
    assert_eq!(running.finish().end(), "exit 130");
    assert!(project.env().work().join("src/a").exists());
    assert!(!project.env().work().join("other").exists());
    let rescued = project.fia(&["undo", "--rescue", "1", "--apply"]);
    assert_eq!(rescued.end(), "exit 0", "{rescued}");
    assert_eq!(project.env().read("other"), "b");
}

#[test]
fn r10_7_a_second_signal_kills_at_once() {
    let project = hanging();
    // An engine that ignores SIGTERM.
    let session = "{\"type\":\"session\",\"id\":\"s\",\"model\":\"m\",\"window\":9}";
    let deaf = format!("#!/bin/sh\ntrap '' TERM\ncat >/dev/null\necho '{session}'\nwhile :; do sleep 1; done\n");
    project.env().write_program("engine.sh", &deaf);
    let config = project.env().read("fia.config.yaml");
    project.env().write("fia.config.yaml", &config.replace("{ script: rehearsal.yaml }", "{ program: ./engine.sh }"));
    project.env().git(&["add", "."]);
    let running = project.start(&["run", "slow", "x"]);
    project.wait_for(&running, "session");
    // Two signals of one kind that come together are one.
    running.signal(Signal::INT);
    running.signal(Signal::TERM);
    let finished = running.finish();
    assert_eq!(finished.end(), "exit 130", "{finished}");
    let log = project.log();
    await_presence(&marks(&log)[0], Presence::Gone);
    // What waits for the engine's end tells of it.
    assert_eq!(log.story(&["agent_end", "phase_end", "run_end"]), [""; 0]);
}

#[test]
fn r10_7_a_second_signal_kills_an_engine_that_is_asked_at_once() {
    let project = hanging();
    project.env().write("rehearsal.yaml", "phases: {}\n");
    assert_eq!(project.fia(&["run", "slow", "x", "-q"]).end(), "exit 0");
    // An engine that ignores SIGTERM.
    let script = "#!/bin/sh\ntrap 'touch ../told' TERM\ntouch ../asked\nwhile :; do sleep 1; done\n";
    let engine = project.env().write_program(project.env().home().join("engine.sh"), script);
    let config = project.env().read("fia.config.yaml");
    let program = format!("{{ program: {} }}", engine.display());
    project.env().write("fia.config.yaml", &config.replace("{ script: rehearsal.yaml }", &program));
    let running = project.start(&["ask", "@builder", "still there?"]);
    running.until("asked", || project.env().work().with_file_name("asked").exists());
    running.signal(Signal::INT);
    running.until("told", || project.env().work().with_file_name("told").exists());
    running.signal(Signal::TERM);
    let finished = running.finish();
    assert_eq!(finished.end(), "exit 130", "{finished}");
    let log = project.log();
    // Its grace is over with the second signal, and nothing is left that could record an end.
    assert_eq!(log.story(&["agent_start", "agent_end"])[2..], ["agent_start"]);
    let asked = log.all(|event| match event {
        Event::AgentStart(start) => Some(mark(start)),
        _ => None,
    });
    await_presence(&asked[1], Presence::Gone);
}

#[test]
fn r10_7_a_signal_that_a_child_and_its_group_are_sent_is_one() {
    let project = hanging();
    let running = project.start(&["run", "slow", "x"]);
    project.wait_for(&running, "session");
    running.signal(Signal::TERM);
    // As `timeout` does it, which also wakes what was halted.
    running.signal(Signal::TERM);
    running.signal(Signal::CONT);
    let finished = running.finish();
    assert_eq!(finished.end(), "exit 143", "{finished}");
    assert_eq!(project.log().outcome(), Outcome::Aborted);
}

#[test]
fn r10_7_closed_pipes_do_not_end_a_run() {
    let project = hanging();
    project.env().write("rehearsal.yaml", "phases: {}\n");
    let mut command = project.command(&["run", "slow", "x"]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(wait(&mut child).code(), Some(0));
    assert_eq!(project.log().outcome(), Outcome::GoalMet);
}

#[test]
fn r10_1_what_an_engine_says_while_it_is_being_ended_counts() {
    let project = hanging();
    let home = project.env().home();
    let engine = home.join("engine.sh");
    // Its session and what its only request cost are told when it is asked to end.
    let script = r#"#!/bin/sh
trap 'echo "{\"type\":\"session\",\"id\":\"s\",\"model\":\"m\",\"window\":9000}"
echo "{\"type\":\"request\",\"usage\":{\"input\":100,\"output\":20,\"cache_read\":3,\"cache_write\":0}}"; exit 0' TERM
cat >/dev/null
touch "$HOME/ready"
while :; do sleep 0.05; done
"#;
    project.env().write_program(&engine, script);
    let config = project.env().read("fia.config.yaml");
    let program = format!("{{ program: {} }}", engine.display());
    project.env().write("fia.config.yaml", &config.replace("{ script: rehearsal.yaml }", &program));
    let running = project.start(&["run", "slow", "x"]);
    running.until("ready", || home.join("ready").exists());
    running.signal(Signal::INT);
    assert_eq!(running.finish().end(), "exit 130");
    let log = project.log();
    let sessions =
        log.all(|event| if let Event::Session(seen) = event { Some(seen.session_id.to_string()) } else { None });
    assert_eq!(sessions, ["s"]);
    let spent =
        log.all(|event| if let Event::AgentEnd(end) = event { Some((end.usage, end.context_tokens)) } else { None });
    let usage = Usage { input: 100, output: 20, cache_read: 3, ..Usage::default() };
    assert_eq!(spent, [(Some(usage), Some(103))]);
}

#[test]
fn r10_5_a_stop_without_a_reason_says_that_it_was_asked_for() {
    let project = hanging();
    let running = project.start(&["run", "slow", "x"]);
    project.wait_for(&running, "session");
    assert_eq!(project.fia(&["stop", "--now"]).end(), "exit 0");
    let finished = running.finish();
    assert!(finished.stderr.contains("stopped by request: asked by `fia stop --now`"), "{finished}");
    let status = project.fia(&["stop", "--status"]);
    assert!(status.stdout.contains(" (asked by `fia stop --now`)\n"), "{status}");
}

#[test]
fn r10_5_whatever_has_the_name_of_a_stop_file_stops_and_a_resume_takes_it_away() {
    let project = hanging();
    project.env().write("rehearsal.yaml", "phases: {}\n");
    project.env().write(".fia/stop/in/it", "");
    assert_eq!(project.fia(&["run", "slow", "x", "-q"]).end(), "exit 1");
    assert_eq!(project.log().outcome(), Outcome::StoppedByRequest);
    assert_eq!(project.fia(&["stop", "--clear"]).end(), "exit 0");
    let stop = project.run_dir().join("stop");
    fs::create_dir_all(stop.join("in/it")).unwrap();
    let resumed = project.fia(&["resume", "-q"]);
    assert_eq!(resumed.end(), "exit 0", "{resumed}");
    assert!(!stop.exists());
}

#[test]
fn r10_5_a_stop_that_came_in_the_last_phase_is_no_stop_of_the_run_that_met_its_goal() {
    let project = hanging()
        .script("phases: { build: [{ do: [{ run: 'touch ../at; until [ -e ../go ]; do sleep 0.01; done' }] }] }\n");
    let running = project.start(&["run", "slow", "x", "--run", "r", "-q"]);
    running.until("at", || project.env().work().with_file_name("at").exists());
    assert_eq!(project.fia(&["stop"]).end(), "exit 0");
    assert!(project.fia(&["stop", "--status"]).stdout.contains("\nstopped: run r (asked by `fia stop`)\n"));
    fs::write(project.env().work().with_file_name("go"), "").unwrap();
    assert_eq!(running.finish().end(), "exit 0");
    assert_eq!(project.fia(&["stop", "--status"]).stdout, "not stopped: this repository\n");
    assert_eq!(project.fia(&["resume", "r", "-q"]).end(), "exit 0");
}
