//! What a fia that was killed left running, and who ends it (SPEC 5.4).

use std::fs;
use std::path::Path;

use fia::event::{Event, Outcome};
use fia::host::{Mark, Presence, identity};
use pretty_assertions::assert_eq;
use rustix::process::Signal;

use super::resume::{await_presence, hanging, marks};
use crate::support::program::Running;
use crate::support::project::{Log, Project};

/// A command that will not be asked to end, with a child that will not either and one in a session of its own. It
/// writes down their ids, and does nothing the second time.
const STUBBORN: &str = "[ -e ../again ] && exit; trap '' TERM; sh -c 'echo $$ > ../child; exec sleep 600' & \
    setsid sh -c 'echo $$ > ../stray; exec sleep 600' & \
    while ! [ -s ../child -a -s ../stray ]; do sleep 0.01; done; touch ../ready; wait";

/// The process whose id stands in a file.
fn named_in(path: &Path) -> Mark {
    let pid = fs::read_to_string(path).unwrap().trim().parse().unwrap();
    Mark::new(identity(pid).unwrap()).unwrap()
}

fn check_marks(log: &Log) -> Vec<Mark> {
    log.all(|event| match event {
        Event::CheckStart(start) => Some(start.mark.clone()),
        _ => None,
    })
}

fn kill(running: Running) {
    running.signal(Signal::KILL);
    drop(running.finish());
}

#[test]
fn r5_4_a_check_of_a_killed_fia_is_named_and_ended_with_all_it_started() {
    let project = Project::new()
        .with(&format!(
            "checks: {{ stubborn: {{ run: {STUBBORN:?} }} }}\n\
             workflows:\n  one:\n    steps: [{{ name: test, check: [stubborn] }}]\n"
        ))
        .committed();
    let beside = |name: &str| project.env().work().with_file_name(name);
    let running = project.start(&["run", "one", "x"]);
    running.until("ready", || beside("ready").exists());
    kill(running);
    let check = check_marks(&project.log()).remove(0);
    let (child, stray) = (named_in(&beside("child")), named_in(&beside("stray")));
    let presences = || [&check, &child, &stray].map(|mark| mark.presence().unwrap());
    assert_eq!(presences(), [Presence::Running; 3]);
    let shown = project.fia(&["show"]);
    let said = format!("check stubborn (process {}) still works", check.pid);
    assert!(shown.stderr.contains(&said), "{shown}");
    assert_eq!(presences(), [Presence::Running; 3]);
    fs::write(beside("again"), "").unwrap();
    let resumed = project.fia(&["resume", "--json"]);
    assert_eq!(resumed.end(), "exit 0", "{resumed}");
    assert_eq!(presences(), [Presence::Gone; 3]);
}

#[test]
fn r5_4_what_an_engine_of_a_killed_fia_started_elsewhere_is_ended_too() {
    let project = Project::new()
        .with("workflows:\n  one:\n    steps: [{ name: build, agent: builder }]\n")
        .script(&format!("phases: {{ build: [{{ do: [{{ run: {STUBBORN:?} }}] }}] }}\n"))
        .committed();
    let beside = |name: &str| project.env().work().with_file_name(name);
    let running = project.start(&["run", "one", "x"]);
    running.until("ready", || beside("ready").exists());
    kill(running);
    let engine = marks(&project.log()).remove(0);
    let (child, stray) = (named_in(&beside("child")), named_in(&beside("stray")));
    let presences = || [&engine, &child, &stray].map(|mark| mark.presence().unwrap());
    assert_eq!(presences(), [Presence::Running; 3]);
    fs::write(beside("again"), "").unwrap();
    let resumed = project.fia(&["resume", "--json"]);
    assert_eq!(resumed.end(), "exit 0", "{resumed}");
    assert_eq!(presences(), [Presence::Gone; 3]);
}

