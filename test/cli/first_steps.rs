//! What a new user types first and gets wrong: each error leads to the step that is right.

use std::fs;

use fia::event::Event;
use pretty_assertions::assert_eq;

use crate::support::program;
use crate::support::project::Project;

#[test]
fn help_ends_with_the_first_steps_and_each_of_them_can_be_taken() {
    let project = Project::new().with("checks: { test: { run: 'true' } }\n");
    let help = project.fia(&["--help"]).stdout;
    let steps = help.split_once("First steps:\n").unwrap().1;
    let mut taken = 0;
    for line in steps.lines() {
        let (command, _) = line.trim().split_once("  ").unwrap();
        // What there is to be done without a configuration is tested elsewhere.
        let end = if command == "fia init" { "exit 2" } else { "exit 0" };
        let own = std::path::Path::new(env!("CARGO_BIN_EXE_fia")).parent().unwrap();
        let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap());
        let finished = program::run(project.env().command("sh").args(["-c", command]).env("PATH", path));
        assert_eq!(finished.end(), end, "{command}: {finished}");
        taken += 1;
    }
    assert_eq!(taken, 4);
}

#[test]
fn a_workflow_that_commits_is_refused_before_it_spends_where_git_knows_no_author() {
    let project = Project::new().with("checks: { lint: { run: 'true' } }\n").committed();
    project.env().git(&["config", "--unset", "user.name"]);
    project.env().git(&["config", "--unset", "user.email"]);
    // git would make a name up where it can.
    project.env().git(&["config", "user.useConfigOnly", "true"]);
    let finished = project.fia(&["run", "quick", "do", "it"]);
    insta::assert_snapshot!(project.shown(&finished), @r#"
    exit 2
    -- stdout
    -- stderr
    error: git does not know who commits here, and the workflow commits

    hint: `git config user.name "…"` and `git config user.email "…"`, for all repositories with `--global`
    "#);
    assert_eq!(project.runs(), [""; 0]);
    assert_eq!(project.fia(&["run", "quick", "--dry-run", "do", "it"]).end(), "exit 0");
    assert_eq!(project.fia(&["run", "build", "-q", "do", "it"]).end(), "exit 0", "nothing is committed by it");
    let mut named = project.command(&["run", "quick", "-q", "do", "it"]);
    for variable in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
        named.env(variable, "a@example.invalid");
    }
    let finished = program::run(&mut named);
    assert_eq!(finished.end(), "exit 0", "{finished}");
}

