//! Turns that no recording shows: several in one process, ends at odd moments, figures that are missing.

use chrono::DateTime;
use fia::engine;
use fia::event::item::{Cost, Cut, EngineEvent, Failure, FailureKind, Reset, TurnEnd, TurnOutcome, Usage};
use fia::ids::EngineName;
use fia::process::Exit;
use pretty_assertions::assert_eq;

use crate::stream::decode;

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"S","model":"big"}"#;
const DONE: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok","session_id":"S"}"#;

fn failed(kind: FailureKind, message: &str, reset: Reset) -> TurnEnd {
    TurnEnd::Failed(Failure { kind, message: message.to_owned(), reset })
}

fn ends(engine: EngineName, lines: &[&str], stderr: &str, exit: Exit) -> (Vec<TurnEnd>, Option<TurnEnd>) {
    let decoded = decode(engine, lines.join("\n").as_bytes(), stderr.as_bytes(), exit);
    let closed = decoded.events.into_iter().filter_map(|event| match event {
        EngineEvent::TurnEnded(outcome) => Some(outcome.end),
        _ => None,
    });
    (closed.collect(), decoded.at_end.map(|outcome| outcome.end))
}

#[test]
fn a_claude_process_that_ends_between_turns_ends_no_turn_and_in_one_it_does() {
    let claude = EngineName::Claude;
    assert_eq!(ends(claude, &[INIT, DONE], "", Exit::Code(0)), (vec![TurnEnd::Completed], None));
    let crash = failed(FailureKind::Crash, "ended without a closing event, by signal 9", Reset::Unknown);
    assert_eq!(ends(claude, &[INIT, DONE, INIT], "", Exit::Signal(9)), (vec![TurnEnd::Completed], Some(crash)));
}

#[test]
fn r10_a_refusal_of_the_plan_explains_a_stream_that_was_cut() {
    let refusal = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1778565600}}"#;
    let reset = Reset::At(DateTime::from_timestamp(1_778_565_600, 0).unwrap());
    let limit = failed(FailureKind::Limit, "the plan's limit refused a request", reset);
    assert_eq!(ends(EngineName::Claude, &[INIT, refusal], "", Exit::Code(1)), (vec![], Some(limit)));
}

#[test]
fn r6_1_the_window_is_that_of_the_main_threads_model() {
    let line = |id: &str, parent: &str, model: &str| {
        let usage = r#"{"input_tokens":1,"cache_read_input_tokens":10}"#;
        format!(
            r#"{{"type":"assistant","parent_tool_use_id":{parent},"message":{{"id":"{id}","model":"{model}","usage":{usage}}}}}"#
        )
    };
    let models = r#"{"small":{"contextWindow":100,"inputTokens":1,"costUSD":0.5},"big":{"contextWindow":900,"inputTokens":2,"costUSD":1.0}}"#;
    let done = DONE.replace(
        "\"session_id\"",
        &format!("\"modelUsage\":{models},\"model_usage_since_last_result\":{models},\"session_id\""),
    );
    let lines =
        [INIT.to_owned(), line("a", "null", "big"), line("b", "\"t\"", "small"), line("a", "null", "big"), done];
    let decoded = decode(EngineName::Claude, lines.join("\n").as_bytes(), b"", Exit::Code(0));
    let usage = Usage { input: 1, cache_read: 10, ..Usage::default() };
    assert_eq!(
        decoded.events[1..],
        [
            EngineEvent::Request { usage: Some(usage), window: None },
            EngineEvent::Window(900),
            EngineEvent::TurnEnded(TurnOutcome {
                end: TurnEnd::Completed,
                text: Some("ok".to_owned()),
                usage: Some(Usage { input: 3, ..Usage::default() }),
                cost: Some(Cost::Turn(1.5)),
            }),
        ]
    );
}

#[test]
fn spend_is_counted_also_when_no_closing_event_comes() {
    let message = |id: &str, parent: &str| {
        format!(
            r#"{{"type":"assistant","parent_tool_use_id":{parent},"message":{{"id":"{id}","usage":{{"input_tokens":5}}}}}}"#
        )
    };
    let lines = [message("a", "null"), message("b", "\"t\""), message("b", "\"t\""), message("c", "null")];
    let decoded = decode(EngineName::Claude, lines.join("\n").as_bytes(), b"", Exit::Signal(9));
    assert_eq!(decoded.outcome().usage, Some(Usage { input: 15, ..Usage::default() }));
}