#[test]
fn r5_4_stop_all_and_a_bare_stop_end_the_engines_of_every_killed_fia() {
    for args in [&["stop", "--all"][..], &["stop"]] {
        let project = hanging();
        let mut engines = Vec::new();
        for (run, options) in [("a", &["-q"][..]), ("b", &["-q", "--worktree"])] {
            let running = project.start(&[&["run", "slow", "x", "--run", run][..], options].concat());
            let dir = project.env().work().join(".fia/runs").join(run);
            running.until("a session", || project.has_record(run, "session"));
            kill(running);
            engines.push(marks(&Log::read(project.env(), &dir)).remove(0));
        }
        let presences = || engines.iter().map(|engine| engine.presence().unwrap()).collect::<Vec<_>>();
        assert_eq!(presences(), [Presence::Running; 2]);
        let stopped = project.fia(args);
        assert_eq!(stopped.end(), "exit 0", "{stopped}");
        for (engine, run) in engines.iter().zip(["a", "b"]) {
            await_presence(engine, Presence::Gone);
            let said = format!("run {run}: engine of builder (process {}) was ended", engine.pid);
            assert!(stopped.stderr.contains(&said), "{stopped}");
        }
    }
}

#[test]
fn what_an_agent_left_running_on_purpose_outlives_a_resume_after_an_end() {
    let serves = "setsid sh -c 'echo $$ > ../server; exec sleep 600' >/dev/null 2>&1 & \
        while ! [ -s ../server ]; do sleep 0.01; done";
    let review = "{ status: success, summary: open, approved: false, findings: [], blocking: [] }";
    let project = Project::new()
        .with("workflows:\n  one:\n    steps: [{ name: build, agent: builder, output: review }]\n")
        .script(&format!("phases: {{ build: [{{ do: [{{ run: {serves:?} }}], answer: {review} }}] }}\n"))
        .committed();
    assert_eq!(project.run("one").outcome(), Outcome::VerificationFailed);
    let server = named_in(&project.env().work().with_file_name("server"));
    assert_eq!(project.fia(&["resume", "--retry-unchanged", "--json"]).end(), "exit 1");
    assert_eq!(server.presence().unwrap(), Presence::Running);
    server.kill_group().unwrap();
}

/// Stops a run now once its check is at work, and looks that the check is gone and a resume goes on.
fn stops_now(project: &Project) -> Log {
    let beside = |name: &str| project.env().work().with_file_name(name);
    let running = project.start(&["run", "one", "x"]);
    running.until("ready", || beside("ready").exists());
    assert_eq!(project.fia(&["stop", "--now", "--reason", "lunch"]).end(), "exit 0");
    let finished = running.finish();
    assert_eq!(finished.end(), "exit 1", "{finished}");
    let log = project.log();
    assert_eq!(log.outcome(), Outcome::StoppedByRequest);
    let check = check_marks(&log).remove(0);
    assert_eq!(check.group_presence().unwrap(), Presence::Gone);
    fs::write(beside("again"), "").unwrap();
    assert_eq!(project.fia(&["resume", "--json"]).end(), "exit 0");
    log
}

const SLOW: &str = "[ -e ../again ] && exit; touch ../ready; sleep 600";

#[test]
fn r10_5_stop_now_ends_a_check_phase() {
    let project = Project::new()
        .with(&format!(
            "checks: {{ slow: {{ run: {SLOW:?} }} }}\nworkflows:\n  one:\n    steps: [{{ name: test, check: [slow] }}]\n"
        ))
        .committed();
    let log = stops_now(&project);
    let ends = log.story(&["check_start", "check", "phase_end", "run_end"]);
    assert_eq!(ends, ["01_test check_start", "01_test check", "01_test phase_end", "run_end"]);
}

#[test]
fn r10_5_stop_now_ends_a_check_that_is_a_gate_and_no_correction_is_asked_for() {
    let project = Project::new()
        .with(&format!(
            "checks: {{ slow: {{ run: {SLOW:?} }} }}\n\
             workflows:\n  one:\n    steps: [{{ name: build, agent: builder, gates: [slow] }}]\n"
        ))
        .committed();
    let log = stops_now(&project);
    let story = log.story(&["agent_start", "check", "gate_fail", "gate_pass", "phase_end"]);
    assert_eq!(story, ["01_build agent_start", "01_build check", "01_build phase_end"]);
}
