//! Whole runs of fia with the real claude and pi: real tool calls, a real check, a real rotation.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fia::provider::{Bodies, LoggedRequest, Options, Phase, Provider, Scenario};
use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::support::engines::{CLAUDE_MODEL, installed};
use super::support::program::{Finished, Running, run};
use super::support::test_env::TestEnv;

/// An engine as these tests drive it.
#[derive(Clone, Copy)]
pub(super) enum Cli {
    Claude,
    Pi,
}

impl Cli {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Pi => "pi",
        }
    }

    pub(super) fn model(self) -> &'static str {
        match self {
            Self::Claude => CLAUDE_MODEL,
            Self::Pi => "loop/loop-1",
        }
    }

    /// Lifts the first turn of its builder over 180,000 tokens.
    fn growth(self) -> f64 {
        match self {
            Self::Claude => 20.0,
            Self::Pi => 130.0,
        }
    }
}

/// A repository, a provider and fia set up for one engine.
pub(super) struct Stage {
    pub(super) env: TestEnv,
    pub(super) provider: Provider,
    pub(super) cli: Cli,
}

impl Stage {
    pub(super) fn new(cli: Cli, scenario: Value) -> Self {
        Self::in_env(cli, scenario, TestEnv::new())
    }

    fn in_env(cli: Cli, scenario: Value, env: TestEnv) -> Self {
        Self::with(cli, scenario, env, Options::default())
    }

    /// In front of a provider with these options.
    pub(super) fn with(cli: Cli, scenario: Value, env: TestEnv, options: Options) -> Self {
        let scenario = Scenario::from_value(scenario).expect("a scenario with a meaning");
        let options = Options { cwd: Some(env.work()), bodies: Bodies::Keep, ..options };
        let provider = Provider::spawn_thread(scenario, options).expect("a free port");
        let stage = Self { env, provider, cli };
        stage.settle();
        stage
    }

    /// The configuration of fia and of the engine.
    fn settle(&self) {
        let program = match self.cli {
            Cli::Claude => installed("claude").display().to_string(),
            Cli::Pi => self.pi_program(),
        };
        let config = format!(
            "defaults: {{ coding_agent: {name}, model: {model} }}\n\
             engines: {{ {name}: {{ program: {program:?} }} }}\n\
             stop: {{ phase_timeout_minutes: 3 }}\n\
             checks:\n  test: {{ run: \"cargo test --offline --quiet --manifest-path greeting/Cargo.toml\", timeout_minutes: 5 }}\n",
            name = self.cli.name(),
            model = self.cli.model(),
        );
        self.env.write("fia.config.yaml", &config);
        self.env.git(&["add", "-A"]);
        self.env.git(&["commit", "--quiet", "--message", "configure fia"]);
    }

    /// pi with the Node that it needs, as one program.
    pub(super) fn pi_program(&self) -> String {
        let model = json!({"id": "loop-1", "name": "Loop 1", "reasoning": true, "input": ["text"],
                           "contextWindow": 200_000, "maxTokens": 16_000,
                           "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75}});
        let models = json!({"providers": {"loop": {"baseUrl": self.provider.base_url(), "api": "anthropic-messages",
                                                   "apiKey": "dummy", "models": [model]}}});
        self.env.write_home(".pi/agent/models.json", &models.to_string());
        self.env.write_home(".pi/agent/settings.json", &json!({"retry": {"enabled": false}}).to_string());
        let script =
            format!("#!/bin/sh\nexec {:?} {:?} \"$@\"\n", installed("node").display(), installed("pi").display());
        self.env.write_program(self.env.home().join("bin/pi"), &script).display().to_string()
    }

    pub(super) fn fia(&self) -> Command {
        let mut command = self.env.command(env!("CARGO_BIN_EXE_fia"));
        let caller_home = std::env::var_os("HOME").unwrap_or_default();
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let usual = || Path::new(&caller_home).join(folder).into_os_string();
            command.env(name, std::env::var_os(name).unwrap_or_else(usual));
        }
        command
            .env("CARGO_TARGET_DIR", self.env.home().join("cargo-target"))
            .env("CLAUDE_CONFIG_DIR", self.env.home().join(".claude"))
            .env("ANTHROPIC_BASE_URL", self.provider.base_url())
            .env("ANTHROPIC_API_KEY", "dummy")
            .env("PI_CODING_AGENT_DIR", self.env.home().join(".pi/agent"))
            .env("PI_OFFLINE", "1");
        command
    }

    pub(super) fn run(&self, args: &[&str]) -> Finished {
        run(self.fia().args(args))
    }

    /// The records of the newest run.
    pub(super) fn events(&self) -> Vec<Value> {
        let events = self.run(&["events", "--json"]);
        assert!(events.status.success(), "{events}");
        events.lines()
    }
}

/// Records of a type, or of a log name.
pub(super) fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind || event["name"] == kind).collect()
}

