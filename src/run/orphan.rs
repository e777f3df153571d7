//! Engines and checks that outlived fia: found by the log of the run that was killed, ended by whoever holds the lock
//! next.
//!
//! A turn is recorded before its prompt leaves, and a check before its command begins, so whatever was told anything
//! is found here. What they started in sessions of their own carries the run in its environment ([`OWNER`]). A
//! process of another machine is named and left alone: its number means a stranger on this one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use super::Run;
use crate::event::{Event, Record};
use crate::host::{self, Mark, Presence};
use crate::ids::{AgentName, CheckName, PhaseName};
use crate::process::OWNER;
use crate::store::{Entry, LogReader, RunDir, StoreError, Tail};

/// How long a killed process may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// A process that a killed fia left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// What it is.
    pub worker: Worker,
    /// The process, leader of its group.
    pub mark: Mark,
    /// Running, or on another machine, which alone can know.
    pub presence: Presence,
}

/// What a process does for a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worker {
    /// It is the engine of an agent.
    Engine(AgentName),
    /// It is a check.
    Check(CheckName),
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(agent) => write!(f, "engine of {agent}"),
            Self::Check(check) => write!(f, "check {check}"),
        }
    }
}

/// Finds the processes of a run that may still run. Only for a run that no fia is at.
///
/// # Errors
///
/// When its log cannot be read, or the machine does not say which boot it is in.
pub fn orphans(dir: &RunDir) -> Result<Vec<Orphan>, StoreError> {
    let look = |mark: &Mark, work| match work {
        WorkIs::Open => mark.group_presence(),
        WorkIs::Over => mark.presence(),
    };
    visit(dir, &Started::read(dir)?, look)
}

/// Ends the processes of a run that still run here. Only under the lock of its work tree.
///
/// # Errors
///
/// When its log cannot be read, or the system refuses the signal.
pub fn end_orphans(dir: &RunDir) -> Result<Vec<Orphan>, StoreError> {
    let end = |mark: &Mark, work| match work {
        WorkIs::Open => kill(mark),
        // Its group was ended with the turn, so without its leader the number may be another's by now.
        WorkIs::Over => match mark.presence()? {
            Presence::Running => kill(mark),
            other @ (Presence::Gone | Presence::Elsewhere) => Ok(other),
        },
    };
    let started = Started::read(dir)?;
    let found = visit(dir, &started, end)?;
    // What an agent left running on purpose in a stretch that came to its end stays.
    if !started.last.is_empty() {
        let mine = owner(dir);
        host::kill_owned(OWNER, |value| value.starts_with(mine.as_bytes()), KILL_PATIENCE);
    }
    Ok(found)
}

/// What the values of [`OWNER`] of all children of a run begin with.
fn owner(dir: &RunDir) -> OsString {
    let mut owner = dir.path().as_os_str().to_owned();
    owner.push("#");
    owner
}

impl Run {
    /// The value of [`OWNER`] for another child.
    pub(super) fn new_owner(&self) -> OsString {
        self.children.set(self.children.get() + 1);
        let mut owner = owner(&self.place.dir);
        owner.push(self.children.get().to_string());
        owner
    }
}

/// Kills a group and waits until nothing of it runs, so that it writes nothing more behind our back.
fn kill(mark: &Mark) -> std::io::Result<Presence> {
    let found = mark.kill_group()?;
    let patience = Instant::now() + KILL_PATIENCE;
    while found == Presence::Running && mark.group_presence()? == Presence::Running && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(found)
}

/// Whether the log has the end of a turn or a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkIs {
    Open,
    Over,
}

fn visit(
    dir: &RunDir,
    started: &Started,
    treat: impl Fn(&Mark, WorkIs) -> std::io::Result<Presence>,
) -> Result<Vec<Orphan>, StoreError> {
    let mut found = Vec::new();
    for (worker, mark, work) in started.all() {
        let presence = treat(mark, work).map_err(|source| StoreError::Io {
            action: "look for engines and checks of",
            path: dir.path().to_owned(),
            source,
        })?;
        // A process elsewhere is worth a word only while its work is open.
        if presence == Presence::Running || (presence == Presence::Elsewhere && work == WorkIs::Open) {
            found.push(Orphan { worker: worker.clone(), mark: mark.clone(), presence });
        }
    }
    Ok(found)
}

/// The phase, the worker, and leg and turn of an engine.
type Place = (Option<PhaseName>, Worker, (u32, u32));

/// Every process that a log names.
#[derive(Default)]
struct Started {
    open: BTreeMap<Place, Mark>,
    /// The last turn of each.
    over: BTreeMap<(u32, u64), (Worker, Mark)>,
    /// What was begun in the last stretch and did not end.
    last: Vec<Place>,
}

impl Started {
    fn read(dir: &RunDir) -> Result<Self, StoreError> {
        let mut started = Self::default();
        let reader = match LogReader::open(&dir.events(), Tail::Final) {
            Ok(reader) => reader,
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(started),
            Err(error) => return Err(error),
        };
        let mut log = reader.sift(&[b"\"agent_", b"\"check", b"\"run_start\""]);
        while let Some(entry) = log.next()? {
            let Entry::Record { line, .. } = entry else { continue };
            if let Ok(record) = line.decode() {
                started.take(record);
            }
        }
        Ok(started)
    }

    fn take(&mut self, record: Record) {
        let phase = record.phase;
        if let Event::RunStart(_) = record.event {
            self.last.clear();
        } else if let Event::AgentStart(start) = record.event {
            let place = (phase, Worker::Engine(start.agent), (start.leg, start.turn));
            let mark = Mark {
                host: start.host,
                boot_id: start.boot_id,
                pid: start.pid,
                process_started: start.process_started,
            };
            self.begun(place, mark);
        } else if let Event::CheckStart(start) = record.event {
            self.begun((phase, Worker::Check(start.check), (0, 0)), start.mark);
        } else if let Event::AgentEnd(end) = record.event {
            let place = (phase, Worker::Engine(end.agent), (end.leg, end.turn));
            if let Some(mark) = self.ended(&place) {
                self.over.insert((mark.pid, mark.process_started), (place.1, mark));
            }
        } else if let Event::Check(run) = record.event {
            // A check outlives nothing: its group was ended with it.
            self.ended(&(phase, Worker::Check(run.check), (0, 0)));
        }
    }

    fn begun(&mut self, place: Place, mark: Mark) {
        self.last.push(place.clone());
        self.open.insert(place, mark);
    }

    fn ended(&mut self, place: &Place) -> Option<Mark> {
        self.last.retain(|begun| begun != place);
        self.open.remove(place)
    }

    fn all(&self) -> impl Iterator<Item = (&Worker, &Mark, WorkIs)> {
        let open = self.open.iter().map(|((_, worker, _), mark)| (worker, mark, WorkIs::Open));
        let over = self
            .over
            .iter()
            .filter(|(process, _)| self.open.values().all(|mark| (mark.pid, mark.process_started) != **process));
        open.chain(over.map(|(_, (worker, mark))| (worker, mark, WorkIs::Over)))
    }
}
