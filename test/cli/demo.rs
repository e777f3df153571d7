//! `fia demo`: the whole story, in seconds, without an account.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use sha2::{Digest as _, Sha256};

use crate::support::program::{self, Finished};
use crate::support::project::{Log, steady};
use crate::support::test_env::TestEnv;

fn demo(env: &TestEnv) -> (Finished, Log) {
    let mut command = env.command(env!("CARGO_BIN_EXE_fia"));
    let finished = program::run(command.args(["demo", "--keep", "kept"]));
    let mut runs = fs::read_dir(env.work().join("kept/.fia/runs")).expect("runs of the demo");
    let run = runs.next().expect("one run").expect("an entry").path();
    (finished, Log::read(&run))
}

fn git(env: &TestEnv, args: &[&str]) -> String {
    let output = env.command("git").args(["-C", "kept"]).args(args).output().expect("git starts");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_demo_meets_its_goal_and_says_how() {
    let env = TestEnv::new();
    let (finished, _) = demo(&env);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert_eq!(finished.stdout, "");
    insta::assert_snapshot!(steady(&finished.stderr, &env.work()), @"");
}

#[test]
fn the_demo_rotates_the_builder_once_before_its_fix() {
    let env = TestEnv::new();
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
    let env = TestEnv::new();
    let (_, log) = demo(&env);
    let stored = log.file("agents/builder/system.md");
    assert!(stored.len() >= 500, "{} bytes", stored.len());
    let hash = Sha256::digest(stored.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let seen: Vec<_> = log.starts().into_iter().filter(|(_, start)| start.agent.as_str() == "builder").collect();
    assert_eq!(seen.len(), 2);
    for (phase, start) in seen {
        assert_eq!(start.system_sha256, hash, "{phase}");
    }
}

#[test]
fn r11_6_the_commit_of_the_demo_holds_only_what_the_run_made() {
    let env = TestEnv::new();
    demo(&env);
    assert_eq!(git(&env, &["show", "--name-only", "--format=%s"]), "greet: add --shout\n\nPLAN.md\ngreet.sh\n");
    assert_eq!(git(&env, &["status", "--porcelain"]), "");
}

#[test]
fn the_demo_overwrites_nothing() {
    let env = TestEnv::new();
    let mut command = env.command(env!("CARGO_BIN_EXE_fia"));
    let finished = program::run(command.args(["demo", "--keep", "."]));
    insta::assert_snapshot!(finished.to_string(), @"");
    assert!(!Path::new(&env.work()).join("greet.sh").exists());
}

/// `unshare` gives the demo a network without a single device that is up.
#[test]
fn the_demo_needs_no_network() {
    let env = TestEnv::new();
    let mut command = env.command("unshare");
    command.args(["--user", "--map-root-user", "--net", env!("CARGO_BIN_EXE_fia"), "demo"]);
    let finished = program::run(&mut command);
    if finished.stderr.starts_with("unshare:") {
        eprintln!("not checked: this machine gives no network namespace: {}", finished.stderr.trim());
        return;
    }
    assert_eq!(finished.end(), "exit 0", "{finished}");
}
