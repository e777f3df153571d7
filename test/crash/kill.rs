//! fia killed by SIGKILL at boundaries and at random moments.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::time::Duration;

use rustix::process::Signal;

use crate::scene::{RUNS, Scene, alone, end, two_at_a_time};
use crate::verdict::{holds, recover};

/// Both cores of a small machine are done in two minutes; what is not reached by then is said.
const LIMIT: Duration = Duration::from_secs(105);

/// Kills at random moments.
const RANDOM: u32 = 50;

/// One kill.
#[derive(Debug, Clone)]
enum Kill {
    /// At the boundary of this number, which is of this kind.
    Boundary(usize, String),
    /// After this long.
    Moment(Duration),
}

impl Kill {
    fn kind(&self) -> &str {
        match self {
            Self::Boundary(_, kind) => kind,
            Self::Moment(_) => "random moment",
        }
    }

    /// Starts a run and kills it; then it must come to its goal. Returns whether it was killed at all.
    fn carry_out(&self) -> (Self, Result<bool, String>) {
        let scene = Scene::new();
        let killed = match self {
            Self::Boundary(number, _) => {
                let mut command = scene.start(RUNS[0]);
                command.env("FIA_FAULT_AT", number.to_string());
                end(command).signal == Some(Signal::KILL.as_raw())
            }
            Self::Moment(after) => {
                let mut child = scene.start(RUNS[0]).spawn().expect("fia starts");
                std::thread::sleep(*after);
                let alive = child.try_wait().expect("a child of ours").is_none();
                drop(child.kill());
                child.wait().expect("a child of ours");
                alive
            }
        };
        let came = if killed { recover(&scene) } else { holds(&scene, RUNS[0], b"") };
        (self.clone(), came.map(|()| killed))
    }
}

#[test]
fn r5_3_a_run_that_was_killed_at_any_moment_comes_to_its_goal_and_loses_nothing() {
    let _others_wait = alone();
    let (boundaries, took) = baseline();
    let kinds: Vec<&str> = boundaries.lines().collect();
    let mut jobs: Vec<Kill> =
        kinds.iter().enumerate().map(|(at, kind)| Kill::Boundary(at + 1, (*kind).to_owned())).collect();
    let moments = (0..RANDOM).map(|number| {
        let mut random = [0];
        getrandom::fill(&mut random).expect("random bytes");
        // Spread over the whole run, each somewhere in its share of it.
        Kill::Moment(took * (number * 256 + u32::from(random[0])) / (RANDOM * 256))
    });
    jobs.extend(moments);
    let tried = jobs.len();
    let results = two_at_a_time(evenly(jobs), LIMIT, |kill| kill.carry_out());
    let mut table: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut wrong = String::new();
    for (kill, result) in &results {
        let (survived, killed) = table.entry(kill.kind()).or_default();
        match result {
            Ok(true) => (*survived, *killed) = (*survived + 1, *killed + 1),
            Ok(false) => {}
            Err(reason) => {
                *killed += 1;
                wrong += &format!("{kill:?}: {reason}\n");
            }
        }
    }
    let mut told = String::new();
    for (kind, (survived, killed)) in &table {
        let of =
            if *kind == "random moment" { RANDOM as usize } else { kinds.iter().filter(|one| *one == kind).count() };
        told += &format!("{kind:<16} {survived:>3} survived of {killed:>3} killed, {of:>3} there are\n");
    }
    let _gone = writeln!(std::io::stderr(), "{told}{} of {tried} cases in the time there is", results.len());
    assert!(wrong.is_empty(), "{wrong}");
    assert!(table.len() == 7, "no kill of some kind: {told}");
}

/// A run that nobody kills: its boundaries in order, and how long it takes.
fn baseline() -> (String, Duration) {
    let scene = Scene::new();
    let count = scene.work().with_file_name("boundaries");
    let mut command = scene.start(RUNS[0]);
    command.env("FIA_FAULT_COUNT", &count);
    let ended = end(command);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    holds(&scene, RUNS[0], b"").expect("a run that nobody kills is right");
    (fs::read_to_string(count).expect("the boundaries"), ended.took)
}

/// Orders jobs so that any first part of them is spread evenly over all: by steps of the golden ratio.
fn evenly<T>(jobs: Vec<T>) -> Vec<T> {
    let count = jobs.len();
    let step =
        (count * 618 / 1000..=count + 1).find(|step| coprime(*step, count)).expect("a number and the next are coprime");
    let mut jobs: Vec<Option<T>> = jobs.into_iter().map(Some).collect();
    (0..count).filter_map(|at| jobs[at * step % count].take()).collect()
}

fn coprime(one: usize, other: usize) -> bool {
    if other == 0 { one == 1 } else { coprime(other, one % other) }
}
