//! A run told as its log has it: configured in YAML, acted by a script, watched record by record.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use fia::config::{self, Surroundings};
use fia::event::{Event, Outcome, Record};
use fia::ids::{EngineName, RunId};
use fia::plan::build::{Request, build};
use fia::plan::{Plan, Stop};
use fia::run::recovery::Unchanged;
use fia::run::{self, Audience, Beginning, Bells, Level, Resumption, StartError, Watch};
use fia::store::DataDir;
use fia::tree::Repository;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::test_env::TestEnv;

/// When every story begins.
pub(crate) const NOON: &str = "2026-11-30T12:00:00Z";

const RUN: &str = "20261130-120000-test";

thread_local! {
    static BEGAN: RefCell<Option<Instant>> = const { RefCell::new(None) };
    static PAUSED: Cell<bool> = const { Cell::new(false) };
    static SLEPT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The clock of a story: noon and what has passed of tokio's time, which runs ahead while a run waits.
fn now() -> DateTime<Utc> {
    let began = BEGAN.with_borrow_mut(|began| *began.get_or_insert_with(Instant::now));
    NOON.parse::<DateTime<Utc>>().expect("a time") + began.elapsed() + SLEPT.get()
}

/// Lets the machine have slept, in which its timers stood still and its clock went on.
pub(crate) fn sleeps(span: Duration) {
    SLEPT.set(span);
}

/// What a test does when a record is written.
pub(crate) type Hook = Box<dyn FnMut(&Record, &Outside)>;

/// What a person could do to the run.
#[derive(Clone)]
pub(crate) struct Outside {
    level: Rc<watch::Sender<Level>>,
    news: Rc<watch::Sender<u64>>,
    data: PathBuf,
}

impl Outside {
    pub(crate) fn interrupt(&self) {
        self.level.send_replace(Level::Interrupt);
    }

    /// Writes the stop file of the run, and rings.
    pub(crate) fn stop(&self, content: &str) {
        self.write(&format!("runs/{RUN}/stop"), content);
    }

    /// Writes a file of the data directory, and rings.
    pub(crate) fn write(&self, path: &str, content: &str) {
        std::fs::write(self.data.join(path), content).expect("a file");
        self.news.send_modify(|count| *count += 1);
    }
}

/// Stops tokio's time, so that it runs ahead to the next timer, or lets it go at its own pace.
pub(crate) fn pause(paused: bool) {
    if PAUSED.replace(paused) != paused {
        if paused { tokio::time::pause() } else { tokio::time::resume() }
    }
}

struct Teller {
    records: Rc<RefCell<Vec<Record>>>,
    hook: Hook,
    outside: Outside,
}

impl Watch for Teller {
    fn record(&mut self, record: &Record) {
        let kind = record.event.kind();
        if matches!(kind, "waiting" | "engine_retry") {
            pause(true);
        } else if matches!(kind, "phase_start" | "agent_start" | "engine_continuation") {
            pause(false);
        }
        self.records.borrow_mut().push(record.clone());
        (self.hook)(record, &self.outside);
    }
}

/// A repository with a configuration, in which one run is told, in one stretch or several.
pub(crate) struct Story {
    pub(crate) env: Rc<TestEnv>,
    config: PathBuf,
}

/// What a stretch came to.
pub(crate) struct Told {
    pub(crate) outcome: Outcome,
    pub(crate) reason: String,
    pub(crate) records: Vec<Record>,
}

impl Story {
    /// `config` is put below `agents`, of which there is one builder with two phases, `build` and `polish`;
    /// `script` is what it acts.
    pub(crate) fn new(builder: &str, more: &str, script: &str) -> Self {
        let env = Rc::new(TestEnv::new());
        let program = env!("CARGO_BIN_EXE_fia");
        let text = format!(
            "defaults: {{ coding_agent: scripted, model: one }}\n\
             agents:\n  - {{ name: builder, {builder} }}\n\
             workflows:\n  work:\n    description: two phases\n    steps:\n\
             \x20     - {{ name: build, agent: builder, output: generic }}\n\
             \x20     - {{ name: polish, agent: builder, output: generic }}\n\
             {}",
            more.replace("SCRIPTED", &format!("scripted: {{ program: \"{program}\", script: script.yaml }}"))
        );
        env.write_home("fia.config.yaml", &text);
        env.write_home("script.yaml", script);
        let config = env.home().join("fia.config.yaml");
        Self { env, config }
    }

    /// Runs to the end of the first stretch.
    pub(crate) async fn run(&mut self) -> Told {
        self.run_with(Box::new(|_, _| {})).await
    }

    /// The same, with something that happens on the way.
    pub(crate) async fn run_with(&mut self, hook: Hook) -> Told {
        pause(false);
        BEGAN.set(None);
        SLEPT.set(Duration::ZERO);
        self.stretch(hook, false).await
    }

    /// Resumes, with the configuration as it is now, and with time paused if the run was waiting.
    pub(crate) async fn resume(&mut self) -> Told {
        self.stretch(Box::new(|_, _| {}), true).await
    }

    /// Replaces a piece of the configuration.
    pub(crate) fn reconfigure(&self, old: &str, new: &str) {
        let text = std::fs::read_to_string(&self.config).expect("the configuration");
        assert!(text.contains(old), "{old} is not in {text}");
        std::fs::write(&self.config, text.replace(old, new)).expect("the configuration");
    }

    /// A file of the run directory.
    pub(crate) fn file(&self, path: &str) -> String {
        self.env.read(&format!(".fia/runs/{RUN}/{path}"))
    }

    async fn stretch(&mut self, hook: Hook, resumed: bool) -> Told {
        let (plan, stop) = self.planned();
        let records = Rc::new(RefCell::new(Vec::new()));
        let beginning = self.beginning(&records, hook);
        let begun = if resumed {
            let engines = plan.engines.clone();
            run::resume(
                beginning,
                &RunId::new(RUN),
                Resumption { stop, limits: Vec::new(), engines, unchanged: Unchanged::Refuse },
            )
        } else {
            run::start(beginning, plan, stop, Some(RunId::new(RUN)))
        };
        let begun = begun.unwrap_or_else(|error| panic!("{error:?}"));
        let outcome = begun.run.go().await.unwrap_or_else(|error| panic!("{error:?}"));
        drop(begun);
        let records = records.take();
        let Some(Event::RunEnd(end)) = records.last().map(|record| &record.event) else {
            panic!("no end: {records:?}")
        };
        assert_eq!(end.outcome, outcome);
        Told { outcome, reason: end.reason.clone(), records }
    }

    /// Why a run does not begin whose plan is spoilt.
    pub(crate) fn refused(&self, spoil: impl FnOnce(&mut Plan)) -> StartError {
        let (mut plan, stop) = self.planned();
        spoil(&mut plan);
        let beginning = self.beginning(&Rc::default(), Box::new(|_, _| {}));
        run::start(beginning, plan, stop, Some(RunId::new(RUN))).err().expect("it does not begin")
    }

    fn planned(&self) -> (Plan, Stop) {
        let top = self.env.work();
        let around = Surroundings { top: &top, engines: &[EngineName::Scripted] };
        let loaded = config::load(Some(&self.config), around).unwrap_or_else(|error| panic!("{error:?}"));
        let request = Request { workflow: "work", prompt: "do it", choices: &[] };
        build(&loaded.config, request).unwrap_or_else(|error| panic!("{error:?}"))
    }

    fn beginning(&self, records: &Rc<RefCell<Vec<Record>>>, hook: Hook) -> Beginning {
        let data = self.env.work().join(".fia");
        let (level, level_seen) = watch::channel(Level::Running);
        let (news, news_seen) = watch::channel(0);
        let outside = Outside { level: Rc::new(level), news: Rc::new(news), data: data.clone() };
        let teller = Teller { records: Rc::clone(records), hook, outside };
        let _began = now();
        Beginning {
            repository: Repository::discover(&self.env.work()).expect("a repository"),
            data: DataDir::new(data),
            bells: Bells { level: level_seen, news: news_seen, audience: Audience::Nobody },
            watchers: vec![Box::new(teller)],
            now,
        }
    }
}

impl Told {
    /// What SPEC 10 is about, one short line a record.
    pub(crate) fn story(&self) -> Vec<String> {
        self.records.iter().filter_map(line).collect()
    }

    /// The payloads of one kind of record.
    pub(crate) fn of<'a, T>(&'a self, pick: impl Fn(&'a Event) -> Option<T> + 'a) -> Vec<T> {
        self.records.iter().filter_map(|record| pick(&record.event)).collect()
    }
}

fn line(record: &Record) -> Option<String> {
    Some(match &record.event {
        Event::PhaseStart(start) => format!("{} starts", start.step),
        Event::PhaseEnd(end) => format!("{} ends: {:?}", end.step, end.status),
        Event::AgentStart(start) => format!("leg {} on {} {:?}", start.leg, start.model, start.lease),
        Event::AgentEnd(end) => format!("turn {:?}", end.ended),
        Event::EngineError(error) => format!("{} died: {}, {}", error.model, error.kind.as_str(), error.count),
        Event::EngineRetry(retry) => format!("retry as leg {}", retry.leg),
        Event::EngineFallback(looked) => format!("{} {} is ready: {}", looked.engine, looked.model, looked.ready),
        Event::EngineRelay(relay) => format!("relay from {} to {}", relay.from_model, relay.to_model),
        Event::EngineContinuation(continuation) => format!("continuation in leg {}", continuation.leg),
        Event::SessionRotation(rotation) => format!("rotation: {:?}", rotation.reason),
        Event::SessionRetired(retired) => format!("retired: {:?}", retired.reason),
        Event::Waiting(waiting) => {
            let until = waiting.until.map(|until| until.format("%H:%M").to_string()).unwrap_or_default();
            format!("wait {} until {until}", waiting.count)
        }
        Event::BudgetWarning(warning) => format!("{} % of {}", warning.percent, warning.limit),
        Event::ApiKeyBilling(billing) => format!("{} bills by {}", billing.engine, billing.variable),
        Event::UsageUnknown(unknown) => format!("unknown: {:?}", unknown.what),
        Event::RunEnd(end) => end.outcome.as_str().to_owned(),
        _ => return None,
    })
}
