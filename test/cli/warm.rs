//! A prefix that may not move, and where a phase can be ended, as far as no real engine is needed to see it.

use fia::event::{Event, LeaseKind};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::project::Project;

#[test]
fn r7_2_a_cli_without_a_place_for_the_role_is_told_it_by_every_new_process() {
    let project = Project::new();
    let report = json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s",
        "result": "```json\n{\"status\": \"success\", \"summary\": \"done\"}\n```"});
    project.env().write_home("report", &format!("{report}\n"));
    let script = "#!/bin/sh\ncat > \"$HOME/heard.$([ -e \"$HOME/heard.1\" ] && echo 2 || echo 1)\"\necho '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}'\ncat \"$HOME/report\"\n";
    let program = project.env().write_program(project.env().home().join("cursor"), script);
    let project = project.config(&format!(
        "defaults: {{ coding_agent: cursor, model: m }}\nengines: {{ cursor: {{ program: {program:?} }} }}\n\
         workflows:\n  two:\n    steps:\n      - {{ name: one, agent: builder }}\n      - {{ name: more, agent: builder }}\n"
    ));
    let log = project.run("two");
    assert_eq!(log.outcome(), fia::event::Outcome::GoalMet);
    let leases: Vec<LeaseKind> = log.starts().iter().map(|(_, start)| start.lease).collect();
    assert_eq!(leases, [LeaseKind::Cold, LeaseKind::Restored]);
    let system = log.file("agents/builder/system.md");
    for (number, phase) in [(1, "01_one"), (2, "02_more")] {
        let heard = std::fs::read_to_string(project.env().home().join(format!("heard.{number}"))).unwrap();
        let prompt = log.prompt("builder", phase, 1, 1);
        assert_eq!(heard, format!("{}\n\n{prompt}", system.trim_end()), "{phase}");
    }
}

#[test]
fn r6_7_a_system_prompt_that_somebody_changed_is_named_and_put_back() {
    let project = Project::new();
    let log = project.run("prompt");
    let agent = log.starts()[0].1.agent.to_string();
    let place = project.run_dir().join(format!("agents/{agent}/system.md"));
    let before = std::fs::read_to_string(&place).unwrap();
    std::fs::write(&place, before.replacen("the", "thy", 1)).unwrap();
    let asked = project.fia(&["ask", &format!("@{agent}"), "who are you?"]);
    assert_eq!(asked.end(), "exit 0", "{asked}");
    assert_eq!(std::fs::read_to_string(&place).unwrap(), before);
    let log = project.log();
    let changed = log.all(|event| match event {
        Event::PrefixChanged(changed) => Some((changed.block.clone(), changed.byte)),
        _ => None,
    });
    assert_eq!(changed, [("system.md".to_owned(), before.find("the").unwrap() + 2)]);
    let systems: Vec<String> = log.all(|event| match event {
        Event::AgentStart(start) => Some(start.system_sha256.clone()),
        _ => None,
    });
    assert_eq!((systems.len(), &systems[0]), (2, &systems[1]));
}

#[test]
fn r6_10_doctor_says_where_a_phase_cannot_be_ended_between_two_requests() {
    let project = Project::new();
    let told = project.json(&["doctor", "--json"]);
    let engines = told["engines"].as_array().unwrap();
    let told: Vec<(&str, &str)> = engines
        .iter()
        .map(|row| (row["engine"].as_str().unwrap(), row["rotates_mid_phase"].as_str().unwrap()))
        .collect();
    let expected = [("claude", "always"), ("pi", "when_resident"), ("cursor", "never")];
    assert_eq!(told, expected);
    let shown = project.fia(&["doctor"]);
    assert!(shown.stdout.contains("MID-PHASE"), "{shown}");
}

#[test]
fn doctor_asks_each_cli_as_it_is_configured() {
    let engines = "defaults: { coding_agent: pi, model: p/m }\nengines:\n  pi: { program: sh, args: [./cli.sh], env: { OWN: 9.8.7 } }\n\
                   \x20 claude: { program: sh, args: [./cli.sh], env: { OWN: 6.5.4, ANTHROPIC_API_KEY: x } }\n";
    let cli = "[ \"$1\" = --version ] && echo \"cli $OWN\"\n";
    let told = Project::new().config(engines).file("cli.sh", cli).json(&["doctor", "--json"]);
    let of = |at: usize| (&told["engines"][at]["version"], &told["engines"][at]["login"]);
    assert_eq!(of(0), (&"6.5.4".into(), &"key".into()));
    assert_eq!(of(1).0, "9.8.7");
}

#[test]
fn a_window_that_claude_tells_with_the_end_of_a_turn_is_known_from_then_on() {
    let project = Project::new();
    let program = project.env().home().join("one_shot");
    project.env().write_program(&program, "#!/bin/sh\ncat > /dev/null\ncat \"$HOME/turn.jsonl\"\n");
    let report = format!("```json\n{}\n```", json!({"status": "success", "summary": "done"}));
    let usage = json!({"input_tokens": 3, "cache_read_input_tokens": 9000, "cache_creation_input_tokens": 90, "output_tokens": 5});
    let message = json!({"id": "m", "model": "opus-x", "role": "assistant", "content": [{"type": "text", "text": report}], "usage": usage});
    let models = json!({"opus-x": {"inputTokens": 3, "contextWindow": 1_000_000}, "haiku-x": {"contextWindow": 9}});
    let lines = [
        json!({"type": "system", "subtype": "init", "session_id": "s", "model": "opus-x"}),
        json!({"type": "assistant", "message": message, "session_id": "s"}),
        json!({"type": "result", "subtype": "success", "is_error": false, "result": report, "session_id": "s", "modelUsage": models}),
    ];
    project.env().write_home("turn.jsonl", &(lines.map(|line| line.to_string()).join("\n") + "\n"));
    let project = project.config(&format!(
        "defaults: {{ coding_agent: claude, model: opus-x }}\n\
         engines: {{ claude: {{ program: {program:?} }} }}\n\
         workflows:\n  two:\n    steps:\n      - {{ name: a, agent: builder }}\n      - {{ name: b, agent: builder }}\n"
    ));
    let before = project.fia(&["doctor"]);
    assert!(before.stdout.contains("180k (window known once it runs)"), "{before}");
    let log = project.run("two");
    let windows = log.all(|event| match event {
        Event::Context(read) => Some(read.window),
        Event::AgentEnd(end) => Some(end.window),
        _ => None,
    });
    assert_eq!(windows, [None, Some(1_000_000), Some(1_000_000), Some(1_000_000)]);
    assert_eq!(project.json(&["report", "--json"])["agents"][0]["window"], 1_000_000);
    let after = project.fia(&["doctor"]);
    assert!(after.stdout.contains("180k fires (window 1M)"), "{after}");
}
