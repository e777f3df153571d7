//! The small cases: every field of an `expect.json` is looked at, and an unknown one fails the test.

use std::fs;
use std::path::Path;
use std::process::Command;

use chrono::{DateTime, Utc};
use fia::engine::failure;
use fia::event::FailureKind;
use fia::event::item::{EngineEvent, TurnEnd};
use fia::host::zone::Zone;
use fia::ids::EngineName;
use fia::process::Exit;
use fia::state::relay::{Death, First, Renewal, first};
use serde_json::{Value, json};

use crate::stream::{Decoded, decode, folders, test_dir};

fn load(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The word of the cases for how a turn ended; they know fewer kinds than fia.
fn outcome_word(kind: Option<FailureKind>) -> &'static str {
    match kind {
        None => "success",
        Some(FailureKind::Limit | FailureKind::Overload) => "engine_limit",
        Some(FailureKind::Login) => "engine_login",
        Some(FailureKind::ContextOverflow) => "engine_context_overflow",
        Some(FailureKind::BadSession) => "engine_bad_session",
        Some(FailureKind::Missing) => "engine_missing",
        Some(FailureKind::Timeout) => "engine_timeout",
        Some(FailureKind::Crash) => "engine_crash",
    }
}

fn retry_at(reset: &fia::event::item::Reset, row: &Value) -> Value {
    let now = row["now"].as_str().unwrap_or("2026-11-30T12:00:00Z").parse::<DateTime<Utc>>().unwrap();
    let zone = row["local_tz"].as_str().unwrap_or("UTC");
    failure::retry_at(reset, now, &Zone::named(zone).unwrap())
        .map_or(Value::Null, |at| json!(at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)))
}

/// Compares one field, or its `_any_of` and `_none_of` variants.
fn check(case: &str, expect: &serde_json::Map<String, Value>, field: &str, got: &Value) -> usize {
    let mut seen = 0;
    if let Some(value) = expect.get(field) {
        assert_eq!(got, value, "{case}: {field}");
        seen += 1;
    }
    if let Some(values) = expect.get(&format!("{field}_any_of")) {
        assert!(values.as_array().unwrap().contains(got), "{case}: {field} is {got}, not one of {values}");
        seen += 1;
    }
    if let Some(values) = expect.get(&format!("{field}_none_of")) {
        assert!(!values.as_array().unwrap().contains(got), "{case}: {field} is {got}");
        seen += 1;
    }
    seen
}

fn check_decoded(name: &str, case: &Value, expect: &Value, decoded: &Decoded) {
    let expect = expect.as_object().unwrap();
    let failure = decoded.failure(case.get("resume_session_id").is_some());
    let outcome = decoded.outcome();
    assert!(failure.is_some() || outcome.end == TurnEnd::Completed, "{name}: {:?}", outcome.end);
    let kind = failure.as_ref().map(|failure| failure.kind);
    let next = kind.map(|kind| first(Death { kind, in_a_row: 1, renewal: Renewal::Possible }));
    let is_lost = next == Some(First::FreshForLost);
    let reset = failure.as_ref().map_or(Value::Null, |failure| retry_at(&failure.reset, case));
    let compactions = decoded.events.iter().filter(|event| matches!(event, EngineEvent::Compacted { .. })).count();
    let mut seen = check(name, expect, "engine", &case["engine"]);
    for (field, got) in [
        ("outcome", json!(outcome_word(kind))),
        ("live_context_tokens", json!(decoded.context())),
        ("session_id", json!(decoded.session().filter(|_| !is_lost))),
        ("final_text", json!(outcome.text)),
        ("retry_after", reset),
        ("compactions", json!(compactions)),
        ("resume_same_session", json!(next == Some(First::Retry))),
        ("fresh_session_retry", json!(is_lost || next == Some(First::FreshForOverflow))),
        ("same_engine_retry_useful", json!(next != Some(First::Nothing))),
        ("counts_as_engine_death", json!(next.is_some() && !is_lost)),
    ] {
        seen += check(name, expect, field, &got);
    }
    if let Some(rotation) = expect.get("rotation") {
        let rotates = decoded.context().is_some_and(|context| context >= rotation["ceiling"].as_u64().unwrap());
        assert_eq!(json!(rotates), rotation["next_phase_rotates"], "{name}: rotation");
        seen += 1;
    }
    assert_eq!(seen, expect.len(), "{name}: a field of expect.json was not looked at");
}

