//! Context pruning in a run: the gateway that its engines are pointed at, and what that has to say.
//!
//! claude gets the base URL of a session of the gateway, pi an extension that asks one. When this cannot be done the
//! engine runs without it, and the log says so once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::Run;
use super::RunError;
use super::turn::TurnOrder;
use crate::economy::prices::{self, Rates};
use crate::engine::Launch;
use crate::event::{Event, Fault, FaultKind};
use crate::gateway::{ANTHROPIC, Gateway, PI_EXTENSION, PI_URL, Session, SessionOptions, Upstream};
use crate::ids::{AgentName, EngineName};
use crate::prune::conversation::{DEFAULT_WINDOW, PruneState};
use crate::prune::settings::Settings;
use crate::store::atomic::{self, Durability};
use crate::store::set_aside;

/// The extension, below the run directory.
const EXTENSION_FILE: &str = "pruning/pi_extension.mjs";

/// The variable by which claude finds its provider.
const BASE_URL: &str = "ANTHROPIC_BASE_URL";

/// Variables that send requests through a proxy, loopback not excepted.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// The gateway of a stretch, started by the first turn that needs it.
#[derive(Debug, Default)]
pub(super) struct Pruning {
    gateway: Option<Gateway>,
    open: BTreeMap<AgentName, Open>,
    /// Agents of which the log says already that they run without it.
    told: Vec<AgentName>,
}

/// The session of an agent.
#[derive(Debug)]
struct Open {
    engine: EngineName,
    model: String,
    session: Session,
}

impl Run {
    /// Points an engine at the gateway, if old tool results are to become short.
    pub(super) fn attach_pruning(&self, asked: &TurnOrder<'_>, launch: &mut Launch) -> Result<(), RunError> {
        let Some(settings) = Settings::read(&self.plan.context_pruning) else { return Ok(()) };
        let engine = asked.choice.engine;
        if !matches!(engine, EngineName::Claude | EngineName::Pi) {
            return Ok(());
        }
        match self.open_pruning(asked, settings, launch) {
            Ok(base_url) => {
                point(engine, &base_url, launch, &self.place.dir.path().join(EXTENSION_FILE));
                Ok(())
            }
            Err(why) => self.runs_without_pruning(asked, &why),
        }
    }

    /// The base URL of the agent's session, which is opened anew for another engine or model.
    fn open_pruning(&self, asked: &TurnOrder<'_>, settings: Settings, launch: &Launch) -> Result<String, String> {
        let mut pruning = self.pruning.borrow_mut();
        let choice = asked.choice;
        if let Some(open) = pruning.open.get(asked.agent)
            && open.engine == choice.engine
            && open.model == choice.model
        {
            open.session.expect(self.expected_requests(asked.agent, &asked.order.step));
            return Ok(open.session.base_url().to_owned());
        }
        let options = self.pruning_options(asked, settings, launch)?;
        let gateway = match &mut pruning.gateway {
            Some(gateway) => gateway,
            none @ None => none.insert(Gateway::start_anywhere(Arc::new(self.now)).map_err(|error| chain(&error))?),
        };
        let session = gateway.session(options).map_err(|error| format!("{}; {}", chain(&error), error.hint()))?;
        let base_url = session.base_url().to_owned();
        let open = Open { engine: choice.engine, model: choice.model.clone(), session };
        pruning.open.insert(asked.agent.clone(), open);
        Ok(base_url)
    }

    fn pruning_options(
        &self,
        asked: &TurnOrder<'_>,
        settings: Settings,
        launch: &Launch,
    ) -> Result<SessionOptions, String> {
        let upstream = match asked.choice.engine {
            EngineName::Claude => Some(upstream(launch)?),
            EngineName::Pi => {
                // An agent that rewrites it would have its own program run.
                let written = self.save_for_later(Path::new(EXTENSION_FILE), PI_EXTENSION.as_bytes());
                written.map_err(|error| chain(&error))?;
                None
            }
            EngineName::Cursor | EngineName::Scripted => None,
        };
        let known = prices::find(&self.plan.models, &asked.choice.model);
        let configured = known.as_ref().and_then(|model| model.context_window);
        let reported = self.with_state(|state| state.agents.entry(asked.agent).and_then(|entry| entry.context_window));
        let rates = known.and_then(|model| model.prices).map_or(Rates::STANDARD, |prices| prices.rates());
        // pi says itself what window its model has.
        let otherwise = (asked.choice.engine != EngineName::Pi).then_some(DEFAULT_WINDOW);
        let path = self.place.dir.pruning(asked.agent);
        Ok(SessionOptions {
            agent: asked.agent.clone(),
            settings: Some(settings),
            window: configured.or(reported).or(otherwise),
            rates,
            expected: self.expected_requests(asked.agent, &asked.order.step),
            upstream,
            state: self.pruning_state(asked)?,
            save: Box::new(move |bytes| Ok(atomic::replace(&path, bytes, Durability::Synced)?)),
        })
    }

