//! Engines that misbehave as processes, through the program: each case's own `engine.sh` in the place of claude.

use std::fs;
use std::path::Path;
use std::process::Command;

use fia::event::{Event, FailureKind, Outcome, RetirementReason, TurnStatus};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::project::{Log, Project};

/// The cases lie here, copied byte for byte.
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/test/cases");

/// One try in which nothing is corrected: the engines of the cases give no report.
const ONE: &str = "workflows: { one: { steps: [ { name: work, agent: builder } ] } }\n";

fn load(case: &str, file: &str) -> Value {
    serde_json::from_slice(&fs::read(Path::new(CASES).join(case).join(file)).unwrap()).unwrap()
}

/// A project on claude, with this program in its place.
fn project(program: &str, more: &str) -> Project {
    // An engine of the cases counts this letter in all that reaches it, and its arguments name the place.
    let is_plain = |project: &Project| !project.env().work().to_string_lossy().contains('Q');
    let project = std::iter::repeat_with(Project::new).find(is_plain).unwrap();
    project.config(&format!(
        "defaults: {{ coding_agent: claude, model: sonnet }}\nengines: {{ claude: {{ program: {program:?} }} }}\n{more}"
    ))
}

/// The prompt of a case.
fn prompt(case: &Value) -> String {
    let times = case["prompt"]["times"].as_u64().map_or(0, |times| usize::try_from(times).unwrap());
    match case["prompt"]["repeat"].as_str() {
        Some(text) => text.repeat(times),
        None => "do it".to_owned(),
    }
}

/// What the log and the agent map say of the first try, in the words of the cases.
fn told(log: &Log, field: &str) -> Value {
    let error = |event: &Event| match event {
        Event::EngineError(error) => Some(error.kind),
        _ => None,
    };
    let died = log.all(error).first().copied();
    let retries = log.story(&["engine_retry"]).len();
    match field {
        "engine" => json!("claude"),
        "outcome" => json!(match died {
            None => "success",
            Some(FailureKind::Timeout) => "engine_timeout",
            Some(FailureKind::Missing) => "engine_missing",
            Some(other) => panic!("no case ends as {other:?}"),
        }),
        "session_id" => agent_map(log)["builder"]["session_id"].clone(),
        "live_context_tokens" => agent_map(log)["builder"]["context_tokens"].clone(),
        "final_text" => final_text(log),
        "resume_same_session" => json!(log.starts()[1].1.session_id.is_some()),
        "same_engine_retry_useful" => json!(retries > 0),
        "processes_left" => json!(log.starts().iter().filter(|(_, start)| is_alive(start.pid)).count()),
        other => panic!("`{other}` is not looked at"),
    }
}

fn agent_map(log: &Log) -> Value {
    serde_json::from_str(&log.file("agent_map.json")).unwrap()
}

/// The answer of the first closing event.
fn final_text(log: &Log) -> Value {
    let transcript = log.file("agents/builder/01_work.1.transcript.jsonl");
    let closing = transcript.lines().find(|line| line.starts_with("{\"type\":\"result\"")).unwrap();
    let closing: Value = serde_json::from_str(closing).unwrap();
    closing["result"].clone()
}

