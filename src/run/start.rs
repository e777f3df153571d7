//! The beginning of a stretch: lock, directory, log, and the first record.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde_json::Value;

use super::block::Heard;
use super::guard::Guard;
use super::ledger::Ledger;
use super::recovery::{self, Refusal, Unchanged};
use super::resident::Residents;
use super::sessions::Sessions;
use super::site::{self, Site};
use super::stop::StopFiles;
use super::{Bells, Run, RunError, Watch, interrupted, orphan};
use crate::envelope::Schema;
use crate::event::{Event, FORMAT, RunStart};
use crate::host::zone::Zone;
use crate::host::{self, Mark};
use crate::ids::{EngineName, RunId};
use crate::mask::Mask;
use crate::plan::{Action, EngineSettings, Plan, PlannedStep, Stop};
use crate::state::{Impossible, RunState};
use crate::store::{
    DataDir, Entry, Holder, Journal, Lock, LockError, LogEnd, LogReader, RunDir, StoreError, Tail, create_dir,
};
use crate::tree::{Repository, TreeError};
use crate::view::projection::Projection;

/// Where a run happens.
#[derive(Debug, Clone)]
pub struct Place {
    /// The run.
    pub run: RunId,
    /// Top of the work tree.
    pub top: PathBuf,
    /// The data directory of the repository.
    pub data: DataDir,
    /// Its directory.
    pub dir: RunDir,
    /// The directory in which agents exchange files, as they can open it.
    pub handoff: String,
}

