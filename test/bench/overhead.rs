//! What fia itself costs, beside floors that do the same physical work with nothing around it.
//!
//! `cargo bench --bench overhead`; with a word behind `--` only the tables whose name has it, for example
//! `cargo bench --bench overhead -- phases`. All figures are medians of one run of this program, taken in turns, so
//! that a busy machine is busy for both sides. README.md beside this file says what each line means.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]
#![expect(clippy::unwrap_used, reason = "what it sets up itself works, or it ends")]

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const FIA: &str = env!("CARGO_BIN_EXE_fia");

/// Files of the work tree, as in the repository that the figures come from, and as in a large one.
const FEW: usize = 98;
const MANY: usize = 50_000;

/// Phases that the long workflows have more than the short one.
const ADDED: u32 = 20;

/// What a prompt of a built-in agent is long.
const PROMPT_BYTES: usize = 2500;

fn main() {
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    // An empty program: this one, which ends at once.
    if words.first().is_some_and(|word| word == "empty") {
        return;
    }
    let wanted = |table: &str| words.is_empty() || words.iter().any(|word| table.contains(word.as_str()));
    if wanted("starts") {
        starts();
    }
    if wanted("phases") {
        phases(FEW, 11);
        phases(MANY, 5);
    }
    if wanted("resumes") {
        resumes();
    }
}

/// Commands that only read.
fn starts() {
    let place = Place::new(FEW, &[("one", 1, 0)]);
    place.run("one");
    let times = Times::take(31, |times| {
        times.push("empty", timed(place.command(env::current_exe().unwrap()).arg("empty")));
        for command in ["--version", "runs", "show"] {
            times.push(command, timed(place.command(FIA).arg(command)));
        }
    });
    println!("\nstarts, {} rounds", times.rounds());
    let empty = times.median("empty");
    line("an empty program", empty, None);
    for command in ["--version", "runs", "show"] {
        line(&format!("fia {command}"), times.median(command), Some((empty, 2.5)));
    }
}

/// A trivial run, and what each added phase costs.
fn phases(files: usize, rounds: usize) {
    let place = Place::new(files, &[("one", 1, 0), ("many", 1 + ADDED, 0), ("checks", 1, ADDED)]);
    let times = Times::take(rounds, |times| {
        for workflow in ["one", "many", "checks"] {
            times.push(workflow, place.run(workflow));
        }
        times.push("engine", place.engine());
        times.push("spawn", place.spawn());
        times.push("syncs", place.syncs());
        times.push("status", timed(place.command("git").args(["status", "--porcelain"])));
    });
    let [one, many, checks] = ["one", "many", "checks"].map(|workflow| times.median(workflow));
    let [engine, spawn, syncs, status] = ["engine", "spawn", "syncs", "status"].map(|part| times.median(part));
    let added = |all: f64| (all - one) / f64::from(ADDED);
    let floor = engine + syncs + 2.0 * status;
    println!("\nphases, {files} files, {rounds} rounds");
    line("engine alone, spawned, prompted and waited for", engine, None);
    line("two synced appends", syncs, None);
    line("git status", status, None);
    line("the floor: engine, syncs and two git status", floor, None);
    line("a supervised spawn of the check's command", spawn, None);
    line("a trivial run, one phase", one, Some((floor, 1.6)));
    line("each added agent phase", added(many), Some((floor, if files == FEW { 1.3 } else { 1.0 })));
    line("each added check phase", added(checks), Some((spawn, 1.5)));
}

/// Runs that were killed in their last phase, and gone on with.
fn resumes() {
    let place = Place::new(FEW, &[("one", 1, 0), ("50", 50, 0), ("500", 500, 0)]);
    let sizes = [("50", 50), ("500", 500)];
    let killed = sizes.map(|(name, phases)| place.killed(name, phases));
    let times = Times::take(11, |times| {
        times.push("one", place.run("one"));
        for ((name, _), killed) in sizes.into_iter().zip(&killed) {
            place.lay(killed);
            times.push(name, timed(place.command(FIA).args(["resume", "-q"])));
        }
    });
    println!("\nresumes, {FEW} files, {} rounds", times.rounds());
    let one = times.median("one");
    line("a trivial run, one phase", one, None);
    for (name, phases) in sizes {
        let took = times.median(name);
        line(&format!("resume with {} of {phases} phases replayed", phases - 1), took, None);
        let each = (took - one) * 1e3 / f64::from(phases);
        println!("{:58} {:8.2}, {each:.0} µs a phase", "  more than the trivial run", took - one);
    }
}

/// A repository to run in.
struct Place {
    folder: TempDir,
}

