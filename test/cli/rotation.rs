//! Rotation through the program, on scripted readings: the whole of SPEC 6.3 to 6.5.

use fia::event::SessionRotation;
use pretty_assertions::assert_eq;

use crate::support::project::{Log, Project};

/// A workflow of three phases of one agent.
const THREE: &str = "
workflows:
  three:
    steps:
      - { name: first, agent: builder }
      - { name: second, agent: builder }
      - { name: third, agent: builder }
";

/// The same under another name.
const THREE_AGAIN: &str = "  again: { steps: [ { name: first, agent: builder }, { name: second, agent: builder } ] }\n";

/// A turn whose every request shows so many tokens of live context.
fn turn(context: u64) -> String {
    format!("{{ usage: {{ input: 0, output: 10, cache_read: {}, cache_write: 1 }} }}", context - 1)
}

/// Three phases with these readings, under this `defaults:` or `agents:` of the configuration.
fn three(config: &str, readings: [u64; 3]) -> Project {
    let [first, second, third] = readings.map(turn);
    Project::new()
        .with(&format!("{THREE}{config}"))
        .script(&format!("phases:\n  first: [{first}]\n  second: [{second}]\n  third: [{third}]\n"))
}

/// `agents:` with a builder of this ceiling.
fn ceiling(written: &str) -> String {
    format!("agents: [{{ name: builder, session_rotation_context: {written} }}]\n")
}

fn resumed(log: &Log, phase: &str) -> bool {
    log.start(phase).session_id.is_some()
}

#[test]
fn r6_3_a_session_at_the_ceiling_exactly_is_rotated() {
    let log = three(&ceiling("5000"), [5000, 100, 100]).run("three");
    assert_eq!(log.rotated_in(), ["02_second"]);
    assert_eq!((resumed(&log, "02_second"), resumed(&log, "03_third")), (false, true));
    let (_, rotation) = &log.rotations()[0];
    assert_eq!((rotation.context_tokens, rotation.cap), (Some(5000), 5000));
    let prompt = log.prompt("builder", "02_second", 1, 1);
    assert!(prompt.starts_with("# Fresh session: ceiling reached (5000 tokens >= 5000)\n"), "{prompt}");
    assert!(!log.prompt("builder", "03_third", 1, 1).contains("# Fresh session"));
}

#[test]
fn r6_3_a_session_one_token_below_the_ceiling_is_not() {
    let log = three(&ceiling("5000"), [4999, 4999, 4999]).run("three");
    assert_eq!(log.rotated_in(), [""; 0]);
    assert_eq!((resumed(&log, "02_second"), resumed(&log, "03_third")), (true, true));
}

#[test]
fn r6_3_a_ceiling_of_zero_never_rotates() {
    let log = three(&ceiling("0"), [900_000, 900_000, 900_000]).run("three");
    assert_eq!(log.rotated_in(), [""; 0]);
}

#[test]
fn r6_3_the_case_of_the_zero_does_not_rotate() {
    let case = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("test/cases/yaml-zero-means-never");
    let expect: serde_json::Value = serde_json::from_slice(&std::fs::read(case.join("expect.json")).unwrap()).unwrap();
    let config = std::fs::read_to_string(case.join("config.yaml")).unwrap();
    let knob = config.lines().find(|line| line.contains("session_rotation_context")).unwrap();
    let context = expect["rotation"]["live_context_tokens"].as_u64().unwrap();
    let log = three(&ceiling(knob.split_once(':').unwrap().1.trim()), [context; 3]).run("three");
    assert_eq!(log.rotated_in().is_empty(), expect["rotation"]["next_phase_rotates"] == false);
}

#[test]
fn r6_3_each_agent_has_its_own_ceiling() {
    let project = Project::new()
        .with(
            "
agents:
  - { name: builder, session_rotation_context: 1000 }
  - { name: tester, session_rotation_context: 1001 }
workflows:
  pair:
    steps:
      - { name: one, agent: builder }
      - { name: two, agent: tester }
      - { name: three, agent: builder }
      - { name: four, agent: tester }
",
        )
        .script(&format!("phases: {{ '*': [{}] }}\n", turn(1000)));
    assert_eq!(project.run("pair").rotated_in(), ["03_three"]);
}