#[test]
fn unknown_kinds_and_noise_are_told_and_end_nothing() {
    let lines = [
        r#"{"type":"news"}"#,
        r#"{"type":"system","subtype":"news"}"#,
        "",
        "hello",
        r#"{"type":"assistant","message":7}"#,
    ];
    let decoded = decode(EngineName::Claude, lines.join("\n").as_bytes(), b"", Exit::Code(0));
    assert_eq!(
        decoded.events,
        [
            EngineEvent::Unknown { kind: "news".to_owned() },
            EngineEvent::Unknown { kind: "system/news".to_owned() },
            EngineEvent::Noise { bytes: 5 },
            EngineEvent::Noise { bytes: 32 },
        ]
    );
}

#[test]
fn a_prompt_that_pi_does_not_take_ends_its_turn() {
    let refused =
        r#"{"id":"fia-prompt","type":"response","command":"prompt","success":false,"error":"No API key found for x."}"#;
    let login = failed(FailureKind::Login, "No API key found for x.", Reset::Unknown);
    assert_eq!(ends(EngineName::Pi, &[refused], "", Exit::Code(0)), (vec![login], None));
}

#[test]
fn a_pi_turn_costs_what_all_its_requests_say_or_is_unknown() {
    let message = |dollars: &str| {
        format!(
            r#"{{"type":"message_end","message":{{"role":"assistant","stopReason":"stop","usage":{{"input":2,"cost":{{"total":{dollars}}}}}}}}}"#
        )
    };
    let settled = r#"{"type":"agent_settled","aborted":false}"#.to_owned();
    let cost = |dollars: [&str; 2]| {
        let lines = [message(dollars[0]), message(dollars[1]), settled.clone()];
        decode(EngineName::Pi, lines.join("\n").as_bytes(), b"", Exit::Code(0)).outcome().cost
    };
    assert_eq!(cost(["0.25", "0.5"]), Some(Cost::Turn(0.75)));
    assert_eq!(cost(["0.25", "0"]), None);
    assert_eq!(cost(["null", "0.5"]), None);
}

#[test]
fn what_pi_settles_after_an_abort_is_a_cut() {
    let aborted = r#"{"type":"agent_settled","aborted":true}"#;
    let settled = r#"{"type":"agent_settled","aborted":false}"#;
    let nothing = failed(FailureKind::Crash, "ended without an answer of the model", Reset::Unknown);
    assert_eq!(
        ends(EngineName::Pi, &[aborted, settled], "", Exit::Code(0)),
        (vec![TurnEnd::Cut(Cut::Interrupted), nothing], None)
    );
}

#[test]
fn cursor_may_say_on_standard_output_why_it_failed() {
    let limit = failed(FailureKind::Limit, "Error: You've hit your usage limit\nGet more.", Reset::Unknown);
    let lines = ["Error: You've hit your usage limit", "Get more."];
    assert_eq!(ends(EngineName::Cursor, &lines, "\n", Exit::Code(1)), (vec![], Some(limit)));
}

#[test]
fn cursor_tools_of_any_shape_are_named() {
    let start = r#"{"type":"tool_call","subtype":"started","call_id":"a\nb","tool_call":{"description":"x","function":{"name":"mcp","arguments":"{}"}}}"#;
    let end = r#"{"type":"tool_call","subtype":"completed","call_id":"a\nb","tool_call":{"shellToolCall":{"result":{"success":{"exitCode":2,"stderr":"no"}}}}}"#;
    let decoded = decode(EngineName::Cursor, [start, end].join("\n").as_bytes(), b"", Exit::Code(0));
    let call = "a\nb".to_owned();
    assert_eq!(
        decoded.events,
        [
            EngineEvent::ToolStarted {
                call: call.clone(),
                tool: "mcp".to_owned(),
                summary: String::new(),
                arguments: "\"{}\"".to_owned(),
            },
            EngineEvent::ToolEnded { call, ok: false, first_line: "no".to_owned() },
        ]
    );
}

#[test]
fn every_engine_says_how_it_is_found_installed_and_logged_in() {
    for name in [EngineName::Claude, EngineName::Pi, EngineName::Cursor] {
        let adapter = engine::for_name(name);
        let facts = adapter.facts();
        assert_eq!(adapter.name(), name);
        assert!(!facts.programs.is_empty() && !facts.install.is_empty() && !facts.login.is_empty(), "{name}");
        assert_eq!(adapter.capabilities().interrupt, adapter.interrupt().is_some(), "{name}");
    }
}
