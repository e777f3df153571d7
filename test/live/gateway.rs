//! The real CLIs with a gateway: claude through it, pi by its extension.
//!
//! Both do the same: a job with eight long tool results, a pause after which the cache is gone, two more jobs. The
//! same without pruning is what they are measured against.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::Utc;
use fia::economy::prices::Rates;
use fia::event::ContextPruned;
use fia::gateway::{Gateway, News, PI_EXTENSION, PI_URL, SessionOptions, Upstream};
use fia::provider::{Bodies, CacheLife, Clock, LoggedRequest, Options, Provider, Scenario};
use fia::prune::conversation::PruneState;
use fia::prune::settings::{Mode, Settings};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::runs::{Cli, Stage as RunStage};
use super::support::engines::{claude, pi};
use super::support::program::run;
use super::support::test_env::TestEnv;

/// Characters of each tool result.
const RESULT_CHARS: usize = 20_000;
/// Tool results of the first job.
const RESULTS: usize = 8;
/// How long both clocks stand at the pause.
const PAUSE: Duration = Duration::from_secs(400);
const SETTLE: Duration = Duration::from_secs(20);

/// A gateway on a thread of its own, and the clocks that it and the provider go by.
struct Stage {
    provider: Provider,
    clocks: (Clock, Arc<AtomicI64>),
    url: String,
    news: std::sync::mpsc::Receiver<News>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Stage {
    fn new(settings: Option<Settings>, upstream: bool) -> Self {
        let clock = Clock::default();
        let options =
            Options { bodies: Bodies::Keep, cache_life: CacheLife::Marked, clock: clock.clone(), ..Options::default() };
        let provider = Provider::spawn_thread(Scenario::from_value(scenario()).unwrap(), options).unwrap();
        let base_url = upstream.then(|| provider.base_url());
        let added = Arc::new(AtomicI64::new(0));
        let (ready, url) = std::sync::mpsc::channel();
        let (told, news) = std::sync::mpsc::channel();
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let late = Arc::clone(&added);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let now = move || Utc::now() + chrono::TimeDelta::seconds(late.load(Ordering::Relaxed));
                let gateway = Gateway::start_anywhere(Arc::new(now)).unwrap();
                let options = SessionOptions {
                    agent: "builder".into(),
                    settings,
                    window: Some(100_000),
                    rates: Rates::STANDARD,
                    expected: 15,
                    upstream: base_url.map(|url| Upstream::parse(&url).unwrap()),
                    state: PruneState::default(),
                    save: Box::new(|_| Ok(())),
                };
                let mut session = gateway.session(options).unwrap();
                ready.send(session.base_url().to_owned()).unwrap();
                loop {
                    tokio::select! {
                        Some(news) = session.next_news() => told.send(news).unwrap(),
                        _ = &mut stopped => return,
                    }
                }
            });
        });
        let url = url.recv().unwrap();
        Self { provider, clocks: (clock, added), url, news, stop: Some(stop), thread: Some(thread) }
    }

    fn pause(&self) {
        self.clocks.0.advance(PAUSE);
        self.clocks.1.fetch_add(i64::try_from(PAUSE.as_secs()).unwrap(), Ordering::Relaxed);
    }

    /// The requests with tools, which are those of the conversation.
    fn requests(&self) -> Vec<LoggedRequest> {
        let all = self.provider.wait_until(SETTLE, |_| true).unwrap();
        all.into_iter().filter(|request| request.prompt.as_ref().is_some_and(|prompt| prompt.tools_count > 0)).collect()
    }

    fn rounds(&self) -> Vec<ContextPruned> {
        let pruned = |news| match news {
            News::Pruned(pruned) => (pruned.soft + pruned.hard > 0).then_some(pruned),
            News::PrefixChanged(_) => None,
        };
        self.news.try_iter().filter_map(pruned).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

fn scenario() -> Value {
    let mut first: Vec<Value> = (0..RESULTS)
        .map(|n| json!({"do": "bash", "command": format!("head -c {RESULT_CHARS} /dev/zero | tr '\\0' {n}")}))
        .collect();
    first.push(json!({"text": "first done"}));
    json!({"rules": [
        {"match": "JOB-1", "steps": first},
        {"match": "JOB-2", "steps": [{"do": "bash", "command": "echo two"}, {"text": "second done"}]},
        {"match": "JOB-3", "steps": [{"do": "bash", "command": "echo three"}, {"text": "third done"}]},
    ]})
}

fn settings() -> Settings {
    Settings::of(Mode::CacheTtl)
}

/// What must hold of both CLIs. `pruned` and `whole` are the requests with and without pruning; `first` is the number
/// of requests before the pause.
fn check(pruned: &[LoggedRequest], whole: &[LoggedRequest], first: usize) {
    assert_eq!(pruned.len(), whole.len());
    let sent: Vec<Vec<String>> = pruned.iter().map(results).collect();
    let full = |text: &String| text.len() >= RESULT_CHARS;
    assert!(sent[first - 1].iter().all(full), "before the pause results go whole");
    let after = &sent[first];
    assert_eq!(after.iter().filter(|text| !full(text)).count(), RESULTS - 2, "the last three answers keep theirs");
    for later in &sent[first + 1..] {
        assert_eq!(later[..RESULTS], after[..RESULTS], "a replacement is made again with the same bytes");
    }
    let extends = |request: &LoggedRequest| request.prompt.as_ref().unwrap().prefix_of_previous;
    for request in &pruned[first + 1..] {
        assert_eq!(extends(request), Some(true), "every later request extends the one before it");
    }
    let written = |requests: &[LoggedRequest]| requests[first].usage("cache_creation_input_tokens").unwrap();
    let (less, more) = (written(pruned), written(whole));
    println!("first request after the pause writes {less} tokens instead of {more}");
    assert!(less * 4 <= more * 3, "{less} of {more} tokens");
}

/// The texts of the tool results of a request.
fn results(request: &LoggedRequest) -> Vec<String> {
    let body: Value = serde_json::from_slice(request.body.as_ref().unwrap()).unwrap();
    let blocks = body["messages"].as_array().unwrap().iter().filter_map(|message| message["content"].as_array());
    let results = blocks.flatten().filter(|block| block["type"] == "tool_result");
    results
        .map(|block| match &block["content"] {
            Value::String(text) => text.clone(),
            content => content[0]["text"].as_str().unwrap_or_default().to_owned(),
        })
        .collect()
}

/// The old lines are there as they were, and all results are whole in it.
fn check_file(before: &str, after: &str) {
    assert!(after.starts_with(before), "a session file only grows");
    for n in 0..RESULTS {
        assert!(after.contains(&n.to_string().repeat(RESULT_CHARS)), "result {n} is whole");
    }
}

fn claude_session_file(env: &TestEnv, session: &str) -> PathBuf {
    let projects = env.home().join(".claude/projects");
    let folders = std::fs::read_dir(projects).unwrap().map(|folder| folder.unwrap().path());
    let files = folders.map(|folder| folder.join(format!("{session}.jsonl")));
    files.into_iter().find(|file| file.exists()).unwrap()
}

fn run_claude(stage: &Stage) -> (String, String) {
    let env = TestEnv::new();
    let mut session: Option<String> = None;
    let mut file = String::new();
    for job in ["JOB-1", "JOB-2", "JOB-3"] {
        let mut command = claude(&env, &stage.provider, 0);
        command.env("ANTHROPIC_BASE_URL", &stage.url).env("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1");
        if let Some(session) = &session {
            command.args(["--resume", session]);
        }
        let finished = run(command.arg(job));
        assert_eq!(finished.end(), "exit 0", "{finished}");
        if job == "JOB-1" {
            let id = finished.lines()[0]["session_id"].as_str().unwrap().to_owned();
            file = std::fs::read_to_string(claude_session_file(&env, &id)).unwrap();
            session = Some(id);
            stage.pause();
        }
    }
    let after = std::fs::read_to_string(claude_session_file(&env, &session.unwrap())).unwrap();
    (file, after)
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r9_4_claude_sends_short_results_after_a_pause_and_keeps_whole_ones() {
    let pruning = Stage::new(Some(settings()), true);
    let (before, after) = run_claude(&pruning);
    let whole = Stage::new(None, true);
    run_claude(&whole);
    check(&pruning.requests(), &whole.requests(), RESULTS + 1);
    check_file(&before, &after);
    let rounds = pruning.rounds();
    assert_eq!(rounds.len(), 1, "{rounds:?}");
    assert_eq!((rounds[0].reason.as_str(), rounds[0].soft + rounds[0].hard), ("ttl", 6));
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r9_4_the_bearer_of_a_subscription_passes_and_asks_for_a_cache_of_one_hour() {
    let stage = Stage::new(Some(settings()), true);
    let env = TestEnv::new();
    let mut command = claude(&env, &stage.provider, 0);
    command.env_remove("ANTHROPIC_API_KEY").env("CLAUDE_CODE_OAUTH_TOKEN", "dummy-oauth-token");
    let finished = run(command.env("ANTHROPIC_BASE_URL", &stage.url).arg("JOB-2"));
    assert_eq!(finished.end(), "exit 0", "{finished}");
    let request = &stage.requests()[0];
    assert_eq!((&*request.headers["authorization"], &*request.headers["x-api-key"]), ("Bearer", "absent"));
    let betas = &request.headers["anthropic-beta"];
    assert!(betas.contains("oauth-2025-04-20"), "{betas}");
    let body = String::from_utf8(request.body.as_ref().unwrap().to_vec()).unwrap();
    assert!(body.contains(r#""ttl":"1h""#), "the marks ask for an hour");
}

fn run_pi(stage: &Stage) -> (String, String) {
    let env = TestEnv::new();
    env.write_home("pi_extension.mjs", PI_EXTENSION);
    let session = env.home().join("session.jsonl");
    let read = |file: &Path| std::fs::read_to_string(file).unwrap();
    let mut before = String::new();
    for job in ["JOB-1", "JOB-2", "JOB-3"] {
        let mut command = pi(&env, &stage.provider, 0);
        command.env(PI_URL, &stage.url).arg("--session").arg(&session);
        let finished = run(command.arg("-e").arg(env.home().join("pi_extension.mjs")).arg(job));
        assert_eq!(finished.end(), "exit 0", "{finished}");
        assert!(!finished.to_string().contains("not shortened"), "{finished}");
        if job == "JOB-1" {
            before = read(&session);
            stage.pause();
        }
    }
    (before, read(&session))
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r9_4_pi_sends_short_results_after_a_pause_and_keeps_whole_ones() {
    let pruning = Stage::new(Some(settings()), false);
    let (before, after) = run_pi(&pruning);
    let whole = Stage::new(None, false);
    run_pi(&whole);
    check(&pruning.requests(), &whole.requests(), RESULTS + 1);
    check_file(&before, &after);
    let rounds = pruning.rounds();
    assert_eq!(rounds.len(), 1, "{rounds:?}");
    assert_eq!(rounds[0].reason, "ttl");
}

/// A run whose cache counts as gone at every request, with a window that its results fill.
fn run_with_pruning(cli: Cli) {
    let steps = scenario()["rules"][0]["steps"].as_array().unwrap()[..RESULTS].to_vec();
    let done = json!({"status": "success", "summary": "eight results"}).to_string();
    let steps = [steps, vec![json!({"text": format!("Done.\n```json\n{done}\n```")})]].concat();
    let stage = RunStage::new(cli, json!({"rules": [{"match": "JOB-1", "steps": steps}]}));
    let config = stage.env.read("fia.config.yaml");
    let model = cli.model();
    let pruning = format!(
        "{config}context_pruning: {{ mode: cache-ttl, ttl: 1ms }}\nmodels: {{ \"{model}\": {{ context_window: 60000 }} }}\n"
    );
    stage.env.write("fia.config.yaml", &pruning);
    let finished = stage.run(&["run", "prompt", "JOB-1"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    let events = stage.events();
    let pruned: Vec<&Value> = events.iter().filter(|event| event["name"] == "context_pruned").collect();
    let rounds = pruned.iter().filter(|event| event["payload"]["reason"] == "ttl").count();
    assert!(rounds > 0, "{pruned:?}");
    assert!(pruned.iter().all(|event| event["phase"] == "01_prompt" && event["payload"]["agent"].is_string()));
    let sent = stage.provider.requests();
    let last =
        sent.iter().rfind(|request| request.prompt.as_ref().is_some_and(|prompt| prompt.tools_count > 0)).unwrap();
    // The model got as many results as ever, and fewer bytes than they have.
    assert!(last.raw_bytes < RESULTS * RESULT_CHARS, "{}", last.raw_bytes);
    let run = events[0]["run"].as_str().unwrap();
    let agent = pruned[0]["payload"]["agent"].as_str().unwrap();
    let state = stage.env.read(&format!(".fia/runs/{run}/pruning/{agent}.json"));
    assert!(state.contains("kept first 1500 chars"), "{state}");
    // The run is a recording like any other: the same results under every policy.
    let replayed = stage.run(&["simulate", "pruning", "--json", "--from-run", run]);
    let replayed: Value = serde_json::from_str(&replayed.stdout).unwrap();
    let costs: Vec<f64> = replayed["rows"].as_array().unwrap().iter().filter_map(|row| row["cost"].as_f64()).collect();
    assert!(costs.len() == 11 && costs.iter().all(|cost| *cost > 0.0), "{costs:?}");
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r9_4_a_run_with_claude_prunes_through_the_gateway_and_says_so() {
    run_with_pruning(Cli::Claude);
}

#[test]
#[ignore = "needs target/engines: sh test/engines.sh, then cargo test --test live -- --ignored"]
fn r9_4_a_run_with_pi_prunes_by_the_extension_and_says_so() {
    run_with_pruning(Cli::Pi);
}