#[test]
fn r3_3_the_knob_takes_only_what_it_can_mean_and_says_so_once() {
    // (as written, the ceiling in force, whether a warning says so)
    let cases = [
        (None, 180_000, false),
        (Some("many"), 180_000, true),
        (Some("-1"), 180_000, true),
        (Some("true"), 180_000, true),
        (Some("''"), 180_000, true),
        (Some(""), 180_000, true),
        (Some("0.5"), 180_000, true),
        (Some("1500.9"), 1500, false),
        (Some("1_500"), 1500, false),
        (Some("0"), 0, false),
    ];
    for (written, in_force, warned) in cases {
        let config = written.map(ceiling).unwrap_or_default();
        let project = three(&config, [1, 1, 1]);
        let shown = project.json(&["config", "show", "--json"]);
        let agents = shown["config"]["agents"].as_array().unwrap();
        let builder = agents.iter().find(|agent| agent["name"] == "builder").unwrap();
        assert_eq!(builder["session_rotation_context"], in_force, "{written:?}");
        let finished = project.fia(&["run", "three", "do", "it", "-q"]);
        let warnings: Vec<_> = finished.stderr.lines().filter(|line| line.starts_with("warning:")).collect();
        assert_eq!(warnings.len(), usize::from(warned), "{written:?}: {finished}");
        for word in ["session_rotation_context", "tokens", "180000"].iter().filter(|_| warned) {
            assert!(warnings[0].contains(word), "{written:?}: {}", warnings[0]);
        }
    }
}

#[test]
fn r6_3_the_default_ceiling_rotates_at_180000() {
    assert_eq!(three("", [179_999, 180_000, 1]).run("three").rotated_in(), ["03_third"]);
}

#[test]
fn r6_3_an_engine_that_reports_no_usage_never_rotates_and_says_so() {
    let silent = "{ usage: { input: 0, output: 0, cache_read: 0, cache_write: 0 } }";
    let project =
        Project::new().with(&format!("{THREE}{}", ceiling("1"))).script(&format!("phases: {{ '*': [{silent}] }}\n"));
    let finished = project.fia(&["run", "three", "do", "it"]);
    let log = project.log();
    assert_eq!(log.story(&["session_rotation", "usage_unknown", "context"]), ["01_first usage_unknown"]);
    assert!(finished.stderr.contains("reports no usage"), "{finished}");
    assert_eq!(project.json(&["agents", "--json"])["agents"][0]["context_tokens"], serde_json::Value::Null);
}

#[test]
fn r6_5_another_model_begins_a_fresh_session_that_is_no_rotation() {
    let project = Project::new()
        .with(&format!(
            "{THREE}
agents:
  - name: builder
    session_rotation_context: 5000
    fallbacks: [{{ coding_agent: scripted, model: other }}]
"
        ))
        .script(&format!(
            "phases:
  first: [{}]
  second: [{{ usage: {{ input: 0, output: 1, cache_read: 9000, cache_write: 1 }}, fail: {{ kind: limit, message: quota }} }}]
  second@2: [{}]
",
            turn(100),
            turn(200)
        ));
    let log = project.run("three");
    let facts = ["session_rotation", "session_retired", "engine_relay", "agent_start"];
    assert_eq!(
        log.story(&facts),
        [
            "01_first agent_start",
            "02_second agent_start",
            "02_second engine_relay",
            "02_second session_retired",
            "02_second agent_start",
            "03_third agent_start"
        ]
    );
    let models: Vec<_> =
        log.starts().iter().map(|(_, start)| (start.model.clone(), start.session_id.is_some())).collect();
    let told = |model: &str, resumed| (model.to_owned(), resumed);
    assert_eq!(models, [told("rehearsal", false), told("rehearsal", true), told("other", false), told("other", true)]);
    assert!(log.prompt("builder", "02_second", 2, 1).starts_with("# Continuation: "));
}

