//! Resident processes, restored and lost sessions, and rotation inside a phase, with the real claude and pi.

use std::time::Duration;

use fia::provider::{LoggedRequest, Phase, Scenario};
use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::runs::{Cli, Stage, of, report};
use super::support::program::Running;

/// Live context at which agents are rotated here, in tokens.
const CEILING: u64 = 180_000;

/// A stage whose configuration ends with this.
fn stage(cli: Cli, scenario: Value, defaults: &str, rest: &str) -> Stage {
    let stage = Stage::new(cli, scenario);
    let config = stage.env.read("fia.config.yaml");
    let before = format!("model: {} }}", cli.model());
    assert!(config.contains(&before), "{config}");
    let config = config.replace(&before, &format!("model: {}, {defaults} }}", cli.model()));
    stage.env.write("fia.config.yaml", &format!("{config}{rest}"));
    stage
}

fn done() -> String {
    report(&json!({"status": "success", "summary": "done"}))
}

/// Every phase calls a tool and reports.
fn tool_and_report() -> Value {
    json!({"growth": 4.0, "rules": [
        {"match": "JOB-7", "steps": [{"do": "bash", "command": "echo working"}, {"text": done()}]},
    ], "exhausted": {"text": "no rule matched"}})
}

fn leases(events: &[Value]) -> Vec<String> {
    let lease = |start: &&Value| start["payload"]["lease"].as_str().unwrap_or_default().to_owned();
    of(events, "agent_start").iter().map(lease).collect()
}

fn pids(events: &[Value]) -> Vec<u64> {
    let mut pids: Vec<u64> =
        of(events, "agent_start").iter().filter_map(|start| start["payload"]["pid"].as_u64()).collect();
    pids.dedup();
    pids
}

/// The outcome, and what went on between.
fn ends_well(stage: &Stage, args: &[&str]) -> Vec<Value> {
    let finished = stage.run(args);
    assert!(finished.status.success(), "{finished}");
    stage.events()
}

/// Whether each request of the conversation extended the one before.
fn extensions(stage: &Stage) -> Vec<Option<bool>> {
    let requests = stage.provider.requests();
    requests.iter().filter_map(|request| request.prompt.as_ref()).map(|prompt| prompt.prefix_of_previous).collect()
}

/// What a person would have typed in the last request is the prompt of each phase, once and as it is on disk.
fn newest_turns_only(stage: &Stage, events: &[Value], phases: &[&str]) {
    let requests = stage.provider.requests();
    let main = requests.iter().rfind(|request| request.prompt.as_ref().is_some_and(|prompt| prompt.tools_count > 0));
    let body = main.and_then(|request| request.body.as_ref()).expect("a body");
    let body: Value = serde_json::from_slice(body).expect("JSON");
    let users = body["messages"].as_array().expect("messages").iter().filter(|message| message["role"] == "user");
    let last_block = |message: &Value| match &message["content"] {
        Value::String(text) => Some(text.clone()),
        content => Some(content.as_array()?.last()?["text"].as_str()?.to_owned()),
    };
    let run = events[0]["run"].as_str().expect("a run");
    let prompt = |(at, name): (usize, &&str)| {
        stage.env.read(&format!(".fia/runs/{run}/agents/builder/{:02}_{name}.1.1.user.md", at + 1))
    };
    let told: Vec<String> = users.filter_map(last_block).collect();
    assert_eq!(told, phases.iter().enumerate().map(prompt).collect::<Vec<_>>());
}

