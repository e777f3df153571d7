//! `fia demo`: the whole story, in seconds, without an account.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use pretty_assertions::assert_eq;
use sha2::{Digest as _, Sha256};

use crate::support::program::{self, Finished};
use crate::support::project::{Log, steady};
use crate::support::test_env::TestEnv;

fn demo(env: &Rc<TestEnv>) -> (Finished, Log) {
    let mut command = env.command(env!("CARGO_BIN_EXE_fia"));
    let finished = program::run(command.args(["demo", "--keep", "kept"]));
    let mut runs = fs::read_dir(env.work().join("kept/.fia/runs")).expect("runs of the demo");
    let run = runs.next().expect("one run").expect("an entry").path();
    (finished, Log::read(env, &run))
}

fn git(env: &TestEnv, args: &[&str]) -> String {
    let output = env.command("git").args(["-C", "kept"]).args(args).output().expect("git starts");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_demo_meets_its_goal_and_says_how() {
    let env = Rc::new(TestEnv::new());
    let (finished, _) = demo(&env);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert_eq!(finished.stdout, "");
    insta::assert_snapshot!(steady(&finished.stderr, &env.work()), @r"
    fia demo: a builder whose context passes its ceiling is given a fresh session

    TIME run RUN demo
    TIME phase 01_plan started: planner on scripted rehearsal, new session
    TIME phase 01_plan done in SPAN: context 17k, $0.07
    TIME phase 02_build started: builder on scripted rehearsal, new session
    TIME phase 02_build done in SPAN: context 178k, $0.75
    TIME phase 03_test_1 started: sh test.sh
    TIME phase 03_test_1: test failed, exit 1, in SPAN: context_handoff/03_test_1.log
    TIME phase 03_test_1 red in SPAN
    TIME session rotated: builder 178k >= 120k, reseed 725 B, archived scripted_session.1.rotated.jsonl
    TIME phase 04_fix_1 started: builder on scripted rehearsal, new session
    TIME phase 04_fix_1 done in SPAN: context 29k, $0.13
    TIME phase 05_test_2 started: sh test.sh
    TIME phase 05_test_2 done in SPAN
    TIME phase 06_review started: reviewer on scripted rehearsal, new session
    TIME phase 06_review done in SPAN: context 23k, $0.09
    TIME phase 07_save started: commit what the run made
    TIME phase 07_save: committed 2 files as COMMIT on main: greet: add --shout
    TIME phase 07_save done in SPAN
    TIME run ended: goal met in SPAN, 653k tokens, $1.05: every step is done

    ✓ goal met in SPAN  2 files changed, committed as COMMIT on main
      tokens 653k (62% cache reads)  cost $1.05  1 rotation saved about 575k tokens
      fia report  fia report --svg context.svg

    Look around: cd WORK/kept && fia show && fia events && git log --stat
    ");
}

#[test]
fn the_demo_rotates_the_builder_once_before_its_fix() {
    let env = Rc::new(TestEnv::new());
    let (_, log) = demo(&env);
    let rotations = log.rotations();
    assert_eq!(rotations.len(), 1);
    let (phase, rotation) = &rotations[0];
    assert_eq!((phase.as_str(), rotation.agent.as_str()), ("04_fix_1", "builder"));
    assert!(rotation.context_tokens.expect("a reading") >= rotation.cap);
    assert_eq!(rotation.archived, ["agents/builder/scripted_session.1.rotated.jsonl"]);

    let first = log.start("02_build");
    let second = log.start("04_fix_1");
    assert_eq!((&first.session_id, &second.session_id), (&None, &None));
    let prompt = log.prompt("builder", "04_fix_1", 1, 1);
    assert!(prompt.starts_with("# Fresh session: ceiling reached ("), "{prompt}");
    assert!(log.file(&rotation.archived[0]).lines().count() > 5);
}

#[test]
fn r6_7_the_builder_has_one_system_prompt_in_all_its_phases() {
    let env = Rc::new(TestEnv::new());
    let (_, log) = demo(&env);
    let stored = log.file("agents/builder/system.md");
    assert!(stored.len() >= 500, "{} bytes", stored.len());
    let hash = format!("{:x}", Hexadecimal(&Sha256::digest(stored.as_bytes())));
    let seen: Vec<_> = log.starts().into_iter().filter(|(_, start)| start.agent.as_str() == "builder").collect();
    assert_eq!(seen.len(), 2);
    for (phase, start) in seen {
        assert_eq!(start.system_sha256, hash, "{phase}");
    }
}

#[test]
fn r11_6_the_commit_of_the_demo_holds_only_what_the_run_made() {
    let env = Rc::new(TestEnv::new());
    demo(&env);
    assert_eq!(git(&env, &["show", "--name-only", "--format=%s"]), "greet: add --shout\n\nPLAN.md\ngreet.sh\n");
    assert_eq!(git(&env, &["status", "--porcelain"]), "");
}

#[test]
fn the_demo_overwrites_nothing() {
    let env = Rc::new(TestEnv::new());
    let mut command = env.command(env!("CARGO_BIN_EXE_fia"));
    let finished = program::run(command.args(["demo", "--keep", "."]));
    insta::assert_snapshot!(finished.to_string(), @r"
    exit 2
    -- stdout
    -- stderr
    error: `.` is not empty, and the demo overwrites nothing

    hint: name a new directory
    ");
    assert!(!Path::new(&env.work()).join("greet.sh").exists());
}

/// `unshare` gives the demo a network without a single device that is up.
#[test]
fn the_demo_needs_no_network() {
    let env = Rc::new(TestEnv::new());
    let mut command = env.command("unshare");
    command.args(["--user", "--map-root-user", "--net", env!("CARGO_BIN_EXE_fia"), "demo"]);
    let finished = program::run(&mut command);
    if finished.stderr.starts_with("unshare:") {
        eprintln!("not checked: this machine gives no network namespace: {}", finished.stderr.trim());
        return;
    }
    assert_eq!(finished.end(), "exit 0", "{finished}");
}

#[test]
fn the_demo_works_whatever_the_users_git_is_told() {
    let env = Rc::new(TestEnv::new());
    env.write_home(
        ".gitconfig",
        "[commit]\n gpgsign = true\n[core]\n autocrlf = true\n hooksPath = /nowhere\n[status]\n short = false\n",
    );
    let (finished, _) = demo(&env);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert_eq!(git(&env, &["show", "--name-only", "--format=%an"]), "fia demo\n\nPLAN.md\ngreet.sh\n");
}

/// Bytes in hexadecimal.
struct Hexadecimal<'a>(&'a [u8]);

impl std::fmt::LowerHex for Hexadecimal<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[test]
fn r2_4_a_demo_that_is_not_kept_names_no_command_on_its_run() {
    let env = Rc::new(TestEnv::new());
    let finished = program::run(env.command(env!("CARGO_BIN_EXE_fia")).arg("demo"));
    assert_eq!(finished.end(), "exit 0", "{finished}");
    let last: Vec<&str> = finished.stderr.lines().rev().take(1).collect();
    assert_eq!(last, ["  fia demo --keep DIR    keeps the repository and its log"], "{finished}");
    assert!(!finished.stderr.contains("fia report") && !finished.stderr.contains("fia resume"), "{finished}");
}
