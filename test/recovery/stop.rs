use fia::event::{Event, Outcome};
use pretty_assertions::assert_eq;

use crate::story::{Hook, Outside, Story};

const SCRIPTED: &str = "engines: { SCRIPTED }\n";

/// Does something when the first turn has begun.
fn at_work(act: fn(&Outside)) -> Hook {
    Box::new(move |record, outside| {
        if matches!(record.event, Event::AgentStart(_)) {
            act(outside);
        }
    })
}

#[tokio::test]
async fn r10_5_a_stop_file_lets_the_phase_finish_and_a_resume_goes_on() {
    let mut story = Story::new("model: one", SCRIPTED, "phases: {}");
    let told = story.run_with(at_work(|outside| outside.stop("{\"now\": false, \"reason\": \"enough\"}"))).await;
    assert_eq!(told.story()[2..], ["turn Completed", "build ends: Success", "stopped_by_request"]);
    assert_eq!(told.reason, "enough");
    let told = story.resume().await;
    assert_eq!(told.story()[..2], ["polish starts", "leg 1 on one Restored"]);
    assert_eq!(told.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_5_now_interrupts_the_turn_and_a_resume_finishes_it() {
    let mut story = Story::new("model: one", SCRIPTED, "phases: { build: [{ hang: true }], build@2: [{}] }");
    let told = story.run_with(at_work(|outside| outside.stop("{\"now\": true}"))).await;
    assert_eq!(told.story()[2..], ["turn Stopped", "build ends: Stopped", "stopped_by_request"]);
    assert_eq!(story.resume().await.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_5_a_file_for_all_runs_stops_whatever_is_in_it_until_it_is_removed() {
    let mut story = Story::new("model: one", SCRIPTED, "phases: {}");
    let told = story.run_with(at_work(|outside| outside.write("stop", ""))).await;
    assert_eq!(told.story()[2..], ["turn Completed", "build ends: Success", "stopped_by_request"]);
    let told = story.resume().await;
    assert_eq!(told.story(), ["stopped_by_request"], "it still stands");
    std::fs::remove_file(story.env.work().join(".fia/stop")).unwrap();
    assert_eq!(story.resume().await.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_5_a_run_whose_last_phase_is_done_is_not_stopped_any_more() {
    let mut story = Story::new("model: one", SCRIPTED, "phases: {}");
    let told = story
        .run_with(Box::new(|record, outside| {
            if matches!(&record.event, Event::PhaseEnd(end) if end.step.as_str() == "polish") {
                outside.stop("");
            }
        }))
        .await;
    assert_eq!(told.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_5_a_request_to_stop_ends_the_pause_before_a_retry() {
    let mut story = Story::new("model: one", SCRIPTED, "phases: { build: [{ fail: { kind: overload } }] }");
    let told = story
        .run_with(Box::new(|record, outside| {
            if matches!(record.event, Event::EngineRetry(_)) {
                outside.stop("");
            }
        }))
        .await;
    assert_eq!(told.story()[4..], ["retry as leg 2", "build ends: Stopped", "stopped_by_request"]);
}

#[tokio::test]
async fn r10_7_an_interrupt_ends_the_turn_and_is_recorded() {
    let mut story = Story::new("model: one", SCRIPTED, "phases: { build: [{ hang: true }], build@2: [{}] }");
    let told = story.run_with(at_work(Outside::interrupt)).await;
    assert_eq!(told.story()[2..], ["turn Stopped", "build ends: Stopped", "aborted"]);
    assert_eq!(story.resume().await.outcome, Outcome::GoalMet);
}
