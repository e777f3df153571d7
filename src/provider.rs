//! A model provider on loopback that answers by a script: the Anthropic Messages API as far as coding-agent CLIs use
//! it, over HTTP/1.1, with nothing behind it.
//!
//! It lets the real CLIs complete turns without an account or a network, shows to the byte what they send, and fails in
//! every way that a provider can: errors with headers, errors inside a stream, cut connections, silence, garbage, slow
//! streams. Tests drive the engines against it, and `doctor --prefix` compares two starts of a CLI by its log.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use fia::provider::{Options, Provider, Scenario};
//!
//! let scenario = Scenario::parse(r#"{"rules": [{"match": "JOB-1", "steps": [{"text": "done"}]}]}"#)?;
//! let provider = Provider::spawn_thread(scenario, Options::default())?;
//! let base_url = provider.base_url(); // for ANTHROPIC_BASE_URL
//! for request in provider.requests() {
//!     assert_eq!(request.answer, "200 sse end_turn");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Promises: the same scenario and the same requests give the same answers, whatever the time. Usage is arithmetic over
//! the bytes received (the rules stand at [`CacheScope`] and [`CacheLife`]), so a context that grows is seen to grow. Who
//! has received a whole answer finds it in [`Provider::requests`].
//!
//! Refuses: any address but 127.0.0.1. It keeps no key: the log says only whether one came.
//!
//! Endpoints: `POST /v1/messages`, streaming and plain; `POST /v1/messages/count_tokens`; `GET /v1/models`; any other
//! `GET` or `HEAD` is a probe and any other `POST` a sink, answered 200 with an empty object. Checked with claude
//! 2.1.332 and pi 1.6.0 (November 2026).

mod answer;
mod command;
mod connection;
mod handle;
mod log;
mod play;
mod request;
mod scenario;
mod script;
mod stream;
mod tokens;

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

pub use self::command::{Args, serve};
use self::connection::{Line, Loopback};
pub use self::log::{LoggedPrompt, LoggedRequest, Phase};
use self::play::Shared;
pub use self::scenario::Scenario;
pub use self::tokens::{CacheLife, CacheScope};

/// Settings of a provider.
#[derive(Debug, Clone)]
pub struct Options {
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// What all input tokens are multiplied by when the scenario names no factor: 9 lifts the first turn of claude to
    /// about 195,000 tokens, 150 that of pi.
    pub growth: f64,
    /// Which earlier requests a prompt may share its prefix with.
    pub cache_scope: CacheScope,
    /// How long a prompt stays cached.
    pub cache_life: CacheLife,
    /// What the life of a cache is measured by.
    pub clock: Clock,
    /// A file that gets one JSON line a request.
    pub log: Option<PathBuf>,
    /// A folder that gets the body of every model request as `NNNN.json`.
    pub dump_dir: Option<PathBuf>,
    /// Where relative paths of `do` steps start; without it, in the directory that claude names in its prompt.
    pub cwd: Option<PathBuf>,
    /// Whether [`LoggedRequest::body`] is kept.
    pub bodies: Bodies,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            growth: 1.0,
            cache_scope: CacheScope::default(),
            cache_life: CacheLife::default(),
            clock: Clock::default(),
            log: None,
            dump_dir: None,
            cwd: None,
            bodies: Bodies::default(),
        }
    }
}

/// What happens to the bodies of model requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bodies {
    /// They are forgotten once answered.
    #[default]
    Drop,
    /// They stay in memory, in [`LoggedRequest::body`].
    Keep,
}

