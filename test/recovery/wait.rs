use fia::event::{Event, Outcome};
use pretty_assertions::assert_eq;

use crate::story::Story;

const SCRIPTED: &str = "engines: { SCRIPTED }\n";
const LIMIT: &str = "phases: { build: [{ fail: { kind: limit, message: spent, retry_after: '2026-11-30T12:38:00Z' } }], build@2: [{}] }";

#[tokio::test]
async fn r10_a_limit_is_relayed_at_once_when_a_fallback_is_ready() {
    let two = "fallbacks: [ { coding_agent: scripted, model: two } ]";
    let told = Story::new(two, SCRIPTED, LIMIT).run().await;
    assert_eq!(told.story()[3..6], ["one died: limit, 1", "scripted two is ready: true", "relay from one to two"]);
    assert_eq!(told.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_a_limit_without_a_fallback_is_waited_for_and_the_phase_goes_on() {
    let mut story = Story::new("model: one", SCRIPTED, LIMIT);
    let told = story.run().await;
    assert_eq!(
        told.story()[..14],
        [
            "build starts",
            "leg 1 on one Cold",
            "turn Failed",
            "one died: limit, 1",
            "wait 1 until 12:38",
            "build ends: Stopped",
            "build starts",
            "continuation in leg 2",
            "leg 2 on one Restored",
            "turn Completed",
            "build ends: Success",
            "polish starts",
            "leg 1 on one Restored",
            "turn Completed",
        ]
    );
    assert_eq!(told.outcome, Outcome::GoalMet);
    let again = told.records.iter().filter(|record| matches!(record.event, Event::PhaseStart(_))).nth(1);
    assert_eq!(again.unwrap().ts.format("%H:%M").to_string(), "12:38");
}

#[tokio::test]
async fn r10_a_reset_beyond_limit_wait_minutes_ends_the_run_and_says_when() {
    let mut story = Story::new("model: one", &format!("{SCRIPTED}stop: {{ limit_wait_minutes: 30 }}\n"), LIMIT);
    let told = story.run().await;
    assert_eq!(told.story()[3..], ["one died: limit, 1", "build ends: Failed", "engine_exhausted"]);
    assert!(told.reason.starts_with("scripted limit: spent; it can go on at 2026-11-30 "), "{}", told.reason);
    assert_eq!(story.resume().await.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_the_reset_is_read_again_after_each_wait_and_an_unknown_one_waited_for_longer_each_time() {
    let script = "phases:\n\
        \x20 build: [{ fail: { kind: limit, retry_after: '2026-11-30T12:10:00Z' } }]\n\
        \x20 build@2: [{ fail: { kind: limit, retry_after: '2026-11-30T12:20:00Z' } }]\n\
        \x20 build@3: [{ fail: { kind: limit } }]\n\
        \x20 build@4: [{ fail: { kind: limit } }]\n";
    let stop = format!("{SCRIPTED}stop: {{ limit_wait_minutes: 50 }}\n");
    let told = Story::new("model: one", &stop, script).run().await;
    let waits: Vec<_> = told.story().into_iter().filter(|line| line.starts_with("wait")).collect();
    assert_eq!(waits, ["wait 1 until 12:10", "wait 2 until 12:20", "wait 3 until 12:40"], "{:?}", told.story());
    assert_eq!(told.outcome, Outcome::EngineExhausted, "40 more minutes are beyond the 50 in all");
}

#[tokio::test]
async fn r10_a_resume_during_a_wait_goes_on_waiting() {
    let mut story = Story::new("model: one", SCRIPTED, LIMIT);
    let told = story
        .run_with(Box::new(|record, outside| {
            if matches!(record.event, Event::PhaseEnd(_)) {
                outside.interrupt();
            }
        }))
        .await;
    assert_eq!(told.story()[3..], ["one died: limit, 1", "wait 1 until 12:38", "build ends: Stopped", "aborted"]);
    let told = story.resume().await;
    assert_eq!(told.story()[..2], ["wait 1 until 12:38", "build starts"], "it says again what it waits for");
    let again = told.records.iter().find(|record| matches!(record.event, Event::PhaseStart(_))).unwrap();
    assert_eq!(again.ts.format("%H:%M").to_string(), "12:38");
    assert_eq!(told.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_5_a_stop_file_ends_a_wait() {
    let mut story = Story::new("model: one", SCRIPTED, LIMIT);
    let told = story
        .run_with(Box::new(|record, outside| {
            if matches!(record.event, Event::PhaseEnd(_)) {
                outside.stop("{\"now\": false, \"reason\": \"lunch\"}");
            }
        }))
        .await;
    assert_eq!((told.outcome, &*told.reason), (Outcome::StoppedByRequest, "lunch"));
    assert!(told.records.last().unwrap().ts.to_rfc3339().as_str() < "2026-11-30T12:30");
}
