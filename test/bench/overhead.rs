//! What fia itself costs: a trivial run and the slope of added phases beside a floor, `fia --version` beside nothing.
//!
//! `cargo bench --bench overhead`. All figures are medians of one run of this program, taken in turns, so that a busy
//! machine is busy for both sides. The floor of a phase is a bare spawn-and-wait of the same engine process, which is
//! sent the same prompt, plus two appends that are synced, as SPEC 5.2 asks for. A phase also looks at the work tree
//! twice, for which two `git status` of the same tree stand beside it.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]
#![expect(clippy::unwrap_used, reason = "what it sets up itself works, or it ends")]

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const FIA: &str = env!("CARGO_BIN_EXE_fia");

/// Files of the work tree, as in the repository that issue figures come from.
const FILES: usize = 98;

/// Phases that the long workflow has more than the short one.
const ADDED_PHASES: u32 = 20;

/// How often everything is measured.
const ROUNDS: usize = 11;

/// What a prompt of a built-in agent is long.
const PROMPT_BYTES: usize = 2500;

fn main() {
    // An empty program: this one, which ends at once.
    if env::args().nth(1).as_deref() == Some("empty") {
        return;
    }
    let place = Place::new();
    let mut times = Times::default();
    place.round(&mut Times::default());
    for _ in 0..ROUNDS {
        place.round(&mut times);
    }
    times.print();
}

/// A repository to run in.
struct Place {
    folder: TempDir,
}

#[derive(Default)]
struct Times {
    empty: Vec<Duration>,
    version: Vec<Duration>,
    one: Vec<Duration>,
    many: Vec<Duration>,
    engine: Vec<Duration>,
    syncs: Vec<Duration>,
    status: Vec<Duration>,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: TempDir::new().unwrap() };
        fs::create_dir(place.work()).unwrap();
        for file in 0..FILES {
            place.write(&format!("src/part_{}/file_{file}.txt", file % 7), &"a line of text\n".repeat(100));
        }
        let steps = |count: u32| {
            let step = |number| format!("      - {{ name: step_{number}, agent: builder }}\n");
            (0..count).map(step).collect::<String>()
        };
        place.write(
            "fia.config.yaml",
            &format!(
                "defaults: {{ coding_agent: scripted, model: m, session_rotation_context: 0 }}
workflows:
  one:
    steps:
{}  many:
    steps:
{}",
                steps(1),
                steps(1 + ADDED_PHASES)
            ),
        );
        place.write("system.md", &"You build. ".repeat(100));
        for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "all"]] {
            place
                .command("git")
                .args(["-c", "user.name=b", "-c", "user.email=b@example.invalid"])
                .args(args)
                .status()
                .unwrap();
        }
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
        command.env("HOME", self.folder.path()).current_dir(self.work());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn round(&self, times: &mut Times) {
        times.empty.push(timed(self.command(env::current_exe().unwrap()).arg("empty")));
        times.version.push(timed(self.command(FIA).arg("--version")));
        times.one.push(timed(self.command(FIA).args(["run", "one", "-q", "do it"])));
        times.many.push(timed(self.command(FIA).args(["run", "many", "-q", "do it"])));
        fs::remove_dir_all(self.work().join(".fia")).unwrap();
        times.engine.push(self.engine());
        times.syncs.push(self.syncs());
        times.status.push(timed(self.command("git").args(["status", "--porcelain"])));
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
}

fn timed(command: &mut Command) -> Duration {
    let begun = Instant::now();
    assert!(command.status().unwrap().success(), "{command:?}");
    begun.elapsed()
}

fn median(times: &[Duration]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted[sorted.len() / 2].as_secs_f64() * 1e3
}

impl Times {
    fn print(&self) {
        let [empty, version, one, many] =
            [&self.empty, &self.version, &self.one, &self.many].map(|times| median(times));
        let [engine, syncs, status] = [&self.engine, &self.syncs, &self.status].map(|times| median(times));
        let slope = (many - one) / f64::from(ADDED_PHASES);
        let floor = engine + syncs;
        println!("{ROUNDS} rounds, medians in milliseconds, {FILES} files\n");
        println!("empty program                            {empty:8.2}");
        println!("fia --version                            {version:8.2}   {:5.2} x empty", version / empty);
        println!("engine alone, spawn to wait              {engine:8.2}");
        println!("two synced appends                       {syncs:8.2}");
        println!("floor of a phase: both                   {floor:8.2}");
        println!("git status                               {status:8.2}");
        println!("trivial run, one phase                   {one:8.2}   {:5.2} x floor", one / floor);
        println!("slope: each added phase                  {slope:8.2}   {:5.2} x floor", slope / floor);
        println!("slope beside the floor and two scans     {:17.2} x", slope / (floor + 2.0 * status));
    }
}
