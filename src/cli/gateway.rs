//! `fia gateway`: the gateway alone, for any client of the Messages API.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use chrono::Utc;
use clap::Args;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::project::Project;
use super::report::CliError;
use super::say;
use crate::economy::prices::Rates;
use crate::economy::requests::ASSUMED_REQUESTS;
use crate::event::ContextPruned;
use crate::gateway::{ANTHROPIC, Gateway, GatewayError, News, Session, SessionOptions, Upstream};
use crate::ids::AgentName;
use crate::prune::conversation::{DEFAULT_WINDOW, PruneState};
use crate::prune::settings::{Mode, Settings};
use crate::store::atomic::{self, Durability};
use crate::store::{StoreError, create_dir, set_aside};

/// Whose state it keeps, there being no agent.
const NAME: &str = "gateway";

/// Arguments of `fia gateway`.
#[derive(Debug, Args)]
pub(super) struct GatewayArgs {
    /// Listen here, on loopback; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The provider behind it; `ANTHROPIC_BASE_URL`, else Anthropic's, if left out
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
}

/// Runs a gateway until a signal.
pub(super) fn gateway(args: &GatewayArgs) -> Result<ExitCode, CliError> {
    let project = Project::open(None)?;
    project.warn();
    project.data.create()?;
    let options = options(&project, args)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::machine("cannot start the runtime", error))?;
    runtime.block_on(serve(args.listen, options))
}

fn options(project: &Project, args: &GatewayArgs) -> Result<SessionOptions, CliError> {
    let ambient = || std::env::var("ANTHROPIC_BASE_URL").ok().filter(|url| !url.is_empty());
    let url = args.upstream.clone().or_else(ambient).unwrap_or_else(|| ANTHROPIC.to_owned());
    let upstream = Upstream::parse(&url)
        .map_err(|error| CliError::usage(error.to_string(), format!("give it as `--upstream {ANTHROPIC}`")))?;
    let section: Value = project.loaded.config.at("/context_pruning");
    // Who starts a gateway wants it to prune, also where runs do not.
    let settings = Settings::read(&section).unwrap_or_else(|| Settings::of(Mode::CacheTtl));
    let path = project.data.gateway_pruning(&AgentName::from(NAME));
    create_dir(path.parent().unwrap_or(&path))?;
    let (state, damage) = match std::fs::read(&path) {
        Ok(bytes) => PruneState::parse(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (PruneState::default(), None),
        Err(source) => return Err(StoreError::Io { action: "read", path, source }.into()),
    };
    if let Some(damage) = damage {
        let aside = set_aside(&path)?;
        say(&format!("warning: `{}` was set aside as `{}`: {damage}", path.display(), aside.display()));
    }
    Ok(SessionOptions {
        agent: NAME.into(),
        settings: Some(settings),
        window: Some(DEFAULT_WINDOW),
        rates: Rates::STANDARD,
        expected: ASSUMED_REQUESTS,
        upstream: Some(upstream),
        state,
        save: Box::new(move |bytes| Ok(atomic::replace(&path, bytes, Durability::Synced)?)),
    })
}

async fn serve(listen: SocketAddr, options: SessionOptions) -> Result<ExitCode, CliError> {
    let signals = |error| CliError::machine("cannot listen for signals", error);
    let mut interrupted = signal(SignalKind::interrupt()).map_err(signals)?;
    let mut ended = signal(SignalKind::terminate()).map_err(signals)?;
    let upstream = options.upstream.as_ref().map(ToString::to_string).unwrap_or_default();
    let gateway = Gateway::start(listen, Arc::new(Utc::now)).map_err(failed)?;
    let mut session = gateway.session(options).map_err(failed)?;
    introduce(&session, &upstream)?;
    loop {
        tokio::select! {
            _ = interrupted.recv() => return Ok(ExitCode::from(130)),
            _ = ended.recv() => return Ok(ExitCode::from(143)),
            Some(news) = session.next_news() => match news {
                News::Pruned(pruned) => drop(say(&told(&pruned))),
                News::PrefixChanged(changed) => {
                    say(&format!("prefix changed at {}, byte {}", changed.block, changed.byte));
                }
            },
        }
    }
}

/// The base URL is data; what to do with it is for people.
fn introduce(session: &Session, upstream: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", session.base_url())?;
    out.flush()?;
    say(&format!(
        "requests go on to {upstream}\n\
         for claude: ANTHROPIC_BASE_URL={url} claude\n\
         for pi: `baseUrl` of an `anthropic-messages` provider in models.json\n\
         the path is a secret, and another one after a restart; Ctrl-C ends it",
        url = session.base_url()
    ));
    Ok(())
}

fn told(pruned: &ContextPruned) -> String {
    let gap = pruned.gap_ms.map_or_else(String::new, |gap| format!(" after {} s", gap / 1000));
    if !pruned.has_shortened() {
        return format!("no round: {}", pruned.reason);
    }
    let (soft, hard, before, after) = (pruned.soft, pruned.hard, pruned.chars_before, pruned.chars_after);
    format!("pruned ({}{gap}): {soft} trimmed, {hard} cleared, {before} -> {after} characters", pruned.reason)
}

fn failed(error: GatewayError) -> CliError {
    match error {
        GatewayError::NotLoopback { .. } => CliError::usage(error.to_string(), error.hint()),
        GatewayError::Listen { .. } | GatewayError::Random | GatewayError::Tls(_) => {
            let hint = Some(error.hint().to_owned());
            CliError::Machine { message: "cannot start the gateway".to_owned(), hint, source: Some(Box::new(error)) }
        }
    }
}
