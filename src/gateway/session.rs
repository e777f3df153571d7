//! One session: what it is to do, what it remembers, and who is told.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use axum::body::Bytes;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};

use super::memory::{Memory, Outgoing, Question};
use super::{GatewayError, News, Now, Save, SessionOptions, Upstream};
use crate::economy::prices::Rates;
use crate::ids::AgentName;
use crate::prune::conversation::Ticket;
use crate::prune::settings::Settings;

/// A session of the gateway.
pub(super) struct Session {
    pub(super) agent: AgentName,
    pub(super) settings: Option<Settings>,
    pub(super) window: Option<u64>,
    pub(super) rates: Rates,
    /// Requests that the session is expected to make still.
    pub(super) expected: AtomicU32,
    pub(super) save: Save,
    upstream: Option<(Upstream, reqwest::Client)>,
    /// Locked from the moment a request is looked at until its state is saved: a later one must find it there.
    memory: Arc<Mutex<Memory>>,
    now: Now,
    news: mpsc::UnboundedSender<News>,
}

impl Session {
    pub(super) fn new(
        options: SessionOptions,
        now: Now,
        news: mpsc::UnboundedSender<News>,
    ) -> Result<Self, GatewayError> {
        let upstream = match options.upstream {
            None => None,
            Some(upstream) => {
                let client = upstream.client()?;
                Some((upstream, client))
            }
        };
        Ok(Self {
            agent: options.agent,
            settings: options.settings,
            window: options.window,
            rates: options.rates,
            expected: AtomicU32::new(options.expected),
            save: options.save,
            upstream,
            memory: Arc::new(Mutex::new(Memory::new(options.state))),
            now,
            news,
        })
    }

    /// The provider and the client for it; `None` for an engine that only asks.
    pub(super) fn upstream(&self) -> Option<(&Upstream, &reqwest::Client)> {
        self.upstream.as_ref().map(|(upstream, client)| (upstream, client))
    }

    /// Decides what is sent in place of a body. Whatever goes wrong in here, the request itself goes on as it came.
    pub(super) async fn prepare(self: &Arc<Self>, body: Bytes, question: Question) -> Outgoing {
        let now_ms = (self.now)().timestamp_millis();
        let original = body.clone();
        let decided = self.with_memory(move |session, memory| session.decide(memory, &body, &question, now_ms)).await;
        decided.unwrap_or_else(|| Outgoing { body: original, ticket: None })
    }

    /// A request succeeded: its start is the clock from now on.
    pub(super) fn succeeded(self: Arc<Self>, ticket: Ticket, tokens: Option<u64>) {
        tokio::spawn(async move {
            self.with_memory(move |session, memory| session.remember(memory, &ticket, tokens)).await;
        });
    }

    /// Works on the memory where it holds up nobody else: bodies are large, and saving waits for the disk.
    pub(super) async fn with_memory<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self, &mut Memory) -> T + Send + 'static,
    ) -> Option<T> {
        let mut memory: OwnedMutexGuard<Memory> = Arc::clone(&self.memory).lock_owned().await;
        let session = Arc::clone(self);
        let worked = tokio::task::spawn_blocking(move || work(&session, &mut memory)).await;
        worked.inspect_err(|error| tracing::error!("pruning failed: {error}")).ok()
    }

    pub(super) fn now_ms(&self) -> i64 {
        (self.now)().timestamp_millis()
    }

    /// Tells the owner. Nobody listens any more once the session is closed.
    pub(super) fn tell(&self, news: News) {
        let _closed = self.news.send(news);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("agent", &self.agent).finish_non_exhaustive()
    }
}
