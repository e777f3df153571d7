//! pi 1.6.0 against the provider. What it prints and sends is compared with what was recorded in November 2026 with
//! the same version and other means.

use std::time::Duration;

use fia::provider::{LoggedRequest, Phase, Provider};
use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::engines::{builtin, pi, scripted};
use super::support::program::{Finished, Running, run};
use super::support::test_env::TestEnv;

/// How long pi may take until it has sent a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a run ended, how the provider answered, and how each answer of the model ended.
fn facts(finished: &Finished, provider: &Provider) -> String {
    let answers: Vec<String> = provider.requests().into_iter().map(|request| request.answer).collect();
    let stops: Vec<String> = finished.lines().iter().filter_map(stop).collect();
    let lines = finished.lines();
    let last = lines.last().map(|line| line["type"].as_str().unwrap_or_default().to_owned()).unwrap_or_default();
    format!("{}\n{}\n{}\n{last}", finished.end(), answers.join(", "), stops.join(", "))
}

/// How an assistant message ended: its reason, and the start of the error if there was one.
fn stop(event: &Value) -> Option<String> {
    let message = &event["message"];
    let is_answer = event["type"] == "message_end" && message["role"] == "assistant";
    let error = message["errorMessage"].as_str().unwrap_or_default();
    let start: String = error.chars().take_while(|c| *c != ':' && *c != '{').collect();
    is_answer.then(|| format!("{} {start}", message["stopReason"].as_str().unwrap_or_default()).trim_end().to_owned())
}

/// The usage of each model call, as pi prints it.
fn printed_usage(finished: &Finished) -> Vec<[Option<u64>; 4]> {
    let lines = finished.lines();
    let answers = lines.iter().filter(|line| stop(line).is_some());
    let fields = ["input", "cacheWrite", "cacheRead", "output"];
    answers.map(|line| fields.map(|field| line["message"]["usage"][field].as_u64())).collect()
}

fn provided_usage(requests: &[LoggedRequest]) -> Vec<[Option<u64>; 4]> {
    let fields = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
    requests.iter().map(|request| fields.map(|field| request.usage(field))).collect()
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn it_writes_runs_and_reads_through_its_own_tools_and_every_call_extends_the_one_before() {
    let (env, provider) = (TestEnv::new(), builtin("tools"));
    let finished = run(pi(&env, &provider, 0).arg("do the task"));
    assert_eq!(
        facts(&finished, &provider),
        "exit 0\n200 sse tool_use, 200 sse tool_use, 200 sse tool_use, 200 sse end_turn\n\
         toolUse, toolUse, toolUse, stop\nagent_settled",
        "{finished}"
    );
    assert_eq!(env.read("hello.txt"), "hello loopback\n");
    let requests = provider.requests();
    assert_eq!(printed_usage(&finished), provided_usage(&requests));
    let seen = requests.iter().map(|request| {
        let prompt = request.prompt.as_ref().unwrap();
        (
            &*prompt.picked,
            prompt.tools_count,
            prompt.messages,
            prompt.prefix_of_previous,
            request.usage("output_tokens"),
        )
    });
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            ("queue 0", 4, 1, None, Some(40)),
            ("queue 1", 4, 3, Some(true), Some(26)),
            ("queue 2", 4, 5, Some(true), Some(21)),
            ("queue 3", 4, 7, Some(true), Some(13)),
        ]
    );
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn a_continued_session_extends_the_last_request_byte_for_byte() {
    let env = TestEnv::new();
    let provider = scripted(json!({"growth": 150.0, "rules": [
        {"match": "JOB-1", "steps": [{"do": "write", "path": "a.txt", "content": "one"}, {"text": "first done"}]},
        {"match": "JOB-2", "steps": [{"do": "edit", "path": "a.txt", "old": "one", "new": "two"}, {"text": "done"}]},
    ]}));
    let session = env.home().join("session.jsonl");
    for job in ["JOB-1", "JOB-2"] {
        let finished = run(pi(&env, &provider, 0).arg("--session").arg(&session).arg(job));
        assert_eq!(finished.end(), "exit 0", "{finished}");
    }
    assert_eq!(env.read("a.txt"), "two");
    let requests = provider.requests();
    let prompts: Vec<_> = requests.iter().map(|request| request.prompt.as_ref().unwrap()).collect();
    let seen: Vec<_> = prompts.iter().map(|prompt| (&*prompt.picked, prompt.prefix_of_previous)).collect();
    assert_eq!(
        seen,
        [
            ("rule 0 step 0", None),
            ("rule 0 step 1", Some(true)),
            ("rule 1 step 0", Some(true)),
            ("rule 1 step 1", Some(true))
        ]
    );
    assert!(prompts.iter().all(|prompt| prompt.system_sha256 == prompts[0].system_sha256));
    assert!(requests.iter().all(|request| request.context_tokens() > Some(180_000)));
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn every_failure_of_the_provider_is_seen_as_what_it_is_but_for_the_exit_code() {
    for (scenario, answer, stop) in [
        ("plain", "200 sse end_turn", "stop"),
        ("401", "401", "error 401"),
        ("429", "429", "error 429"),
        ("529", "529", "error 529"),
        ("stream-error", "error 529 in stream", "error"),
        ("cut", "cut after 4 events", "error terminated"),
        ("garbage", "garbage", "error Anthropic stream ended without a stop reason"),
    ] {
        let (env, provider) = (TestEnv::new(), builtin(scenario));
        let finished = run(pi(&env, &provider, 0).arg("do the task"));
        let expected = format!("exit 0\n{answer}\n{stop}\nagent_settled");
        assert_eq!(facts(&finished, &provider), expected, "{scenario}: {finished}");
    }
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn failures_that_pass_are_retried() {
    for (scenario, expected) in [
        ("529-twice", "exit 0\n529, 529, 200 sse end_turn\nerror 529, error 529, stop\nagent_settled"),
        ("cut-once", "exit 0\ncut after 4 events, 200 sse end_turn\nerror terminated, stop\nagent_settled"),
    ] {
        let (env, provider) = (TestEnv::new(), builtin(scenario));
        let finished = run(pi(&env, &provider, 2).arg("do the task"));
        assert_eq!(facts(&finished, &provider), expected, "{scenario}: {finished}");
    }
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn stopped_while_the_provider_is_silent_it_ends_without_a_closing_event() {
    for (scenario, answer, last) in [
        ("hang", "hang before headers: client closed", "message_end"),
        ("hang-mid", "hang mid-stream: client closed", "message_update"),
    ] {
        let (env, provider) = (TestEnv::new(), builtin(scenario));
        let running = Running::start(pi(&env, &provider, 0).arg("do the task"), "");
        let begun = |requests: &[LoggedRequest]| requests.iter().any(|request| request.phase == Some(Phase::Begin));
        provider.wait_until(PATIENCE, begun).unwrap();
        running.signal(Signal::TERM);
        let finished = running.finish();
        let ended = |requests: &[LoggedRequest]| requests.iter().all(|request| request.phase.is_none());
        provider.wait_until(PATIENCE, ended).unwrap();
        let expected = format!("exit 143\n{answer}\n\n{last}");
        assert_eq!(facts(&finished, &provider), expected, "{scenario}: {finished}");
    }
}
