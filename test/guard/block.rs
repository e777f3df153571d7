//! Agents side by side.

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::lab::{Lab, shell};

fn reviewers(names: &[&str]) -> Value {
    let step = |name: &&str| json!({"name": format!("by_{name}"), "agent": name, "output": "review"});
    json!([{"name": "build", "agent": "builder", "output": "build"},
           {"name": "reviews", "parallel": names.iter().map(step).collect::<Vec<_>>()},
           {"name": "save", "commit": {}}])
}

/// Types of records with their phases, from the first on that a block wrote.
fn course(lab: &Lab, kinds: &[&str]) -> Vec<String> {
    let told = lab.events("r").into_iter().filter(|event| kinds.iter().any(|kind| event["type"] == *kind));
    told.map(|event| format!("{} {}", event["type"].as_str().unwrap(), event["phase"].as_str().unwrap_or("-")))
        .filter(|line| !line.ends_with("01_build"))
        .collect()
}

#[test]
fn parallel_reviewers_work_at_once_and_all_end_before_the_next_step() {
    // Each waits for the other: one after the other they would never end.
    let meet = |own: &str, other: &str| {
        let line = format!("cd .fia/runs/r/context_handoff; touch {own}; until [ -e {other} ]; do sleep 0.01; done");
        json!([shell(&[&line])])
    };
    let lab = Lab::new(
        &reviewers(&["reviewer", "auditor"]),
        &json!({"build": [shell(&["echo built > src/a"])], "by_reviewer": meet("one", "two"),
               "by_auditor": meet("two", "one")}),
    );
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    let course = course(&lab, &["phase_start", "phase_end"]);
    assert_eq!(
        course,
        [
            "phase_start 02_by_reviewer",
            "phase_start 03_by_auditor",
            "phase_end 02_by_reviewer",
            "phase_end 03_by_auditor",
            "phase_start 04_save",
            "phase_end 04_save"
        ]
    );
    let sessions: std::collections::BTreeSet<String> =
        lab.of("session").iter().map(|seen| seen["payload"]["session_id"].to_string()).collect();
    assert_eq!(sessions.len(), 3);
}

#[test]
fn on_one_prefix_the_second_starts_when_the_first_was_answered() {
    // The first is still at work when the second starts: it waits for it.
    let at = |line: &str| json!([shell(&[&format!("cd .fia/runs/r/context_handoff; {line}")])]);
    let lab = Lab::new(
        &reviewers(&["reviewer", "second"]),
        &json!({"by_reviewer": at("until [ -e two ]; do sleep 0.01; done"), "by_second": at("touch two")}),
    );
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    let course = course(&lab, &["agent_start", "context", "agent_end"]);
    let at = |what: &str| course.iter().position(|line| line == what).unwrap();
    assert!(at("context 02_by_reviewer") < at("agent_start 03_by_second"), "{course:?}");
    assert!(at("agent_start 03_by_second") < at("agent_end 02_by_reviewer"), "{course:?}");
}

#[test]
fn r11_4_a_block_that_wrote_is_undone_tried_again_and_then_blocked() {
    let lab = Lab::new(
        &reviewers(&["reviewer", "auditor"]),
        &json!({"build": [shell(&["echo built > src/a"])], "by_auditor": [shell(&["echo worse > src/a"])]}),
    );
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 1".to_owned(), "blocked_by_gate".to_owned()), "{finished}");
    let path = vec!["src/a".to_owned()];
    assert_eq!(lab.undone(), [(path.clone(), true), (path, false)]);
    assert_eq!(lab.of("permission_retry")[0]["payload"]["agents"], json!(["reviewer", "auditor"]));
    assert_eq!(lab.env.read("src/a"), "built\n");
    // Of a block that is blamed no report counts.
    assert_eq!(lab.of("envelope").len(), 1);
    let note = lab.env.read(".fia/runs/r/agents/reviewer/02_by_reviewer.2.1.user.md");
    assert!(note.starts_with("# Not allowed"), "{note}");
}

#[test]
fn a_member_that_fails_ends_the_run_when_the_others_are_done() {
    let failed =
        "until grep '\"type\":\"agent_end\"' .fia/runs/r/events.jsonl | grep 02_by_reviewer; do sleep 0.01; done";
    let lab = Lab::new(
        &reviewers(&["reviewer", "auditor"]),
        &json!({"by_reviewer": [{"answer": {"status": "fail", "summary": "no idea", "approved": false}}],
               "by_auditor": [shell(&[failed])]}),
    );
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 1".to_owned(), "failed".to_owned()), "{finished}");
    let ends: Vec<String> =
        lab.of("phase_end").iter().map(|end| end["payload"]["status"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ends, ["success", "failed", "success"]);
    assert!(finished.stderr.contains("reviewer reports failure: no idea"), "{finished}");
}

#[test]
fn r10_7_an_interrupt_ends_all_members() {
    let turn = |name: &str| {
        let mut turn = shell(&[&format!("touch .fia/runs/r/context_handoff/{name}")]);
        turn["hang"] = json!(true);
        json!([turn])
    };
    let lab = Lab::new(
        &reviewers(&["reviewer", "second", "auditor"]),
        &json!({"by_reviewer": turn("one"), "by_second": turn("two"), "by_auditor": turn("three")}),
    );
    let running = lab.start_until(".fia/runs/r/context_handoff/two");
    running.signal(Signal::INT);
    let finished = running.finish();
    assert_eq!((finished.end(), lab.outcome()), ("exit 130".to_owned(), "aborted".to_owned()), "{finished}");
    let ends: Vec<String> =
        lab.of("phase_end").iter().map(|end| end["payload"]["status"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ends, ["success", "stopped", "stopped", "stopped"]);
}
