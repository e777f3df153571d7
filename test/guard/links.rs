//! Links where fia writes: nothing is written through them, whoever made them.

use std::fs;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::lab::Lab;

const VICTIM: &str = "of somebody else\n";

/// A run of a builder, a check and another builder, in which the first one does this.
fn lab(harm: &str) -> Lab {
    let steps = json!([{"name": "build", "agent": "builder", "output": "build"},
                       {"name": "test", "check": ["test"]},
                       {"name": "review", "agent": "reviewer", "output": "review"}]);
    let build = json!({"do": [{"run": harm}], "answer": {"status": "success", "summary": "built", "changed_files": [], "notes_for_next_agent": "mind the gap"}});
    let checks = json!({"checks": {"test": {"run": "echo tested"}}});
    Lab::with(checks, &steps, &json!({"build": [build], "build@2": [{}]}))
}

/// A folder outside of the repository with a file in it.
fn outside() -> tempfile::TempDir {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("victim"), VICTIM).unwrap();
    outside
}

#[test]
fn r5_5_a_lock_that_is_a_link_is_refused_and_its_target_stays() {
    let (lab, outside) = (lab("true"), outside());
    let victim = outside.path().join("victim");
    let lock = lab.env.work().join(".fia/lock");
    fs::create_dir(lab.env.work().join(".fia")).unwrap();
    symlink(&victim, &lock).unwrap();
    let finished = lab.run();
    assert_eq!((finished.end(), fs::read_to_string(&victim).unwrap()), ("exit 3".to_owned(), VICTIM.to_owned()));
    for words in ["/.fia/lock` is a link", "remove it (`rm "] {
        assert!(finished.stderr.contains(words), "{finished}");
    }
    fs::remove_file(&lock).unwrap();
    assert_eq!(lab.run().end(), "exit 0");
}

#[test]
fn r5_5_a_directory_of_runs_that_is_a_link_is_refused_and_its_target_stays_empty() {
    let (lab, outside) = (lab("true"), tempfile::tempdir().unwrap());
    fs::create_dir(lab.env.work().join(".fia")).unwrap();
    symlink(outside.path(), lab.env.work().join(".fia/runs")).unwrap();
    let finished = lab.run();
    assert_eq!((finished.end(), fs::read_dir(outside.path()).unwrap().count()), ("exit 3".to_owned(), 0));
    assert!(finished.stderr.contains("/.fia/runs` is a link"), "{finished}");
}

#[test]
fn r11_3_links_that_an_agent_plants_where_fia_will_write_are_not_followed() {
    for place in ["context_handoff/02_test.log", "agents/reviewer/03_review.1.transcript.jsonl"] {
        let outside = outside();
        let victim = outside.path().join("victim");
        let at = format!(".fia/runs/r/{place}");
        let lab = lab(&format!("mkdir -p $(dirname {at}); ln -sf '{}' {at}", victim.display()));
        let finished = lab.run();
        assert_eq!((finished.end(), fs::read_to_string(&victim).unwrap()), ("exit 3".to_owned(), VICTIM.to_owned()));
        assert!(finished.stderr.contains(&format!("{place}` is a link")), "{finished}");
        fs::remove_file(lab.env.work().join(at)).unwrap();
        let resumed = lab.fia(&["resume", "r"]);
        assert_eq!((resumed.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{resumed}");
    }
}

#[test]
fn r11_3_a_link_in_place_of_the_channel_is_put_back_and_leads_nowhere() {
    let outside = outside();
    let victim = outside.path().join("victim");
    let lab = lab(&format!("ln -sf '{}' .fia/runs/r/channel.jsonl", victim.display()));
    let finished = lab.run();
    assert_eq!((finished.end(), fs::read_to_string(&victim).unwrap()), ("exit 0".to_owned(), VICTIM.to_owned()));
    assert!(!lab.env.work().join(".fia/runs/r/channel.jsonl").is_symlink());
}

#[test]
fn r11_3_a_folder_of_the_run_that_an_agent_swaps_for_a_link_is_not_written_to() {
    for folder in ["context_handoff", "agents/builder"] {
        let outside = outside();
        let at = format!(".fia/runs/r/{folder}");
        let lab = lab(&format!("mv {at} {at}.old; ln -s '{}' {at}", outside.path().display()));
        let finished = lab.run();
        assert_eq!(finished.end(), "exit 3", "{finished}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "{folder}");
        assert!(finished.stderr.contains(&format!("{folder}` is a link")), "{finished}");
    }
}

#[test]
fn r5_a_data_directory_behind_a_link_of_the_users_is_used() {
    let (lab, outside) = (lab("true"), tempfile::tempdir().unwrap());
    symlink(outside.path(), lab.env.work().join(".fia")).unwrap();
    let finished = lab.run();
    assert_eq!((finished.end(), lab.outcome()), ("exit 0".to_owned(), "goal_met".to_owned()), "{finished}");
    assert!(outside.path().join("runs/r/events.jsonl").is_file());
}
