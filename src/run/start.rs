//! The beginning of a stretch: lock, directory, log, and the first record.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use indexmap::IndexMap;

use super::block::Heard;
use super::guard::Guard;
use super::ledger::Ledger;
use super::recovery::{self, Unchanged};
use super::refused::StartError;
use super::resident::Residents;
use super::sessions::Sessions;
use super::site::{self, Site};
use super::stop::StopFiles;
use super::told::{Told, plan_of, read};
use super::{Bells, Run, RunError, Watch, interrupted, orphan};
use crate::envelope::Schema;
use crate::event::{Event, FORMAT, RunStart};
use crate::host::zone::Zone;
use crate::host::{self, Mark};
use crate::ids::{EngineName, RunId};
use crate::mask::Mask;
use crate::plan::{Action, EngineSettings, Plan, PlannedStep, Stop};
use crate::store::{DataDir, Holder, Journal, Lock, RunDir, create_dir};
use crate::tree::{Repository, Tree, Worktree};

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

/// Begins a new run in a work tree of its own, made from the commit that is checked out.
///
/// # Errors
///
/// When git refuses, and as [`start`]; what was made is removed then.
pub fn start_apart(
    mut beginning: Beginning,
    plan: Plan,
    stop: Stop,
    wanted: Option<RunId>,
) -> Result<Begun, StartError> {
    let run = match wanted {
        Some(run) => run,
        None => new_id((beginning.now)())?,
    };
    beginning.data.create()?;
    let from = beginning.repository.clone();
    let worktree = Worktree::of(&from, beginning.data.path(), &run)?;
    let turn = beginning.data.turn_to_add_a_worktree()?;
    beginning.repository = worktree.create(&from)?;
    drop(turn);
    start(beginning, plan, stop, Some(run)).inspect_err(|_| {
        // The first error is the one to tell.
        let _stays = worktree.discard(&from);
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

fn new_id(now: DateTime<Utc>) -> Result<RunId, StartError> {
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
            tell_what_is_put_back(&dir, &mut ledger, &mut tree, *engine_worked, now())?;
            interrupted::Git::PutBack { engine_worked: *engine_worked }
        }
        Stretch::First | Stretch::None => interrupted::Git::Leave,
    };
    let unrecorded = interrupted::settle(&dir, &plan, ledger.state(), &mut tree, git)?;
    let head = tree.head()?;
    let begun = RunStart {
        base: head.commit().map(str::to_owned),
        branch: head.branch().map(|branch| branch.trim_start_matches("refs/heads/").to_owned()),
        worktree: Site::of(&repository, &data, &run).own,
        linked: repository.linked_name().map(str::to_owned),
        ..run_start(&plan, &stop, stretch, ledger.state().origin.is_none())
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

/// Writes down what of git's state is going to be put back: if fia died then, nothing would tell of it any more.
fn tell_what_is_put_back(
    dir: &RunDir,
    ledger: &mut Ledger,
    tree: &mut Tree,
    engine_worked: bool,
    now: DateTime<Utc>,
) -> Result<(), StartError> {
    if let Some(change) = interrupted::at_stake(dir, ledger.state(), tree, engine_worked)? {
        ledger.record(now, None, Event::ExternalChange(change))?;
        ledger.sync()?;
    }
    Ok(())
}

/// The first record of a stretch, but for where it begins.
fn run_start(plan: &Plan, stop: &Stop, stretch: &Stretch, first: bool) -> RunStart {
    let frozen = || serde_json::to_value(plan).expect("a plan is plain data");
    RunStart {
        workflow: plan.workflow.clone(),
        format: FORMAT,
        fia_version: env!("CARGO_PKG_VERSION").to_owned(),
        prompt: plan.prompt.clone(),
        plan_digest: plan.digest(),
        plan: first.then(frozen),
        stop: serde_json::to_value(stop).expect("limits are plain data"),
        limits: match stretch {
            Stretch::Resumed { limits, .. } => limits.clone(),
            Stretch::First | Stretch::None => Vec::new(),
        },
        resumed: !first,
        base: None,
        branch: None,
        worktree: false,
        linked: None,
        host: host::host_name(),
    }
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