/// Whether anybody of an engine's process group lives. Who is dead may wait for a parent that never looks.
fn is_alive(leader: u32) -> bool {
    let listed = Command::new("ps").args(["-A", "-o", "pgid=,stat="]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut groups = listed.lines().filter_map(|line| line.trim().split_once(' '));
    groups.any(|(group, stat)| group == leader.to_string() && !stat.trim().starts_with('Z'))
}

fn run_case(name: &str) {
    let (case, expect) = (load(name, "case.json"), load(name, "expect.json"));
    let minutes = case["phase_timeout_seconds"].as_f64().unwrap() / 60.0;
    let program = case["program"].as_str();
    let limit = format!("stop: {{ phase_timeout_minutes: {minutes} }}\n");
    let project = project(program.unwrap_or("../home/engine"), &format!("{limit}{ONE}"));
    if program.is_none() {
        let script = fs::read_to_string(Path::new(CASES).join(name).join("engine.sh")).unwrap();
        project.env().write_program("../home/engine", &script);
    }
    project.env().write_home("prompt", &prompt(&case));
    let finished = project.fia(&["run", "one", "-f", "../home/prompt", "-q"]);
    assert!(project.runs().len() == 1, "{name}: {finished}");
    let log = project.log();
    for (field, value) in expect.as_object().unwrap() {
        if field == "must_end_within_seconds" {
            let first = log.all(|event| match event {
                Event::AgentEnd(end) => Some(end.elapsed_ms),
                _ => None,
            })[0];
            assert!(first < value.as_u64().unwrap() * 1000, "{name}: {first} ms");
        } else {
            assert_eq!(&told(&log, field), value, "{name}: {field}: {finished}");
        }
    }
    let outcome = if expect["outcome"] == "success" { Outcome::Failed } else { Outcome::EngineExhausted };
    assert_eq!(log.outcome(), outcome, "{name}: a success gives no report, a death has no fallback");
}

#[test]
fn r10_processes_that_misbehave_come_to_the_outcome_of_their_case() {
    let mut cases: Vec<String> = Vec::new();
    for entry in fs::read_dir(CASES).unwrap() {
        let path = entry.unwrap().path();
        let case =
            fs::read(path.join("case.json")).map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap());
        if case["kind"] == "process" {
            cases.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    assert_eq!(cases.len(), 7, "{cases:?}");
    std::thread::scope(|scope| {
        for name in &cases {
            scope.spawn(move || run_case(name));
        }
    });
}

/// Plays a case's stream when it is to resume, else a turn with a report in a session of its own.
const FORGETFUL: &str = "#!/bin/sh
cat >/dev/null
case \" $* \" in *' --resume '*) cat \"$HOME/case.jsonl\"; cat \"$HOME/case.stderr\" >&2; exit 1;; esac
if [ -e \"$HOME/began\" ]; then cat \"$HOME/second.jsonl\"; else : >\"$HOME/began\"; cat \"$HOME/first.jsonl\"; fi
";

/// A turn with a report, in this session, at this live context.
fn good_turn(session: &str, context: u64) -> String {
    let report = json!({"status": "success", "summary": "done"}).to_string();
    let usage = json!({"input_tokens": 3, "cache_read_input_tokens": context - 3, "output_tokens": 5});
    let message =
        json!({"id": "m", "role": "assistant", "content": [{"type": "text", "text": report}], "usage": usage});
    let lines = [
        json!({"type": "system", "subtype": "init", "session_id": session, "model": "sonnet"}),
        json!({"type": "assistant", "message": message, "parent_tool_use_id": null, "session_id": session}),
        json!({"type": "result", "subtype": "success", "is_error": false, "result": report, "session_id": session}),
    ];
    lines.map(|line| line.to_string() + "\n").concat()
}

/// A project whose first session is lost when it is to be resumed, by the stream of the case.
fn forgetful(steps: &str, [first, second]: [String; 2]) -> Project {
    let project = project("../home/engine", &format!("workflows: {{ two: {{ steps: {steps} }} }}\n"));
    project.env().write_program("../home/engine", FORGETFUL);
    let case = Path::new(CASES).join("claude-bad-session");
    for (name, text) in [
        ("case.jsonl", fs::read_to_string(case.join("stream.jsonl")).unwrap()),
        ("case.stderr", fs::read_to_string(case.join("stderr.txt")).unwrap()),
        ("first.jsonl", first),
        ("second.jsonl", second),
    ] {
        project.env().write_home(name, &text);
    }
    project
}

/// The sessions that were retired, by reason.
fn retired(log: &Log) -> Vec<(RetirementReason, Option<String>)> {
    log.all(|event| match event {
        Event::SessionRetired(it) => Some((it.reason, it.from_session.as_ref().map(ToString::to_string))),
        _ => None,
    })
}

#[test]
fn r6_5_a_session_that_is_lost_when_it_is_asked_is_retired_on_the_record() {
    let turns = [good_turn("one", 5000), good_turn("two", 600)];
    let project = forgetful("[ { name: first, agent: builder } ]", turns);
    assert_eq!(project.run("two").outcome(), Outcome::GoalMet);
    let asked = project.fia(&["ask", "@builder", "still", "there?"]);
    assert_eq!(asked.end(), "exit 0", "{asked}");
    let log = project.log();
    assert_eq!(retired(&log), [(RetirementReason::SessionLost, Some("one".to_owned()))]);
    let entry = &agent_map(&log)["builder"];
    assert_eq!((&entry["session_id"], &entry["retired"][0]["session_id"]), (&json!("two"), &json!("one")));
    assert_eq!(entry["retired"][0]["context_tokens"], 5000);
    let again = log.prompt("builder", "00_ask_m1", 2, 1);
    assert!(again.starts_with("# Fresh session: ") && again.contains("still there?"), "{again}");

    let scripted = Project::new().with("workflows: { two: { steps: [ { name: first, agent: builder } ] } }\n");
    let session = scripted.run("two").all(|event| match event {
        Event::Session(seen) => Some(seen.session_id.to_string()),
        _ => None,
    });
    let file = scripted.run_dir().join("agents/builder");
    let names = scripted.log().names("agents/builder", "session");
    for name in &names {
        fs::remove_file(file.join(name)).unwrap();
    }
    let asked = scripted.fia(&["ask", "@builder", "still", "there?"]);
    assert_eq!(asked.end(), "exit 0", "{asked}");
    assert_eq!(retired(&scripted.log()), [(RetirementReason::SessionLost, session.last().cloned())]);
}

#[test]
fn r6_2_the_session_that_was_lost_is_retired_and_not_the_empty_one_that_was_announced_instead() {
    let case = Path::new(CASES).join("claude-bad-session");
    let (lost, empty, fresh) = (
        "11111111-1111-4111-8111-111111111111",
        "22222222-2222-4222-8222-222222222222",
        "33333333-3333-4333-8333-333333333333",
    );
    let steps = "[ { name: first, agent: builder }, { name: second, agent: builder } ]";
    let project = forgetful(steps, [good_turn(lost, 70_000), good_turn(fresh, 9000)]);
    assert!(fs::read_to_string(case.join("stream.jsonl")).unwrap().contains(empty));
    let log = project.run("two");
    assert_eq!(log.outcome(), Outcome::GoalMet);
    let seen = log.all(|event| match event {
        Event::Session(seen) => Some(seen.session_id.to_string()),
        _ => None,
    });
    assert_eq!(seen, [lost, fresh]);
    assert_eq!(retired(&log), [(RetirementReason::SessionLost, Some(lost.to_owned()))]);
    assert_eq!(log.story(&["engine_error"]), [""; 0], "no death");
    let ends = log.all(|event| match event {
        Event::AgentEnd(end) => Some(end.ended),
        _ => None,
    });
    assert_eq!(ends, [TurnStatus::Completed, TurnStatus::Failed, TurnStatus::Completed]);
    let entry = &agent_map(&log)["builder"];
    assert_eq!(entry["session_id"], fresh);
    let retired: Vec<_> = entry["retired"].as_array().unwrap().iter().collect();
    assert_eq!(
        (retired.len(), &retired[0]["session_id"], &retired[0]["context_tokens"]),
        (1, &json!(lost), &json!(70_000))
    );
    assert!(log.prompt("builder", "02_second", 2, 1).starts_with("# Fresh session: "));
}
