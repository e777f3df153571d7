//! `fia events`: the log, filtered, and while it grows.

use std::io::Write as _;
use std::process::Stdio;

use pretty_assertions::assert_eq;

use super::resume::marks;
use crate::support::project::Project;

const PAIR: &str = "
workflows:
  pair:
    steps:
      - { name: look, agent: scout, output: scout }
      - { name: build, agent: builder, output: build }
";

fn ran() -> Project {
    let project = Project::new().with(PAIR);
    assert_eq!(project.fia(&["run", "pair", "-q", "do", "it"]).end(), "exit 0");
    project
}

/// Types of the records that a command prints as JSON.
fn kinds(project: &Project, args: &[&str]) -> Vec<String> {
    let finished = project.fia(&[&["events", "--json"], args].concat());
    assert_eq!(finished.end(), "exit 0", "{finished}");
    finished.lines().iter().map(|record| record["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn json_events_are_the_lines_of_the_log() {
    let project = ran();
    assert_eq!(project.fia(&["events", "--json"]).stdout, project.log().file("events.jsonl"));
}

#[test]
fn events_are_filtered_by_type_name_phase_agent_number_and_count() {
    let project = ran();
    assert_eq!(kinds(&project, &["--type", "run_start", "--type", "run_end"]), ["run_start", "run_end"]);
    assert_eq!(kinds(&project, &["--name", "goal_met"]), ["run_end"]);
    assert_eq!(kinds(&project, &["--phase", "look", "--type", "phase_end"]), ["phase_end"]);
    assert_eq!(kinds(&project, &["--phase", "2", "--type", "agent_start"]), ["agent_start"]);
    assert_eq!(kinds(&project, &["--agent", "scout", "--type", "agent_end"]), ["agent_end"]);
    assert_eq!(kinds(&project, &["-n", "1"]), ["run_end"]);
    assert_eq!(kinds(&project, &["-n", "1", "--type", "phase_start"]), ["phase_start"]);
    let all = kinds(&project, &[]);
    assert_eq!(kinds(&project, &["--since", "5"]), all[4..]);
    assert_eq!(kinds(&project, &["--since", "2h"]), all);
}

#[test]
fn r2_5_a_follower_prints_a_live_run_to_its_end() {
    let waits = "phases: { look: [{ do: [{ run: 'until [ -e ../go ]; do sleep 0.01; done' }] }] }\n";
    let project = Project::new().with(PAIR).script(waits);
    let run = project.start(&["run", "pair", "-q", "do", "it"]);
    project.wait_for(&run, "agent_start");
    let follower = project.start(&["events", "-f", "--json"]);
    follower.until("the start of the turn", || follower.printed().contains("\"type\":\"agent_start\""));
    project.env().write("../go", "");
    let follower = follower.finish();
    assert_eq!(run.finish().end(), "exit 0");
    assert_eq!(follower.end(), "exit 0", "{follower}");
    assert_eq!(follower.stdout, project.log().file("events.jsonl"));
}

#[test]
fn a_follower_ends_when_the_run_was_killed() {
    let project = Project::new().with(PAIR).script("phases: { look: [{ hang: true }] }\n");
    let run = project.start(&["run", "pair", "-q", "do", "it"]);
    project.wait_for(&run, "agent_start");
    let follower = project.start(&["events", "-f", "--json"]);
    follower.until("the start of the turn", || follower.printed().contains("\"type\":\"agent_start\""));
    run.signal(rustix::process::Signal::KILL);
    assert_eq!(run.finish().end(), "signal 9");
    let followed = follower.finish();
    assert_eq!(followed.end(), "exit 0", "{followed}");
    let lines = followed.lines();
    assert_eq!(lines[0]["type"], "run_start");
    assert!(lines.iter().all(|line| line["type"] != "run_end"), "{followed}");
    marks(&project.log())[0].kill_group().unwrap();
}

#[test]
fn r2_3_a_reader_that_went_away_is_a_quiet_end() {
    let project = ran();
    for args in [&["events", "--json"][..], &["events"], &["show"], &["runs", "--json"], &["workflows"]] {
        let mut child = project.command(args);
        let mut child = child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn r5_3_a_torn_last_line_is_named_and_the_rest_is_shown() {
    let project = ran();
    let path = project.run_dir().join("events.jsonl");
    let mut log = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    log.write_all(b"{\"seq\":999,\"ty").unwrap();
    let finished = project.fia(&["events", "--json"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert!(finished.stderr.starts_with("warning: "), "{finished}");
    assert_eq!(finished.lines().last().unwrap()["type"], "run_end");
}

#[test]
fn filters_that_name_what_the_run_does_not_have_say_what_it_has() {
    let project = ran();
    for (args, told) in [
        (&["--phase", "biuld"][..], "warning: no phase `biuld` in this run; it has: 01_look, 02_build\n"),
        (&["--phase", "3", "--phase", "2"], "warning: no phase `3` in this run; it has: 01_look, 02_build\n"),
        (&["--agent", "bilder"], "warning: no agent `bilder` in this run; it has: builder, scout\n"),
        (
            &["--name", "sesion_rotation"],
            "warning: no record that was asked for is called `sesion_rotation`; did you mean `session_rotation`?\n",
        ),
        (&["--phase", "look", "--agent", "scout", "--name", "scout"], ""),
        (&["--phase", "02_build", "-n", "1"], ""),
    ] {
        let finished = project.fia(&[&["events"], args].concat());
        assert_eq!((finished.end().as_str(), finished.stderr.as_str()), ("exit 0", told), "{args:?}");
    }
}
