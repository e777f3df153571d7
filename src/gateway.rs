//! A proxy on loopback between a coding-agent CLI and its provider, through which old tool results become short.
//!
//! A session has one unguessable path; whoever knows it is let through to the session's provider. Requests of the
//! model go through `prune`, all others pass; answers stream back chunk by chunk while a copy is read for usage. For
//! pi, which prunes through a hook of its own, a session answers the hook's questions instead ([`PI_EXTENSION`]).
//!
//! Promises: bytes that are not pruned stay as they are, and so do headers, status, errors and the end of a stream,
//! torn ones included. What a round replaced is saved before the request leaves. A client that goes away takes its
//! request to the provider with it. No time limit but those of the client and the provider.
//!
//! Refuses: any address but loopback, any path outside a session, any `Host` but its own, more than 64 KiB of
//! headers, bodies over 64 MiB. Keys and tokens are passed on and appear in no log, event or error.

mod answer;
mod handle;
mod memory;
mod pi;
mod plan;
mod session;
mod upstream;
mod usage;

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::serve::ListenerExt as _;
use chrono::{DateTime, Utc};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

pub use self::upstream::{ANTHROPIC, Upstream, UpstreamError, client_for};
use crate::economy::prices::Rates;
use crate::event::{ContextPruned, Event, PrefixChanged};
use crate::ids::AgentName;
use crate::prune::conversation::PruneState;
use crate::prune::settings::Settings;

/// The extension through which pi asks a session what to shorten; it finds the session by [`PI_URL`].
///
/// Written for pi 1.6.0 (November 2026): its `context` hook is given a deep copy of all messages before every request
/// and answers with those to send.
pub const PI_EXTENSION: &str = include_str!("gateway/pi_extension.mjs");

/// The variable that names the base URL of a session to [`PI_EXTENSION`].
pub const PI_URL: &str = "FIA_PRUNING_URL";

/// Random bytes of a session's path.
const TOKEN_BYTES: usize = 16;

/// The clock that gaps between requests are measured by.
pub type Now = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// Writes the state of a session where it survives a crash; called before a request leaves.
pub type Save = Box<dyn Fn(&[u8]) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync>;

/// A running gateway. Dropped, it stops listening; requests under way go on.
#[derive(Debug)]
pub struct Gateway {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: AbortHandle,
}

/// What the connections share: which paths there are.
struct Shared {
    /// What a client may call it in `Host`.
    hosts: [String; 2],
    now: Now,
    sessions: RwLock<HashMap<String, Arc<session::Session>>>,
}

/// What a session is to do.
pub struct SessionOptions {
    /// Whose requests these are.
    pub agent: AgentName,
    /// How results shrink; `None` shortens nothing new, and still repeats what was shortened before.
    pub settings: Option<Settings>,
    /// The model's window in tokens; `None` leaves it to what pi says, and else never prunes.
    pub window: Option<u64>,
    /// Relative prices, for rounds on a warm cache.
    pub rates: Rates,
    /// Requests that the session is expected to make still.
    pub expected: u32,
    /// Where requests go; `None` for an engine that asks only what to shorten.
    pub upstream: Option<Upstream>,
    /// What is remembered of earlier requests.
    pub state: PruneState,
    /// Where that is kept.
    pub save: Save,
}

/// A path of a gateway. Dropped, the path is refused.
#[derive(Debug)]
pub struct Session {
    base_url: String,
    token: String,
    shared: Arc<Shared>,
    news: mpsc::UnboundedReceiver<News>,
}

/// What a session has to say.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// A round ran, or none did for another reason than last time.
    Pruned(ContextPruned),
    /// A request does not extend the one before it.
    PrefixChanged(PrefixChanged),
}

impl From<News> for Event {
    fn from(news: News) -> Self {
        match news {
            News::Pruned(pruned) => Self::ContextPruned(pruned),
            News::PrefixChanged(changed) => Self::PrefixChanged(changed),
        }
    }
}

