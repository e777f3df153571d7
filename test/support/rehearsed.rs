//! Runs with something to look at: the demo's agents on the scripted engine, and one that asks before it builds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::test_env::TestEnv;

/// How long anything may take that a test waits for.
const LIMIT: Duration = Duration::from_secs(60);

/// A workflow that waits for a person between two agents.
const ASKS: &str = "
  asks:
    description: plan, ask, build
    steps:
      - { name: plan, agent: planner, output: plan }
      - { name: ok, approve: { wait: never } }
      - { name: build, agent: builder, output: build }
";

/// Puts the demo's files into the work tree, with the workflow `asks` beside `demo`.
pub(crate) fn stage(env: &TestEnv) {
    env.write("greet.sh", include_str!("../../src/cli/demo/greet.sh"));
    env.write("test.sh", include_str!("../../src/cli/demo/test.sh"));
    env.write("rehearsal.yaml", include_str!("../../src/cli/demo/rehearsal.yaml"));
    env.write("fia.config.yaml", &(include_str!("../../src/cli/demo/fia.config.yaml").to_owned() + ASKS));
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "--message", "the stage"]);
}

/// fia in the work tree.
pub(crate) fn fia(env: &TestEnv, args: &[&str]) -> Command {
    let mut command = env.command(env!("CARGO_BIN_EXE_fia"));
    command.args(args);
    command
}

/// Runs a workflow to its end.
pub(crate) fn ran(env: &TestEnv, workflow: &str, prompt: &str) {
    let output = fia(env, &["run", workflow, prompt]).output().expect("fia starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The directory of the newest run.
pub(crate) fn newest_run(work: &Path) -> Option<PathBuf> {
    let runs = std::fs::read_dir(work.join(".fia/runs")).ok()?;
    runs.filter_map(|run| Some(run.ok()?.path())).filter(|path| path.join("events.jsonl").exists()).max()
}

/// Looks until there is something to see; the caller says what was waited for.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < LIMIT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the newest run has this in its log.
pub(crate) fn wait_for_log(work: &Path, text: &str) -> PathBuf {
    wait_for(text, || {
        let run = newest_run(work)?;
        std::fs::read_to_string(run.join("events.jsonl")).ok()?.contains(text).then_some(run)
    })
}