/// Runs every `stream` case of an engine, and returns how many there were.
fn stream_cases(engine: EngineName) -> usize {
    let mut count = 0;
    for folder in folders(&test_dir().join("cases")) {
        let Ok(case) = fs::read(folder.join("case.json")) else { continue };
        let case: Value = serde_json::from_slice(&case).unwrap();
        if case["kind"] != "stream" || case["engine"] != engine.as_str() {
            continue;
        }
        let script = folder.join("make-stream.sh");
        let stdout = if script.exists() {
            Command::new("sh").arg(script).output().unwrap().stdout
        } else {
            fs::read(folder.join("stream.jsonl")).unwrap()
        };
        let stderr = fs::read(folder.join("stderr.txt")).unwrap_or_default();
        let exit = match i32::try_from(case["exit_code"].as_i64().unwrap()).unwrap() {
            code @ (137 | 139) => Exit::Signal(code - 128),
            code => Exit::Code(code),
        };
        let decoded = decode(engine, &stdout, &stderr, exit);
        let name = folder.file_name().unwrap().to_string_lossy();
        check_decoded(&name, &case, &load(&folder.join("expect.json")), &decoded);
        count += 1;
    }
    count
}

#[test]
fn r6_1_claude_streams_have_the_outcome_of_their_case() {
    assert_eq!(stream_cases(EngineName::Claude), 20);
}

#[test]
fn r6_1_pi_streams_have_the_outcome_of_their_case() {
    assert_eq!(stream_cases(EngineName::Pi), 5);
}

#[test]
fn r6_1_cursor_streams_have_the_outcome_of_their_case() {
    assert_eq!(stream_cases(EngineName::Cursor), 3);
}

#[test]
fn r10_failure_sentences_name_their_kind_and_reset() {
    let folder = test_dir().join("cases/limit-sentences-1");
    let rows = load(&folder.join("texts.json"));
    let expected = load(&folder.join("expect.json"));
    let rows = rows.as_array().unwrap();
    for (row, expect) in rows.iter().zip(expected["rows"].as_array().unwrap()) {
        assert_eq!(row["row"], expect["row"]);
        let failure = failure::of_text(row["text"].as_str().unwrap());
        assert_eq!(expect["outcome"], outcome_word(Some(failure.kind)), "{row}");
        assert_eq!(expect["retry_after"], retry_at(&failure.reset, row), "{row}");
    }
    assert_eq!(rows.len(), 10);
}

#[test]
fn processes_that_misbehave_after_their_result_have_said_enough() {
    let mut count = 0;
    for folder in folders(&test_dir().join("cases")) {
        let Ok(script) = fs::read_to_string(folder.join("engine.sh")) else { continue };
        let printed = |line: &&str| line.starts_with("{\"type\"");
        let stdout: String = script.lines().filter(printed).flat_map(|line| [line, "\n"]).collect();
        let expect = load(&folder.join("expect.json"));
        let decoded = decode(EngineName::Claude, stdout.as_bytes(), b"", Exit::Signal(9));
        let name = folder.file_name().unwrap().to_string_lossy();
        if expect["outcome"] == "success" && expect.get("live_context_tokens").is_some() {
            assert_eq!(decoded.outcome().end, TurnEnd::Completed, "{name}");
            assert_eq!(json!(decoded.outcome().text), expect["final_text"], "{name}");
        }
        if let Some(tokens) = expect.get("live_context_tokens") {
            assert_eq!(json!(decoded.context()), *tokens, "{name}");
            assert_eq!(json!(decoded.session()), expect["session_id"], "{name}");
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} process cases found");
}