#[test]
fn r6_3_an_engine_that_died_in_this_phase_goes_on_with_its_session_and_the_next_phase_rotates() {
    let project = Project::new().with(&format!("{THREE}{}", ceiling("5000"))).script(&format!(
        "phases:
  first: [{}]
  second: [{{ usage: {{ input: 0, output: 1, cache_read: 9000, cache_write: 1 }}, fail: {{ kind: overload }} }}]
  second@2: [{}]
",
        turn(100),
        turn(9001)
    ));
    let log = project.run("three");
    assert_eq!(log.rotated_in(), ["03_third"]);
    let second: Vec<_> = log.starts().into_iter().filter(|(phase, _)| phase == "02_second").collect();
    assert_eq!(second.len(), 2);
    assert_eq!(second[1].1.session_id, second[0].1.session_id);
    let prompt = log.prompt("builder", "02_second", 2, 1);
    assert!(prompt.starts_with("# Continuation: ") && !prompt.contains("# Fresh session"), "{prompt}");
}

#[test]
fn r6_3_corrections_inside_a_phase_continue_the_rotated_session() {
    let full = "usage: { input: 0, output: 1, cache_read: 9000, cache_write: 1 }";
    let project = Project::new().with(&format!("{THREE}{}", ceiling("5000"))).script(&format!(
        "phases:\n  first: [{}]\n  second: [{{ {full}, text: no report }}, {{ {full} }}]\n",
        turn(5000),
    ));
    let log = project.run("three");
    assert_eq!(log.rotated_in(), ["02_second", "03_third"]);
    let starts: Vec<_> = log.starts().into_iter().filter(|(phase, _)| phase == "02_second").collect();
    let of_first = log.start("01_first");
    assert_eq!(starts.len(), 2);
    assert_eq!((&starts[0].1.session_id, &of_first.session_id), (&None, &None));
    let named = log.all(|event| match event {
        fia::event::Event::Session(seen) => Some(seen.session_id.clone()),
        _ => None,
    });
    assert_eq!(starts[1].1.session_id.as_ref(), Some(&named[1]));
    assert!(log.prompt("builder", "02_second", 1, 2).starts_with("Your report could not be taken: "));
}

#[test]
fn r6_4_two_rotations_number_their_archives() {
    let log = three(&ceiling("5000"), [5000, 5000, 5000]).run("three");
    let archived: Vec<_> = log.rotations().into_iter().flat_map(|(_, rotation)| rotation.archived.clone()).collect();
    assert_eq!(
        archived,
        ["agents/builder/scripted_session.1.rotated.jsonl", "agents/builder/scripted_session.2.rotated.jsonl"]
    );
    assert_eq!(
        log.names("agents/builder", "session"),
        ["scripted_session.1.rotated.jsonl", "scripted_session.2.rotated.jsonl", "scripted_session.jsonl"]
    );
    let map: serde_json::Value = serde_json::from_str(&log.file("agent_map.json")).unwrap();
    assert_eq!((&map["builder"]["rotations"], map["builder"]["retired"].as_array().unwrap().len()), (&2.into(), 2));
    assert_eq!(map["builder"]["pending_reseed"], false);
}

#[test]
fn r6_6_the_preamble_names_what_the_run_changed_and_is_as_long_as_the_record_says() {
    let project = Project::new().with(&format!("{THREE}{}", ceiling("5000"))).script(
        "phases:
  first:
    - do: [{ write: { src/naïve.rs: x, notes.txt: y } }]
      usage: { input: 0, output: 1, cache_read: 5000, cache_write: 0 }
",
    );
    let log = project.run("three");
    let prompt = log.prompt("builder", "02_second", 1, 1);
    let (_, rotation) = &log.rotations()[0];
    assert!(rotation.preamble_bytes < 2048);
    let (preamble, rest) = prompt.split_at(rotation.preamble_bytes);
    for part in [
        "- notes.txt\n",
        "- src/naïve.rs\n",
        "digest: .fia/runs/",
        "/agents/builder/01_first.1.digest.md",
        "scripted_session.1.rotated.jsonl",
        "- Trust the previous report below",
    ] {
        assert!(preamble.contains(part), "{part}: {preamble}");
    }
    assert!(preamble.ends_with("\n\n") && !rest.starts_with('\n'), "{prompt}");
    assert!(rest.contains("rehearsed first"), "{rest}");
}

