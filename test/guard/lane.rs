//! An agent outside its lane: undone, told, and stopped when it does it again.

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::json;

use super::lab::{FIA, Lab, shell};
use super::support::program::run;

fn build_and_review() -> serde_json::Value {
    json!([{"name": "build", "agent": "builder", "output": "build"},
           {"name": "review", "agent": "reviewer", "output": "review"}])
}

#[test]
fn r11_4_a_reviewer_that_writes_is_undone_told_and_then_blocked() {
    let lab = Lab::new(
        &build_and_review(),
        &json!({"build": [shell(&["echo built > src/a"])],
               "review": [shell(&["echo worse >> src/a", "mkdir -p new/in && echo x > new/in/file", "rm README"])]}),
    );
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 1".to_owned(), "blocked_by_gate".to_owned()), "{finished}");
    let paths = ["README", "new/in/file", "src/a"].map(str::to_owned).to_vec();
    assert_eq!(lab.undone(), [(paths.clone(), true), (paths, false)]);
    // Back to what the phase before left, not to what is committed.
    assert_eq!(lab.env.read("src/a"), "built\n");
    assert_eq!(lab.status(), " M src/a\n");
    assert!(!lab.env.work().join("new").exists());
    for number in [1, 2] {
        assert!(finished.stderr.contains(&format!("fia undo --rescue {number} brings it back")), "{finished}");
    }
    let prompt = |leg: u32| lab.env.read(&format!(".fia/runs/r/agents/reviewer/02_review.{leg}.1.user.md"));
    assert!(!prompt(1).contains("Not allowed"));
    let told = "# Not allowed: some of your writes were undone\n\nYou wrote to paths that are outside of what you may \
                write, and they were put back as they were:\n- README\n- new/in/file\n- src/a\n";
    assert!(prompt(2).starts_with(told), "{}", prompt(2));
    // The second leg goes on in the session of the first.
    let starts = lab.of("agent_start");
    let sessions: Vec<_> = starts.iter().map(|start| start["payload"]["lease"].as_str().unwrap()).collect();
    assert_eq!(sessions, ["cold", "cold", "restored"]);
}

#[test]
fn r11_4_a_second_try_that_keeps_to_its_lane_is_taken() {
    let lab = Lab::new(
        &build_and_review(),
        &json!({"build": [shell(&["echo x > outside; echo built > src/a"])], "build@2": [shell(&["echo again >> src/a"])]}),
    );
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    assert_eq!(lab.undone(), [(vec!["outside".to_owned()], true)]);
    assert_eq!(lab.env.read("src/a"), "built\nagain\n");
    assert_eq!(lab.of("envelope").len(), 2);
}

#[test]
fn r11_4_a_breach_is_undone_also_when_the_leg_failed() {
    let mut turn = shell(&["echo x > README"]);
    turn["fail"] = json!({"kind": "login", "message": "logged out"});
    let lab = Lab::new(&build_and_review(), &json!({"build": [turn]}));
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 1".to_owned(), "engine_exhausted".to_owned()), "{finished}");
    assert_eq!(lab.env.read("README"), "a repository for tests\n");
    assert_eq!((lab.of("permission_retry").len(), lab.of("engine_error").len()), (1, 1));
}

#[test]
fn r10_7_a_breach_is_undone_when_the_run_is_interrupted() {
    let mut turn = shell(&["echo x > README; echo kept > src/a; touch .fia/runs/r/context_handoff/there"]);
    turn["hang"] = json!(true);
    let lab = Lab::new(&build_and_review(), &json!({"build": [turn]}));
    let running = lab.start_until(".fia/runs/r/context_handoff/there");
    running.signal(Signal::INT);
    let finished = running.finish();
    assert_eq!((finished.end(), lab.outcome()), ("exit 130".to_owned(), "aborted".to_owned()), "{finished}");
    assert_eq!(lab.status(), " M src/a\n");
    assert_eq!(lab.undone(), [(vec!["README".to_owned()], false)]);
    assert_eq!(lab.of("phase_end")[0]["payload"]["status"], "stopped");
}

