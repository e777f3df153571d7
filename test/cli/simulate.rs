//! `fia simulate` and `fia gateway`: on made-up conversations, on a recorded one, and what they refuse.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::program::Running;
use crate::support::project::Project;

/// Two phases of one agent with four requests, of which the readings are in the script.
fn recorded() -> Project {
    let turn =
        |context: u64| format!("{{ usage: {{ input: 1, output: 10, cache_read: {context}, cache_write: 100 }} }}");
    let project = Project::new()
        .with("workflows: { two: { steps: [ { name: first, agent: builder }, { name: second, agent: builder } ] } }\n")
        .script(&format!("phases:\n  first: [{}]\n  second: [{}]\n", turn(20_000), turn(30_000)));
    project.run("two");
    project
}

fn run_id(project: &Project) -> String {
    project.json(&["runs", "--json"])["runs"][0]["run"].as_str().unwrap().to_owned()
}

#[test]
fn r12_2_each_simulation_prints_its_table_and_the_same_as_json() {
    let project = Project::new();
    for (what, figure) in [("watermark", "419,312"), ("rotation", "13,307 (-55%)")] {
        let finished = project.fia(&["simulate", what]);
        assert!(finished.stdout.contains(figure), "{finished}");
        let json = project.json(&["simulate", what, "--json"]);
        assert_eq!(json["simulation"], what);
        for list in ["assumptions", "rows", "published"] {
            assert!(json[list].as_array().is_some_and(|list| !list.is_empty()), "{what} {list}");
        }
    }
}

#[test]
fn r12_2_a_recorded_run_is_replayed_agent_by_agent() {
    let project = recorded();
    let json = project.json(&["simulate", "rotation", "--json", "--from-run", &run_id(&project)]);
    let rows = json["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["agent"] == "builder"), "{rows:?}");
    assert_eq!(rows[0]["policy"], "as recorded");
    assert_eq!((rows[0]["read"].as_u64(), rows[0]["largest_context"].as_u64()), (Some(50_000), Some(30_101)));
}

#[test]
fn r12_2_the_channel_of_a_recorded_run_is_delivered_by_every_rule() {
    let says = |n: usize| format!("{{ run: '{} message line {n}' }}", env!("CARGO_BIN_EXE_fia"));
    let steps = "workflows: { two: { steps: [ { name: first, agent: builder }, { name: second, agent: builder }, { name: third, agent: builder } ] } }\n";
    let script =
        format!("phases:\n  first: [{{ do: [{}, {}] }}]\n  second: [{{ do: [{}] }}]\n", says(1), says(2), says(3));
    let project = Project::new().with(steps).script(&script);
    project.run("two");
    let json = project.json(&["simulate", "watermark", "--json", "--from-run", &run_id(&project)]);
    let rows = json["rows"].as_array().unwrap();
    let lines = |rule: &str| rows.iter().find(|row| row["rule"] == rule).and_then(|row| row["channel_lines"].as_u64());
    // Two lines at the second phase; at the third all three of them, or the new one alone.
    assert_eq!((lines("window"), lines("delivered")), (Some(5), Some(3)), "{json}");
}

#[test]
fn what_a_recording_does_not_hold_is_said() {
    let project = recorded();
    let run = run_id(&project);
    for what in ["pruning", "watermark"] {
        let finished = project.fia(&["simulate", what, "--from-run", &run]);
        assert_eq!(finished.end(), "exit 2", "{finished}");
        assert!(finished.stderr.starts_with("error: it holds no "), "{finished}");
    }
    let project = project.file("empty.jsonl", "\n");
    for args in
        [["rotation", "empty.jsonl"], ["pruning", "empty.jsonl"], ["rotation", "missing"], ["watermark", "empty.jsonl"]]
    {
        let finished = project.fia(&["simulate", args[0], "--from-transcript", args[1]]);
        assert_eq!(finished.end(), "exit 2", "{finished}");
    }
}

#[test]
fn a_session_of_claude_is_replayed_with_its_pauses() {
    let line = |n: u64| {
        format!(
            r#"{{"type":"assistant","timestamp":"2026-11-30T12:{:02}:00Z","sessionId":"s","message":{{"id":"m{n}","model":"m","content":[{{"type":"text","text":"answer"}}],"usage":{{"input_tokens":1,"cache_read_input_tokens":{},"cache_creation_input_tokens":900}}}}}}"#,
            n * 6,
            n * 900
        )
    };
    let project = Project::new().file("session.jsonl", &(0..9).map(|n| line(n) + "\n").collect::<String>());
    let json = project.json(&["simulate", "rotation", "--json", "--from-transcript", "session.jsonl"]);
    let cost = |policy: &str| {
        let rows = json["rows"].as_array().unwrap();
        rows.iter().find(|row| row["policy"] == policy).unwrap_or(&Value::Null)["cost"].as_u64()
    };
    // Every request finds the cache gone: never rotating writes all of it each time.
    assert!(cost("never") > cost("as recorded"), "{json}");
}

#[test]
fn r9_4_the_gateway_alone_names_its_url_and_ends_by_a_signal() {
    let project = Project::new();
    let refused = project.fia(&["gateway", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.end(), "exit 2", "{refused}");
    let refused = project.fia(&["gateway", "--upstream", "ftp://example.invalid/secret"]);
    assert_eq!(refused.end(), "exit 2", "{refused}");
    assert!(!refused.stderr.contains("secret"), "{refused}");

    let mut command = project.command(&["gateway", "--upstream", "http://127.0.0.1:9"]);
    let gateway = Running::start(&mut command, "");
    gateway.until("its address", || gateway.printed().ends_with('\n'));
    let url = gateway.printed();
    let (host, path) = url.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
    assert!(host.starts_with("127.0.0.1:") && path.starts_with("s/"), "{url}");
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path}/v1/models HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    // Nobody is behind it, and it says who.
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("no answer from http://127.0.0.1:9"), "{answer}");
    gateway.signal(Signal::TERM);
    let ended = gateway.finish();
    assert_eq!(ended.end(), "exit 143", "{ended}");
}