    /// What earlier stretches remembered. A file that is damaged is set aside, and pruning begins anew.
    fn pruning_state(&self, asked: &TurnOrder<'_>) -> Result<PruneState, String> {
        let path = self.place.dir.pruning(asked.agent);
        let place = path.strip_prefix(self.place.dir.path()).unwrap_or(&path);
        let Some(bytes) = self.place.dir.read(place).map_err(|error| chain(&error))? else {
            // The folder is made with the first file of the run in it; the session only replaces that.
            let state = PruneState::default();
            self.place.dir.save(place, &state.render()).map_err(|error| chain(&error))?;
            return Ok(state);
        };
        let (state, damage) = PruneState::parse(&bytes);
        if let Some(damage) = damage {
            let aside = set_aside(&path).map_err(|error| chain(&error))?;
            let aside = aside.strip_prefix(self.place.dir.path()).unwrap_or(&aside).display();
            let message = format!("{}: {damage}; moved to {aside}, and pruning begins anew", place.display());
            let phase = &asked.order.phase;
            let fault = Fault { place: phase.to_string(), kind: FaultKind::Storage, message };
            self.record(asked.phase, Event::Error(fault)).map_err(|error| chain(&error))?;
        }
        Ok(state)
    }

    fn runs_without_pruning(&self, asked: &TurnOrder<'_>, why: &str) -> Result<(), RunError> {
        let mut pruning = self.pruning.borrow_mut();
        if pruning.told.contains(asked.agent) {
            return Ok(());
        }
        pruning.told.push(asked.agent.clone());
        let message = format!("{} runs without context pruning: {why}", asked.agent);
        let fault = Fault { place: asked.order.phase.to_string(), kind: FaultKind::Pruning, message };
        self.record(Some(&asked.order.phase), Event::Error(fault))
    }

    /// Writes down what the gateway has to say of an agent.
    pub(super) fn record_pruning(&self, asked: &TurnOrder<'_>) -> Result<(), RunError> {
        loop {
            let next = self.pruning.borrow_mut().open.get_mut(asked.agent).and_then(|open| open.session.news());
            match next {
                Some(news) => self.record(Some(&asked.order.phase), news.into())?,
                None => return Ok(()),
            }
        }
    }
}

/// The provider that claude would ask without a gateway: as configured, else as fia's own environment says.
fn upstream(launch: &Launch) -> Result<Upstream, String> {
    let url = match launch.env.get(BASE_URL) {
        Some(configured) => configured.clone(),
        None => std::env::var(BASE_URL).ok(),
    };
    let url = url.filter(|url| !url.is_empty()).unwrap_or_else(|| ANTHROPIC.to_owned());
    Upstream::parse(&url).map_err(|error| format!("{error} (`{BASE_URL}`)"))
}

/// Tells an engine where to ask.
fn point(engine: EngineName, base_url: &str, launch: &mut Launch, extension: &Path) {
    if engine == EngineName::Pi {
        launch.extensions.push(extension.display().to_string());
        launch.env.insert(PI_URL.to_owned(), Some(base_url.to_owned()));
        return;
    }
    // The environment of the configuration has the last word, and has had it in `upstream`.
    launch.env.remove(BASE_URL);
    launch.base_url = Some(base_url.to_owned());
    past_proxies(launch, |name| std::env::var(name).ok());
}

/// Keeps a proxy of the environment from being asked for loopback.
fn past_proxies(launch: &mut Launch, ambient: impl Fn(&str) -> Option<String>) {
    let value = |name: &str| match launch.env.get(name) {
        Some(configured) => configured.clone(),
        None => ambient(name),
    };
    if PROXIES.iter().all(|name| value(name).is_none_or(|proxy| proxy.is_empty())) {
        return;
    }
    let exceptions = value("no_proxy").or_else(|| value("NO_PROXY")).filter(|list| !list.is_empty());
    let list = exceptions.map_or_else(|| "127.0.0.1".to_owned(), |list| format!("{list},127.0.0.1"));
    for name in ["no_proxy", "NO_PROXY"] {
        launch.env.insert(name.to_owned(), Some(list.clone()));
    }
}

/// An error with its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text += &format!(": {inner}");
        cause = inner.source();
    }
    text
}