/// In a build with debug assertions a variable makes the archiving rename fail.
#[cfg(debug_assertions)]
#[test]
fn r6_4_a_rotation_whose_rename_fails_stands_down_and_is_tried_at_the_next_phase() {
    let project = three(&ceiling("5000"), [5000, 5000, 5000]);
    let mut command = project.command(&["run", "three", "do", "it"]);
    let finished = crate::support::program::run(command.env("FIA_FAULT_REFUSE", "archive"));
    let log = project.log();
    assert_eq!(
        log.story(&["rotation_stood_down", "session_rotation", "agent_start"]),
        [
            "01_first agent_start",
            "02_second rotation_stood_down",
            "02_second agent_start",
            "03_third session_rotation",
            "03_third agent_start"
        ]
    );
    assert!(resumed(&log, "02_second"), "{finished}");
    assert!(!log.prompt("builder", "02_second", 1, 1).contains("# Fresh session"));
    assert_eq!(log.names("agents/builder", "rotated"), ["scripted_session.1.rotated.jsonl"]);
}

/// A run whose second phase begins with `death` while its session file cannot be moved aside, and which a resume
/// brings to its end: its story up to there.
#[cfg(debug_assertions)]
fn dies_and_cannot_leave(death: &str) -> Vec<String> {
    let script = format!("phases:\n  first: [{{}}]\n  second: [{{ fail: {{ kind: {death} }} }}]\n  second@2: [{{}}]\n");
    let project = Project::new().with(THREE).script(&script);
    let mut command = project.command(&["run", "three", "do", "it"]);
    let ended = crate::support::program::run(command.env("FIA_FAULT_REFUSE", "archive"));
    let log = project.log();
    assert_eq!(log.names("agents/builder", "session"), ["scripted_session.jsonl"], "{ended}");
    let faults = log.all(|event| match event {
        fia::event::Event::Error(fault) => Some(fault.message.clone()),
        _ => None,
    });
    assert_eq!(faults.len(), 1, "{ended}");
    assert!(faults[0].starts_with("cannot leave the session of builder: cannot rename `"), "{faults:?}");
    assert!(ended.stderr.contains(&faults[0]), "{ended}");
    let resumed = project.fia(&["resume", "--retry-unchanged"]);
    assert_eq!(resumed.end(), "exit 0", "{resumed}");
    log.story(&["engine_error", "error", "session_rotation", "session_retired", "agent_start", "run_end"])
}

#[cfg(debug_assertions)]
#[test]
fn r6_5_a_full_session_that_cannot_be_moved_aside_is_not_gone_on_with() {
    let told = dies_and_cannot_leave("context_overflow");
    assert_eq!(told[1..], ["02_second agent_start", "02_second engine_error", "02_second error", "run_end"]);
}

#[cfg(debug_assertions)]
#[test]
fn r6_5_a_lost_session_that_cannot_be_moved_aside_is_not_gone_on_with() {
    let told = dies_and_cannot_leave("bad_session");
    assert_eq!(told[1..], ["02_second agent_start", "02_second error", "run_end"]);
}

/// Boundaries at which fia can be made to die are in builds with debug assertions alone.
#[cfg(debug_assertions)]
#[test]
fn r6_4_a_crash_between_rotation_and_its_first_turn_still_reseeds() {
    // The record with number N is the Nth append.
    let rotation = log_number(&three(&ceiling("5000"), [5000, 100, 100]).run("three"));
    let project = three(&ceiling("5000"), [5000, 100, 100]);
    let mut command = project.command(&["run", "three", "do", "it", "-q"]);
    let killed = crate::support::program::run(command.env("FIA_FAULT_AT", format!("append: after {rotation}")));
    assert_eq!(killed.end(), "signal 9", "{killed}");
    let log = project.log();
    assert_eq!(log.story(&["session_rotation", "run_end"]), ["02_second session_rotation"]);
    assert_eq!(log_number(&log), log.records.len());

    let resumed = project.fia(&["resume"]);
    assert_eq!(resumed.end(), "exit 0", "{resumed}");
    let log = project.log();
    assert_eq!(log.rotated_in(), ["02_second"]);
    assert_eq!(log.start("02_second").session_id, None);
    let prompt = log.prompt("builder", "02_second", 1, 1);
    assert!(prompt.starts_with("# Fresh session: ceiling reached (5000 tokens >= 5000)\n"), "{prompt}");
    let map: serde_json::Value = serde_json::from_str(&log.file("agent_map.json")).unwrap();
    assert_eq!((&map["builder"]["rotations"], &map["builder"]["pending_reseed"]), (&1.into(), &false.into()));
}

