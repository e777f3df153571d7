//! Whatever a program prints, a decoder neither panics nor keeps much of it.

use std::fs;

use fia::engine;
use fia::event::item::EngineEvent;
use fia::ids::EngineName;
use fia::process::Exit;
use proptest::prelude::*;

use crate::stream::{decode, folders, test_dir};

/// Bytes that a decoder may hand on for one line, whatever its length: texts are capped at 1 MiB and kept twice.
const MAX_FACT_BYTES: usize = 2 * 1024 * 1024 + 64 * 1024;

fn config() -> ProptestConfig {
    let cases = if std::env::var_os("CI").is_some() { 100_000 } else { 2_000 };
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 2_000, ..ProptestConfig::default() }
}

/// Lines of the recordings of an engine, short enough to be changed often.
fn recorded_lines(engine: EngineName) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for folder in folders(&test_dir().join("fixture").join(engine.as_str())) {
        let stdout = fs::read(folder.join("stdout.jsonl")).unwrap();
        lines.extend(stdout.split(|byte| *byte == b'\n').filter(|line| line.len() < 3000).map(<[u8]>::to_vec));
    }
    lines.sort();
    lines.dedup();
    lines
}

/// One change of a line: a byte, a piece left out, or a piece of another kind of value put in.
#[derive(Debug, Clone)]
enum Change {
    Byte(prop::sample::Index, u8),
    Without(prop::sample::Index, prop::sample::Index),
    With(prop::sample::Index, &'static str),
}

fn change() -> impl Strategy<Value = Change> {
    let value = prop::sample::select(vec![
        "null",
        "-1",
        "1e400",
        "18446744073709551616",
        "[]",
        "{}",
        "\"\\ud83d\"",
        "\"\\",
        "true",
        "\"usage\":7,",
        "{\"type\":",
        "\u{0}",
    ]);
    prop_oneof![
        (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(from, to)| Change::Without(from, to)),
        (any::<prop::sample::Index>(), value).prop_map(|(at, text)| Change::With(at, text)),
    ]
}

fn apply(line: &mut Vec<u8>, change: &Change) {
    let places = line.len() + 1;
    match change {
        Change::Byte(at, byte) => {
            if let Some(place) = line.get_mut(at.index(places)) {
                *place = *byte;
            }
        }
        Change::Without(from, to) => {
            let (from, to) = (from.index(places), to.index(places));
            line.drain(from.min(to)..from.max(to));
        }
        Change::With(at, text) => {
            let at = at.index(places);
            line.splice(at..at, text.bytes());
        }
    }
}

fn fact_bytes(events: &[EngineEvent]) -> usize {
    events.iter().map(|event| format!("{event:?}").len()).sum()
}

fn survives_any_bytes(engine: EngineName) {
    let line = prop::collection::vec(any::<u8>(), 0..200);
    let output = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..400),
        prop::collection::vec(line, 0..3).prop_map(|parts| {
            let heads = [
                &b"{\"type\":\"assistant\",\"message\":"[..],
                b"{\"type\":\"result\",",
                b"{\"type\":\"message_end\",\"message\":{",
            ];
            parts
                .iter()
                .zip(heads.iter().cycle())
                .flat_map(|(part, head)| [head, part.as_slice(), b"\n"].concat())
                .collect()
        }),
    ];
    proptest!(config(), |(output in output, exit in any::<u8>())| {
        let decoded = decode(engine, &output, &output, Exit::Code(i32::from(exit)));
        prop_assert!(decoded.events.len() <= output.len() + 1);
    });
}

fn survives_changed_lines(engine: EngineName) {
    let lines = prop::sample::select(recorded_lines(engine));
    proptest!(config(), |(mut line in lines, changes in prop::collection::vec(change(), 1..4))| {
        for change in &changes {
            apply(&mut line, change);
        }
        let decoded = decode(engine, &line, b"", Exit::Code(0));
        prop_assert!(fact_bytes(&decoded.events) <= 64 * 1024);
    });
}

#[test]
fn claude_decoder_survives_any_bytes() {
    survives_any_bytes(EngineName::Claude);
}

#[test]
fn claude_decoder_survives_changed_lines() {
    survives_changed_lines(EngineName::Claude);
}

#[test]
fn pi_decoder_survives_any_bytes() {
    survives_any_bytes(EngineName::Pi);
}

#[test]
fn pi_decoder_survives_changed_lines() {
    survives_changed_lines(EngineName::Pi);
}

#[test]
fn cursor_decoder_survives_any_bytes() {
    survives_any_bytes(EngineName::Cursor);
}

#[test]
fn cursor_decoder_survives_changed_lines() {
    survives_changed_lines(EngineName::Cursor);
}

#[test]
fn a_line_of_megabytes_leaves_kilobytes() {
    let filler = "A\\n".repeat(1024 * 1024);
    for (engine, line) in [
        (
            EngineName::Claude,
            format!(
                r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t","content":"{filler}"}}]}}}}"#
            ),
        ),
        (
            EngineName::Claude,
            format!(
                r#"{{"type":"assistant","message":{{"id":"m","content":[{{"type":"tool_use","id":"t","name":"Write","input":{{"content":"{filler}"}}}}]}}}}"#
            ),
        ),
        (
            EngineName::Claude,
            format!(r#"{{"type":"assistant","message":{{"id":"m","content":[{{"type":"text","text":"{filler}"}}]}}}}"#),
        ),
        (
            EngineName::Claude,
            format!(r#"{{"type":"result","subtype":"success","is_error":false,"result":"{filler}"}}"#),
        ),
        (
            EngineName::Pi,
            format!(
                r#"{{"type":"tool_execution_end","toolCallId":"t","result":{{"content":[{{"type":"text","text":"{filler}"}}]}}}}"#
            ),
        ),
        (
            EngineName::Pi,
            format!(
                r#"{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"{filler}"}},{{"type":"text","text":"{filler}"}}]}}}}"#
            ),
        ),
        (EngineName::Cursor, format!(r#"{{"type":"assistant","message":{{"content":[{{"text":"{filler}"}}]}}}}"#)),
        (EngineName::Cursor, format!("{filler}{filler}")),
    ] {
        let mut decoder = engine::for_name(engine).decoder();
        let mut events = Vec::new();
        decoder.line(line.as_bytes(), &mut events);
        let bytes = fact_bytes(&events);
        assert!(bytes <= MAX_FACT_BYTES, "{engine}: {bytes} bytes of facts from {}", &line[..60]);
    }
}
