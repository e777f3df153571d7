use std::rc::Rc;
use std::time::Duration;

use fia::event::{Event, Outcome, Record};
use pretty_assertions::assert_eq;
use tokio::sync::Notify;

use crate::story::{Outside, Story, Told, pause, sleeps};
use crate::test_env::TestEnv;

const SCRIPTED: &str = "engines: { SCRIPTED }\n";

fn deaths(told: &Told) -> Vec<String> {
    told.of(|event| match event {
        Event::EngineError(error) => Some(format!("{}: {}", error.kind.as_str(), error.message)),
        _ => None,
    })
}

#[tokio::test]
async fn r10_an_engine_that_says_nothing_for_too_long_is_ended_and_tried_once_more() {
    let script = "phases: { build: [{ hang: true }], build@2: [{}], polish: [{}] }";
    let mut story = Story::new("model: one", &format!("{SCRIPTED}stop: {{ idle_timeout_minutes: 5 }}\n"), script);
    let told = story
        .run_with(Box::new(|record, _| {
            if matches!((&record.event, &record.phase), (Event::AgentStart(start), Some(phase))
                if start.leg == 1 && phase.as_str() == "01_build")
            {
                pause(true);
            }
        }))
        .await;
    // Whether its session was there already when it was ended does not matter.
    assert_eq!(told.story()[2..5], ["turn Failed", "one died: timeout, 1", "retry as leg 2"]);
    assert_eq!(deaths(&told), ["timeout: no output for the idle limit"]);
    assert_eq!(told.outcome, Outcome::GoalMet);
}

/// A turn whose tool does not end before a file is there, and says when it is at work.
fn in_a_tool() -> Story {
    let waits = "touch ../started; until [ -e ../go ]; do sleep 0.01; done";
    let script = format!("phases: {{ build: [{{ do: [{{ run: {waits:?} }}] }}], build@2: [{{}}], polish: [{{}}] }}");
    let stop = "stop: { idle_timeout_minutes: 5, phase_timeout_minutes: 90 }\n";
    Story::new("model: one", &format!("{SCRIPTED}{stop}"), &script)
}

/// Once a tool is at work, lets a span pass at once.
async fn passes_in_a_tool(env: &TestEnv, span: Duration) {
    let started = env.work().with_file_name("started");
    // By the clock on the wall: that of the story may stand still.
    let patience = std::time::Instant::now() + Duration::from_secs(60);
    while std::fs::remove_file(&started).is_err() {
        assert!(std::time::Instant::now() < patience, "no tool is at work");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    pause(true);
    tokio::time::advance(span).await;
    pause(false);
}

/// The same, and then lets the tool end.
async fn tool_that_takes(env: &TestEnv, span: Duration) {
    passes_in_a_tool(env, span).await;
    std::fs::write(env.work().with_file_name("go"), "").expect("a file");
}

#[tokio::test]
async fn r10_3_the_idle_clock_stands_still_while_a_tool_is_at_work() {
    let mut story = in_a_tool();
    let env = Rc::clone(&story.env);
    let (told, ()) = tokio::join!(story.run(), tool_that_takes(&env, Duration::from_secs(80 * 60)));
    assert_eq!((deaths(&told), told.outcome), (Vec::new(), Outcome::GoalMet));
}

#[tokio::test]
async fn r10_3_the_time_of_a_phase_does_not_stand_still_for_a_tool() {
    let mut story = in_a_tool();
    let env = Rc::clone(&story.env);
    let (told, ()) = tokio::join!(story.run(), tool_that_takes(&env, Duration::from_secs(91 * 60)));
    assert_eq!(deaths(&told), ["timeout: the phase ran into its time limit"]);
    assert_eq!(told.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r11_4_a_breach_is_undone_when_the_leg_ran_into_its_time_limit() {
    let breach = "echo x > README; touch ../started; exec sleep 600";
    let script = format!("phases: {{ build: [{{ do: [{{ run: {breach:?} }}] }}] }}");
    let stop = "stop: { phase_timeout_minutes: 90 }\n";
    let mut story = Story::new("model: one, writes: [src/]", &format!("{SCRIPTED}{stop}"), &script);
    let env = Rc::clone(&story.env);
    let both_legs = async {
        for _ in 0..2 {
            passes_in_a_tool(&env, Duration::from_secs(91 * 60)).await;
        }
    };
    let (told, ()) = tokio::join!(story.run(), both_legs);
    assert_eq!(deaths(&told), ["timeout: the phase ran into its time limit"]);
    let undone = told.of(|event| match event {
        Event::PermissionRetry(retry) => Some((retry.undone.len(), retry.again)),
        _ => None,
    });
    assert_eq!((undone, told.outcome), (vec![(1, true), (1, false)], Outcome::BlockedByGate));
    assert_eq!(env.read("README"), "a repository for tests\n");
}

#[tokio::test]
async fn an_approval_waits_until_a_time_of_the_clock_also_when_the_machine_sleeps_meanwhile() {
    let approval = "      - { name: ask, approve: {}, wait: 8h }\n";
    let mut story = Story::new("model: one", &format!("{approval}{SCRIPTED}"), "phases: {}");
    let waits = Rc::new(Notify::new());
    let bell = Rc::clone(&waits);
    let hook = Box::new(move |record: &Record, _: &Outside| {
        if matches!(record.event, Event::Waiting(_)) {
            bell.notify_one();
        }
    });
    let (told, ()) = tokio::join!(story.run_with(hook), async {
        waits.notified().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        sleeps(Duration::from_secs(8 * 60 * 60));
    });
    let ends = told.of(|event| match event {
        Event::RunEnd(end) => Some((end.outcome, end.elapsed_ms / 3_600_000)),
        _ => None,
    });
    assert_eq!(ends, [(Outcome::StoppedByRequest, 0)], "of the timers' time not an hour has passed");
}