/// The number of the record of the first rotation.
#[cfg(debug_assertions)]
fn log_number(log: &Log) -> usize {
    let rotation = log.records.iter().find(|record| record.event.name() == "session_rotation").unwrap();
    usize::try_from(rotation.seq.0).unwrap()
}

/// A project whose rotations a policy decides, with these two turns.
fn priced(policy: &str, first: &str, second: &str) -> Project {
    let script = format!("growth: 4\nphases:\n  first: [{first}]\n  second: [{second}]\n");
    let defaults = format!("defaults: {{ coding_agent: scripted, model: rehearsal, session_rotation: {policy} }}\n");
    let engines = "engines: { scripted: { script: rehearsal.yaml } }\n";
    Project::new().config(&format!("{defaults}{engines}{THREE}{THREE_AGAIN}")).script(&script)
}

/// A turn of so many requests, each but the last with a long result.
fn requests(count: usize) -> String {
    format!("{{ do: [{}] }}", vec!["{ run: \"seq 3000\" }"; count - 1].join(", "))
}

#[test]
fn r6_9_price_rotates_below_the_ceiling_and_both_sides_are_in_the_log() {
    let grows = requests(10);
    assert_eq!(priced("ceiling", &grows, &grows).run("three").rotated_in(), ["03_third"]);
    let log = priced("break_even", &grows, &grows).run("three");
    assert_eq!(log.rotated_in(), ["02_second", "03_third"]);
    let (_, rotation) = &log.rotations()[0];
    assert_eq!(rotation.reason, fia::event::RotationReason::BreakEven);
    let price = rotation.price.as_ref().expect("both sides of the sum");
    let cost = |side: &str| price[side].as_f64().expect("a number");
    assert!(cost("fresh_cost") < cost("keep_cost"), "{price}");
    assert_eq!((price["context"].as_u64(), price["expected_requests"].as_u64()), (rotation.context_tokens, Some(10)));
    assert_eq!(price["cache"], "warm");
    assert!(log.prompt("builder", "02_second", 1, 1).starts_with("# Fresh session: price"));
}

#[test]
fn r6_9_the_requests_to_come_are_those_that_finished_runs_of_the_workflow_made() {
    let project = priced("break_even", &requests(5), &requests(1));
    let run = |workflow: &str| {
        // Ids of the same second are in no order.
        let before = project.runs();
        let finished = project.fia(&["run", workflow, "do", "it", "-q"]);
        assert_eq!(finished.end(), "exit 0", "{finished}");
        let new = project.runs().into_iter().find(|run| !before.contains(run)).unwrap();
        let dir = project.env().work().join(".fia/runs").join(new);
        let log = Log::read(project.env(), &dir);
        let expected = |(_, rotation): &(_, &SessionRotation)| rotation.price.as_ref()?["expected_requests"].as_u64();
        (dir, log.rotated_in(), log.rotations().iter().map(expected).collect::<Vec<_>>())
    };
    let rotated = |workflow: &str| {
        let (dir, phases, expected) = run(workflow);
        // Nothing is known of the second phase: it is taken to be as long as the first one was.
        assert_eq!((phases, expected), (vec!["02_second".to_owned()], vec![Some(5)]), "{workflow}");
        dir
    };
    let first = rotated("three");
    // One request does not pay for a fresh session.
    let (second, phases, _) = run("three");
    assert_eq!(phases, [""; 0]);
    // Another workflow says nothing, and neither does a run that is not over.
    rotated("again");
    for log in [first, second].map(|dir| dir.join("events.jsonl")) {
        let text = std::fs::read_to_string(&log).unwrap();
        let end = text.trim_end().rfind('\n').unwrap();
        std::fs::write(log, &text[..=end]).unwrap();
    }
    rotated("three");
}
