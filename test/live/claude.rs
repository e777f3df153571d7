//! claude 2.1.332 against the provider. What it prints and sends is compared with what was recorded in November 2026
//! with the same version and other means.

use std::time::Duration;

use fia::provider::{LoggedRequest, Phase, Provider};
use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::engines::{builtin, claude, scripted};
use super::support::program::{Finished, Running, run};
use super::support::test_env::TestEnv;

/// The tools of claude 2.1.332 as compact JSON: the same in every session and directory.
const TOOLS_SHA256: &str = "75aae79c0c7cb940bb974cb68334488d013f202b9fc4d57a128fca3560de8567";
/// How long claude may take until it has sent a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a run ended, how the provider answered, and what was printed: what the recordings have in common.
fn facts(finished: &Finished, provider: &Provider) -> String {
    let answers: Vec<String> = provider.requests().into_iter().map(|request| request.answer).collect();
    let kinds: Vec<String> = finished.lines().iter().map(kind).collect();
    format!("{}\n{}\n{}", finished.end(), answers.join(", "), kinds.join(", "))
}

/// An event by its type, and what says how things went.
fn kind(event: &Value) -> String {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    match text("/type") {
        "system" => format!("system/{}", text("/subtype")),
        "assistant" => format!("assistant {}", text("/error")).trim_end().to_owned(),
        "result" => {
            let (error, status) = (&event["is_error"], &event["api_error_status"]);
            format!("result {} is_error={error} status={status} {}", text("/subtype"), text("/terminal_reason"))
        }
        kind => kind.to_owned(),
    }
}

/// The usage of each model call, as claude prints it: one line a content block, so once a message.
fn printed_usage(finished: &Finished) -> Vec<[Option<u64>; 3]> {
    let mut calls: Vec<(Value, [Option<u64>; 3])> = Vec::new();
    for line in finished.lines().into_iter().filter(|line| line["type"] == "assistant") {
        let id = line["message"]["id"].clone();
        if calls.last().is_none_or(|(last, _)| *last != id) {
            calls.push((id, INPUT_FIELDS.map(|field| line["message"]["usage"][field].as_u64())));
        }
    }
    calls.into_iter().map(|(_, usage)| usage).collect()
}

const INPUT_FIELDS: [&str; 3] = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];

