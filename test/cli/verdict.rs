//! `fia verdict`, `fia approve` and `fia reject`: what people say of a run.

use fia::event::{Event, Outcome};
use pretty_assertions::assert_eq;

use super::resume::judged;
use crate::support::project::Project;

#[test]
fn r10_6_a_verdict_lets_an_unchanged_run_go_on_and_every_agent_phase_is_told_once() {
    let project = judged();
    project.run("judged");
    let run = project.runs().remove(0);
    let unknown = project.fia(&["verdict", "set", &run, "--missing", "x", "--redo", "01_bild"]);
    assert_eq!(unknown.end(), "exit 2");
    assert!(unknown.stderr.contains("did you mean `01_build`?"), "{unknown}");
    assert_eq!(project.fia(&["verdict", "set", &run]).end(), "exit 2");
    let set = project.fia(&["verdict", "set", &run, "--missing", "the health route", "--note", "see the issue"]);
    assert_eq!(set.end(), "exit 0", "{set}");
    assert!(set.stderr.contains("01_build and all after it is done again"), "{set}");
    assert_eq!(project.json(&["verdict", "show", &run])["missing"][0], "the health route");
    project.env().write("rehearsal.yaml", "phases: {}\n");
    assert_eq!(project.fia(&["resume", "--json"]).end(), "exit 0");
    let log = project.log();
    for (agent, phase, leg) in [("builder", "01_build", 2), ("reviewer", "02_review", 2)] {
        let prompt = log.prompt(agent, phase, leg, 1);
        assert_eq!(prompt.matches("- the health route\n").count(), 1, "{prompt}");
        assert!(prompt.contains("see the issue"), "{prompt}");
    }
    assert_eq!(log.all(|event| matches!(event, Event::Verdict(_)).then_some(())).len(), 1);
    // It is used up: the next stretch takes everything over and tells nobody anything.
    assert!(!project.run_dir().join("verdict.json").exists());
    assert_eq!(project.fia(&["resume", &run, "--json"]).end(), "exit 0");
    assert_eq!(project.log().starts().len(), 4);
}

#[test]
fn a_verdict_can_be_taken_back() {
    let project = judged();
    project.run("judged");
    let run = project.runs().remove(0);
    assert_eq!(project.fia(&["verdict", "set", &run, "--missing", "x"]).end(), "exit 0");
    assert_eq!(project.fia(&["verdict", "clear", &run]).end(), "exit 0");
    assert_eq!(project.fia(&["resume"]).end(), "exit 2");
}

#[test]
fn an_approval_is_answered_by_file_and_bell() {
    let approving = |wait: &str| {
        Project::new()
            .with(&format!("workflows:\n  ask:\n    steps:\n      - {{ name: build, agent: builder }}\n      - {{ name: sign, approve: {{}}{wait} }}\n"))
            .committed()
    };
    for (answer, outcome) in [("approve", Outcome::GoalMet), ("reject", Outcome::StoppedByRequest)] {
        let project = approving(", wait: never");
        let running = project.start(&["run", "ask", "x"]);
        project.wait_for(&running, "waiting");
        assert_eq!(project.fia(&[answer, "--reason", "looked at it"]).end(), "exit 0");
        running.finish();
        assert_eq!(project.log().outcome(), outcome);
        assert!(!project.run_dir().join("approval.json").exists());
    }
    let project = approving("");
    assert_eq!(project.fia(&["run", "ask", "x", "-q"]).end(), "exit 1");
    assert_eq!(project.log().outcome(), Outcome::StoppedByRequest);
    assert_eq!(project.fia(&["approve"]).end(), "exit 0");
    assert_eq!(project.fia(&["resume", "--json"]).end(), "exit 0");
    let answered = project.fia(&["approve", &project.runs()[0]]);
    assert!(answered.end() == "exit 2" && answered.stderr.contains("does not ask"), "{answered}");
}