impl Place {
    fn new(run: RunId, top: PathBuf, data: DataDir, dir: RunDir) -> Self {
        let handoff = shown(&top, &dir.context_handoff());
        Self { run, top, data, dir, handoff }
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

/// Why a stretch did not begin. Nothing of a new run is left then.
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
    /// A run of this id is there.
    #[error("there is a run `{run}` already")]
    Taken {
        /// The id.
        run: RunId,
    },
    /// The log of the run to resume does not fit together.
    #[error("the log of run `{run}` cannot be followed")]
    Log {
        /// The run.
        run: RunId,
        /// What does not fit.
        #[source]
        source: Impossible,
    },
    /// The work tree of the run to resume is gone.
    #[error("the work tree of run `{run}` is gone: `{path}`")]
    WorktreeGone {
        /// The run.
        run: RunId,
        /// Where it was; git's name for it if that is not known.
        path: PathBuf,
    },
    /// The log of the run to resume has lost records that other files of the run speak of.
    #[error("the log of run `{run}` has lost records that were written to it")]
    Lost {
        /// The run.
        run: RunId,
    },
    /// The run may not be gone on with as things are.
    #[error("run `{run}` cannot be resumed: {refusal}")]
    Refused {
        /// The run.
        run: RunId,
        /// Its workflow.
        workflow: String,
        /// Why.
        refusal: Refusal,
    },
    /// The verdict that waits for the run cannot be read.
    #[error("the verdict on run `{run}` cannot be read")]
    Verdict {
        /// The run.
        run: RunId,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
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

/// A live run.
pub struct Begun {
    /// The run.
    pub run: Run,
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
    let lock = lock(&beginning.repository, &beginning.data, &run, (beginning.now)())?;
    let dir = beginning.data.create_run(&run)?.ok_or_else(|| StartError::Taken { run: run.clone() })?;
    let journal = Journal::create(&dir.events(), run).map_err(StartError::from);
    let begun = journal.and_then(|journal| {
        let logged = Logged { dir: dir.clone(), journal, told: Told::default() };
        begin(beginning, plan, stop, logged, lock, &Stretch::First)
    });
    begun.inspect_err(|_| {
        // The first error is the one to tell.
        let _stays = dir.discard();
    })
}

/// What a resume reads anew, and how it treats a tree that nobody touched.
#[derive(Debug, Clone)]
pub struct Resumption {
    /// The limits.
    pub stop: Stop,
    /// Those that were given for this stretch alone, as `KEY=VALUE`.
    pub limits: Vec<String>,
    /// Programs, arguments and variables of the engines.
    pub engines: IndexMap<EngineName, EngineSettings>,
    /// Whether unchanged work is judged again.
    pub unchanged: Unchanged,
}

/// Goes on with a run in a new stretch; the log says where it was. A request to stop it is over with that.
///
/// # Errors
///
/// When the work tree is in use, SPEC 10.6 refuses, the log cannot be followed, or anything cannot be read or
/// written.
pub fn resume(mut beginning: Beginning, run: &RunId, resumption: Resumption) -> Result<Begun, StartError> {
    beginning.repository = site::home(&beginning.repository, &beginning.data, run)?;
    let dir = beginning.data.run(run);
    let engine_worked = interrupted::engine_works(&dir)?;
    let lock = lock(&beginning.repository, &beginning.data, run, (beginning.now)())?;
    orphan::end_orphans(&dir)?;
    let (told, end) = read(&dir)?;
    let journal = Journal::resume(&dir.events(), run.clone(), &end)?;
    let mut plan = plan_of(run, &told.state)?;
    plan.engines = resumption.engines;
    let logged = Logged { dir, journal, told };
    let stretch = Stretch::Resumed { unchanged: resumption.unchanged, engine_worked, limits: resumption.limits };
    begin(beginning, plan, resumption.stop, logged, lock, &stretch)
}

/// What a question reads anew.
#[derive(Debug, Clone)]
pub struct Questioning {
    /// The limits.
    pub stop: Stop,
    /// Programs, arguments and variables of the engines.
    pub engines: IndexMap<EngineName, EngineSettings>,
}

/// Opens a run that is not live for a question to one of its agents; no stretch begins.
///
/// # Errors
///
/// When the work tree is in use, the log cannot be followed, or anything cannot be read or written.
pub fn question(beginning: Beginning, run: &RunId, questioning: Questioning) -> Result<Begun, StartError> {
    let lock = lock(&beginning.repository, &beginning.data, run, (beginning.now)())?;
    let dir = beginning.data.run(run);
    orphan::end_orphans(&dir)?;
    let (told, end) = read(&dir)?;
    let journal = Journal::resume(&dir.events(), run.clone(), &end)?;
    let mut plan = plan_of(run, &told.state)?;
    plan.engines = questioning.engines;
    begin(beginning, plan, questioning.stop, Logged { dir, journal, told }, lock, &Stretch::None)
}

/// Folds the log of a run.
///
/// # Errors
///
/// When it cannot be read or its records do not fit together.
pub fn fold(dir: &RunDir) -> Result<RunState, StartError> {
    read(dir).map(|(told, _)| told.state)
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
#[derive(Default)]
struct Told {
    state: RunState,
    projection: Projection,
}

fn read(dir: &RunDir) -> Result<(Told, LogEnd), StartError> {
    let mut reader = LogReader::open(&dir.events(), Tail::Final)?;
    let mut told = Told::default();
    let (mut gap, mut misfit) = (false, None);
    while let Some(entry) = reader.next()? {
        // What cannot be read is named by the reader's count of damage, and is not followed.
        let Entry::Record { line, .. } = entry else {
            gap = true;
            continue;
        };
        let Ok(record) = line.decode() else {
            gap = true;
            continue;
        };
        match told.state.apply(&record) {
            Ok(()) => told.projection.push(&record),
            // It hung on a record that is lost: what it says did not come to an end.
            Err(_) if gap => {}
            Err(source) => misfit = misfit.or(Some(source)),
        }
    }
    let end = reader.end()?;
    match misfit {
        // What a newer fia wrote need not fit what this one knows.
        Some(source) if end.format <= FORMAT => Err(StartError::Log { run: dir.run().clone(), source }),
        Some(_) | None => Ok((told, end)),
    }
}

/// What begins with a run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stretch {
    /// Its first stretch.
    First,
    /// Another one. Of one that was killed, an engine may have worked on until now.
    Resumed { unchanged: Unchanged, engine_worked: bool, limits: Vec<String> },
    /// None: an agent is asked something.
    None,
}

/// A run on disk, ready for more.
struct Logged {
    dir: RunDir,
    journal: Journal,
    told: Told,
}

pub(super) fn new_id(now: DateTime<Utc>) -> Result<RunId, StartError> {
    let mut random = [0_u8; 4];
    getrandom::fill(&mut random).map_err(|_| StartError::Random)?;
    Ok(RunId::at(now, u32::from_le_bytes(random)))
}

/// Takes the lock of a work tree for a run, and ends the engines that a killed holder left behind.
///
/// # Errors
///
/// When another process holds it, or anything cannot be read or written.
pub fn lock(repository: &Repository, data: &DataDir, run: &RunId, now: DateTime<Utc>) -> Result<Lock, StartError> {
    let mark = Mark::own().map_err(StartError::Identity)?;
    let holder = Holder { run: run.clone(), mark, since: now };
    let path = Site::of(repository, data, run).lock;
    create_dir(path.parent().unwrap_or(data.path()))?;
    let settle = |dead: &Holder| orphan::end_orphans(&data.run(&dead.run)).map(drop);
    Ok(Lock::take_after(&path, Some(&repository.git_dir), &holder, settle)?)
}

fn begin(
    beginning: Beginning,
    plan: Plan,
    stop: Stop,
    logged: Logged,
    lock: Lock,
    stretch: &Stretch,
) -> Result<Begun, StartError> {
    let Beginning { repository, data, bells, watchers, now } = beginning;
    let Logged { dir, journal, told: Told { state, projection } } = logged;
    let run = dir.run().clone();
    let sessions = Sessions::of(&data, lock.holder(), &state.agents)?;
    let mut ledger = Ledger::new(run.clone(), dir.clone(), journal, state, projection, watchers);
    let mut tree = site::open_tree(repository.clone(), &data, &dir, &plan)?;
    let verdict = match stretch {
        Stretch::Resumed { unchanged, .. } => recovery::admit(&dir, ledger.state(), &mut tree, *unchanged)?,
        Stretch::First | Stretch::None => None,
    };
    let git = match stretch {
        Stretch::Resumed { engine_worked, .. } => {
            // Of what is put back nothing would tell any more, if fia died before it said so.
            if let Some(change) = interrupted::at_stake(&dir, ledger.state(), &mut tree, *engine_worked)? {
                ledger.record(now(), None, Event::ExternalChange(change))?;
                ledger.sync()?;
            }
            interrupted::Git::PutBack { engine_worked: *engine_worked }
        }
        Stretch::First | Stretch::None => interrupted::Git::Leave,
    };
    let unrecorded = interrupted::settle(&dir, &plan, ledger.state(), &mut tree, git)?;
    let head = tree.head()?;
    let first = ledger.state().origin.is_none();
    let plan_json = serde_json::to_value(&plan).expect("a plan is plain data");
    let begun = RunStart {
        workflow: plan.workflow.clone(),
        format: FORMAT,
        fia_version: env!("CARGO_PKG_VERSION").to_owned(),
        prompt: plan.prompt.clone(),
        plan_digest: plan.digest(),
        plan: first.then_some(plan_json),
        stop: serde_json::to_value(&stop).expect("limits are plain data"),
        limits: match stretch {
            Stretch::Resumed { limits, .. } => limits.clone(),
            Stretch::First | Stretch::None => Vec::new(),
        },
        resumed: !first,
        base: head.commit().map(str::to_owned),
        branch: head.branch().map(|branch| branch.trim_start_matches("refs/heads/").to_owned()),
        worktree: Site::of(&repository, &data, &run).own,
        linked: repository.linked_name().map(str::to_owned),
        host: host::host_name(),
    };
    let schemas = schemas(&plan).map_err(RunError::from)?;
    let stop_files = StopFiles { run: dir.stop(), all: data.stop() };
    let mask = secrets(&plan);
    let place = Place::new(run, repository.top.clone(), data, dir.clone());
    // The rules of the first stretch are those of all.
    ledger.learn_as_it_is(dir.objects().join("ignore_rules.json"))?;
    ledger.learn_as_it_is(place.data.ignore_file())?;
    let run = Run {
        plan,
        stop,
        schemas,
        place,
        bells,
        ledger: RefCell::new(ledger),
        guard: Guard::new(tree),
        lock: RefCell::new(lock),
        sessions: RefCell::new(sessions),
        from_people: RefCell::default(),
        heard: Heard::default(),
        notes: RefCell::default(),
        earlier: OnceCell::new(),
        digests: RefCell::default(),
        pruning: RefCell::default(),
        residents: Residents::default(),
        stages: RefCell::default(),
        stop_files,
        children: Cell::new(0),
        mask,
        zone: Zone::local(),
        now,
        started: tokio::time::Instant::now(),
    };
    if *stretch == Stretch::None {
        run.remember_heard()?;
        return Ok(Begun { run });
    }
    if matches!(stretch, Stretch::Resumed { .. }) {
        dir.remove(Path::new("stop"))?;
        if let Some(verdict) = verdict {
            run.record(None, Event::Verdict(verdict))?;
            run.sync()?;
        }
        recovery::clear_verdict(&dir)?;
    }
    run.record(None, Event::RunStart(begun))?;
    run.record_unrecorded(unrecorded)?;
    run.sync()?;
    run.remember_heard()?;
    Ok(Begun { run })
}

/// The secrets that engines are given: by fia's own environment, and by the configuration.
fn secrets(plan: &Plan) -> Mask {
    let inherited =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let configured = plan.engines.values().flat_map(|engine| &engine.env);
    let configured = configured.filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
    Mask::of_variables(inherited.chain(configured))
}

/// The schemas of all envelope types that the plan asks for.
fn schemas(plan: &Plan) -> Result<BTreeMap<String, Schema>, crate::envelope::SchemaError> {
    let mut schemas = BTreeMap::new();
    let wanted: BTreeSet<&str> = plan.steps.iter().flat_map(outputs).collect();
    for output in wanted {
        let schema = match plan.schemas.get(output) {
            Some(source) => Some(Schema::compile(output, source.clone())?),
            None => Schema::built_in(output),
        };
        schemas.extend(schema.map(|schema| (output.to_owned(), schema)));
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
