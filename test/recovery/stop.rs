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

const APPROVAL: &str = "      - { name: ask, approve: {}, wait: 24h }\nengines: { SCRIPTED }\n";

#[tokio::test]
async fn r10_5_any_stop_file_ends_the_wait_for_an_approval_and_a_resume_asks_again() {
    for (file, content, reason) in [
        ("runs/20261130-120000-test/stop", "{\"now\": false, \"reason\": \"lunch\"}", "lunch"),
        ("runs/20261130-120000-test/stop", "{\"now\": true, \"reason\": \"fire\"}", "fire"),
        ("stop", "", "every run here is stopped until `fia stop --clear`"),
    ] {
        let mut story = Story::new("model: one", APPROVAL, "phases: {}");
        let told = story
            .run_with(Box::new(move |record, outside| {
                if matches!(record.event, Event::Waiting(_)) {
                    outside.write(file, content);
                }
            }))
            .await;
        assert_eq!(told.story()[8..], ["ask starts", "wait 1 until 12:00", "ask ends: Stopped", "stopped_by_request"]);
        assert_eq!(told.reason, reason);
        let _run_only = std::fs::remove_file(story.env.work().join(".fia/stop"));
        let told = story.resume().await;
        assert_eq!(told.reason, "an approval is needed", "after a day");
    }
}

#[tokio::test]
async fn r10_5_a_stop_beside_an_answer_stops_and_the_resume_takes_the_answer() {
    let mut story = Story::new("model: one", APPROVAL, "phases: {}");
    let told = story
        .run_with(Box::new(|record, outside| {
            if matches!(record.event, Event::Waiting(_)) {
                outside.write("runs/20261130-120000-test/approval.json", "{\"approved\": true}");
                outside.stop("");
            }
        }))
        .await;
    assert_eq!(told.outcome, Outcome::StoppedByRequest);
    assert_eq!(story.resume().await.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_5_a_stop_now_ends_a_block_and_whoever_waits_in_it_is_not_started() {
    let agents = "model: one, writes: [] }\n  - { name: second, model: one, writes: []";
    let block = "      - { name: both, parallel: [{ name: one, agent: builder }, { name: two, agent: second }] }\n\
                 engines: { SCRIPTED }\n";
    let mut story = Story::new(agents, block, "phases: { one: [{ hang: true }], one@2: [{}] }");
    let told = story
        .run_with(Box::new(|record, outside| {
            let first = record.phase.as_ref().is_some_and(|phase| phase.as_str().ends_with("_one"));
            if first && matches!(record.event, Event::AgentStart(_)) {
                outside.stop("{\"now\": true}");
            }
        }))
        .await;
    let expected =
        ["one starts", "two starts", "leg 1 on one Restored", "turn Stopped", "one ends: Stopped", "two ends: Stopped"];
    assert_eq!(told.story()[8..14], expected);
    assert_eq!(told.outcome, Outcome::StoppedByRequest);
    assert_eq!(story.resume().await.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_5_a_request_to_stop_ends_the_look_at_a_fallback() {
    let fallbacks = "model: one, fallbacks: [ { coding_agent: pi, model: p/m } ]";
    let script = "phases: { build: [{ fail: { kind: login } }] }";
    let mut story = Story::new(fallbacks, "engines: { SCRIPTED, pi: { program: /HANGS } }\n", script);
    let hangs = story.env.write_program(story.env.home().join("hangs"), "#!/bin/sh\nexec sleep 600\n");
    story.reconfigure("/HANGS", hangs.to_str().unwrap());
    let told = story
        .run_with(Box::new(|record, outside| {
            if matches!(record.event, Event::EngineError(_)) {
                outside.stop("");
            }
        }))
        .await;
    assert_eq!(told.story()[3..], ["one died: login, 1", "build ends: Stopped", "stopped_by_request"]);
}

#[tokio::test]
async fn a_run_that_cannot_begin_leaves_nothing_of_itself() {
    let mut story = Story::new("model: one", "engines: { SCRIPTED }\n", "phases: {}");
    let error = story.refused(|plan| {
        plan.schemas.insert("generic".to_owned(), serde_json::json!({ "type": 5 }));
    });
    assert!(error.to_string().contains("schema"), "{error}");
    assert_eq!(std::fs::read_dir(story.env.work().join(".fia/runs")).unwrap().count(), 0);
    assert_eq!(story.run().await.outcome, Outcome::GoalMet);
}
