use fia::event::{Event, FailureKind, Outcome};
use fia::ids::EngineName;
use pretty_assertions::assert_eq;

use crate::story::Story;

const SCRIPTED: &str = "engines: { SCRIPTED }\n";
const TWO: &str = "fallbacks: [ { coding_agent: scripted, model: two } ]";

/// A phase that succeeds at once, as the story has it.
fn quiet(phase: &str, model: &str, lease: &str) -> Vec<String> {
    [
        format!("{phase} starts"),
        format!("leg 1 on {model} {lease}"),
        "turn Completed".to_owned(),
        format!("{phase} ends: Success"),
    ]
    .to_vec()
}

fn lines(parts: &[&[&str]]) -> Vec<String> {
    parts.concat().into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn r10_a_transient_death_is_tried_once_more_on_the_same_engine_with_one_preamble() {
    let mut story =
        Story::new(TWO, SCRIPTED, "phases: { build: [{ fail: { kind: overload, message: busy } }], build@2: [{}] }");
    let told = story.run().await;
    let mut expected = lines(&[&[
        "build starts",
        "leg 1 on one Cold",
        "turn Failed",
        "one died: overload, 1",
        "retry as leg 2",
        "continuation in leg 2",
        "leg 2 on one Restored",
        "turn Completed",
        "build ends: Success",
    ]]);
    expected.extend(quiet("polish", "one", "Restored"));
    expected.push("goal_met".to_owned());
    assert_eq!(told.story(), expected);
    let second = story.file("agents/builder/01_build.2.1.user.md");
    assert!(second.starts_with("# Continuation: "), "{second}");
    assert_eq!(second.matches("\nRules:\n").count(), 1, "exactly one preamble: {second}");
    assert!(!story.file("agents/builder/02_polish.1.1.user.md").contains("# Continuation"));
    let sizes = told.of(|event| match event {
        Event::EngineContinuation(it) => Some(it.preamble_bytes),
        _ => None,
    });
    let between = told.of(|event| match event {
        Event::EngineContinuation(it) => Some((it.kind, it.from, it.to)),
        _ => None,
    });
    let scripted = Some(fia::ids::EngineName::Scripted);
    assert_eq!(between, [(Some(fia::event::FailureKind::Overload), scripted, scripted)]);
    let preamble = &second[..sizes[0]];
    assert!(preamble.ends_with("\n\n") && second[sizes[0]..].starts_with("# The request"), "{second}");
}

#[tokio::test]
async fn r10_a_session_lost_after_a_death_is_not_a_second_one() {
    let script = "phases: { build: [{ fail: { kind: overload } }], build@2: [{ exit: 1 }], build@3: [{}] }";
    let told = Story::new(TWO, SCRIPTED, script).run().await;
    assert_eq!(
        told.story()[3..12],
        [
            "one died: overload, 1",
            "retry as leg 2",
            "continuation in leg 2",
            "leg 2 on one Restored",
            "turn Failed",
            "retired: SessionLost",
            "continuation in leg 3",
            "leg 3 on one Cold",
            "turn Completed",
        ]
    );
    assert_eq!(told.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_2_two_transient_deaths_in_a_row_hand_the_phase_to_the_fallback_for_the_rest_of_the_run() {
    let script = "phases:\n  build: [{ do: [{ say: hm }], fail: { kind: overload } }]\n  build@2: [{ do: [{ say: hm }], fail: { kind: crash } }]\n  build@3: [{}]\n";
    let mut story = Story::new(TWO, SCRIPTED, script);
    let told = story.run().await;
    let mut expected = lines(&[&[
        "build starts",
        "leg 1 on one Cold",
        "turn Failed",
        "one died: overload, 1",
        "retry as leg 2",
        "continuation in leg 2",
        "leg 2 on one Restored",
        "turn Failed",
        "one died: crash, 1",
        "scripted two is ready: true",
        "relay from one to two",
        "retired: ModelChanged",
        "continuation in leg 3",
        "leg 3 on two Cold",
        "turn Completed",
        "build ends: Success",
    ]]);
    expected.extend(quiet("polish", "two", "Restored"));
    expected.push("goal_met".to_owned());
    assert_eq!(told.story(), expected);
    let spent = told.of(|event| match event {
        Event::AgentEnd(end) => Some((end.model.clone(), end.usage.is_some_and(|usage| !usage.is_zero()))),
        _ => None,
    });
    let spent: Vec<_> = spent.iter().map(|(model, known)| (model.as_str(), *known)).collect();
    assert_eq!(spent, [("one", true), ("one", true), ("two", true), ("two", true)], "spend stays where it was burned");
}

#[tokio::test]
async fn r10_2_a_fallback_that_cannot_be_started_is_told_as_that() {
    let fallbacks = "fallbacks: [ { coding_agent: pi, model: p/m } ]";
    let script = "phases: { build: [{ fail: { kind: login } }] }";
    let mut story = Story::new(fallbacks, "engines: { SCRIPTED, pi: { program: /PI } }\n", script);
    let pi = story.env.home().join("pi");
    std::fs::write(&pi, "#!/nowhere/node\n").unwrap();
    std::fs::set_permissions(&pi, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    story.reconfigure("/PI", pi.to_str().unwrap());
    let reasons = story.run().await.of(|event| match event {
        Event::EngineFallback(looked) => looked.reason.clone(),
        _ => None,
    });
    let expected = format!(
        "the interpreter that `{0}` names in its first line is missing; install the interpreter that `{0}` names",
        pi.display()
    );
    assert_eq!(reasons, [expected]);
}

#[tokio::test]
async fn r10_login_is_relayed_at_once_to_a_ready_fallback_and_says_what_to_do() {
    // Of three fallbacks one has no program and one nobody logged in to.
    let fallbacks = "fallbacks: [ { coding_agent: claude, model: sonnet }, { coding_agent: pi, model: p/m }, { coding_agent: scripted, model: two } ]";
    let engines = "engines: { SCRIPTED, claude: { program: /nowhere/claude }, pi: { program: /bin/false } }\n";
    let script = "phases: { build: [{ fail: { kind: login, message: '401 with sk-abcdefghijkl' } }], build@2: [{}] }";
    let mut story = Story::new(fallbacks, engines, script);
    let told = story.run().await;
    let mut expected = lines(&[&[
        "build starts",
        "leg 1 on one Cold",
        "turn Failed",
        "one died: login, 1",
        "claude sonnet is ready: false",
        "pi p/m is ready: false",
        "scripted two is ready: true",
        "relay from one to two",
        "retired: ModelChanged",
        "continuation in leg 2",
        "leg 2 on two Cold",
        "turn Completed",
        "build ends: Success",
    ]]);
    expected.extend(quiet("polish", "two", "Restored"));
    expected.push("goal_met".to_owned());
    assert_eq!(told.story(), expected);
    let said = told.of(|event| match event {
        Event::EngineError(error) => Some(error.message.clone()),
        Event::EngineFallback(looked) => looked.reason.clone(),
        _ => None,
    });
    assert_eq!(
        said,
        [
            "401 with sk-***",
            "program `/nowhere/claude` not found; correct the path `/nowhere/claude` in the configuration",
            "nobody is logged in; log in with `pi auth login PROVIDER`",
        ]
    );
    let between = told.of(|event| match event {
        Event::EngineFallback(looked) => Some((looked.kind, looked.from, looked.to)),
        _ => None,
    });
    let looked = |to| (Some(FailureKind::Login), Some(EngineName::Scripted), Some(to));
    assert_eq!(between, [EngineName::Claude, EngineName::Pi, EngineName::Scripted].map(looked));
    assert!(story.file("agents/builder/01_build.2.1.user.md").starts_with("# Continuation: "));
    assert!(!story.file("agents/builder/02_polish.1.1.user.md").contains("# Continuation"));
}

#[tokio::test]
async fn r10_a_missing_program_is_relayed_at_once_and_counts_as_a_leg() {
    let builder = "coding_agent: claude, model: sonnet, fallbacks: [ { coding_agent: scripted, model: two } ]";
    let engines = "engines: { SCRIPTED, claude: { program: /nowhere/claude } }\n";
    let told = Story::new(builder, engines, "phases: {}").run().await;
    let mut expected = lines(&[&[
        "build starts",
        "sonnet died: missing, 1",
        "scripted two is ready: true",
        "relay from sonnet to two",
        "continuation in leg 2",
        "leg 2 on two Cold",
        "turn Completed",
        "build ends: Success",
    ]]);
    expected.extend(quiet("polish", "two", "Restored"));
    expected.push("goal_met".to_owned());
    assert_eq!(told.story(), expected);
}

#[tokio::test]
async fn r10_2_without_a_fallback_the_run_is_exhausted_and_a_resume_tries_again() {
    let mut story = Story::new(
        "model: one",
        SCRIPTED,
        "phases: { build: [{ fail: { kind: login, message: expired } }], build@2: [{}] }",
    );
    let told = story.run().await;
    assert_eq!(told.story()[3..], ["one died: login, 1", "build ends: Failed", "engine_exhausted"]);
    assert_eq!(told.reason, "scripted login: expired");
    assert_eq!(story.resume().await.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_2_relay_resume_ends_the_run_and_the_resume_goes_on_with_the_fallback() {
    let script = "phases: { build: [{ fail: { kind: login } }], build@2: [{}] }";
    let mut story = Story::new(TWO, SCRIPTED, script);
    story.reconfigure("model: one }", "model: one, relay: resume }");
    let told = story.run().await;
    assert_eq!(
        told.story()[3..],
        [
            "one died: login, 1",
            "scripted two is ready: true",
            "relay from one to two",
            "build ends: Failed",
            "engine_exhausted"
        ]
    );
    assert!(told.reason.ends_with("`fia resume` goes on with scripted two"), "{}", told.reason);
    let mut expected = lines(&[&[
        "build starts",
        "retired: ModelChanged",
        "continuation in leg 2",
        "leg 2 on two Cold",
        "turn Completed",
        "build ends: Success",
    ]]);
    expected.extend(quiet("polish", "two", "Restored"));
    expected.push("goal_met".to_owned());
    assert_eq!(story.resume().await.story(), expected);
}

#[tokio::test]
async fn r10_2_relay_off_keeps_the_one_retry_and_never_takes_another_engine() {
    let script = "phases: { build: [{ do: [{ say: hm }], fail: { kind: overload } }] }";
    let mut story = Story::new(TWO, SCRIPTED, script);
    story.reconfigure("model: one }", "model: one, relay: off }");
    let told = story.run().await;
    assert_eq!(
        told.story()[3..],
        [
            "one died: overload, 1",
            "retry as leg 2",
            "continuation in leg 2",
            "leg 2 on one Restored",
            "turn Failed",
            "one died: overload, 2",
            "build ends: Failed",
            "engine_exhausted"
        ]
    );
}

#[tokio::test]
async fn r10_an_overflow_gives_one_fresh_session_a_phase_with_its_own_preamble() {
    let script = "phases: { polish: [{ fail: { kind: context_overflow, message: too long } }], polish@2: [{}] }";
    let mut story = Story::new(TWO, SCRIPTED, script);
    let told = story.run().await;
    assert_eq!(
        told.story()[4..],
        [
            "polish starts",
            "leg 1 on one Restored",
            "turn Failed",
            "one died: context_overflow, 1",
            "rotation: Overflow",
            "leg 2 on one Cold",
            "turn Completed",
            "polish ends: Success",
            "goal_met"
        ]
    );
    let prompt = story.file("agents/builder/02_polish.2.1.user.md");
    let size = told.of(|event| match event {
        Event::SessionRotation(rotation) => Some(rotation.preamble_bytes),
        _ => None,
    });
    assert!(prompt.starts_with("# Fresh session: overflow"), "{prompt}");
    let rest = &prompt[size[0]..];
    assert!(prompt[..size[0]].ends_with("\n\n") && !rest.starts_with('\n') && !rest.contains("\nRules:\n"), "{prompt}");
}

#[tokio::test]
async fn r10_a_second_overflow_in_a_phase_is_relayed() {
    let script = "phases: { build: [{ fail: { kind: context_overflow } }], build@3: [{}] }";
    let told = Story::new(TWO, SCRIPTED, script).run().await;
    assert_eq!(
        told.story()[3..10],
        [
            "one died: context_overflow, 1",
            "rotation: Overflow",
            "leg 2 on one Cold",
            "turn Failed",
            "one died: context_overflow, 2",
            "scripted two is ready: true",
            "relay from one to two"
        ]
    );
    assert_eq!(told.outcome, Outcome::GoalMet);
}

#[tokio::test]
async fn r10_a_lost_session_is_no_death_and_begins_fresh_once_with_the_preamble() {
    let script = "phases: { polish: [{ exit: 1 }], polish@2: [{}] }";
    let mut story = Story::new(TWO, SCRIPTED, script);
    let told = story.run().await;
    assert_eq!(
        told.story()[4..],
        [
            "polish starts",
            "leg 1 on one Restored",
            "turn Failed",
            "retired: SessionLost",
            "leg 2 on one Cold",
            "turn Completed",
            "polish ends: Success",
            "goal_met"
        ]
    );
    assert!(story.file("agents/builder/02_polish.2.1.user.md").starts_with("# Fresh session: session lost"));
}

#[tokio::test]
async fn r10_a_cut_answer_is_no_death_but_one_more_turn() {
    let told = Story::new(TWO, SCRIPTED, "phases: { build: [{ cut: true }, {}] }").run().await;
    assert_eq!(
        told.story()[1..6],
        ["leg 1 on one Cold", "turn Cut", "leg 1 on one Restored", "turn Completed", "build ends: Success"]
    );
}

#[tokio::test]
async fn r10_8_a_billing_key_is_named_once_an_engine_and_never_its_value() {
    let program = "#!/bin/sh\ncat >/dev/null\nexit 1\n";
    let builder = "coding_agent: claude, model: sonnet, fallbacks: [ { coding_agent: scripted, model: two } ]";
    let engines =
        "engines: { SCRIPTED, claude: { program: PROGRAM, env: { ANTHROPIC_API_KEY: very-secret-value } } }\n";
    let mut story = Story::new(builder, engines, "phases: {}");
    let path = story.env.write_program(story.env.home().join("claude"), program);
    story.reconfigure("PROGRAM", &path.display().to_string());
    let told = story.run().await;
    let named: Vec<_> = told.story().into_iter().filter(|line| line.contains("bills")).collect();
    assert_eq!(named, ["claude bills by ANTHROPIC_API_KEY"], "twice started, once said: {:?}", told.story());
    assert!(!story.file("events.jsonl").contains("very-secret-value"));
    assert_eq!(told.outcome, Outcome::GoalMet);
}
