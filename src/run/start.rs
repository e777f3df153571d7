//! The beginning of a stretch: lock, directory, log, and the first record.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::guard::Guard;
use super::ledger::Ledger;
use super::resident::Residents;
use super::{Bells, Run, RunError, Watch};
use crate::envelope::{Schema, built_in};
use crate::event::{Event, FORMAT, RunStart};
use crate::host::{self, Mark};
use crate::ids::RunId;
use crate::plan::{Action, Plan, PlannedStep, Stop};
use crate::state::{Impossible, RunState};
use crate::store::{DataDir, Entry, Holder, Journal, Lock, LockError, LogReader, RunDir, StoreError, Tail};
use crate::tree::{Repository, Tree, TreeError, TreeOptions};
use crate::view::projection::Projection;

/// Where a run happens.
#[derive(Debug, Clone)]
pub struct Place {
    /// The run.
    pub run: RunId,
    /// Top of the work tree.
    pub top: PathBuf,
    /// Its directory.
    pub dir: RunDir,
    /// The directory in which agents exchange files, as they can open it.
    pub handoff: String,
}

impl Place {
    fn new(run: RunId, top: PathBuf, dir: RunDir) -> Self {
        let handoff = shown(&top, &dir.context_handoff());
        Self { run, top, dir, handoff }
    }

    /// A file of the run directory as an agent in the work tree can open it.
    pub fn shown(&self, place: &str) -> String {
        shown(&self.top, &self.dir.path().join(place))
    }
}

/// A path relative to the work tree where it lies inside, else whole.
fn shown(top: &Path, path: &Path) -> String {
    path.strip_prefix(top).unwrap_or(path).display().to_string()
}

