//! The repository that every case starts from, and fia in it.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::program::{Finished, run};

/// The run's id; a run that was killed before its first record is started anew under the next one.
pub(crate) const RUNS: [&str; 3] = ["crash-1", "crash-2", "crash-3"];

/// The prompt of every run, which the commit's message is not made of.
const PROMPT: &str = "greet in capitals";

const CONFIG: &str = r#"
defaults: { coding_agent: scripted, model: rehearsal }
agents:
  - { name: planner, writes: ["PLAN.md"] }
  - { name: builder, writes: ["greet.sh"], session_rotation_context: 1500 }
  - { name: reviewer, writes: [] }
engines: { scripted: { script: rehearsal.yaml } }
checks: { test: { run: "grep -qx fixed greet.sh" } }
workflows:
  crash:
    description: every kind of step
    steps:
      - { name: plan, agent: planner, output: plan, gates: [artifacts_exist] }
      - { name: build, agent: builder, output: build, gates: [diff_matches_claims] }
      - { name: tests, repair: { check: [test], fix: builder } }
      - { name: review, agent: reviewer, output: review }
      - { name: save, commit: {}, when: "review.envelope.approved" }
    accept: "tests.passed and review.envelope.approved"
"#;

const SCRIPT: &str = r#"
phases:
  plan:
    - do: [ { write: { "PLAN.md": "capitals\n" } } ]
      answer: { status: success, summary: planned, artifacts: ["PLAN.md"] }
  build:
    - do: [ { read: "PLAN.md" }, { run: "seq 1500" }, { write: { "greet.sh": "broken\n" } } ]
      answer: { status: success, summary: built, changed_files: ["greet.sh"], commit_message: "greet: in capitals" }
  "fix_*":
    - do: [ { write: { "greet.sh": "fixed\n" } } ]
      answer: { status: success, summary: mended, changed_files: ["greet.sh"], commit_message: "greet: in capitals" }
  review:
    - answer: { status: success, summary: good, approved: true, findings: [], blocking: [] }
"#;

/// A repository of its own for one case.
pub(crate) struct Scene {
    folder: TempDir,
}

impl Scene {
    /// A copy of the repository.
    pub(crate) fn new() -> Self {
        static TEMPLATE: OnceLock<TempDir> = OnceLock::new();
        let folder = tempfile::tempdir().expect("a temporary folder");
        copy(TEMPLATE.get_or_init(template).path(), folder.path());
        Self { folder }
    }

    /// The work tree.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The directory of a run.
    pub(crate) fn run_dir(&self, run: &str) -> PathBuf {
        self.work().join(".fia/runs").join(run)
    }

    /// The bytes of a run's log; none when there is none.
    pub(crate) fn log(&self, run: &str) -> Vec<u8> {
        fs::read(self.run_dir(run).join("events.jsonl")).unwrap_or_default()
    }

    /// A program in the work tree, with nothing of the caller's environment.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LANG", "C.UTF-8")
            .current_dir(self.work())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// `fia` with these arguments.
    pub(crate) fn fia(&self, args: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_fia"));
        command.args(args).stderr(Stdio::piped());
        command
    }

    /// `fia run` under this id.
    pub(crate) fn start(&self, run: &str) -> Command {
        self.fia(&["run", "crash", PROMPT, "--run", run, "-q"])
    }

    /// What git prints.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = self.command("git").args(args).stdout(Stdio::piped()).output().expect("git starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    #[cfg_attr(not(debug_assertions), expect(dead_code, reason = "who kills looks at it"))]
    pub(crate) signal: Option<i32>,
    pub(crate) stderr: String,
    #[cfg_attr(not(debug_assertions), expect(dead_code, reason = "who kills looks at it"))]
    pub(crate) took: Duration,
}

/// Runs a command to its end.
pub(crate) fn end(mut command: Command) -> Ended {
    let started = Instant::now();
    let Finished { status, stderr, .. } = run(&mut command);
    Ended { code: status.code(), signal: status.signal(), stderr, took: started.elapsed() }
}

/// Does jobs two at a time, and gives back what each came to, in the order in which they ended. Jobs that were not
/// begun when `limit` was over are left out.
pub(crate) fn two_at_a_time<J: Send, R: Send>(jobs: Vec<J>, limit: Duration, work: impl Fn(J) -> R + Sync) -> Vec<R> {
    let started = Instant::now();
    let (left, done) = (Mutex::new(jobs.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while started.elapsed() < limit {
                    let Some(job) = left.lock().expect("no worker panics with it").next() else { return };
                    let result = work(job);
                    done.lock().expect("no worker panics with it").push(result);
                }
            });
        }
    });
    done.into_inner().expect("no worker panics with it")
}

/// Lets one test after another have both cores.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed before this one spoilt nothing.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn template() -> TempDir {
    let scene = Scene { folder: tempfile::tempdir().expect("a temporary folder") };
    fs::create_dir(scene.work()).expect("a folder in an empty one");
    for (name, text) in [("fia.config.yaml", CONFIG), ("rehearsal.yaml", SCRIPT), ("greet.sh", "nothing\n")] {
        fs::write(scene.work().join(name), text).expect("a file");
    }
    for args in [
        &["init", "--quiet", "--initial-branch", "main"][..],
        &["config", "user.name", "Test"],
        &["config", "user.email", "test@example.invalid"],
        &["add", "."],
        &["commit", "--quiet", "--message", "start"],
    ] {
        scene.git(args);
    }
    scene.folder
}

/// Copies a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a kind").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file");
        }
    }
}