impl Gateway {
    /// Starts a gateway on the current runtime; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// When the address is not loopback or cannot be had.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(address: SocketAddr, now: Now) -> Result<Self, GatewayError> {
        if !address.ip().is_loopback() {
            return Err(GatewayError::NotLoopback { address });
        }
        let listener = listen(address).map_err(|source| GatewayError::Listen { address, source })?;
        let address = listener.local_addr().map_err(|source| GatewayError::Listen { address, source })?;
        let hosts = [address.to_string(), format!("localhost:{}", address.port())];
        let shared = Arc::new(Shared { hosts, now, sessions: RwLock::default() });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        Ok(Self { address, shared, task })
    }

    /// Starts a gateway on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// As for [`Gateway::start`].
    pub fn start_anywhere(now: Now) -> Result<Self, GatewayError> {
        Self::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), now)
    }

    /// Opens a path for the requests of one agent.
    ///
    /// # Errors
    ///
    /// When no random number can be had, or TLS cannot be set up.
    pub fn session(&self, options: SessionOptions) -> Result<Session, GatewayError> {
        let token = token()?;
        let (sender, news) = mpsc::unbounded_channel();
        let session = Arc::new(session::Session::new(options, Arc::clone(&self.shared.now), sender)?);
        self.shared.sessions.write().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), session);
        let base_url = format!("http://{}/s/{token}", self.address);
        Ok(Session { base_url, token, shared: Arc::clone(&self.shared), news })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Session {
    /// What the engine is to take for its provider: `http://127.0.0.1:PORT/s/TOKEN`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// From now on the session is expected to make so many requests still.
    pub fn expect(&self, requests: u32) {
        if let Some(session) = self.shared.session(&self.token) {
            session.expected.store(requests, Ordering::Relaxed);
        }
    }

    /// The next thing that happened, if there is one already.
    ///
    /// A request makes two at most, so whoever runs an agent and looks now and then loses none and holds up none.
    pub fn news(&mut self) -> Option<News> {
        self.news.try_recv().ok()
    }

    /// Waits for the next thing that happened.
    pub async fn next_news(&mut self) -> Option<News> {
        self.news.recv().await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.sessions.write().unwrap_or_else(PoisonError::into_inner).remove(&self.token);
    }
}

impl Shared {
    fn session(&self, token: &str) -> Option<Arc<session::Session>> {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner).get(token).cloned()
    }
}

impl std::fmt::Debug for Shared {
    /// Without the paths, which are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

fn token() -> Result<String, GatewayError> {
    let mut random = [0_u8; TOKEN_BYTES];
    getrandom::fill(&mut random).map_err(|_| GatewayError::Random)?;
    Ok(format!("{:032x}", u128::from_be_bytes(random)))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let app = Router::new().fallback(handle::handle).with_state(shared);
    let result = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => {
            // A chunk leaves when it is written, not when a packet is full.
            let listener = listener.tap_io(|stream| {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!("cannot switch off delay: {error}");
                }
            });
            axum::serve(listener, app).await
        }
        Err(error) => Err(error),
    };
    if let Err(error) = result {
        tracing::error!("the gateway stopped: {error}");
    }
}

/// Why there is no gateway, or no session of it.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Others could reach it.
    #[error("`{address}` can be reached from other machines")]
    NotLoopback {
        /// The address asked for.
        address: SocketAddr,
    },
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// No random number could be had.
    #[error("cannot make an unguessable path")]
    Random,
    /// The client of the provider cannot be made: mostly, no certificate authorities were found.
    #[error("cannot set up TLS to the provider")]
    Tls(#[source] reqwest::Error),
}

impl GatewayError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotLoopback { .. } => "listen on 127.0.0.1",
            Self::Listen { .. } => "choose another port, or 0 for a free one",
            Self::Random => "look at what this machine allows its programs",
            Self::Tls(_) => "install the certificate authorities of this system (ca-certificates)",
        }
    }
}