/// Why a stretch did not begin. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another run works in this work tree.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The log or another file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The work tree.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The log of the run to resume does not fit together.
    #[error("the log of run `{run}` cannot be followed")]
    Log {
        /// The run.
        run: RunId,
        /// What does not fit.
        #[source]
        source: Impossible,
    },
    /// The log of the run to resume has lost its plan.
    #[error("the log of run `{run}` holds no plan that can be read")]
    NoPlan {
        /// The run.
        run: RunId,
    },
    /// This machine does not say which boot it is in.
    #[error("cannot tell who this process is")]
    Identity(#[source] std::io::Error),
    /// No random number could be had.
    #[error("cannot make a run id")]
    Random,
    /// The first records could not be written.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// What both kinds of stretches begin with.
pub struct Beginning {
    /// The repository to work in.
    pub repository: Repository,
    /// Where the runs of the repository lie.
    pub data: DataDir,
    /// Signals and news.
    pub bells: Bells,
    /// Who is told of every record.
    pub watchers: Vec<Box<dyn Watch>>,
    /// The clock.
    pub now: fn() -> DateTime<Utc>,
}

/// A live run and the lock that it holds.
pub struct Begun {
    /// The run.
    pub run: Run,
    _lock: Lock,
}

/// Begins a new run.
///
/// # Errors
///
/// When the work tree is in use, or anything of it cannot be read or written.
pub fn start(beginning: Beginning, plan: Plan, stop: Stop, wanted: Option<RunId>) -> Result<Begun, StartError> {
    let run = match wanted {
        Some(run) => run,
        None => new_id((beginning.now)())?,
    };
    beginning.data.create()?;
    let lock = take_lock(&beginning, &run)?;
    let dir = beginning.data.create_run(&run)?.ok_or_else(|| StoreError::Io {
        action: "create a run in",
        path: beginning.data.run(&run).path().to_owned(),
        source: std::io::ErrorKind::AlreadyExists.into(),
    })?;
    let journal = Journal::create(&dir.events(), run.clone())?;
    let told = Told { state: RunState::default(), projection: Projection::default(), journal };
    begin(beginning, plan, stop, dir, told, lock)
}

/// Goes on with a run in a new stretch; the log says where it was.
///
/// # Errors
///
/// When the work tree is in use, the log cannot be followed, or anything cannot be read or written.
pub fn resume(beginning: Beginning, run: &RunId, stop: Stop) -> Result<Begun, StartError> {
    let lock = take_lock(&beginning, run)?;
    let dir = beginning.data.run(run);
    let told = replay(&dir)?;
    let plan = plan_of(run, &told.state)?;
    begin(beginning, plan, stop, dir, told, lock)
}

/// Folds the log of a run.
///
/// # Errors
///
/// When it cannot be read or its records do not fit together.
pub fn fold(dir: &RunDir) -> Result<RunState, StartError> {
    replay(dir).map(|told| told.state)
}

/// The plan of a run, as its first record has it.
///
/// # Errors
///
/// When the log has lost it.
pub fn plan_of(run: &RunId, state: &RunState) -> Result<Plan, StartError> {
    let plan = state.origin.as_ref().map_or(Value::Null, |origin| origin.plan.clone());
    serde_json::from_value(plan).map_err(|_| StartError::NoPlan { run: run.clone() })
}

/// A log that was read to its end.
struct Told {
    state: RunState,
    projection: Projection,
    journal: Journal,
}

fn replay(dir: &RunDir) -> Result<Told, StartError> {
    let mut reader = LogReader::open(&dir.events(), Tail::Final)?;
    let (mut state, mut projection) = (RunState::default(), Projection::default());
    while let Some(entry) = reader.next()? {
        let Entry::Record { line, .. } = entry else { continue };
        // A record that cannot be read is named by the reader's count of damage, and is not followed.
        let Ok(record) = line.decode() else { continue };
        state.apply(&record).map_err(|source| StartError::Log { run: dir.run().clone(), source })?;
        projection.push(&record);
    }
    let journal = Journal::resume(&dir.events(), dir.run().clone(), &reader.end()?)?;
    Ok(Told { state, projection, journal })
}

fn new_id(now: DateTime<Utc>) -> Result<RunId, StartError> {
    let mut random = [0_u8; 4];
    getrandom::fill(&mut random).map_err(|_| StartError::Random)?;
    Ok(RunId::at(now, u32::from_le_bytes(random)))
}

fn take_lock(beginning: &Beginning, run: &RunId) -> Result<Lock, StartError> {
    let mark = Mark::own().map_err(StartError::Identity)?;
    let holder = Holder { run: run.clone(), mark, since: (beginning.now)() };
    let path = if beginning.repository.top == beginning.data.worktree(run) {
        beginning.data.worktree_lock(run)
    } else {
        beginning.data.lock()
    };
    Ok(Lock::take(&path, &holder)?)
}

fn begin(
    beginning: Beginning,
    plan: Plan,
    stop: Stop,
    dir: RunDir,
    told: Told,
    lock: Lock,
) -> Result<Begun, StartError> {
    let Beginning { repository, data, bells, watchers, now } = beginning;
    let Told { state, projection, journal } = told;
    let run = dir.run().clone();
    let own_tree = repository.top == data.worktree(&run);
    let cache = if own_tree { data.worktree_stat_cache(&run) } else { data.stat_cache() };
    let head = repository.head()?;
    let tree = Tree::open(
        repository.clone(),
        &TreeOptions {
            run: &run,
            data_dir: data.path(),
            store: &dir.objects(),
            stat_cache: &cache,
            protected: &plan.protected_files,
            judge_files: &plan.judge_files,
        },
    )?;
    let first = state.origin.is_none();
    let plan_json = serde_json::to_value(&plan).expect("a plan is plain data");
    let begun = RunStart {
        workflow: plan.workflow.clone(),
        format: FORMAT,
        fia_version: env!("CARGO_PKG_VERSION").to_owned(),
        prompt: plan.prompt.clone(),
        plan_digest: plan.digest(),
        plan: first.then_some(plan_json),
        stop: serde_json::to_value(&stop).expect("limits are plain data"),
        resumed: !first,
        base: head.commit().map(str::to_owned),
        branch: head.branch().map(|branch| branch.trim_start_matches("refs/heads/").to_owned()),
        worktree: own_tree,
        host: host::host_name(),
    };
    let schemas = schemas(&plan).map_err(RunError::from)?;
    let place = Place::new(run.clone(), repository.top.clone(), dir.clone());
    let run = Run {
        plan,
        stop,
        schemas,
        place,
        bells,
        ledger: RefCell::new(Ledger::new(run, dir, journal, state, projection, watchers)),
        guard: Guard::new(tree),
        digests: RefCell::default(),
        residents: Residents::default(),
        now,
        started: tokio::time::Instant::now(),
    };
    run.record(None, Event::RunStart(begun))?;
    run.sync()?;
    run.remember_heard()?;
    Ok(Begun { run, _lock: lock })
}

/// The schemas of all envelope types that the plan asks for.
fn schemas(plan: &Plan) -> Result<BTreeMap<String, Schema>, crate::envelope::SchemaError> {
    let mut schemas = BTreeMap::new();
    for output in plan.steps.iter().flat_map(outputs) {
        if let Some(source) = plan.schemas.get(output).cloned().or_else(|| built_in(output)) {
            schemas.insert(output.to_owned(), Schema::compile(output, source)?);
        }
    }
    Ok(schemas)
}

fn outputs(step: &PlannedStep) -> Vec<&str> {
    match &step.action {
        Action::Agent(action) | Action::Repair { fix: action, .. } => vec![&action.output],
        Action::Parallel { steps } => steps.iter().flat_map(outputs).collect(),
        Action::Check { .. } | Action::Commit | Action::Approve { .. } => Vec::new(),
    }
}