fn provided_usage(requests: &[LoggedRequest]) -> Vec<[Option<u64>; 3]> {
    requests.iter().map(|request| INPUT_FIELDS.map(|field| request.usage(field))).collect()
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn a_plain_turn_ends_with_the_text_and_the_usage_that_the_provider_sent() {
    let (env, provider) = (TestEnv::new(), builtin("plain"));
    let finished = run(claude(&env, &provider, 0).arg("do the task"));
    assert_eq!(
        facts(&finished, &provider),
        "exit 0\n200 sse end_turn\nsystem/init, assistant, result success is_error=false status=null completed",
        "{finished}"
    );
    let requests = provider.requests();
    let prompt = requests[0].prompt.as_ref().unwrap();
    assert_eq!((prompt.tools_count, &*prompt.tools_sha256), (12, TOOLS_SHA256));
    assert_eq!((&*requests[0].path, &*requests[0].headers["x-api-key"]), ("/v1/messages?beta=true", "present"));
    let lines = finished.lines();
    let result = lines.last().unwrap();
    assert_eq!(result["result"], "Hello from the loopback provider.");
    let usage = |field: &str| (result["usage"][field].as_u64(), requests[0].usage(field));
    for field in ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"] {
        let (printed, sent) = usage(field);
        assert_eq!(printed, sent, "{field}");
    }
    // About 21,700 were recorded; paths and the date make the difference.
    let context = requests[0].context_tokens().unwrap();
    assert!((21_000..22_500).contains(&context), "{context}");
    assert_eq!((usage("output_tokens").1, usage("cache_creation_input_tokens").1), (Some(15), Some(context)));
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn it_writes_runs_and_reads_through_its_own_tools_and_every_call_extends_the_one_before() {
    let (env, provider) = (TestEnv::new(), builtin("tools"));
    let finished = run(claude(&env, &provider, 0).arg("do the task"));
    assert_eq!(
        facts(&finished, &provider),
        "exit 0\n200 sse tool_use, 200 sse tool_use, 200 sse tool_use, 200 sse end_turn\n\
         system/init, assistant, assistant, user, assistant, user, assistant, user, assistant, \
         result success is_error=false status=null completed",
        "{finished}"
    );
    assert_eq!(env.read("hello.txt"), "hello loopback\n");
    let requests = provider.requests();
    assert_eq!(printed_usage(&finished), provided_usage(&requests));
    let lines = finished.lines();
    let total: u64 = requests.iter().filter_map(LoggedRequest::context_tokens).sum();
    let printed = INPUT_FIELDS.map(|field| lines.last().unwrap()["usage"][field].as_u64().unwrap());
    assert_eq!(printed.iter().sum::<u64>(), total);
    let seen = requests.iter().map(|request| {
        let prompt = request.prompt.as_ref().unwrap();
        (prompt.picked.as_str(), prompt.messages, prompt.prefix_of_previous, prompt.diverges_at.as_deref())
    });
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            ("queue 0", 1, None, None),
            ("queue 1", 3, Some(true), Some("messages[1].content[0]+0")),
            ("queue 2", 5, Some(true), Some("messages[3].content[0]+0")),
            ("queue 3", 7, Some(true), Some("messages[5].content[0]+0")),
        ]
    );
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn a_resumed_session_extends_the_last_request_byte_for_byte() {
    let env = TestEnv::new();
    let provider = scripted(json!({"growth": 9.0, "rules": [
        {"match": "JOB-1", "steps": [{"do": "write", "path": "a.txt", "content": "one"}, {"text": "first done"}]},
        {"match": "JOB-2", "steps": [{"do": "edit", "path": "a.txt", "old": "one", "new": "two"}, {"text": "done"}]},
    ]}));
    let first = run(claude(&env, &provider, 0).arg("JOB-1"));
    let session = first.lines()[0]["session_id"].as_str().unwrap().to_owned();
    let second = run(claude(&env, &provider, 0).args(["--resume", &session, "JOB-2"]));
    assert_eq!([first.end(), second.end()], ["exit 0", "exit 0"], "{second}");
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
    // With growth 9 the first turn is above the usual ceiling of a session.
    assert!(requests.iter().all(|request| request.context_tokens() > Some(180_000)));
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn every_failure_of_the_provider_is_seen_as_what_it_is() {
    for (scenario, expected) in [
        (
            "401",
            "exit 1\n401, 401\nsystem/init, system/api_retry, assistant authentication_failed, \
             result success is_error=true status=401 api_error",
        ),
        (
            "429",
            "exit 1\n429, 429\nsystem/init, system/api_retry, assistant rate_limit, \
             result success is_error=true status=429 api_error",
        ),
        (
            "529",
            "exit 1\n529, 529\nsystem/init, system/api_retry, assistant server_error, \
             result success is_error=true status=529 api_error",
        ),
        (
            "stream-error",
            "exit 1\nerror 529 in stream, error 529 in stream, 529\nsystem/init, assistant server_error, \
             result success is_error=true status=529 api_error",
        ),
        (
            "cut",
            "exit 1\ncut after 4 events, cut after 4 events, cut without a byte\n\
             system/init, system/api_retry, assistant server_error, \
             result success is_error=true status=null api_error",
        ),
        (
            "garbage",
            "exit 1\ngarbage, garbage\nsystem/init, assistant unknown, \
             result success is_error=true status=null api_error",
        ),
    ] {
        let (env, provider) = (TestEnv::new(), builtin(scenario));
        let finished = run(claude(&env, &provider, 1).arg("do the task"));
        assert_eq!(facts(&finished, &provider), expected, "{scenario}: {finished}");
        let said = finished.lines().last().unwrap()["result"].to_string();
        assert_eq!(said.contains("ECONNRESET"), scenario == "cut", "{scenario}: {said}");
    }
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn failures_that_pass_are_retried() {
    for (scenario, answers) in [("529-twice", "529, 529, 200"), ("cut-once", "cut after 4 events, 200")] {
        let (env, provider) = (TestEnv::new(), builtin(scenario));
        let finished = run(claude(&env, &provider, 2).arg("do the task"));
        let retries = "system/api_retry, ".repeat(answers.matches(", ").count());
        assert_eq!(
            facts(&finished, &provider),
            format!(
                "exit 0\n{answers} sse end_turn\nsystem/init, {retries}assistant, \
                 result success is_error=false status=null completed"
            ),
            "{scenario}: {finished}"
        );
    }
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn stopped_while_the_provider_is_silent_it_ends_without_a_result() {
    for (scenario, answer) in
        [("hang", "hang before headers: client closed"), ("hang-mid", "hang mid-stream: client closed")]
    {
        let (env, provider) = (TestEnv::new(), builtin(scenario));
        let running = Running::start(claude(&env, &provider, 0).arg("do the task"), "");
        let begun = |requests: &[LoggedRequest]| requests.iter().any(|request| request.phase == Some(Phase::Begin));
        provider.wait_until(PATIENCE, begun).unwrap();
        running.signal(Signal::TERM);
        let finished = running.finish();
        let ended = |requests: &[LoggedRequest]| requests.iter().all(|request| request.phase.is_none());
        provider.wait_until(PATIENCE, ended).unwrap();
        assert_eq!(facts(&finished, &provider), format!("exit 143\n{answer}\nsystem/init"), "{scenario}: {finished}");
    }
}
