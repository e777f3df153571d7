//! A configuration that cannot be used, under another name or with a mistyped one in it: who goes on, and who says so.

use pretty_assertions::assert_eq;

use super::resume::hanging;
use crate::support::project::Project;

/// What breaks every configuration.
const TYPO: &str = "agnets: []\n";

/// A project whose run works while its configuration is broken.
#[test]
fn what_looks_at_runs_or_steers_them_works_whatever_is_in_the_configuration() {
    let project = hanging();
    let running = project.start(&["run", "slow", "x"]);
    project.wait_for(&running, "session");
    let whole = project.env().read("fia.config.yaml");
    project.env().write("fia.config.yaml", &format!("{whole}{TYPO}"));
    let looks: [&[&str]; 10] = [
        &["runs"],
        &["show"],
        &["phases"],
        &["agents"],
        &["events"],
        &["report"],
        &["channel"],
        &["doctor"],
        &["message", "hello"],
        &["stop", "--status"],
    ];
    for args in looks {
        let finished = project.fia(args);
        assert_eq!(finished.end(), "exit 0", "{args:?}: {finished}");
        let warning =
            "warning: fia.config.yaml cannot be used (1 problem: `fia config check`); runs are looked for in `.fia`\n";
        assert_eq!(finished.stderr.matches(warning).count(), 1, "{args:?}: {finished}");
    }
    let plans: [&[&str]; 5] =
        [&["config", "check"], &["run", "slow", "y"], &["run", "slow", "--dry-run", "y"], &["resume"], &["workflows"]];
    for args in plans {
        let finished = project.fia(args);
        assert_eq!(finished.end(), "exit 2", "{args:?}: {finished}");
        assert!(finished.stderr.contains("unknown key `agnets`"), "{args:?}: {finished}");
    }
    assert_eq!(project.fia(&["stop", "--now"]).end(), "exit 0");
    assert_eq!(running.finish().end(), "exit 1");
    for args in [&["stop", "--all"][..], &["stop", "--clear"], &["undo"]] {
        assert_eq!(project.fia(args).end(), "exit 0", "{args:?}");
    }
}

#[test]
fn runs_are_found_where_a_broken_configuration_keeps_them() {
    let kept = |rest: &str| {
        format!(
            "defaults:\n  coding_agent: scripted\n  model: rehearsal\n  data_dir: state # here\n\
             engines: {{ scripted: {{ script: rehearsal.yaml }} }}\n{rest}"
        )
    };
    let project = Project::new().config(&kept(""));
    assert_eq!(project.fia(&["run", "build", "--run", "mine", "-q", "x"]).end(), "exit 0");
    for broken in [TYPO, "agents: [\n"] {
        project.env().write("fia.config.yaml", &kept(broken));
        let shown = project.fia(&["runs"]);
        assert!(shown.stdout.contains("mine") && shown.stderr.contains("looked for in `state`"), "{shown}");
    }
}

#[test]
fn a_configuration_that_an_undo_brought_back_does_not_stand_in_the_way_of_the_next() {
    let project = Project::new()
        .script(&format!(
            "phases: {{ build: [{{ do: [{{ write: {{ fia.config.yaml: \"{}\" }} }}] }}] }}\n",
            "agnets: []"
        ))
        .committed();
    project.fia(&["run", "build", "-q", "x"]);
    let undone = project.fia(&["undo", "--rescue", "1", "--apply"]);
    assert_eq!(undone.end(), "exit 0", "{undone}");
    assert_eq!(project.env().read("fia.config.yaml"), "agnets: []");
    let next = project.fia(&["undo", "--rescue", "1"]);
    assert_eq!(next.end(), "exit 0", "{next}");
}

#[test]
fn an_agent_that_no_workflow_uses_is_named_with_the_one_that_was_meant() {
    let project = Project::new().with("agents: [{ name: bulder, writes: [\"src/\"] }]\n");
    let warning = "agents[0].name: no workflow uses agent `bulder`; did you mean `builder`?\n";
    let checked = project.fia(&["config", "check"]);
    assert!(checked.stdout.contains(warning) && checked.end() == "exit 0", "{checked}");
    let planned = project.fia(&["run", "build", "--dry-run", "x"]);
    assert!(planned.stderr.contains(warning) && planned.end() == "exit 0", "{planned}");
    let project = Project::new().with("agents: [{ name: builder, writes: [\"src/\"] }]\n");
    let checked = project.fia(&["config", "check"]);
    assert!(!checked.stdout.contains("no workflow uses"), "{checked}");
}

#[test]
fn a_file_of_nearly_the_right_name_is_not_passed_over_without_a_word() {
    let project = Project::new().file("fia.config.yml", "agents: []\n").file("fiasco.config.yaml", "");
    let told = "fia.config.yml found and not read: the name is `fia.config.yaml`\n";
    let checked = project.fia(&["config", "check"]);
    assert!(checked.stdout.contains(&format!("warning: {told}")) && checked.end() == "exit 0", "{checked}");
    assert!(!checked.stdout.contains("fiasco"), "{checked}");
    std::fs::remove_file(project.env().work().join("fia.config.yaml")).unwrap();
    for args in [&["config", "check"][..], &["run", "build", "--dry-run", "x"], &["run", "build", "x"]] {
        let refused = project.fia(args);
        assert_eq!(refused.end(), "exit 2", "{args:?}: {refused}");
        assert!(refused.stderr.contains("1 problem in fia.config.yml\n  found and not read"), "{refused}");
    }
    assert_eq!(project.fia(&["config", "check", "--config", "fia.config.yml"]).end(), "exit 0");
    let examined = project.fia(&["doctor"]);
    assert!(examined.stderr.contains(&format!("warning: {told}")) && examined.end() == "exit 0", "{examined}");
    assert_eq!(project.fia(&["runs"]).end(), "exit 0");
}