/// A cargo package whose test is red with the first text of `src/lib.rs` and green with the second.
const MANIFEST: &str = "[package]\nname = \"greeting\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n";
const RED: &str = "pub fn shout(name: &str) -> String {\n    format!(\"HELLO, {name}\")\n}\n\n#[test]\nfn shouts() {\n    \
     assert_eq!(shout(\"Ada\"), \"HELLO, ADA\");\n}\n";

fn green() -> String {
    RED.replace("{name}\")", "{}\", name.to_uppercase())")
}

pub(super) fn report(fields: &Value) -> String {
    format!("Done.\n\n```json\n{fields}\n```")
}

/// The builder writes a package with a fault, and mends it when it is told of the failure.
fn build_and_fix(growth: f64) -> Value {
    let built = json!({"status": "success", "summary": "greeting shouts",
                       "changed_files": ["greeting/Cargo.toml", "greeting/src/lib.rs"]});
    let fixed =
        json!({"status": "success", "summary": "the name is shouted too", "changed_files": ["greeting/src/lib.rs"]});
    json!({
        "growth": growth,
        "rules": [
            {"match": "1 of 1 checks failed", "steps": [
                {"do": "read", "path": "greeting/src/lib.rs"},
                {"do": "write", "path": "greeting/src/lib.rs", "content": green()},
                {"text": report(&fixed)},
            ]},
            {"match": "JOB-7", "steps": [
                {"do": "write", "path": "greeting/Cargo.toml", "content": MANIFEST},
                {"do": "write", "path": "greeting/src/lib.rs", "content": RED},
                {"text": report(&built)},
            ]},
        ],
        "exhausted": {"text": "no rule matched"},
    })
}

fn context_of(requests: &[LoggedRequest]) -> Vec<u64> {
    requests
        .iter()
        .filter(|request| request.phase != Some(Phase::Begin))
        .filter_map(LoggedRequest::context_tokens)
        .collect()
}

/// What every run that rotates must show, whatever the engine.
fn shows_a_rotation(stage: &Stage) {
    let events = stage.events();
    let outcome: Vec<_> = of(&events, "run_end").iter().map(|event| event["name"].clone()).collect();
    assert_eq!(outcome, ["goal_met"]);
    let rotations = of(&events, "session_rotation");
    assert_eq!(rotations.len(), 1, "{rotations:?}");
    let payload = &rotations[0]["payload"];
    assert_eq!(rotations[0]["phase"], "03_fix_1");
    assert!(payload["context_tokens"].as_u64() >= payload["cap"].as_u64(), "{payload}");
    // The live context of every model call is the provider's own count.
    let told: Vec<u64> =
        of(&events, "context").iter().filter_map(|event| event["payload"]["context_tokens"].as_u64()).collect();
    let requests = stage.provider.requests();
    assert_eq!(told, context_of(&requests));
    // System prompt and tools never moved, not even by the rotation.
    let prompts: Vec<_> = requests.iter().filter_map(|request| request.prompt.as_ref()).collect();
    assert!(prompts.len() >= 6, "{}", prompts.len());
    for prompt in &prompts {
        assert_eq!(
            (&prompt.system_sha256, &prompt.tools_sha256),
            (&prompts[0].system_sha256, &prompts[0].tools_sha256)
        );
    }
    // The second session is fresh, and begins with the preamble.
    let starts = of(&events, "agent_start");
    let sessions: Vec<_> = starts.iter().map(|event| event["payload"]["session_id"].clone()).collect();
    assert_eq!(sessions, [Value::Null, Value::Null]);
    let run = starts[1]["run"].as_str().expect("a run");
    let sent = stage.env.read(&format!(".fia/runs/{run}/agents/builder/03_fix_1.1.1.user.md"));
    assert!(sent.starts_with("# Fresh session: ceiling reached ("), "{sent}");
    let checks: Vec<_> = of(&events, "check").iter().map(|event| event["payload"]["passed"].clone()).collect();
    assert_eq!(checks, [json!(false), json!(true)]);
    assert_eq!(stage.env.read("greeting/src/lib.rs"), green());
}

/// The brief lies in a file, as people write it.
fn goes_red_then_green(cli: Cli, env: TestEnv) {
    let stage = Stage::in_env(cli, build_and_fix(cli.growth()), env);
    stage.env.write_home("brief.md", "JOB-7: a package `greeting` whose `shout` greets in capitals\n");
    let brief = stage.env.home().join("brief.md").display().to_string();
    let finished = stage.run(&["run", "build_test", "-f", &brief]);
    assert!(finished.status.success(), "{finished}");
    shows_a_rotation(&stage);
}

