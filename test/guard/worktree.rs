//! Runs in work trees of their own, and one run a work tree.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::lab::{Lab, shell};
use super::support::program::Running;

fn steps() -> Value {
    json!([{"name": "build", "agent": "builder", "output": "build"}, {"name": "save", "commit": {}}])
}

#[test]
fn r11_7_two_runs_at_once_each_in_a_work_tree_of_its_own_both_meet_their_goal() {
    // Each waits for the other.
    let meet = "touch \"$HOME/${PWD##*/}\"; until [ -e ~/one -a -e ~/two ]; do sleep 0.01; done; echo \"$PWD\" > src/a";
    let lab = Lab::new(&steps(), &json!({"build": [shell(&[meet])]}));
    lab.env.write("README", "the user is at work here\n");
    let start = |id: &str| Running::start(&mut lab.command(&["run", "w", "do it", "--run", id, "--worktree"]), "");
    let both = [("one", start("one")), ("two", start("two"))];
    for (id, running) in both {
        let finished = running.finish();
        assert_eq!(finished.end(), "exit 0", "{finished}");
        let ended = lab.events(id).into_iter().last().unwrap();
        assert_eq!(ended["payload"]["outcome"], "goal_met");
        let place = lab.env.work().join(".fia/worktrees").join(id);
        let made = lab.env.git(&["show", &format!("fia/{id}:src/a")]);
        assert_eq!(made.trim(), place.canonicalize().unwrap().to_str().unwrap());
        assert!(finished.stderr.contains(&format!("git merge fia/{id}")), "{finished}");
        assert!(finished.stderr.contains("git worktree remove "), "{finished}");
        let shown = lab.fia(&["show", id]);
        assert!(shown.stdout.contains(&format!("git merge fia/{id}")), "{shown}");
        assert!(lab.env.work().join(format!(".fia/worktrees/{id}.lock")).exists());
    }
    assert_eq!((lab.env.read("src/a"), lab.status()), ("committed\n".to_owned(), " M README\n".to_owned()));
    lab.env.git(&["merge", "--quiet", "fia/one"]);
    assert_ne!(lab.env.read("src/a"), "committed\n");
}

#[test]
fn r5_5_a_second_run_in_place_is_refused_naming_the_holder_and_one_apart_is_not() {
    let mut turn = shell(&["touch .fia/runs/r/context_handoff/there"]);
    turn["hang"] = json!(true);
    let lab = Lab::new(&steps(), &json!({"build": [turn], "build@2": [{}]}));
    let _running = lab.start_until(".fia/runs/r/context_handoff/there");
    let refused = lab.fia(&["run", "w", "do it"]);
    assert_eq!(refused.end(), "exit 2", "{refused}");
    assert!(refused.stderr.contains("another run holds this work tree: r (pid "), "{refused}");
    assert!(refused.stderr.contains("--worktree"), "{refused}");
    assert_eq!(std::fs::read_dir(lab.env.work().join(".fia/runs")).unwrap().count(), 1);
}

#[test]
fn r11_7_a_linked_work_tree_shares_the_data_directory_of_the_main_one() {
    let lab = Lab::new(&steps(), &json!({"build": [shell(&["echo built > src/a"])]}));
    lab.env.git(&["worktree", "add", "--quiet", "--detach", "../linked"]);
    let linked = lab.env.work().join("../linked");
    let mut command = lab.command(&["run", "w", "do it", "--run", "r"]);
    let finished = super::support::program::run(command.current_dir(&linked));
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    assert!(!linked.join(".fia").exists());
    assert_eq!(lab.of("run_start")[0]["payload"]["linked"], "linked");
    assert!(lab.env.work().join(".fia/worktrees/linked.lock").exists());
    assert_eq!(std::fs::read_to_string(linked.join("src/a")).unwrap(), "built\n");
    assert_eq!(lab.env.read("src/a"), "committed\n");
    let mut command = lab.command(&["runs", "--json"]);
    let listed = super::support::program::run(command.current_dir(&linked));
    assert!(listed.stdout.contains("\"r\""), "{listed}");
}

#[test]
fn r11_7_an_undo_in_a_linked_work_tree_leaves_the_stat_cache_of_the_main_one_alone() {
    let lab = Lab::new(&steps(), &json!({"build": [shell(&["echo built > src/a"])]}));
    lab.env.git(&["worktree", "add", "--quiet", "--detach", "../linked"]);
    let linked = lab.env.work().join("../linked");
    let mut command = lab.command(&["run", "w", "do it", "--run", "r"]);
    assert_eq!(super::support::program::run(command.current_dir(&linked)).end(), "exit 0");
    for undo in [&["undo", "r"][..], &["undo", "r", "--apply"]] {
        let finished = lab.fia(undo);
        assert_eq!(finished.end(), "exit 0", "{finished}");
        assert!(!lab.env.work().join(".fia/stat_cache").exists(), "no run has worked in the main one");
    }
    assert!(lab.env.work().join(".fia/worktrees/linked.stat_cache").exists());
    assert_eq!(std::fs::read_to_string(linked.join("src/a")).unwrap(), "committed\n");
}

#[test]
fn r11_7_a_run_that_does_not_begin_leaves_no_work_tree_behind() {
    let lab = Lab::new(&steps(), &json!({}));
    let ran = lab.fia(&["run", "w", "do it", "--run", "r", "--worktree"]);
    assert_eq!(ran.end(), "exit 0", "{ran}");
    let again = lab.fia(&["run", "w", "do it", "--run", "r", "--worktree"]);
    assert_ne!(again.end(), "exit 0", "{again}");
    // What the first run made stays.
    assert!(lab.env.work().join(".fia/worktrees/r/README").exists());
    lab.env.write(".git/refs/heads/fia/s.lock", "");
    let refused = lab.fia(&["run", "w", "do it", "--run", "s", "--worktree"]);
    assert_eq!(refused.end(), "exit 3", "{refused}");
    assert!(!lab.env.work().join(".fia/worktrees/s").exists());
}

#[test]
fn r2_4_a_work_tree_that_was_removed_by_hand_comes_back_as_the_hint_says() {
    let lab =
        Lab::new(&steps(), &json!({"build": [{"fail": {"kind": "login"}}], "build@2": [shell(&["echo b > src/a"])]}));
    let ran = lab.fia(&["run", "w", "do it", "--run", "r", "--worktree"]);
    assert_eq!(ran.end(), "exit 1", "{ran}");
    std::fs::remove_dir_all(lab.env.work().join(".fia/worktrees/r")).unwrap();
    let refused = lab.fia(&["resume", "r"]);
    assert_eq!(refused.end(), "exit 2", "{refused}");
    let hint = refused.stderr.split('`').find(|part| part.starts_with("git worktree add ")).unwrap();
    let args: Vec<&str> = hint.split(' ').skip(1).collect();
    lab.env.git(&args);
    assert_eq!(lab.fia(&["resume", "r"]).end(), "exit 0");
}
