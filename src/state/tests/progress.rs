//! Repairs that come to nothing (SPEC 10.4).

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

#[test]
fn r10_4_fixes_that_change_neither_failures_nor_files_end_the_repair() {
    let repeat = |window: u64, trees: &[&str]| {
        let mut story = Story::begin(plan(vec![step(
            "tests",
            Action::Repair { checks: vec!["test".into()], fix: agent("builder", "build") },
        )]));
        story.stop = Stop { attempt_cap: 9, no_progress_window: window, ..Stop::default() };
        let mut tests = 0;
        while let Step::Phase(order) = story.next() {
            story.open(&order);
            if let Work::Check { .. } = order.work {
                let tree = trees.get(tests).copied().unwrap_or("same");
                tests += 1;
                story.record(
                    Some(&order.phase),
                    Event::Check(CheckRun {
                        check: "test".into(),
                        passed: false,
                        exit: Some(1),
                        timed_out_minutes: None,
                        log: String::new(),
                        elapsed_ms: 1,
                    }),
                );
                story.close(&order.phase, PhaseStatus::Red, None, Some(tree));
            } else {
                story.finish(&order, json!({"status": "success"}), false);
            }
        }
        let Step::End { outcome, .. } = story.next() else { panic!("not ended") };
        (tests, outcome)
    };
    assert_eq!(repeat(2, &["a", "b"]), (5, Outcome::NoProgress));
    assert_eq!(repeat(1, &["a", "b"]), (4, Outcome::NoProgress));
    assert_eq!(repeat(2, &[]), (3, Outcome::NoProgress));
    assert_eq!(repeat(0, &[]), (10, Outcome::AttemptCap));
}

#[test]
fn r10_4_fixes_that_trade_one_failure_for_another_are_progress() {
    let mut story = Story::begin(plan(vec![step(
        "tests",
        Action::Repair { checks: vec!["one".into(), "two".into()], fix: agent("builder", "build") },
    )]));
    story.stop = Stop { attempt_cap: 4, no_progress_window: 1, ..Stop::default() };
    let mut tests = 0;
    while let Step::Phase(order) = story.next() {
        story.open(&order);
        if let Work::Check { checks, .. } = &order.work {
            for (at, check) in checks.iter().enumerate() {
                let passed = tests % 2 == at;
                let run = CheckRun {
                    check: check.clone(),
                    passed,
                    exit: None,
                    timed_out_minutes: None,
                    log: String::new(),
                    elapsed_ms: 1,
                };
                story.record(Some(&order.phase), Event::Check(run));
            }
            tests += 1;
            story.close(&order.phase, PhaseStatus::Red, None, Some("same"));
        } else {
            story.finish(&order, json!({"status": "success"}), false);
        }
    }
    let Step::End { outcome, .. } = story.next() else { panic!("not ended") };
    assert_eq!((tests, outcome), (5, Outcome::AttemptCap));
}
