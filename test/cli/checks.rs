//! Checks that do not end by themselves, and checks that cannot start.

use fia::event::{Event, FaultKind, Outcome};
use pretty_assertions::assert_eq;

use crate::support::project::{Log, Project};

#[test]
fn a_check_that_runs_into_its_time_limit_is_told_as_such_everywhere() {
    // Long enough for the check that passes, on a busy machine too.
    let project = Project::new()
        .with(
            "checks: { test: { run: \"[ -e done ] || exec sleep 600\", timeout_minutes: 0.1 } }\n\
             workflows: { w: { steps: [{ name: tests, repair: { check: [test], fix: builder } }] } }\n",
        )
        .script("phases: { fix_1: [{ do: [{ write: { done: \"1\" } }] }] }\n");
    let finished = project.fia(&["run", "w", "x"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    let told = "test failed, timed out after 0.1 min, in ";
    assert!(finished.stderr.contains(told), "{finished}");

    let log = project.log();
    let limits = log.all(|event| match event {
        Event::Check(check) => Some((check.passed, check.exit, check.timed_out_minutes)),
        _ => None,
    });
    assert_eq!(limits, [(false, None, Some(0.1)), (true, Some(0), None)]);
    let prompt = log.prompt("builder", "02_fix_1", 1, 1);
    assert!(prompt.contains("failed, timed out after 0.1 min; whole output in "), "{prompt}");
    let row = "` failed, timed out after 0.1 min; whole output in .fia/runs/";
    let channel = project.fia(&["channel"]);
    assert!(channel.stdout.contains(row), "{channel}");
    assert!(project.fia(&["events"]).stdout.contains(told));
    assert!(project.fia(&["phases"]).stdout.contains("test red, timed out after 0.1 min: context_handoff/"));
    assert_eq!(project.json(&["phases", "--json"])["phases"][0]["checks"][0]["timed_out_minutes"], 0.1);
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

/// The agent phases of a run, and what it says of checks that cannot start.
fn judged(log: &Log) -> (usize, Vec<String>) {
    let faults = log.all(|event| match event {
        Event::Error(fault) if fault.kind == FaultKind::Check => Some(fault.message.clone()),
        _ => None,
    });
    (log.starts().len(), faults)
}

#[test]
fn a_check_whose_program_is_missing_is_not_red_and_no_fix_is_paid_for_it() {
    let check = "checks: { test: { run: \"MODE=x nonsuch-tool --all\" } }\n";
    let told = "check `test` cannot start: program `nonsuch-tool` not found on PATH".to_owned();
    for step in [
        "repair: { check: [test], fix: builder }",
        "check: [test]",
        "check: [test], expect: red",
        "agent: builder, gates: [test]",
    ] {
        let project =
            Project::new().with(&format!("{check}workflows: {{ w: {{ steps: [{{ name: tests, {step} }}] }} }}\n"));
        let finished = project.fia(&["run", "w", "x"]);
        assert_eq!(finished.end(), "exit 1", "{step}: {finished}");
        assert!(finished.stderr.starts_with(&format!("warning: {told}\n")), "{step}: {finished}");
        let log = project.log();
        assert_eq!(log.outcome(), Outcome::Failed, "{step}");
        let paid = usize::from(step.starts_with("agent"));
        assert_eq!(judged(&log), (paid, vec![told.clone()]), "{step}");
        if paid == 0 {
            // Nothing that the run changed has to change for it.
            assert!(finished.stderr.trim_end().ends_with("--retry-unchanged"), "{finished}");
        }
    }
}

#[test]
fn a_program_that_a_script_misses_or_that_an_agent_may_write_makes_a_red_check() {
    for run in ["sh -c 'exit 127'", "./test.sh", "nonsuch-tool; exit 1"] {
        let project = Project::new()
            .with(&format!(
                "checks: {{ test: {{ run: \"{run}\" }} }}\nstop: {{ attempt_cap: 1 }}\n\
                 workflows: {{ w: {{ steps: [{{ name: tests, repair: {{ check: [test], fix: builder }} }}] }} }}\n"
            ))
            .script("phases: {}\n");
        let log = project.run("w");
        assert_eq!((log.outcome(), judged(&log)), (Outcome::AttemptCap, (1, vec![])), "{run}");
    }
}

#[test]
fn a_check_whose_program_is_missing_is_told_before_a_run() {
    let project = Project::new().with("checks: { test: { run: nonsuch-tool } }\n");
    let told = "check `test` cannot start: program `nonsuch-tool` not found on PATH\n";
    let planned = project.fia(&["run", "build_test", "--dry-run", "x"]);
    assert_eq!((planned.end().as_str(), planned.stderr), ("exit 0", format!("warning: {told}")));
    let checked = project.fia(&["config", "check"]);
    assert!(checked.end() == "exit 0" && checked.stdout.starts_with(&format!("warning: {told}")), "{checked}");
    let examined = project.fia(&["doctor"]);
    assert!(examined.stdout.contains(&format!("\n{told}")), "{examined}");
}
