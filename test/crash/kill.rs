//! fia killed by SIGKILL at boundaries and at random moments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::scene::{RUNS, Scene, alone, end, two_at_a_time};
use crate::verdict::holds;

/// Both cores of a small machine are done in two minutes; what is not reached by then is said.
const LIMIT: Duration = Duration::from_secs(105);

/// Kills at random moments.
const RANDOM: u32 = 50;

/// Boundaries of a resume, from its beginning on, at which it is killed in its turn; a resume of a run that was
/// killed early has more.
const OF_A_RESUME: u32 = 40;

/// Boundaries of a kind that are few.
const FEW: usize = 10;

/// One kill.
#[derive(Debug, Clone)]
enum Kill {
    /// At the boundary of this number, which is of this kind.
    Boundary(usize, String),
    /// After this long.
    Moment(Duration),
}

/// One case: a kill, and for some another one, of what goes on after it, at the boundary of this number.
#[derive(Debug, Clone)]
struct Case {
    kill: Kill,
    again: Option<u32>,
}

/// What came of a case.
#[derive(Debug)]
struct Came {
    killed: bool,
    killed_again: bool,
}

impl Kill {
    fn kind(&self) -> &str {
        match self {
            Self::Boundary(_, kind) => kind,
            Self::Moment(_) => "random moment",
        }
    }

    /// Starts a run and kills it; says whether it was killed before it ended.
    fn carry_out(&self, scene: &Scene) -> bool {
        match self {
            Self::Boundary(number, _) => killed_at(scene.start(RUNS[0]), *number),
            Self::Moment(after) => {
                let mut child = scene.start(RUNS[0]).spawn().expect("fia starts");
                std::thread::sleep(*after);
                let alive = child.try_wait().expect("a child of ours").is_none();
                drop(child.kill());
                child.wait().expect("a child of ours");
                alive
            }
        }
    }
}

impl Case {
    /// Kills a run, and what goes on with it too where that is asked for; then it must come to its goal.
    fn carry_out(self) -> (Self, Result<Came, String>) {
        let scene = Scene::new();
        let killed = self.kill.carry_out(&scene);
        let before = scene.log(RUNS[0]);
        let killed_again =
            self.again.filter(|_| killed).is_some_and(|number| killed_at(going_on(&scene), number as usize));
        let came = match killed {
            true if scene.log(RUNS[0]).starts_with(&before) => recover(&scene),
            true => Err("bytes of the log changed".to_owned()),
            false => holds(&scene, RUNS[0], b""),
        };
        (self, came.map(|()| Came { killed, killed_again }))
    }
}

/// Lets a command die at a boundary; whether it came to that.
fn killed_at(mut command: Command, boundary: usize) -> bool {
    command.env("FIA_FAULT_AT", boundary.to_string());
    end(command).signal == Some(Signal::KILL.as_raw())
}

/// The command that goes on with a run that was killed: a resume, or the start of another one where nothing of the
/// first was written down.
fn going_on(scene: &Scene) -> Command {
    if has_begun(scene, RUNS[0]) {
        scene.fia(&["resume", RUNS[0]])
    } else if has_begun(scene, RUNS[1]) {
        scene.fia(&["resume", RUNS[1]])
    } else {
        scene.start(RUNS.into_iter().find(|run| !scene.run_dir(run).exists()).unwrap_or(RUNS[2]))
    }
}

fn has_begun(scene: &Scene, run: &str) -> bool {
    scene.log(run).contains(&b'\n')
}

/// Goes on until the run ends well. Returns what is wrong.
fn recover(scene: &Scene) -> Result<(), String> {
    let before = RUNS.map(|run| scene.log(run));
    let went_on = end(going_on(scene));
    if went_on.code != Some(0) {
        return Err(format!("going on ended with {:?}:\n{}", went_on.code, went_on.stderr));
    }
    let run = RUNS.into_iter().position(|run| has_begun(scene, run)).ok_or("no run")?;
    holds(scene, RUNS[run], if before[run].contains(&b'\n') { &before[run] } else { b"" })
}

#[test]
fn r5_3_a_run_that_was_killed_at_any_moment_comes_to_its_goal_and_loses_nothing() {
    let _others_wait = alone();
    let (boundaries, took) = baseline();
    let kinds: Vec<&str> = boundaries.lines().collect();
    let mut kills: Vec<Kill> =
        kinds.iter().enumerate().map(|(at, kind)| Kill::Boundary(at + 1, (*kind).to_owned())).collect();
    let moments = (0..RANDOM).map(|number| {
        let mut random = [0];
        getrandom::fill(&mut random).expect("random bytes");
        // Spread over the whole run, each somewhere in its share of it.
        Kill::Moment(took * (number * 256 + u32::from(random[0])) / (RANDOM * 256))
    });
    kills.extend(moments);
    let tried = kills.len();
    // Every second one is killed again, at another boundary each.
    let mut kills = evenly(kills);
    // Kinds of which there are few come first, so that none is left out for want of time.
    let many = |kill: &Kill| !(1..=FEW).contains(&kinds.iter().filter(|kind| **kind == kill.kind()).count());
    kills.sort_by_key(many);
    let cases = kills.into_iter().zip(0_u32..).map(|(kill, number)| {
        let again = number.is_multiple_of(2).then(|| number / 2 * 7 % OF_A_RESUME + 1);
        Case { kill, again }
    });
    // However slow the machine is, one of every kind is carried out.
    let mut begun = BTreeSet::new();
    let (first, rest): (Vec<Case>, Vec<Case>) = cases.partition(|case| begun.insert(case.kill.kind().to_owned()));
    let mut results = two_at_a_time(first, Duration::MAX, Case::carry_out);
    results.extend(two_at_a_time(rest, LIMIT, Case::carry_out));
    let mut table: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut wrong = String::new();
    for (case, result) in &results {
        let mut count = |kind, right: bool| {
            let (survived, killed) = table.entry(kind).or_default();
            (*survived, *killed) = (*survived + usize::from(right), *killed + 1);
        };
        match result {
            Ok(came) => {
                came.killed.then(|| count(case.kill.kind(), true));
                came.killed_again.then(|| count("a resume too", true));
            }
            Err(reason) => {
                count(case.kill.kind(), false);
                wrong += &format!("{case:?}: {reason}\n");
            }
        }
    }
    let mut told = String::new();
    for (kind, (survived, killed)) in &table {
        let of = match *kind {
            "random moment" => RANDOM as usize,
            "a resume too" => tried / 2,
            kind => kinds.iter().filter(|one| **one == kind).count(),
        };
        told += &format!("{kind:<16} {survived:>3} survived of {killed:>3} killed, {of:>3} there are\n");
    }
    let _gone = writeln!(std::io::stderr(), "{told}{} of {tried} cases in the time there is", results.len());
    assert!(wrong.is_empty(), "{wrong}");
    let wanted: BTreeSet<&str> = begun.iter().map(String::as_str).chain(["a resume too"]).collect();
    assert!(table.keys().copied().eq(wanted), "no kill of some kind: {told}");
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
