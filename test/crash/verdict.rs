//! What must hold after a run was killed and gone on with, whenever it was killed.

use std::collections::BTreeMap;
use std::fs;

use fia::event::{Event, PhaseStatus, Record, Work};
use fia::host::{Mark, Presence};
use fia::ids::{PhaseName, RunId};
use fia::store::{Entry, LogReader, RunDir, Tail, holder};

use crate::scene::Scene;

/// Everything that must hold of a run that reached its goal; `before` is what its log held at an earlier moment.
pub(crate) fn holds(scene: &Scene, run: &str, before: &[u8]) -> Result<(), String> {
    let after = scene.log(run);
    if !after.starts_with(before) {
        return Err("bytes of the log changed".to_owned());
    }
    let dir = RunDir::new(RunId::new(run), scene.run_dir(run));
    let records = records(&dir);
    let numbers: Vec<u64> = records.iter().map(|record| record.seq.0).collect();
    if numbers != (1..=records.len() as u64).collect::<Vec<_>>() {
        return Err(format!("numbers with gaps or repeats: {numbers:?}"));
    }
    ran_once(&records)?;
    archives_are_named(&dir, &records)?;
    processes_are_gone(&records)?;
    projections_fit(&dir, &records)?;
    tree_is_right(scene, &records)?;
    match holder(&scene.work().join(".fia/lock")) {
        Ok(None) => Ok(()),
        other => Err(format!("the lock is not free: {other:?}")),
    }
}

/// Every record of a log; what is damaged is left out.
pub(crate) fn records(dir: &RunDir) -> Vec<Record> {
    let mut reader = LogReader::open(&dir.events(), Tail::Final).expect("a log");
    let mut records = Vec::new();
    while let Some(entry) = reader.next().expect("a file that can be read") {
        if let Entry::Record { line, .. } = entry {
            records.push(line.decode().expect("a record of this fia"));
        }
    }
    records
}

/// No agent phase or commit that succeeded began again.
fn ran_once(records: &[Record]) -> Result<(), String> {
    let mut done: BTreeMap<&PhaseName, bool> = BTreeMap::new();
    for record in records {
        let Some(phase) = &record.phase else { continue };
        if let Event::PhaseStart(start) = &record.event {
            let replayed = matches!(start.order.work, Work::Agent { .. } | Work::Commit);
            if replayed && done.insert(phase, false) == Some(true) {
                return Err(format!("{phase} ran again after its end was written down"));
            }
        } else if let Event::PhaseEnd(ended) = &record.event
            && let Some(known) = done.get_mut(phase)
        {
            *known = ended.status == PhaseStatus::Success;
        }
    }
    let names: Vec<&str> =
        done.keys().map(|phase| phase.as_str().split_once('_').map_or(phase.as_str(), |(_, name)| name)).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    if sorted == ["build", "fix_1", "plan", "review", "save"] { Ok(()) } else { Err(format!("phases: {names:?}")) }
}

fn committed(event: &Event) -> Option<&str> {
    if let Event::Committed(committed) = event { committed.commit.as_deref() } else { None }
}

/// Every rotation names the file that its session was moved to.
fn archives_are_named(dir: &RunDir, records: &[Record]) -> Result<(), String> {
    for record in records {
        let Event::SessionRotation(rotation) = &record.event else { continue };
        if rotation.archived.len() != 1 || !dir.path().join(&rotation.archived[0]).is_file() {
            return Err(format!("a rotation names {:?}", rotation.archived));
        }
    }
    Ok(())
}

fn processes_are_gone(records: &[Record]) -> Result<(), String> {
    for record in records {
        let mark = if let Event::AgentStart(start) = &record.event {
            Mark {
                host: start.host.clone(),
                boot_id: start.boot_id.clone(),
                pid: start.pid,
                process_started: start.process_started,
            }
        } else if let Event::CheckStart(start) = &record.event {
            start.mark.clone()
        } else {
            continue;
        };
        if mark.group_presence().expect("a machine that knows its boot") != Presence::Gone {
            return Err(format!("process {} of {} still runs", mark.pid, record.event.name()));
        }
    }
    Ok(())
}

/// The agent map and the run file are those of the log.
fn projections_fit(dir: &RunDir, records: &[Record]) -> Result<(), String> {
    let state = fia::run::fold(dir).map_err(|error| error.to_string())?;
    let json = |path| fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
    if json(dir.agent_map()) != serde_json::to_value(&state.agents).ok() {
        return Err("the agent map is not the replayed one".to_owned());
    }
    let mut projection = fia::view::projection::Projection::default();
    for record in records {
        projection.push(record);
    }
    if json(dir.run_file()) != serde_json::to_value(&projection).ok() {
        return Err("the run file is not the replayed one".to_owned());
    }
    Ok(())
}

/// The work is there, committed once as the log says, and nothing else is.
fn tree_is_right(scene: &Scene, records: &[Record]) -> Result<(), String> {
    let commits: Vec<_> = records.iter().filter_map(|record| committed(&record.event)).collect();
    if commits != [scene.git(&["rev-parse", "HEAD"]).trim()] {
        return Err(format!("commits in the log: {commits:?}"));
    }
    let shown = |path: &str| scene.git(&["show", &format!("HEAD:{path}")]);
    let found =
        [shown("greet.sh"), shown("PLAN.md"), scene.git(&["log", "--format=%s"]), scene.git(&["status", "--short"])];
    let right = ["fixed\n", "capitals\n", "greet: in capitals\nstart\n", ""];
    if found == right { Ok(()) } else { Err(format!("the repository holds {found:?}")) }
}