fn five_phases_in_one_process(cli: Cli) {
    let names = ["one", "two", "three", "four", "five"];
    let steps: Vec<String> = names.iter().map(|name| format!("      - {{ name: {name}, agent: builder }}\n")).collect();
    let workflow = format!("workflows:\n  five:\n    steps:\n{}", steps.concat());
    let stage = stage(cli, tool_and_report(), "session: resident", &workflow);
    let events = ends_well(&stage, &["run", "five", "JOB-7", "-q"]);
    assert_eq!(leases(&events), ["cold", "warm", "warm", "warm", "warm"]);
    assert_eq!(pids(&events).len(), 1);
    for kind in ["cache_break", "session_evicted", "engine_error"] {
        assert_eq!(of(&events, kind), [&Value::Null; 0]);
    }
    let extended = extensions(&stage);
    assert_eq!(extended.len(), 10);
    assert_eq!((extended[0], extended[1..].iter().all(|extends| *extends == Some(true))), (None, true), "{extended:?}");
    newest_turns_only(&stage, &events, &names);
    // Every request of the last phase found the one before it in the cache.
    let last = &of(&events, "agent_end")[4]["payload"];
    let share = |field: &str| last[field].as_f64().expect("a number");
    assert!(share("cache_hit_ratio") > 0.9 && share("rewrite_factor") < 0.1, "{last}");
    // Nothing is left of the process.
    let gone = of(&events, "agent_start")[0]["payload"]["pid"].as_u64().expect("a process id");
    assert!(!std::path::Path::new(&format!("/proc/{gone}")).exists());
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r7_1_claude_serves_five_phases_in_one_process_and_every_turn_extends_the_last_request() {
    five_phases_in_one_process(Cli::Claude);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r7_1_pi_serves_five_phases_in_one_process_and_every_turn_extends_the_last_request() {
    five_phases_in_one_process(Cli::Pi);
}

/// Ctrl-C while the model answers: the engine is asked to end its turn, and its session is gone on with.
fn a_stopped_turn_leaves_its_session_in_order(cli: Cli) {
    let scenario = |last: Value| {
        let steps = [json!({"do": "bash", "command": "echo working"}), last];
        json!({"rules": [{"match": "JOB-7", "steps": steps}], "exhausted": {"text": done()}})
    };
    let stage = stage(cli, scenario(json!({"hang": 600, "when": "after", "text": "partial"})), "session: resident", "");
    let running = Running::start(stage.fia().args(["run", "prompt", "JOB-7"]), "");
    let asked = |requests: &[LoggedRequest]| requests.iter().any(|request| request.phase == Some(Phase::Begin));
    assert!(stage.provider.wait_until(Duration::from_secs(60), asked).is_ok());
    running.signal(Signal::INT);
    let stopped = running.finish();
    assert_eq!(stopped.status.code(), Some(130), "{stopped}");
    stage.provider.set_scenario(Scenario::from_value(scenario(json!({"text": done()}))).expect("a scenario"));
    let events = ends_well(&stage, &["resume"]);
    assert_eq!(leases(&events), ["cold", "restored"]);
    assert_eq!(of(&events, "session").len(), 1);
    let ended: Vec<_> = of(&events, "agent_end").iter().map(|end| end["payload"]["ended"].clone()).collect();
    assert_eq!(ended, ["stopped", "completed"]);
    // What was said until then is still there, and still cached.
    let extended = extensions(&stage);
    assert_eq!(extended, [None, Some(true), Some(true), Some(true)]);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r7_1_a_resident_claude_that_is_stopped_goes_on_with_its_session() {
    a_stopped_turn_leaves_its_session_in_order(Cli::Claude);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r7_1_a_resident_pi_that_is_stopped_goes_on_with_its_session() {
    a_stopped_turn_leaves_its_session_in_order(Cli::Pi);
}

/// Kills the engine that the log named last.
const KILL: &str =
    "kill -9 $(grep agent_start .fia/runs/*/events.jsonl | grep -o '\"pid\":[0-9]*' | tail -1 | cut -d: -f2)";

/// Two phases, something that happens to their engine, and a third one. Each says something to the channel.
fn before_the_third_phase(cli: Cli, happens: &str) -> (Stage, Vec<Value>) {
    let fia = env!("CARGO_BIN_EXE_fia");
    let says = format!("{fia} message item $({fia} channel 2>/dev/null | wc -l)");
    let scenario = json!({"growth": 4.0, "rules": [
        {"match": "JOB-7", "steps": [{"do": "bash", "command": says}, {"text": done()}]},
    ], "exhausted": {"text": "no rule matched"}});
    let rest = format!(
        "  cut: {{ run: {happens:?} }}\nworkflows:\n  three:\n    steps:\n      - {{ name: first, agent: builder }}\n      \
         - {{ name: second, agent: builder }}\n      - {{ name: harm, check: [cut] }}\n      \
         - {{ name: third, agent: builder }}\n"
    );
    let stage = stage(cli, scenario, "session: resident", &rest);
    let events = ends_well(&stage, &["run", "three", "JOB-7", "-q"]);
    (stage, events)
}

/// The prompt that began the third phase, in its last leg.
fn third_prompt(stage: &Stage, events: &[Value]) -> String {
    let start = *of(events, "agent_start").last().expect("a turn");
    let (run, leg) = (start["run"].as_str().expect("a run"), &start["payload"]["leg"]);
    stage.env.read(&format!(".fia/runs/{run}/agents/builder/04_third.{leg}.1.user.md"))
}

/// The first words of the block of messages in a prompt, and its lines.
fn messages(prompt: &str) -> Vec<&str> {
    let headings = ["Recent messages", "New messages since you last heard"];
    let found = headings.into_iter().find_map(|heading| Some((heading, prompt.find(&format!("\n\n{heading}"))?)));
    let Some((heading, at)) = found else { return Vec::new() };
    std::iter::once(heading).chain(prompt[at..].lines().filter(|line| line.starts_with("- ["))).collect()
}

fn a_killed_process_is_restored(cli: Cli) {
    let (stage, events) = before_the_third_phase(cli, KILL);
    // Whether its death is seen before or after it is told the next prompt is a matter of milliseconds.
    let leases = leases(&events);
    assert_eq!(
        (&leases[..2], leases.last().map(String::as_str)),
        (&["cold".to_owned(), "warm".to_owned()][..], Some("restored"))
    );
    assert_eq!(pids(&events).len(), 2);
    let evicted: Vec<_> =
        of(&events, "session_evicted").iter().map(|event| event["payload"]["reason"].clone()).collect();
    assert_eq!(evicted, ["lost"]);
    assert_eq!(of(&events, "engine_error"), [&Value::Null; 0]);
    let prompt = third_prompt(&stage, &events);
    assert!(!prompt.contains("# Fresh session"), "{prompt}");
    assert_eq!(messages(&prompt), ["New messages since you last heard", "- [user] item 1"]);
    assert!(extensions(&stage)[1..].iter().all(|extends| *extends == Some(true)));
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r7_3_a_claude_that_was_killed_between_phases_is_restored_and_told_new_lines_only() {
    a_killed_process_is_restored(Cli::Claude);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r7_3_a_pi_that_was_killed_between_phases_is_restored_and_told_new_lines_only() {
    a_killed_process_is_restored(Cli::Pi);
}

fn a_lost_session_begins_anew(cli: Cli, lose: &str, expected: &[&str]) {
    let (stage, events) = before_the_third_phase(cli, &format!("{KILL}; {lose}"));
    let leases: Vec<String> = leases(&events).into_iter().filter(|lease| lease != "warm").collect();
    assert_eq!(leases, expected);
    assert_eq!(of(&events, "session_retired").len(), 1);
    assert_eq!(of(&events, "engine_error"), [&Value::Null; 0]);
    let prompt = third_prompt(&stage, &events);
    assert!(prompt.starts_with("# Fresh session: session lost\n"), "{prompt}");
    assert_eq!(messages(&prompt), ["Recent messages", "- [user] item 0", "- [user] item 1"]);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r7_3_a_claude_that_lost_its_saved_session_begins_cold_with_the_preamble_and_a_snapshot() {
    a_lost_session_begins_anew(Cli::Claude, "rm -r \"$HOME/.claude/projects\"", &["cold", "restored", "cold"]);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r7_3_a_pi_that_lost_its_saved_session_begins_cold_with_the_preamble_and_a_snapshot() {
    a_lost_session_begins_anew(Cli::Pi, "rm .fia/runs/*/agents/builder/pi_session.jsonl", &["cold", "cold"]);
}

/// A phase that would reach 400,000 tokens in one turn; its fresh session ends it soon.
fn long_phase(growth: f64) -> Value {
    let step = json!({"do": "bash", "command": "seq 2000"});
    let mut long: Vec<Value> = std::iter::repeat_n(step.clone(), 60).collect();
    long.push(json!({"text": done()}));
    let short = vec![step.clone(), step, json!({"text": done()})];
    json!({"growth": growth, "rules": [
        {"match": "ceiling reached inside the phase", "steps": short},
        {"match": "Your turn was ended", "steps": long},
        {"match": "JOB-7", "steps": long},
    ], "exhausted": {"text": "no rule matched"}})
}

/// Runs the long phase and gives its readings, after a look at what must hold whatever the engine.
fn rotates_inside(cli: Cli, growth: f64, session: &str) -> (Stage, Vec<Value>, Vec<u64>) {
    let defaults = format!("{session}, rotate_mid_phase: true, session_rotation_context: {CEILING}");
    let workflow = "workflows:\n  long:\n    steps: [{ name: work, agent: builder }]\n";
    let stage = stage(cli, long_phase(growth), &defaults, workflow);
    let events = ends_well(&stage, &["run", "long", "JOB-7", "-q"]);
    let rotations = of(&events, "session_rotation");
    let readings: Vec<u64> =
        of(&events, "context").iter().filter_map(|read| read["payload"]["context_tokens"].as_u64()).collect();
    let reasons: Vec<_> = rotations.iter().map(|rotation| rotation["payload"]["reason"].clone()).collect();
    assert_eq!(reasons, ["mid_phase"], "{readings:?}");
    let causes: Vec<_> = of(&events, "cache_break").iter().map(|event| event["payload"]["cause"].clone()).collect();
    assert_eq!(causes, ["rotation"]);
    assert_eq!(of(&events, "envelope").len(), 1);
    assert_eq!((of(&events, "engine_error").len(), of(&events, "phase_end").len()), (0, 1));
    let ended: Vec<_> = of(&events, "agent_end").iter().map(|end| end["payload"]["ended"].clone()).collect();
    assert!(ended.iter().all(|ended| *ended != "failed") && *ended.last().unwrap() == "completed", "{ended:?}");
    let run = events[0]["run"].as_str().expect("a run");
    let last = *of(&events, "agent_start").last().expect("a turn");
    let prompt =
        stage.env.read(&format!(".fia/runs/{run}/agents/builder/01_work.1.{}.user.md", last["payload"]["turn"]));
    assert!(prompt.starts_with("# Fresh session: ceiling reached inside the phase ("), "{prompt}");
    (stage, events, readings)
}

/// The largest step from one request to the next.
fn largest_growth(readings: &[u64]) -> u64 {
    readings.windows(2).filter_map(|pair| pair[1].checked_sub(pair[0])).max().expect("several readings")
}

fn resident_rotates_within_one_request(cli: Cli, growth: f64) {
    let (_, events, readings) = rotates_inside(cli, growth, "session: resident");
    let (largest, growth) = (readings.iter().max().expect("readings"), largest_growth(&readings));
    assert!((CEILING..CEILING + growth).contains(largest), "{readings:?}");
    assert_eq!(leases(&events), ["cold", "cold"]);
    let went_on: Vec<_> =
        of(&events, "bounded_continuation").iter().map(|e| e["payload"]["same_session"].clone()).collect();
    assert_eq!(went_on, [false]);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r6_10_a_resident_claude_ends_its_phase_below_the_ceiling_plus_one_request() {
    resident_rotates_within_one_request(Cli::Claude, 4.0);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r6_10_a_resident_pi_ends_its_phase_below_the_ceiling_plus_one_request() {
    resident_rotates_within_one_request(Cli::Pi, 4.0);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r6_10_a_one_shot_claude_ends_its_phase_below_the_ceiling_plus_five_requests() {
    let (stage, events, readings) = rotates_inside(Cli::Claude, 4.0, "session: fresh_process");
    let (largest, growth) = (readings.iter().max().expect("readings"), largest_growth(&readings));
    assert!((CEILING..CEILING + 5 * growth).contains(largest), "{readings:?}");
    // The first turn measures; those that go on with the session are told a short prompt and extend its requests.
    let leases = leases(&events);
    assert_eq!((&*leases[0], &*leases[1], leases.last().unwrap().as_str()), ("cold", "restored", "cold"));
    let run = events[0]["run"].as_str().expect("a run");
    let went_on = stage.env.read(&format!(".fia/runs/{run}/agents/builder/01_work.1.2.user.md"));
    assert!(went_on.starts_with("Your turn was ended") && went_on.len() < 300, "{went_on}");
    let extended = extensions(&stage);
    let broken = extended.iter().filter(|extends| **extends == Some(false)).count();
    assert_eq!(broken, 0, "{extended:?}");
}