#[test]
fn a_built_in_workflow_without_its_check_says_where_the_check_goes() {
    let project = Project::new();
    let finished = project.fia(&["run", "build_test", "do", "it"]);
    insta::assert_snapshot!(project.shown(&finished), @r#"
    exit 2
    -- stdout
    -- stderr
    error: 1 problem in built-in:build_test.yaml
      6:42 workflows.build_test.steps[1].repair.check[0]: no check is called `test`; `checks:` and the manifests at the top of the repository name none

    hint: a workflow that ships needs it in `fia.config.yaml`, as in `checks: { test: { run: "make test" } }`; `fia init` writes the file if there is none
    "#);
}

#[test]
fn a_type_of_records_that_there_is_not_is_told_and_a_log_name_is_led_to_its_flag() {
    let project = Project::new();
    project.run("build");
    for (kind, told) in [
        (
            "session_rotation",
            "warning: `session_rotation` is the name of a record, not its type: `--name session_rotation`\n",
        ),
        ("agent_ended", "warning: no type of records is called `agent_ended`; did you mean `agent_end`?\n"),
        ("agent_end", ""),
    ] {
        let finished = project.fia(&["events", "--type", kind]);
        assert_eq!((finished.end().as_str(), finished.stderr.as_str()), ("exit 0", told));
        assert_eq!(finished.stdout.is_empty(), kind != "agent_end");
    }
}

#[test]
fn an_engine_that_is_not_there_is_told_once_at_the_end() {
    let project = Project::new().with(
        "agents: [{ name: builder, coding_agent: pi, model: a/b }]\n\
         workflows: { w: { steps: [{ agent: scout }, { agent: builder }] } }\n",
    );
    let finished = project.fia(&["run", "w", "-q", "do", "it"]);
    assert_eq!(finished.end(), "exit 1", "{finished}");
    assert_eq!(finished.stderr.matches("program `pi` not found on PATH").count(), 1, "{finished}");
    assert!(
        finished.stderr.contains("name its path in the configuration; see `fia doctor` (npm install -g "),
        "{finished}"
    );
    // What would run is told all the same.
    let planned = project.fia(&["run", "w", "--dry-run", "do", "it"]);
    assert_eq!(planned.end(), "exit 0", "{planned}");
    assert_eq!(planned.stderr, "warning: pi is not installed, and builder works on it: `fia doctor` says more\n");
}

#[test]
fn without_any_engine_nothing_begins() {
    let project = Project::new().config(
        "defaults: { coding_agent: pi }\n\
         agents: [{ name: builder, coding_agent: pi, fallbacks: [{ coding_agent: cursor }] }]\n",
    );
    let refused = project.fia(&["run", "build", "do it"]);
    assert_eq!(refused.end(), "exit 2", "{refused}");
    assert!(refused.stderr.starts_with("error: pi, cursor are not installed, so no agent can work\n"), "{refused}");
    assert!(project.runs().is_empty());
    let checked = project.fia(&["config", "check"]);
    assert!(checked.stdout.contains("cursor, pi are not installed, so no agent can work"), "{checked}");
    // One that is there is enough.
    assert_eq!(project.fia(&["run", "build", "--use", "scripted", "-q", "do it"]).end(), "exit 0");
}

#[test]
fn what_an_installed_engine_misses_is_not_the_engine() {
    let project = Project::new().config(
        "defaults: { coding_agent: pi, model: nonsuch }\n\
         engines: { pi: { program: ./pi.sh } }\n\
         agents: [{ name: builder, coding_agent: pi }]\n",
    );
    project.env().write("pi.sh", "#!/bin/sh\necho 'Error: Model \"nonsuch\" not found.' >&2\nexit 1\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(project.env().work().join("pi.sh"), executable).unwrap();
    let finished = project.fia(&["run", "build", "-q", "do it"]);
    assert_eq!(finished.end(), "exit 1", "{finished}");
    let advice = "name a model that it has, by `model:` in the configuration or `--use pi:MODEL`";
    assert!(finished.stderr.contains(advice) && !finished.stderr.contains("npm install"), "{finished}");
}

#[test]
fn a_script_that_is_not_committed_is_found_beside_its_configuration() {
    let project = Project::new().committed();
    let script =
        "phases: { build: [{ do: [{ write: { made: x } }], answer: { status: success, changed_files: [made] } }] }\n";
    let project = project.config(
        "defaults: { coding_agent: scripted }\nengines: { scripted: { script: new.yaml } }\nagents: [{ name: builder }]\n",
    );
    let project = project.file("new.yaml", script);
    let finished = project.fia(&["run", "build", "--worktree", "--run", "night", "do it"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert_eq!(project.env().read(".fia/worktrees/night/made"), "x");
}

#[test]
fn a_run_is_gone_on_with_by_the_same_limits_from_its_own_work_tree_too() {
    let project = Project::new().committed();
    let project = project
        .config("defaults: { coding_agent: scripted }\nengines: { scripted: { script: new.yaml } }\nstop: { token_budget: 5000 }\n")
        .file("new.yaml", "phases: { build: [{ fail: { kind: login } }] }\n");
    assert_eq!(project.fia(&["run", "build", "--worktree", "--run", "night", "-q", "do it"]).end(), "exit 1");
    project.env().write("new.yaml", "phases: { build@2: [{}] }\n");
    let mut command = project.command(&["resume", "-q"]);
    let resumed = program::run(command.current_dir(project.env().work().join(".fia/worktrees/night")));
    assert_eq!(resumed.end(), "exit 0", "{resumed}");
    let budgets = project.log().all(|event| match event {
        Event::RunStart(start) => Some(start.stop["token_budget"].clone()),
        _ => None,
    });
    assert_eq!(budgets, [5000, 5000]);
}

#[test]
fn a_machine_without_git_is_told_what_to_do() {
    let project = Project::new();
    let empty = project.env().home().join("no-programs");
    fs::create_dir(&empty).unwrap();
    let examined = program::run(project.command(&["doctor"]).env("PATH", empty));
    assert_eq!(examined.end(), "exit 1", "{examined}");
    assert!(examined.stdout.contains("\ngit: not found; install git"), "{examined}");
}
