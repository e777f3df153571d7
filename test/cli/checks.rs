//! Checks that do not end by themselves.

use fia::event::Event;
use pretty_assertions::assert_eq;

use crate::support::project::Project;

#[test]
fn a_check_that_runs_into_its_time_limit_is_told_as_such_everywhere() {
    let project = Project::new()
        .with(
            "checks: { test: { run: \"[ -e done ] || exec sleep 600\", timeout_minutes: 0.002 } }\n\
             workflows: { w: { steps: [{ name: tests, repair: { check: [test], fix: builder } }] } }\n",
        )
        .script("phases: { fix_1: [{ do: [{ write: { done: \"1\" } }] }] }\n");
    let finished = project.fia(&["run", "w", "x"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    let told = "test failed, timed out after 0.002 min, in ";
    assert!(finished.stderr.contains(told), "{finished}");

    let log = project.log();
    let limits = log.all(|event| match event {
        Event::Check(check) => Some((check.passed, check.exit, check.timed_out_minutes)),
        _ => None,
    });
    assert_eq!(limits, [(false, None, Some(0.002)), (true, Some(0), None)]);
    let prompt = log.prompt("builder", "02_fix_1", 1, 1);
    assert!(prompt.contains("failed, timed out after 0.002 min; whole output in "), "{prompt}");
    let row = "` failed, timed out after 0.002 min; whole output in .fia/runs/";
    let channel = project.fia(&["channel"]);
    assert!(channel.stdout.contains(row), "{channel}");
    assert!(project.fia(&["events"]).stdout.contains(told));
    assert!(project.fia(&["phases"]).stdout.contains("test red, timed out after 0.002 min: context_handoff/"));
    assert_eq!(project.json(&["phases", "--json"])["phases"][0]["checks"][0]["timed_out_minutes"], 0.002);
}

#[test]
fn a_gate_that_runs_into_its_time_limit_tells_the_agent_and_the_end_of_the_run() {
    let project = Project::new().with(
        "checks: { test: { run: \"exec sleep 600\", timeout_minutes: 0.002 } }\n\
         workflows: { w: { steps: [{ name: build, agent: builder, gates: [test], retries: 1 }] } }\n",
    );
    let finished = project.fia(&["run", "w", "x", "-q"]);
    assert_eq!(finished.end(), "exit 1", "{finished}");
    assert!(finished.stderr.contains("test: timed out after 0.002 min, output in "), "{finished}");
    let prompt = project.log().prompt("builder", "01_build", 1, 2);
    assert!(prompt.contains("timed out after 0.002 min, output in "), "{prompt}");
}
