//! Engines that outlived fia: found by the log of the run that was killed, ended by whoever holds the lock next.
//!
//! A turn is recorded before its prompt leaves, so whatever was told anything is found here. A process of another
//! machine is named and left alone: its number means a stranger on this one.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::event::{AgentStart, Event};
use crate::host::{Mark, Presence};
use crate::ids::{AgentName, PhaseName};
use crate::store::{Entry, LogReader, RunDir, StoreError, Tail};

/// How long a killed process may take to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// An engine process that a killed fia left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// The agent that it worked for.
    pub agent: AgentName,
    /// The process, leader of its group.
    pub mark: Mark,
    /// Running, or on another machine, which alone can know.
    pub presence: Presence,
}

/// Finds the engines of a run that may still run. Only for a run that no fia is at.
///
/// # Errors
///
/// When its log cannot be read, or the machine does not say which boot it is in.
pub fn orphans(dir: &RunDir) -> Result<Vec<Orphan>, StoreError> {
    let look = |mark: &Mark, turn| match turn {
        TurnIs::Open => mark.group_presence(),
        TurnIs::Over => mark.presence(),
    };
    visit(dir, look)
}

/// Ends the engines of a run that still run here. Only under the lock of its work tree.
///
/// # Errors
///
/// When its log cannot be read, or the system refuses the signal.
pub fn end_orphans(dir: &RunDir) -> Result<Vec<Orphan>, StoreError> {
    let end = |mark: &Mark, turn| match turn {
        TurnIs::Open => kill(mark),
        // Its group was ended with the turn, so without its leader the number may be another's by now.
        TurnIs::Over => match mark.presence()? {
            Presence::Running => kill(mark),
            other @ (Presence::Gone | Presence::Elsewhere) => Ok(other),
        },
    };
    visit(dir, end)
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

/// Whether the log has the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnIs {
    Open,
    Over,
}

fn visit(dir: &RunDir, treat: impl Fn(&Mark, TurnIs) -> std::io::Result<Presence>) -> Result<Vec<Orphan>, StoreError> {
    let mut found = Vec::new();
    for (start, turn) in turns(dir)? {
        let mark =
            Mark { host: start.host, boot_id: start.boot_id, pid: start.pid, process_started: start.process_started };
        let presence = treat(&mark, turn).map_err(|source| StoreError::Io {
            action: "look for engines of",
            path: dir.path().to_owned(),
            source,
        })?;
        // A process elsewhere is worth a word only while its turn is open.
        if presence == Presence::Running || (presence == Presence::Elsewhere && turn == TurnIs::Open) {
            found.push(Orphan { agent: start.agent, mark, presence });
        }
    }
    Ok(found)
}

type TurnKey = (Option<PhaseName>, AgentName, u32, u32);

/// Every process that the log names, the last turn of each.
fn turns(dir: &RunDir) -> Result<Vec<(AgentStart, TurnIs)>, StoreError> {
    let reader = match LogReader::open(&dir.events(), Tail::Final) {
        Ok(reader) => reader,
        Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut open: BTreeMap<TurnKey, AgentStart> = BTreeMap::new();
    let mut over: BTreeMap<(u32, u64), AgentStart> = BTreeMap::new();
    let mut log = reader.sift(b"\"agent_");
    while let Some(entry) = log.next()? {
        let Entry::Record { line, .. } = entry else { continue };
        let Ok(record) = line.decode() else { continue };
        if let Event::AgentStart(start) = record.event {
            open.insert((record.phase, start.agent.clone(), start.leg, start.turn), start);
        } else if let Event::AgentEnd(end) = record.event
            && let Some(start) = open.remove(&(record.phase, end.agent, end.leg, end.turn))
        {
            over.insert((start.pid, start.process_started), start);
        }
    }
    let open: Vec<_> = open.into_values().map(|start| (start, TurnIs::Open)).collect();
    let over = over.into_values().filter(|start| {
        open.iter().all(|(other, _)| (other.pid, other.process_started) != (start.pid, start.process_started))
    });
    let over: Vec<_> = over.map(|start| (start, TurnIs::Over)).collect();
    Ok(open.into_iter().chain(over).collect())
}