/// A clone of this very repository to work in.
fn clone_of_this_repository() -> TestEnv {
    let env = TestEnv::new();
    std::fs::remove_dir_all(env.work()).expect("the work tree goes");
    let from = env!("CARGO_MANIFEST_DIR");
    let cloned = Command::new("git").args(["clone", "--quiet", from]).arg(env.work()).status().expect("git starts");
    assert!(cloned.success());
    env.git(&["config", "user.name", "Test"]);
    env.git(&["config", "user.email", "test@example.invalid"]);
    env
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn claude_builds_in_a_clone_of_this_repository_rotates_at_the_fix_and_meets_the_goal() {
    goes_red_then_green(Cli::Claude, clone_of_this_repository());
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn pi_builds_goes_over_the_ceiling_rotates_at_the_fix_and_meets_the_goal() {
    goes_red_then_green(Cli::Pi, TestEnv::new());
}

/// Below the ceiling the fix resumes the session of the build, and every request extends the one before it.
fn resumes_byte_for_byte(cli: Cli) {
    let stage = Stage::new(cli, build_and_fix(1.0));
    let finished = stage.run(&["run", "build_test", "JOB-7"]);
    assert!(finished.status.success(), "{finished}");
    let events = stage.events();
    assert_eq!(of(&events, "session_rotation").len(), 0);
    let starts = of(&events, "agent_start");
    assert_eq!(starts[0]["payload"]["session_id"], Value::Null);
    assert_eq!(starts[1]["payload"]["session_id"], of(&events, "session")[0]["payload"]["session_id"]);
    assert_eq!(starts[1]["payload"]["lease"], "restored");
    let requests = stage.provider.requests();
    let prompts: Vec<_> = requests.iter().filter_map(|request| request.prompt.as_ref()).collect();
    let extends: Vec<_> = prompts[1..].iter().map(|prompt| prompt.prefix_of_previous).collect();
    assert!(prompts.len() >= 6 && extends.iter().all(|extends| *extends == Some(true)), "{extends:?}");
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn claude_resumes_below_the_ceiling_and_each_request_extends_the_one_before() {
    resumes_byte_for_byte(Cli::Claude);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn pi_resumes_below_the_ceiling_and_each_request_extends_the_one_before() {
    resumes_byte_for_byte(Cli::Pi);
}

/// How a run ends when the provider always answers so: the kinds of its engine errors and its outcome.
fn dies_of(cli: Cli, answer: &Value) -> (Vec<String>, String) {
    let stage = Stage::new(cli, json!({"exhausted": answer, "side": {"text": "aside"}}));
    stage.env.write(
        "fia.config.yaml",
        &stage.env.read("fia.config.yaml").replace(
            "phase_timeout_minutes: 3",
            "phase_timeout_minutes: 3, idle_timeout_minutes: 0.25, limit_wait_minutes: 0",
        ),
    );
    let finished = stage.run(&["run", "prompt", "JOB-7"]);
    let events = stage.events();
    let kinds = of(&events, "engine_error").iter().map(|event| text(&event["payload"]["kind"])).collect();
    let ends = of(&events, "run_end");
    assert_eq!(ends.len(), 1, "{finished}");
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    (kinds, text(&ends[0]["name"]))
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn every_failure_has_its_class(cli: Cli) {
    let exhausted = "engine_exhausted".to_owned();
    for (answer, kinds) in [
        (json!({"error": 401}), vec!["login"]),
        (json!({"error": 429}), vec!["limit"]),
        (json!({"error": 529}), vec!["overload", "overload"]),
        (json!({"cut": 4, "text": "this text is cut"}), vec!["overload", "overload"]),
        (json!({"hang": 600, "when": "before"}), vec!["timeout", "timeout"]),
    ] {
        let kinds: Vec<String> = kinds.into_iter().map(str::to_owned).collect();
        assert_eq!(dies_of(cli, &answer), (kinds, exhausted.clone()), "{answer}");
    }
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn claude_dies_of_each_failure_in_its_class_within_the_limits() {
    every_failure_has_its_class(Cli::Claude);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn pi_dies_of_each_failure_in_its_class_within_the_limits() {
    every_failure_has_its_class(Cli::Pi);
}

/// Ctrl-C in the middle of a turn: recorded, the lock free, and no process of the engine left.
fn leaves_no_process_behind(cli: Cli) {
    let stage = Stage::new(cli, json!({"exhausted": {"hang": 600, "when": "after", "text": "partial"}}));
    let running = Running::start(stage.fia().args(["run", "prompt", "JOB-7"]), "");
    let asked = |requests: &[LoggedRequest]| !requests.is_empty();
    assert!(stage.provider.wait_until(Duration::from_secs(60), asked).is_ok());
    running.signal(Signal::INT);
    let finished = running.finish();
    assert_eq!(finished.status.code(), Some(130), "{finished}");
    let events = stage.events();
    assert_eq!(of(&events, "run_end").iter().map(|end| text(&end["name"])).collect::<Vec<_>>(), ["aborted"]);
    let start = &of(&events, "agent_start")[0]["payload"];
    let group = start["pid"].as_u64().expect("a pid");
    let listed = Command::new("ps").args(["-eo", "pgid=,stat="]).output().expect("ps starts");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let left = listed.lines().filter_map(|line| line.trim().split_once(' '));
    let left: Vec<_> = left.filter(|(id, stat)| *id == group.to_string() && !stat.trim().starts_with('Z')).collect();
    assert_eq!(left, [] as [(&str, &str); 0]);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn an_interrupted_claude_leaves_no_process() {
    leaves_no_process_behind(Cli::Claude);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn an_interrupted_pi_leaves_no_process() {
    leaves_no_process_behind(Cli::Pi);
}

/// Two fresh sessions share tools and system prompt; what would break that is named.
fn doctor_sees_the_prefix(cli: Cli) {
    let stage = Stage::new(cli, json!({}));
    let seen = stage.run(&["doctor", "--prefix"]);
    assert!(seen.status.success(), "{seen}");
    assert!(seen.stdout.contains(&format!("{}: ✓ fresh sessions share tools", cli.name())), "{seen}");
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn doctor_sees_a_stable_prefix_of_claude_and_names_what_breaks_it() {
    doctor_sees_the_prefix(Cli::Claude);
    let stage = Stage::new(Cli::Claude, json!({}));
    let config = stage.env.read("fia.config.yaml");
    let broken = config.replace("{ claude: {", "{ claude: { env: { CLAUDE_CODE_ATTRIBUTION_HEADER: \"1\" },");
    assert_ne!(broken, config);
    stage.env.write("fia.config.yaml", &broken);
    let seen = stage.run(&["doctor", "--prefix"]);
    assert_eq!(seen.status.code(), Some(1), "{seen}");
    assert!(seen.stdout.contains("claude: ✗ system[0] differs at byte "), "{seen}");
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn doctor_sees_a_stable_prefix_of_pi() {
    doctor_sees_the_prefix(Cli::Pi);
}

/// A reviewer is told to edit a source file, does it by its shell, and does it again when it is told not to.
fn is_undone_retried_and_blocked(cli: Cli) {
    let review = json!({"status": "success", "summary": "I mended it on the way", "approved": true, "findings": [],
                        "blocking": []});
    let edit = |text: &str| {
        let command = format!("echo '{text}' >> lib.rs && git add lib.rs && git commit --quiet --message mended");
        json!([{"do": "bash", "command": command}, {"text": report(&review)}])
    };
    let scenario = json!({
        "rules": [{"match": "some of your writes were undone", "steps": edit("again")},
                  {"match": "JOB-8", "steps": edit("mended")}],
        "exhausted": {"text": "no rule matched"},
    });
    let stage = Stage::new(cli, scenario);
    stage.env.write("lib.rs", "the user's own\n");
    stage.env.git(&["add", "lib.rs"]);
    stage.env.git(&["commit", "--quiet", "--message", "a source file"]);
    stage.env.write("lib.rs", "the user's own, edited\n");
    let head = stage.env.git(&["rev-parse", "HEAD"]);
    let finished = stage.run(&["run", "review", "JOB-8: edit lib.rs"]);
    assert_eq!(finished.end(), "exit 1", "{finished}");
    let events = stage.events();
    let again: Vec<_> = of(&events, "permission_retry").iter().map(|event| event["payload"]["again"].clone()).collect();
    assert_eq!(again, [json!(true), json!(false)], "{finished}");
    assert_eq!(of(&events, "run_end")[0]["name"], "blocked_by_gate");
    assert_eq!(stage.env.read("lib.rs"), "the user's own, edited\n");
    assert_eq!(
        (stage.env.git(&["rev-parse", "HEAD"]), stage.env.git(&["status", "--porcelain"])),
        (head, " M lib.rs\n".to_owned())
    );
    // The second try is told in the session of the first.
    let leases: Vec<_> = of(&events, "agent_start").iter().map(|event| event["payload"]["lease"].clone()).collect();
    assert_eq!(leases, ["cold", "restored"]);
    assert!(finished.stderr.contains("fia undo --rescue 1 brings it back"), "{finished}");
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn claude_as_a_reviewer_that_edits_is_undone_retried_and_blocked() {
    is_undone_retried_and_blocked(Cli::Claude);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn pi_as_a_reviewer_that_edits_is_undone_retried_and_blocked() {
    is_undone_retried_and_blocked(Cli::Pi);
}