impl Place {
    /// With workflows of so many agent phases and then so many checks.
    fn new(files: usize, workflows: &[(&str, u32, u32)]) -> Self {
        let place = Self { folder: TempDir::new().unwrap() };
        fs::create_dir(place.work()).unwrap();
        for file in 0..files {
            place.write(&format!("src/part_{}/{}/file_{file}.txt", file % 7, file / 700), &"a line\n".repeat(200));
        }
        let mut config = "defaults: { coding_agent: scripted, model: m, session_rotation_context: 0 }
checks: { nothing: { run: \"true\" } }
stop: { token_budget: 0 }
workflows:
"
        .to_owned();
        for (name, agents, checks) in workflows {
            config.push_str(&format!("  {name}:\n    steps:\n"));
            let works = (0..*agents).map(|_| "agent: builder").chain((0..*checks).map(|_| "check: [nothing]"));
            for (number, work) in works.enumerate() {
                config.push_str(&format!("      - {{ name: step_{number}, {work} }}\n"));
            }
        }
        place.write("fia.config.yaml", &config);
        place.write("system.md", &"You build. ".repeat(100));
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "all"]] {
            let mut git = place.command("git");
            git.args(["-c", "user.name=b", "-c", "user.email=b@example.invalid"]).args(args);
            timed(&mut git);
        }
        // The look after two seconds remembers every file, be it git's or fia's.
        std::thread::sleep(Duration::from_millis(2100));
        timed(place.command("git").env("GIT_OPTIONAL_LOCKS", "1").args(["status", "--porcelain"]));
        place
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.work().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("HOME", self.folder.path()).env("GIT_OPTIONAL_LOCKS", "0").current_dir(self.work());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn run(&self, workflow: &str) -> Duration {
        timed(self.command(FIA).args(["run", workflow, "-q", "do it"]))
    }

    /// The engine of a phase, started, prompted and waited for with nothing around it.
    fn engine(&self) -> Duration {
        let mut command = self.command(FIA);
        command.args(["act-script", "--phase", "01_step_0", "--leg", "1", "--turn", "1", "--model", "m"]);
        command.args(["--system", "system.md", "--session"]).arg(self.folder.path().join("session"));
        let begun = Instant::now();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&[b'x'; PROMPT_BYTES]).unwrap();
        assert!(child.wait_with_output().unwrap().status.success());
        begun.elapsed()
    }

    /// The command of a check in a process group of its own, its output read to the end and kept, and waited for.
    fn spawn(&self) -> Duration {
        let begun = Instant::now();
        let mut kept = fs::File::create(self.folder.path().join("check.log")).unwrap();
        let mut command = self.command("sh");
        command.args(["-c", "true"]).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let mut output = Vec::new();
        out.read_to_end(&mut output).unwrap();
        err.read_to_end(&mut output).unwrap();
        kept.write_all(&output).unwrap();
        assert!(child.wait().unwrap().success());
        begun.elapsed()
    }

    /// Two appends, each on the disk before the next step.
    fn syncs(&self) -> Duration {
        let mut log = OpenOptions::new().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let begun = Instant::now();
        for _ in 0..2 {
            log.write_all(&[b'x'; 300]).unwrap();
            log.sync_data().unwrap();
        }
        begun.elapsed()
    }

    /// Puts the runs of the place aside. Nothing is removed while times are taken: some file systems are slow to make
    /// files where many were removed just now.
    fn clear(&self) -> PathBuf {
        let aside = tempfile::Builder::new().prefix("runs").tempdir_in(self.folder.path()).unwrap().keep().join("runs");
        fs::rename(self.work().join(".fia/runs"), &aside).unwrap();
        aside
    }

    /// Copies such runs into the place.
    fn lay(&self, runs: &Path) {
        self.clear();
        let mut copy = self.command("cp");
        timed(copy.arg("-R").arg(runs).arg(self.work().join(".fia/runs")));
    }

    /// The runs folder of a run that was killed before its last phase: made whole, then cut.
    fn killed(&self, workflow: &str, phases: u32) -> PathBuf {
        self.run(workflow);
        let kept = self.clear();
        let run = fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
        let log = fs::read_to_string(run.join("events.jsonl")).unwrap();
        let begins = |line: &str| line.contains("\"type\":\"phase_start\"");
        let whole = log.split_inclusive('\n').filter(|line| begins(line)).count();
        assert_eq!(whole, usize::try_from(phases).unwrap());
        let mut begun = 0;
        let cut = log.split_inclusive('\n').take_while(|line| {
            begun += usize::from(begins(line));
            begun < whole
        });
        fs::write(run.join("events.jsonl"), cut.collect::<String>()).unwrap();
        // It speaks of the phase that the log has lost.
        fs::remove_file(run.join("before_leg.json")).unwrap();
        kept
    }
}

fn timed(command: &mut Command) -> Duration {
    let begun = Instant::now();
    assert!(command.status().unwrap().success(), "{command:?}");
    begun.elapsed()
}

/// How long everything took, each time.
#[derive(Default)]
struct Times {
    each: BTreeMap<&'static str, Vec<Duration>>,
}

impl Times {
    /// Measures so many times, after once that does not count.
    fn take(rounds: usize, mut round: impl FnMut(&mut Self)) -> Self {
        round(&mut Self::default());
        let mut times = Self::default();
        (0..rounds).for_each(|_| round(&mut times));
        times
    }

    fn push(&mut self, what: &'static str, took: Duration) {
        self.each.entry(what).or_default().push(took);
    }

    fn rounds(&self) -> usize {
        self.each.values().next().map_or(0, Vec::len)
    }

    /// In milliseconds.
    fn median(&self, what: &str) -> f64 {
        let mut sorted = self.each[what].clone();
        sorted.sort();
        sorted[sorted.len() / 2].as_secs_f64() * 1e3
    }
}

/// One line of a table: milliseconds, and how they stand to a floor and to the aim.
fn line(what: &str, took: f64, floor: Option<(f64, f64)>) {
    match floor {
        None => println!("{what:58} {took:8.2}"),
        Some((floor, aim)) => println!("{what:58} {took:8.2}   {:5.2} x floor, aim {aim}", took / floor),
    }
}
