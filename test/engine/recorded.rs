//! Whole recordings of the CLIs, decoded: one line a fact, one snapshot an engine.

use std::fmt::Write as _;
use std::fs;

use fia::event::Usage;
use fia::event::item::{Cost, EngineEvent, TurnEnd, TurnOutcome};
use fia::ids::EngineName;
use fia::process::Exit;
use serde_json::Value;

use crate::stream::{Decoded, decode, folders, test_dir};

/// Characters of a text that a snapshot shows.
const SHOWN: usize = 100;

/// Recordings whose last reading is stale because a compaction came after it.
const COMPACTED_LAST: [&str; 2] = ["rpc-compact", "warm-control"];

fn one_line(text: &str) -> String {
    let line = text.replace('\n', "⏎");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes)", &line[..end], text.len()),
        None => line,
    }
}

fn tokens(usage: Option<Usage>) -> String {
    usage.map_or("unknown".to_owned(), |usage| {
        let Usage { input, output, cache_read, cache_write, cache_write_1h } = usage;
        let hour = if cache_write_1h > 0 { format!(" ({cache_write_1h} for 1h)") } else { String::new() };
        format!("in {input} read {cache_read} write {cache_write}{hour} out {output}")
    })
}

fn render_end(outcome: &TurnOutcome, out: &mut String) {
    let end = match &outcome.end {
        TurnEnd::Completed => "completed".to_owned(),
        TurnEnd::Cut(cut) => format!("cut {cut:?}"),
        TurnEnd::Failed(failure) => {
            format!("failed {} {:?}: {}", failure.kind.as_str(), failure.reset, one_line(&failure.message))
        }
    };
    let cost = match outcome.cost {
        None => "unknown".to_owned(),
        Some(Cost::Turn(dollars)) => format!("{dollars:.6} turn"),
        Some(Cost::SessionTotal(dollars)) => format!("{dollars:.6} session"),
    };
    let text = outcome.text.as_deref().map_or("none".to_owned(), |text| format!("\"{}\"", one_line(text)));
    writeln!(out, "  end {end}\n    text {text} | spent {} | cost {cost}", tokens(outcome.usage)).unwrap();
}

fn render(event: &EngineEvent, out: &mut String) {
    match event {
        EngineEvent::Session { session, model, version } => {
            writeln!(out, "  session {session} model {model:?} version {version:?}").unwrap();
        }
        EngineEvent::Request { usage, window } => {
            writeln!(out, "  request {} window {window:?}", tokens(*usage)).unwrap();
        }
        EngineEvent::Window(window) => writeln!(out, "  window {window}").unwrap(),
        EngineEvent::Compacted { before, after } => writeln!(out, "  compacted {before:?} to {after:?}").unwrap(),
        EngineEvent::Text(text) => writeln!(out, "  text {}", one_line(text)).unwrap(),
        EngineEvent::ToolStarted { call, tool, summary, arguments } => {
            writeln!(out, "  tool {call} {tool}: {} | {}", one_line(summary), one_line(arguments)).unwrap();
        }
        EngineEvent::ToolEnded { call, ok, first_line } => {
            writeln!(out, "  tool {call} {} {}", if *ok { "ok" } else { "failed" }, one_line(first_line)).unwrap();
        }
        EngineEvent::Retrying { attempt, delay, reason } => {
            writeln!(out, "  retry {attempt} after {delay:?}: {}", one_line(reason)).unwrap();
        }
        EngineEvent::Reply(bytes) => writeln!(out, "  reply {bytes:?}").unwrap(),
        EngineEvent::Unknown { kind } => writeln!(out, "  unknown {kind}").unwrap(),
        EngineEvent::Noise { bytes } => writeln!(out, "  noise {bytes}").unwrap(),
        EngineEvent::TurnEnded(outcome) => render_end(outcome, out),
    }
}

fn exit_of(facts: &Value) -> Exit {
    match facts["signal"].as_str() {
        None => Exit::Code(i32::try_from(facts["exit_code"].as_i64().unwrap()).unwrap()),
        Some("SIGKILL") => Exit::Signal(9),
        Some("SIGTERM") => Exit::Signal(15),
        Some("SIGINT") => Exit::Signal(2),
        Some(other) => panic!("signal {other}"),
    }
}

/// Decodes every recording of an engine, holds the live context against the recorder's, and renders the facts.
fn recordings(engine: EngineName) -> String {
    let mut out = String::new();
    for folder in folders(&test_dir().join("fixture").join(engine.as_str())) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let facts: Value = serde_json::from_slice(&fs::read(folder.join("exit.json")).unwrap()).unwrap();
        let stderr = fs::read(folder.join("stderr.txt")).unwrap_or_default();
        let exit = exit_of(&facts);
        let decoded: Decoded = decode(engine, &fs::read(folder.join("stdout.jsonl")).unwrap(), &stderr, exit);
        if !COMPACTED_LAST.contains(&name.as_str()) && facts["live_context_tokens"].is_u64() {
            assert_eq!(decoded.context(), facts["live_context_tokens"].as_u64(), "{name}");
        }
        writeln!(out, "{name} ({exit:?})").unwrap();
        for event in &decoded.events {
            render(event, &mut out);
        }
        if let Some(outcome) = &decoded.at_end {
            out.push_str("  at the end of the process:\n");
            render_end(outcome, &mut out);
        }
    }
    out
}

fn assert_facts(engine: EngineName) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(test_dir().join("fixture"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(format!("{engine}-facts"), recordings(engine)));
}

#[test]
fn a_protocol_that_no_engine_speaks_is_no_success_and_no_fact_of_a_session() {
    // JSON-RPC of claude-agent-acp: answers and notifications, none of which is a line of a stream that fia asks for.
    let stdout = fs::read(test_dir().join("fixture/acp/basic/stdout.jsonl")).unwrap();
    let lines = stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    for engine in EngineName::ALL {
        let decoded = decode(engine, &stdout, b"", Exit::Code(0));
        assert!(lines > 30 && decoded.events.len() == lines, "{engine}: {lines}");
        for event in &decoded.events {
            assert!(matches!(event, EngineEvent::Unknown { .. } | EngineEvent::Noise { .. }), "{engine}: {event:?}");
        }
        assert!(matches!(decoded.outcome().end, TurnEnd::Failed(_)), "{engine}: {:?}", decoded.outcome());
    }
}

#[test]
fn recordings_of_claude_are_decoded_without_a_lost_or_invented_fact() {
    assert_facts(EngineName::Claude);
}

#[test]
fn recordings_of_pi_are_decoded_without_a_lost_or_invented_fact() {
    assert_facts(EngineName::Pi);
}

#[test]
fn recordings_of_cursor_are_decoded_without_a_lost_or_invented_fact() {
    assert_facts(EngineName::Cursor);
}
