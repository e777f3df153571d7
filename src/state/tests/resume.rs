//! What a resume takes over and does again, and what a verdict asks for.

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn r10_6_a_resume_takes_over_agent_phases_and_runs_checks_again() {
    let mut story = Story::begin(sdlc());
    for _ in 0..4 {
        story.take(json!({"status": "success"}), false);
    }
    let Step::Phase(order) = story.next() else { panic!() };
    assert_eq!(order.phase.as_str(), "05_test_2");
    story.open(&order);
    // Killed in the middle of the test.
    story.start(true);
    assert_eq!(
        story.go(&[false, true]),
        [
            "reuse 01_plan",
            "reuse 02_build",
            "05_test_2",
            "06_fix_2",
            "07_test_3",
            "08_review",
            "09_save",
            "end goal_met"
        ]
    );
    story.start(true);
    assert_eq!(
        story.go(&[true]),
        ["reuse 01_plan", "reuse 02_build", "07_test_3", "reuse 08_review", "reuse 09_save", "end goal_met"]
    );
    story.start(true);
    assert_eq!(
        story.go(&[false, true])[2..],
        ["07_test_3", "10_fix_3", "11_test_4", "08_review", "09_save", "end goal_met"]
    );
}

#[test]
fn r10_6_a_phase_without_replay_and_an_interrupted_one_run_again_under_their_names() {
    let mut once_more = sdlc();
    let Action::Agent(review) = &mut once_more.steps[3].action else { panic!() };
    review.replay = false;
    let mut story = Story::begin(once_more);
    story.go(&[true]);
    story.start(true);
    assert_eq!(
        story.go(&[true]),
        ["reuse 01_plan", "reuse 02_build", "03_test_1", "04_review", "05_save", "end goal_met"]
    );
    assert_eq!(story.state.phases[&PhaseName::new("04_review")].attempts, 2);
}

#[test]
fn a_verdict_gives_new_attempts_and_redoes_what_it_names_and_all_after_it() {
    let mut story = Story::begin(sdlc());
    story.go(&[false]);
    let verdict = |redo: &[&str]| Verdict {
        missing: vec!["the health route".to_owned()],
        redo: redo.iter().map(|name| PhaseName::new(*name)).collect(),
        note: None,
    };
    story.record(None, Event::Verdict(verdict(&[])));
    story.start(true);
    assert_eq!(
        story.go(&[false, true])[..5],
        ["reuse 01_plan", "reuse 02_build", "09_test_4", "10_fix_4", "11_test_5"]
    );
    story.record(None, Event::Verdict(verdict(&["02_build"])));
    story.start(true);
    assert_eq!(story.go(&[true]), ["reuse 01_plan", "02_build", "11_test_5", "12_review", "13_save", "end goal_met"]);
    assert_eq!(story.state.recovery, Recovery { resumes: 1, verdicts: 2 });
}

#[test]
fn what_a_verdict_asks_for_again_is_done_once_and_what_follows_it_whenever_fia_is_killed() {
    let mut story = Story::begin(sdlc());
    story.go(&[true]);
    let verdict = Verdict { missing: vec!["a".to_owned()], redo: vec!["02_build".into()], note: None };
    story.record(None, Event::Verdict(verdict));
    assert!(story.state.verdict_is_new);
    story.start(true);
    assert!(!story.state.verdict_is_new);
    assert_eq!(story.take(Value::Null, true), "reuse 01_plan");
    assert_eq!(story.take(json!({"status": "success"}), true), "02_build");
    let told = story.state.verdict.as_ref().map(|(_, told)| told.clone());
    assert_eq!(told, Some(BTreeSet::from(["02_build".into()])));
    // Killed between two phases.
    story.start(true);
    assert_eq!(
        story.go(&[true]),
        ["reuse 01_plan", "reuse 02_build", "03_test_1", "04_review", "05_save", "end goal_met"]
    );
}
