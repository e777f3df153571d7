//! `fia view`: pages about the runs of a repository, for a browser on this machine.
//!
//! Read-only: nothing that is asked for changes anything. It listens on 127.0.0.1 alone, every address begins with a
//! token that only who started it knows, and the `Host` must be this machine's own, so that no page of another site
//! can make a browser read it. Text of agents, tools, files and people is escaped where it is written, and the content
//! policy lets no script run but the one that is served here. All pages read without that script; it only looks again
//! when a log has grown.

mod events;
mod files;
mod guard;
mod library;
mod live;
mod page;
mod run;
mod runs;

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

pub use library::Sources;

use crate::ids::RunId;
use library::Desk;

const STYLE: &str = include_str!("web/style.css");
const SCRIPT: &str = include_str!("web/script.js");
const ICON: &str = include_str!("web/icon.svg");

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// What every handler knows.
#[derive(Debug)]
struct Shared {
    token: String,
    port: u16,
    desk: Desk,
}

impl Server {
    /// Listens on a port of 127.0.0.1; 0 takes a free one. `token` is the secret part of every address.
    ///
    /// # Errors
    ///
    /// When the port is taken or no thread can be started.
    pub async fn listen(port: u16, token: String, sources: Sources) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, shared: Arc::new(Shared { token, port, desk: Desk::open(sources)? }) })
    }

    /// Where it is, token included.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.shared.port, self.shared.token)
    }

    /// Answers until it is dropped.
    ///
    /// # Errors
    ///
    /// When the socket fails.
    pub async fn serve(self) -> std::io::Result<()> {
        axum::serve(self.listener, router(self.shared)).await
    }
}

type Known = State<Arc<Shared>>;

fn router(shared: Arc<Shared>) -> Router {
    let fixed = |kind: &'static str, text: &'static str| get(move || async move { typed(kind, text) });
    Router::new()
        .route("/{token}/", get(all_runs))
        .route("/{token}/live", get(runs_live))
        .route("/{token}/run/{run}", get(one_run))
        .route("/{token}/run/{run}/live", get(run_live))
        .route("/{token}/run/{run}/events", get(run_events))
        .route("/{token}/run/{run}/plot.svg", get(plot))
        .route("/{token}/run/{run}/file/{agent}/{file}", get(file))
        .route("/{token}/style.css", fixed("text/css", STYLE))
        .route("/{token}/script.js", fixed("text/javascript", SCRIPT))
        .route("/{token}/icon.svg", fixed("image/svg+xml", ICON))
        .fallback(|| async { StatusCode::NOT_FOUND.into_response() })
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&shared), guard::guard))
        .with_state(shared)
}

async fn all_runs(State(shared): Known, Query(asked): Query<runs::Asked>) -> Response {
    let root = format!("/{}", shared.token);
    shared.desk.ask(move |library| runs::page(library, &root, &asked)).await
}

async fn one_run(
    State(shared): Known,
    Path((_, run)): Path<(String, RunId)>,
    Query(asked): Query<page::Part>,
) -> Response {
    let root = format!("/{}", shared.token);
    shared.desk.ask(move |library| run::page(library, &root, &run, asked)).await
}

async fn run_events(
    State(shared): Known,
    Path((_, run)): Path<(String, RunId)>,
    Query(asked): Query<events::Asked>,
) -> Response {
    let root = format!("/{}", shared.token);
    shared.desk.ask(move |library| events::page(library, &root, &run, &asked)).await
}

async fn plot(State(shared): Known, Path((_, run)): Path<(String, RunId)>) -> Response {
    shared.desk.ask(move |library| run::plot(library, &run)).await
}

async fn file(
    State(shared): Known,
    Path((_, run, agent, file)): Path<(String, RunId, String, String)>,
    Query(asked): Query<files::Asked>,
) -> Response {
    let root = format!("/{}", shared.token);
    shared.desk.ask(move |library| files::page(library, &root, &run, &files::Place { agent, file }, asked)).await
}

async fn runs_live(State(shared): Known) -> Response {
    live::runs(shared)
}

async fn run_live(State(shared): Known, Path((_, run)): Path<(String, RunId)>) -> Response {
    live::run(shared, run)
}

/// A body of a type, in UTF-8.
fn typed(kind: &str, body: impl IntoResponse) -> Response {
    let mut response = body.into_response();
    if let Ok(kind) = HeaderValue::from_str(&format!("{kind}; charset=utf-8")) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response
}

#[cfg(test)]
mod tests;