#[test]
fn r11_4_commits_branches_and_settings_of_an_agent_go_back_and_its_files_stay() {
    let lab = Lab::new(
        &json!([{"name": "build", "agent": "builder", "output": "build"}]),
        &json!({"build": [shell(&[
            "echo built > src/a; git add --all; git commit -q -m mine; git branch side; git tag mark",
            "git config core.autocrlf true; printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit",
            "chmod +x .git/hooks/pre-commit; echo src/ >> .git/info/exclude; git checkout -q --detach",
        ])]}),
    );
    let before = lab.env.git(&["rev-parse", "HEAD"]);
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    assert_eq!(lab.env.git(&["rev-parse", "HEAD", "main"]), before.repeat(2));
    assert_eq!(lab.env.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main\n");
    assert_eq!(lab.status(), " M src/a\n");
    assert!(!lab.env.work().join(".git/hooks/pre-commit").exists());
    assert!(!lab.env.read(".git/config").contains("autocrlf"));
    let what: Vec<String> = serde_json::from_value(lab.of("external_change")[0]["payload"]["what"].clone()).unwrap();
    for part in ["HEAD", "index", ".git/config", ".git/hooks/pre-commit", ".git/info/exclude"] {
        assert!(what.iter().any(|what| what == part), "{part}: {what:?}");
    }
    assert_eq!(lab.undone(), []);
}

#[test]
fn r11_3_by_products_are_put_back_without_blame() {
    let lab = Lab::with(
        json!({"defaults": {"permissions": {"benign_paths": ["cache/", "*.tmp"]}}}),
        &build_and_review(),
        &json!({"review": [shell(&["mkdir cache; echo x > cache/y; echo x > z.tmp"])]}),
    );
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    assert_eq!((lab.status(), lab.undone()), (String::new(), Vec::new()));
    let change = &lab.of("external_change")[0]["payload"];
    assert_eq!((change["undone"].as_array().unwrap().len(), &change["rescue"]), (2, &json!(1)));
    assert!(finished.stderr.contains("fia undo --rescue 1 brings it back"), "{finished}");
}

#[test]
fn r11_3_links_are_put_back_as_links_and_never_followed() {
    let lab = Lab::new(
        &build_and_review(),
        &json!({"review": [shell(&[
            "ln -sfn ../../outside src/out; rm src/a; ln -s ../../outside/file src/a",
            "rm -r docs; ln -s ../outside docs; echo spoilt > link-target; ln -sf elsewhere link",
        ])]}),
    );
    let outside = lab.env.work().join("../outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "the user's\n").unwrap();
    lab.env.write("docs/file", "documented\n");
    std::os::unix::fs::symlink("docs/file", lab.env.work().join("link")).unwrap();
    lab.commit_all();
    let finished = lab.run();
    assert_eq!(lab.outcome(), "blocked_by_gate", "{finished}");
    assert_eq!(lab.status(), "");
    assert_eq!(std::fs::read_link(lab.env.work().join("link")).unwrap(), std::path::Path::new("docs/file"));
    let names: Vec<_> = std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["file"]);
    assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "the user's\n");
}

#[test]
fn r11_3_the_files_in_force_are_nobodys_to_write() {
    let lab = Lab::new(
        &json!([{"name": "build", "agent": "free", "output": "build"}]),
        &json!({"build": [shell(&["echo '{}' > fia.config.yaml; echo SECRET=1 > .env; echo ok > anywhere"])]}),
    );
    let config = lab.env.read("fia.config.yaml");
    let config = config.replacen("{\"name\":\"builder\"", "{\"name\":\"free\"},{\"name\":\"builder\"", 1);
    lab.env.write("fia.config.yaml", &config);
    lab.commit_all();
    let finished = lab.run();
    assert_eq!(lab.outcome(), "blocked_by_gate", "{finished}");
    let paths = [".env", "fia.config.yaml"].map(str::to_owned).to_vec();
    assert_eq!(lab.undone(), [(paths.clone(), true), (paths, false)]);
    assert_eq!(lab.status(), "?? anywhere\n");
}

#[test]
fn r11_3_what_fia_prints_into_the_repository_is_no_agents_write() {
    let lab = Lab::new(&build_and_review(), &json!({"build": [shell(&["echo built > src/a"])]}));
    let mut command = lab.env.command("sh");
    let finished = run(command.args(["-c", "\"$0\" run w 'do it' --run r > out.log 2>&1", FIA]));
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    let printed = lab.env.read("out.log");
    assert!(printed.contains("phase 01_build started") && printed.contains("run ended: goal met"), "{printed}");
    assert_eq!(lab.undone(), []);
}
