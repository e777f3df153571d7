//! Limits, logins, kills and two at once, with the real claude and pi (SPEC 5.4, 10).

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use fia::host::{Mark, Presence, identity};
use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::runs::{Cli, Stage, of, report, text};
use super::support::program::Running;

/// From now to the reset: enough for claude to start and be refused, on a busy machine too.
const RESET: Duration = Duration::from_secs(60);

fn done() -> String {
    report(&json!({"status": "success", "summary": "done"}))
}

/// The records of these types, each as `phase type name`.
fn story(events: &[Value], kinds: &[&str]) -> Vec<String> {
    let told = events.iter().filter(|event| kinds.contains(&event["type"].as_str().unwrap_or_default()));
    told.map(|event| format!("{} {} {}", text(&event["phase"]), text(&event["type"]), text(&event["name"]))).collect()
}

fn outcomes(events: &[Value]) -> Vec<String> {
    of(events, "run_end").iter().map(|end| text(&end["name"])).collect()
}

/// The prompt that was sent in the first turn of a leg.
fn sent(stage: &Stage, events: &[Value], phase: &str, leg: u32) -> String {
    let run = text(&events[0]["run"]);
    stage.env.read(&format!(".fia/runs/{run}/agents/builder/{phase}.{leg}.1.user.md"))
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r10_a_limit_of_claude_is_waited_for_visibly_and_the_run_goes_on() {
    let reset = SystemTime::now() + RESET;
    let epoch = reset.duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970").as_secs();
    let headers = json!({"anthropic-ratelimit-unified-status": "rejected",
                         "anthropic-ratelimit-unified-reset": epoch.to_string(),
                         "anthropic-ratelimit-unified-representative-claim": "five_hour"});
    let limit = json!({"error": 429, "headers": headers, "message": format!("Claude AI usage limit reached|{epoch}")});
    let stage = Stage::new(
        Cli::Claude,
        json!({"rules": [
            {"match": "# Continuation", "steps": [{"text": done()}]},
            {"match": "JOB-7", "steps": [limit]},
        ], "side": {"text": "aside"}}),
    );
    let finished = stage.run(&["run", "prompt", "JOB-7"]);
    assert!(finished.status.success(), "{finished}");
    let events = stage.events();
    assert_eq!(outcomes(&events), ["goal_met"]);
    assert_eq!(
        story(
            &events,
            &["agent_start", "engine_error", "waiting", "engine_continuation", "engine_retry", "engine_relay"]
        ),
        [
            "01_prompt agent_start builder",
            "01_prompt engine_error builder",
            "01_prompt waiting ",
            "01_prompt engine_continuation builder",
            "01_prompt agent_start builder"
        ]
    );
    let (died, waited) = (&of(&events, "engine_error")[0]["payload"], &of(&events, "waiting")[0]["payload"]);
    let until = chrono::DateTime::from_timestamp(i64::try_from(epoch).unwrap(), 0).unwrap();
    let until = json!(until.format("%Y-%m-%dT%H:%M:%SZ").to_string());
    assert_eq!((&died["kind"], &died["retry_after"], &waited["until"]), (&json!("limit"), &until, &until));
    assert!(finished.stderr.contains("waiting: builder: limit, until "), "{finished}");
    // It went on when the limit was over and not before.
    let again = text(&of(&events, "agent_start")[1]["ts"]).parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    assert!(again.timestamp() >= i64::try_from(epoch).unwrap(), "{again} is before {until}");
    assert_eq!(sent(&stage, &events, "01_prompt", 2).matches("# Continuation: ").count(), 1);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r10_a_claude_that_is_refused_hands_its_phase_to_pi_with_one_preamble() {
    // A review is asked for by its schema, which names what is `blocking`.
    let review = json!({"status": "success", "summary": "good", "approved": true, "findings": [], "blocking": []});
    let stage = Stage::new(
        Cli::Claude,
        json!({"rules": [
            {"match": "blocking", "steps": [{"text": report(&review)}]},
            {"match": "# Continuation", "steps": [{"do": "bash", "command": "echo made > made"}, {"text": done()}]},
            {"match": "JOB-7", "steps": [{"error": 401}]},
        ], "side": {"text": "aside"}}),
    );
    let pi = stage.pi_program();
    let config = stage.env.read("fia.config.yaml");
    let config = config.replace("engines: { ", &format!("engines: {{ pi: {{ program: {pi:?} }}, "));
    let rest = format!(
        "agents:\n  - {{ name: builder, fallbacks: [ {{ coding_agent: pi, model: {} }} ] }}\n\
         workflows:\n  two:\n    steps:\n      - {{ name: make, agent: builder }}\n      \
         - {{ name: look, agent: builder, output: review }}\n",
        Cli::Pi.model()
    );
    stage.env.write("fia.config.yaml", &(config + &rest));
    let finished = stage.run(&["run", "two", "JOB-7"]);
    assert!(finished.status.success(), "{finished}");
    let events = stage.events();
    assert_eq!(outcomes(&events), ["goal_met"]);
    assert_eq!(
        story(
            &events,
            &[
                "phase_start",
                "agent_start",
                "engine_error",
                "engine_retry",
                "engine_fallback",
                "engine_relay",
                "engine_continuation",
                "waiting"
            ]
        ),
        [
            "01_make phase_start make",
            "01_make agent_start builder",
            "01_make engine_error builder",
            "01_make engine_fallback builder",
            "01_make engine_relay builder",
            "01_make engine_continuation builder",
            "01_make agent_start builder",
            "02_look phase_start look",
            "02_look agent_start builder",
        ]
    );
    assert_eq!(of(&events, "engine_error")[0]["payload"]["kind"], "login");
    let engines: Vec<_> = of(&events, "agent_start").iter().map(|start| text(&start["payload"]["engine"])).collect();
    assert_eq!(engines, ["claude", "pi", "pi"]);
    let prompts =
        [("01_make", 1), ("01_make", 2), ("02_look", 1)].map(|(phase, leg)| sent(&stage, &events, phase, leg));
    let preambles = prompts
        .each_ref()
        .map(|prompt| (prompt.matches("# Continuation: ").count(), prompt.matches("# Fresh session").count()));
    assert_eq!(preambles, [(0, 0), (1, 0), (0, 0)], "{prompts:?}");
    assert_eq!(stage.env.read("made"), "made\n");
}

/// Says its id and does not end until a file is there.
const WAITS: &str = "echo $$ > ../tool; until [ -e ../go ]; do sleep 0.02; done; echo made > made";
/// Says its id and never ends; the second time it does its work.
const HANGS_ONCE: &str = "mkdir ../once && { echo $$ > ../tool; exec sleep 600; }; echo made > made";

/// A turn that calls a tool.
fn calls(command: &str) -> Value {
    json!({"rules": [{"match": "JOB-7", "steps": [{"do": "bash", "command": command}, {"text": done()}]}],
           "exhausted": {"text": "no rule matched"}, "side": {"text": "aside"}})
}

/// Waits until the tool is at work, and forgets that it was; its shell.
fn tool_at_work(stage: &Stage) -> Mark {
    let place = stage.env.work().with_file_name("tool");
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(pid) = fs::read_to_string(&place).ok().and_then(|text| text.trim().parse().ok()) {
            fs::remove_file(&place).unwrap();
            return Mark::new(identity(pid).unwrap()).unwrap();
        }
        assert!(Instant::now() < patience, "the tool was not called");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The engine that the log named last.
fn engine(events: &[Value]) -> Mark {
    let started = of(events, "agent_start").last().expect("a turn")["payload"].clone();
    serde_json::from_value(started).expect("host, boot, process and start")
}

/// Kills fia in the middle of a tool, and says what runs then: the engine and its tool.
fn killed_in_a_tool(stage: &Stage) -> [Mark; 2] {
    let running = Running::start(stage.fia().args(["run", "prompt", "JOB-7"]), "");
    let tool = tool_at_work(stage);
    running.signal(Signal::KILL);
    drop(running.finish());
    let marks = [engine(&stage.events()), tool];
    assert_eq!(marks.each_ref().map(|mark| mark.presence().unwrap()), [Presence::Running; 2]);
    marks
}

fn finishes_after_a_kill_in_a_tool(cli: Cli) {
    let stage = Stage::new(cli, calls(HANGS_ONCE));
    let marks = killed_in_a_tool(&stage);
    let finished = stage.run(&["resume"]);
    assert!(finished.status.success(), "{finished}");
    assert_eq!(marks.each_ref().map(|mark| mark.group_presence().unwrap()), [Presence::Gone; 2]);
    let events = stage.events();
    assert_eq!(outcomes(&events), ["goal_met"]);
    // The session goes on where it was killed, and no death is made of it.
    let leases: Vec<_> = of(&events, "agent_start").iter().map(|start| text(&start["payload"]["lease"])).collect();
    assert_eq!((leases, of(&events, "engine_error").len()), (vec!["cold".to_owned(), "restored".to_owned()], 0));
    assert_eq!(stage.env.read("made"), "made\n");
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r5_4_a_fia_killed_in_a_tool_of_claude_is_gone_on_with_and_nothing_of_it_is_left() {
    finishes_after_a_kill_in_a_tool(Cli::Claude);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r5_4_a_fia_killed_in_a_tool_of_pi_is_gone_on_with_and_nothing_of_it_is_left() {
    finishes_after_a_kill_in_a_tool(Cli::Pi);
}

/// The first Ctrl-C lets the engine end its tool; after the second fia does.
fn leaves_no_tool_behind(cli: Cli, signals: &[Signal]) {
    let stage = Stage::new(cli, calls(WAITS));
    let running = Running::start(stage.fia().args(["run", "prompt", "JOB-7"]), "");
    let tool = tool_at_work(&stage);
    for signal in signals {
        running.signal(*signal);
    }
    let finished = running.finish();
    assert_eq!(finished.status.code(), Some(130), "{finished}");
    let marks = [engine(&stage.events()), tool];
    assert_eq!(marks.each_ref().map(|mark| mark.group_presence().unwrap()), [Presence::Gone; 2]);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r10_7_an_interrupt_leaves_no_tool_of_claude_or_pi() {
    for cli in [Cli::Claude, Cli::Pi] {
        // Two signals of one kind that come together are one.
        for signals in [&[Signal::INT][..], &[Signal::INT, Signal::TERM]] {
            leaves_no_tool_behind(cli, signals);
        }
    }
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r5_5_of_two_resumes_at_once_one_is_refused_and_names_the_other() {
    let stage = Stage::new(Cli::Claude, calls(WAITS));
    drop(killed_in_a_tool(&stage));
    let run = text(&stage.events()[0]["run"]);
    let first = Running::start(stage.fia().args(["resume", &run]), "");
    drop(tool_at_work(&stage));
    let asked = stage.provider.requests().len();
    for args in [&["resume", &run][..], &["ask", "--run", &run, "@builder", "JOB-7: how far are you?"]] {
        let refused = stage.run(args);
        assert_eq!(refused.status.code(), Some(2), "{refused}");
        assert!(refused.stderr.contains(&format!("holds this work tree: {run} (pid ")), "{refused}");
    }
    assert_eq!(stage.provider.requests().len(), asked, "the session was used by a second process");
    fs::write(stage.env.work().with_file_name("go"), "").unwrap();
    let finished = first.finish();
    assert!(finished.status.success(), "{finished}");
    let events = stage.events();
    assert_eq!(outcomes(&events), ["goal_met"]);
}