/// The time that caches age by: the real one, plus what tests add. Clones move together.
#[derive(Debug, Clone, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(millis, Ordering::Relaxed);
    }

    fn since(&self, start: Instant) -> Duration {
        start.elapsed() + Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A running provider. Dropped, it stops listening.
#[derive(Debug)]
pub struct Provider {
    port: u16,
    shared: Arc<Shared>,
    server: Server,
}

/// What runs the server.
#[derive(Debug)]
enum Server {
    Task(AbortHandle),
    Thread { stop: Option<oneshot::Sender<()>>, thread: Option<JoinHandle<()>> },
}

impl Provider {
    /// Starts a provider on the current runtime, which is best a current-thread one: there, all events before a cut
    /// are sure to be on their way before the connection is reset. Open connections end with their clients, or with
    /// the runtime.
    ///
    /// # Errors
    ///
    /// When the port is taken, or the log or the folder for bodies cannot be opened.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(scenario: Scenario, options: Options) -> Result<Self, ProviderError> {
        let (listener, port) = listen(options.port)?;
        let shared = Arc::new(Shared::new(scenario, options)?);
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { port, shared, server: Server::Task(task.abort_handle()) })
    }

    /// Starts a provider on a thread and a runtime of its own, for callers that are not async. Dropped, it ends its
    /// thread and all its connections.
    ///
    /// # Errors
    ///
    /// As for [`Provider::start`], and when no thread can be started.
    pub fn spawn_thread(scenario: Scenario, options: Options) -> Result<Self, ProviderError> {
        let (listener, port) = listen(options.port)?;
        let shared = Arc::new(Shared::new(scenario, options)?);
        let start = |source| ProviderError::Start { source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(start)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let server = accept(listener, Arc::clone(&shared));
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = server => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("provider".to_owned()).spawn(run).map_err(start)?;
        Ok(Self { port, shared, server: Server::Thread { stop: Some(stop), thread: Some(thread) } })
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it is: `http://127.0.0.1:PORT`.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The requests so far, in the order in which they were answered; one in a silence is there from its begin.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.shared.requests()
    }

    /// Waits until the requests so far are as wanted, and gives them. `holds` may not ask the provider itself: it is
    /// called while the log is locked.
    ///
    /// # Errors
    ///
    /// When they are not so within the limit: the requests as they are then.
    pub fn wait_until(
        &self,
        limit: Duration,
        holds: impl Fn(&[LoggedRequest]) -> bool,
    ) -> Result<Vec<LoggedRequest>, Vec<LoggedRequest>> {
        self.shared.wait_until(limit, holds)
    }

    /// Plays another scenario from its beginning. Requests so far stay known to the cache and in the log.
    pub fn set_scenario(&self, scenario: Scenario) {
        self.shared.set_scenario(scenario);
    }

    /// Reads the scenario from a file again whenever its text is no longer `text`.
    fn follow(&self, path: PathBuf, text: String) {
        self.shared.follow(path, text);
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        match &mut self.server {
            Server::Task(task) => task.abort(),
            Server::Thread { stop, thread } => {
                drop(stop.take());
                if thread.take().is_some_and(|thread| thread.join().is_err()) {
                    tracing::error!("the provider's thread panicked");
                }
            }
        }
    }
}

/// Why a provider cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The port cannot be had.
    #[error("cannot listen on 127.0.0.1:{port}")]
    Listen {
        /// The port asked for.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// The machine refuses a thread, a runtime or a signal handler.
    #[error("cannot start the provider")]
    Start {
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be used.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No scenario of this name comes with the provider.
    #[error("no scenario `builtin:{name}`, only {}", Scenario::builtin_names().join(", "))]
    UnknownScenario {
        /// The name asked for.
        name: String,
    },
    /// A scenario has no meaning.
    #[error("cannot read the scenario `{name}`")]
    Scenario {
        /// Its file.
        name: String,
        /// What is wrong, and where.
        source: serde_json::Error,
    },
}

impl ProviderError {
    /// Says what was tried with which file.
    fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }
}

fn listen(port: u16) -> Result<(TcpListener, u16), ProviderError> {
    let listen = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    };
    listen().map_err(|source| ProviderError::Listen { port, source })
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let app = Router::new().fallback(handle::handle).with_state(shared);
    let result = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => axum::serve(Loopback(listener), app.into_make_service_with_connect_info::<Line>()).await,
        Err(error) => Err(error),
    };
    if let Err(error) = result {
        tracing::error!("the provider stopped: {error}");
    }
}

#[cfg(test)]
mod tests;
