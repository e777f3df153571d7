//! A provider, a gateway with a clock of its own, and conversations to send.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use fia::economy::prices::Rates;
use fia::event::ContextPruned;
use fia::gateway::{Gateway, News, Now, Session, SessionOptions, Upstream};
use fia::provider::{Bodies, Options, Provider, Scenario};
use fia::prune::conversation::PruneState;
use fia::prune::settings::{Mode, Settings};
use serde_json::{Value, json};

/// The length of an old result that is trimmed, in characters.
pub(crate) const LONG: usize = 60_000;

pub(crate) struct Scene {
    pub(crate) provider: Provider,
    pub(crate) gateway: Gateway,
    pub(crate) session: Session,
    pub(crate) saved: Saved,
    pub(crate) clock: Clock,
    pub(crate) client: reqwest::Client,
}

/// A clock that stands still until it is moved.
#[derive(Clone)]
pub(crate) struct Clock(Arc<AtomicI64>);

impl Clock {
    pub(crate) fn advance_secs(&self, secs: i64) {
        self.0.fetch_add(secs * 1000, Ordering::Relaxed);
    }

    fn now(&self) -> Now {
        let clock = self.clone();
        Arc::new(move || DateTime::<Utc>::from_timestamp_millis(clock.0.load(Ordering::Relaxed)).unwrap())
    }
}

/// The state file of a session, and how many times it was written.
#[derive(Clone, Default)]
pub(crate) struct Saved(Arc<Mutex<Vec<Vec<u8>>>>);

impl Saved {
    pub(crate) fn state(&self) -> PruneState {
        self.0.lock().unwrap().last().map_or_else(PruneState::default, |bytes| PruneState::parse(bytes).0)
    }

    pub(crate) fn writes(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

pub(crate) fn settings() -> Option<Settings> {
    Some(Settings::of(Mode::CacheTtl))
}

pub(crate) fn options(provider: &Provider, saved: &Saved) -> SessionOptions {
    let file = saved.clone();
    SessionOptions {
        agent: "builder".into(),
        settings: settings(),
        window: Some(200_000),
        rates: Rates::STANDARD,
        expected: 15,
        upstream: Some(Upstream::parse(&provider.base_url()).unwrap()),
        state: saved.state(),
        save: Box::new(move |bytes| {
            file.0.lock().unwrap().push(bytes.to_vec());
            Ok(())
        }),
    }
}

impl Scene {
    /// A gateway in front of a provider that answers by a scenario.
    pub(crate) fn new(scenario: Value) -> Self {
        Self::with(scenario, |_| {})
    }

    /// The same, with a session that is set up otherwise.
    pub(crate) fn with(scenario: Value, change: impl FnOnce(&mut SessionOptions)) -> Self {
        let scenario = Scenario::from_value(scenario).unwrap();
        let provider =
            Provider::spawn_thread(scenario, Options { bodies: Bodies::Keep, ..Options::default() }).unwrap();
        let clock = Clock(Arc::new(AtomicI64::new(1_800_000_000_000)));
        let gateway = Gateway::start_anywhere(clock.now()).unwrap();
        let saved = Saved::default();
        let mut options = options(&provider, &saved);
        change(&mut options);
        let session = gateway.session(options).unwrap();
        // Of what the gateway itself installs at its first provider.
        let _there = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { provider, gateway, session, saved, clock, client }
    }

    /// Ends the session and opens another one on what it saved, as a new process would.
    pub(crate) fn restart(&mut self) {
        self.session = self.gateway.session(options(&self.provider, &self.saved)).unwrap();
    }

    /// Sends a body to a path below the session's and waits for the whole answer.
    pub(crate) async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> (u16, String) {
        let answer = self.request(path).body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    pub(crate) fn request(&self, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.session.base_url());
        self.client.post(url).header("x-api-key", "sk-ant-secret").header("content-type", "application/json")
    }

    /// Sends a conversation and gives what the provider received.
    pub(crate) async fn send(&self, body: &Value) -> Vec<u8> {
        let (status, answer) = self.post("/v1/messages?beta=true", body.to_string()).await;
        assert_eq!(status, 200, "{answer}");
        self.received()
    }

    /// The last body that the provider received.
    pub(crate) fn received(&self) -> Vec<u8> {
        self.provider.requests().last().unwrap().body.clone().unwrap().to_vec()
    }

    /// What was said of rounds since the last look.
    pub(crate) fn rounds(&mut self) -> Vec<ContextPruned> {
        let news = std::iter::from_fn(|| self.session.news());
        news.filter_map(|news| match news {
            News::Pruned(pruned) => Some(pruned),
            News::PrefixChanged(_) => None,
        })
        .collect()
    }

    /// The reasons since the last look.
    pub(crate) fn reasons(&mut self) -> Vec<String> {
        self.rounds().into_iter().map(|round| round.reason).collect()
    }
}

/// A conversation of so many tool calls with long results, streamed.
pub(crate) fn conversation(calls: usize) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "the task"})];
    for call in 0..calls {
        let id = format!("toolu_{call}");
        messages.push(json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"},
            {"type": "tool_use", "id": id, "name": "Read", "input": {"path": format!("{call}.txt")}}]}));
        let text = format!("{call} ").repeat(LONG / 2);
        messages.push(json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": text}]}));
    }
    json!({"model": "claude-sonnet-4-5", "max_tokens": 100, "stream": true, "system": "s", "messages": messages})
}

/// The text of the result of a call in a body.
pub(crate) fn result(body: &[u8], call: usize) -> String {
    let body: Value = serde_json::from_slice(body).unwrap();
    body["messages"][2 * call + 2]["content"][0]["content"].as_str().unwrap().to_owned()
}
