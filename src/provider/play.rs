//! The state of a running provider, and the way of a request into its log.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::request::Parts;

use super::answer::Ids;
use super::log::{Log, LoggedRequest, Phase, logged_headers};
use super::scenario::Scenario;
use super::script::Script;
use super::tokens::Ledger;
use super::{Options, ProviderError};

/// What all connections of a provider share.
#[derive(Debug)]
pub(super) struct Shared {
    options: Options,
    started: Instant,
    // A plain mutex: what happens under it is short and never waits for a client.
    state: Mutex<Play>,
    /// Told whenever the log has grown.
    logged: Condvar,
}

/// What changes from request to request.
#[derive(Debug)]
pub(super) struct Play {
    requests: u64,
    pub(super) ids: Ids,
    pub(super) script: Script,
    /// The file that the scenario is read from again whenever its text changed.
    source: Option<(PathBuf, String)>,
    pub(super) ledger: Ledger,
    log: Log,
}

impl Shared {
    pub(super) fn new(scenario: Scenario, options: Options) -> Result<Self, ProviderError> {
        if let Some(folder) = &options.dump_dir {
            std::fs::create_dir_all(folder).map_err(ProviderError::file("create", folder))?;
        }
        let play = Play {
            requests: 0,
            ids: Ids::default(),
            script: Script::new(scenario),
            source: None,
            ledger: Ledger::default(),
            log: Log::open(options.log.as_deref())?,
        };
        Ok(Self { options, started: Instant::now(), state: Mutex::new(play), logged: Condvar::new() })
    }

    pub(super) fn requests(&self) -> Vec<LoggedRequest> {
        self.play().log.requests().to_vec()
    }

    pub(super) fn wait_until(
        &self,
        limit: Duration,
        holds: impl Fn(&[LoggedRequest]) -> bool,
    ) -> Result<Vec<LoggedRequest>, Vec<LoggedRequest>> {
        let waits = |play: &mut Play| !holds(play.log.requests());
        let waited = self.logged.wait_timeout_while(self.play(), limit, waits);
        let (play, result) = waited.unwrap_or_else(PoisonError::into_inner);
        let requests = play.log.requests().to_vec();
        if result.timed_out() { Err(requests) } else { Ok(requests) }
    }

    fn add(&self, record: LoggedRequest) {
        self.play().log.add(record);
        self.logged.notify_all();
    }

    pub(super) fn set_scenario(&self, scenario: Scenario) {
        self.play().script = Script::new(scenario);
    }

    pub(super) fn follow(&self, path: PathBuf, text: String) {
        self.play().source = Some((path, text));
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn play(&self) -> MutexGuard<'_, Play> {
        // A panic while it was held has failed a request already; the log of the others is still worth having.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time that caches age by.
    pub(super) fn now(&self) -> Duration {
        self.options.clock.since(self.started)
    }
}

impl Play {
    /// Reads the scenario file again when its text is another one.
    pub(super) fn reload(&mut self) -> Result<(), ProviderError> {
        if let Some((path, text)) = &mut self.source {
            let now = std::fs::read_to_string(&path).map_err(ProviderError::file("read", path))?;
            if now != *text {
                let scenario = Scenario::parse(&now)
                    .map_err(|source| ProviderError::Scenario { name: path.display().to_string(), source })?;
                self.script = Script::new(scenario);
                *text = now;
            }
        }
        Ok(())
    }
}

/// A request on its way into the log. Dropped before it was finished, it is logged as one whose client went away.
pub(super) struct Entry {
    shared: Arc<Shared>,
    record: Option<LoggedRequest>,
}

impl Entry {
    pub(super) fn new(shared: &Arc<Shared>, parts: &Parts) -> Self {
        let mut play = shared.play();
        play.requests += 1;
        let record = LoggedRequest {
            n: play.requests,
            t: shared.started.elapsed().as_secs_f64(),
            phase: None,
            method: parts.method.to_string(),
            path: parts.uri.to_string(),
            headers: logged_headers(&parts.headers),
            raw_bytes: 0,
            answer: String::new(),
            prompt: None,
            body: None,
        };
        drop(play);
        Self { shared: Arc::clone(shared), record: Some(record) }
    }

    pub(super) fn record(&mut self) -> &mut LoggedRequest {
        self.record.as_mut().expect("it is there until the entry is finished, which consumes the entry")
    }

    /// The id of this request, as a header and in errors.
    pub(super) fn request_id(&mut self) -> String {
        format!("req_loop{:04}", self.record().n)
    }

    /// Logs the begin of a silence. How it ends is known later.
    pub(super) fn begin(&mut self, answer: &str) {
        answer.clone_into(&mut self.record().answer);
        let begun = LoggedRequest { phase: Some(Phase::Begin), ..self.record().clone() };
        self.shared.add(begun);
    }

    /// Logs how the request was answered.
    pub(super) fn finish(mut self, answer: impl Into<String>) {
        if let Some(mut record) = self.record.take() {
            record.answer = answer.into();
            self.shared.add(record);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            let before = if record.answer.is_empty() { String::new() } else { format!("{}: ", record.answer) };
            record.answer = before + "client closed";
            self.shared.add(record);
        }
    }
}
