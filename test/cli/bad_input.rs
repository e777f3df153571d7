//! What cannot be done as asked: a clear error with a hint, the right exit status, and nothing half-written.

use std::fs;

use pretty_assertions::assert_eq;

use crate::support::program::{self, Finished};
use crate::support::project::Project;

/// Runs fia, which must refuse: with this status, an error, a hint, no run directory and the tree as it was.
fn refused(project: &Project, args: &[&str], status: &str) -> Finished {
    let (tree, runs) = (project.tree(), project.runs());
    let finished = project.fia(args);
    assert_eq!(finished.end(), status, "{finished}");
    assert_eq!(finished.stdout, "");
    assert!(finished.stderr.starts_with("error: "), "{finished}");
    assert!(finished.stderr.contains("\nhint: "), "{finished}");
    assert_eq!((project.tree(), project.runs()), (tree, runs));
    finished
}

/// A workflow with one step, which this is.
fn step(written: &str) -> Project {
    Project::new().with(&format!(
        "checks: {{ test: {{ run: 'true' }} }}
workflows:
  mine:
    steps:
      - {{ name: look, agent: scout }}
      - {{ name: here, {written} }}
"
    ))
}

#[test]
fn a_workflow_that_names_what_is_not_there_is_refused() {
    // (the step, what the error says)
    let cases = [
        ("agent: bulider", "no agent is called `bulider`"),
        ("check: [tset]", "no check is called `tset`"),
        ("repair: { check: [tset], fix: builder }", "no check is called `tset`"),
        ("repair: { check: [test], fix: bilder }", "no agent is called `bilder`"),
        ("agent: builder, gates: [artefacts_exist]", "no gate or check is called `artefacts_exist`"),
        ("agent: builder, output: biuld", "no envelope type is called `biuld`"),
        ("agent: builder, output: missing.json", "missing.json"),
        ("agent: builder, input: loook", "no earlier step is called `loook`"),
        ("agent: builder, when: 'lok.passed'", "no step is called `lok`"),
        ("agent: builder, when: 'here.passed'", "here"),
        ("agent: builder, when: 'look.pased'", "pased"),
        ("agent: builder, when: 'look.passed and'", "when"),
        ("agent: builder, chekc: [test]", "unknown key `chekc`"),
        ("when: 'look.passed'", "this step does nothing; it needs one of agent, check,"),
    ];
    for (written, said) in cases {
        let project = step(written);
        for args in [&["run", "mine", "do", "it"][..], &["run", "mine", "--dry-run", "do", "it"]] {
            let finished = refused(&project, args, "exit 2");
            assert!(finished.stderr.contains(said), "{written}: {finished}");
            assert!(finished.stderr.contains("in fia.config.yaml\n  8:"), "{written}: {finished}");
        }
    }
}

#[test]
fn an_unknown_workflow_is_refused_with_the_nearest_name() {
    let project = Project::new();
    let finished = refused(&project, &["run", "biuld", "do", "it"], "exit 2");
    assert!(finished.stderr.contains("did you mean `build`?"), "{finished}");
}

#[test]
fn an_empty_prompt_is_refused() {
    let project = Project::new().file("empty.md", " \n\t\n");
    for args in [&["run", "build"][..], &["run", "build", " ", ""], &["run", "build", "-f", "empty.md"]] {
        let finished = refused(&project, args, "exit 2");
        assert!(finished.stderr.contains("prompt"), "{finished}");
    }
}

#[test]
fn a_prompt_file_that_is_missing_or_not_utf8_is_refused() {
    let project = Project::new();
    fs::write(project.env().work().join("latin.md"), b"caf\xe9").unwrap();
    let missing = refused(&project, &["run", "build", "-f", "missing.md"], "exit 2");
    assert!(missing.stderr.contains("`missing.md`"), "{missing}");
    let latin = refused(&project, &["run", "build", "-f", "latin.md"], "exit 2");
    assert!(latin.stderr.contains("not UTF-8"), "{latin}");
}

#[test]
fn a_prompt_template_that_is_missing_not_utf8_or_asks_for_too_much_is_refused() {
    let agent = "agents: [{ name: builder, prompt_engineering: { system: system.md } }]\n";
    let project = Project::new().with(agent);
    let missing = refused(&project, &["run", "build", "do", "it"], "exit 2");
    assert!(missing.stderr.contains("system.md"), "{missing}");
    fs::write(project.env().work().join("system.md"), b"caf\xe9").unwrap();
    let latin = refused(&project, &["run", "build", "do", "it"], "exit 2");
    assert!(latin.stderr.contains("UTF-8"), "{latin}");
    let project = project.file("system.md", "You build.\n{{ previous_envelope }}\n");
    let asks = refused(&project, &["run", "build", "do", "it"], "exit 2");
    assert!(asks.stderr.contains("in system.md\n  2:") && asks.stderr.contains("previous_envelope"), "{asks}");
}

#[test]
fn a_config_that_is_missing_or_no_yaml_is_refused() {
    let project = Project::new();
    refused(&project, &["run", "build", "--config", "missing.yaml", "do", "it"], "exit 2");
    let project = project.config("defaults:\n\tcoding_agent: scripted\n");
    let tab = refused(&project, &["run", "build", "do", "it"], "exit 2");
    assert!(tab.stderr.contains("in fia.config.yaml\n  2:"), "{tab}");
}

#[test]
fn a_folder_that_is_no_repository_is_refused() {
    let project = Project::new();
    let outside = project.env().home();
    let finished = program::run(project.command(&["run", "build", "do", "it"]).current_dir(&outside));
    assert_eq!(finished.end(), "exit 2", "{finished}");
    assert!(finished.stderr.contains("repository"), "{finished}");
    assert!(finished.stderr.contains("\nhint: "), "{finished}");
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}

#[test]
fn r5_5_a_second_run_in_the_same_work_tree_is_refused_while_the_first_one_lives() {
    let project = Project::new().script("phases: { build: [{ hang: true }] }\n");
    let first = project.start(&["run", "build", "do", "it"]);
    project.wait_for(&first, "agent_start");
    let finished = refused(&project, &["run", "build", "do", "more"], "exit 2");
    assert!(finished.stderr.contains(&project.runs()[0]), "{finished}");
    first.signal(rustix::process::Signal::INT);
    assert_eq!(first.finish().end(), "exit 130");
    let project = project.script("phases: {}\n");
    assert_eq!(project.fia(&["run", "build", "-q", "do", "more"]).end(), "exit 0");
}

#[test]
fn a_run_id_that_is_taken_or_names_no_file_is_refused() {
    let project = Project::new();
    assert_eq!(project.fia(&["run", "build", "--run", "mine", "-q", "do", "it"]).end(), "exit 0");
    refused(&project, &["run", "build", "--run", "mine", "do", "it"], "exit 2");
    refused(&project, &["run", "build", "--run", "../mine", "do", "it"], "exit 2");
}

#[test]
fn a_data_directory_below_a_plain_file_is_refused() {
    let project =
        Project::new().file("plain", "a file\n").config("defaults: { coding_agent: scripted, data_dir: plain/data }\n");
    let finished = project.fia(&["run", "build", "do", "it"]);
    assert!(["exit 2", "exit 3"].contains(&finished.end().as_str()), "{finished}");
    assert!(finished.stderr.starts_with("error: ") && finished.stderr.contains("\nhint: "), "{finished}");
    assert_eq!(project.env().read("plain"), "a file\n");
}

#[test]
fn r6_8_an_append_that_fails_stops_the_run_with_what_was_written_whole() {
    let calls = "{ run: 'true' }, ".repeat(200);
    let project = Project::new()
        .script(&format!("phases: {{ build: [{{ do: [{calls}] }}], build@2: [{{}}] }}\n"))
        .file("big.md", &"a long prompt. ".repeat(6000));
    // In blocks of 512 or 1024 bytes: a short prompt begins within so many, and 200 calls do not end.
    let limited = |rest: &str| {
        let mut command = project.env().command("sh");
        command.args(["-c", &format!("ulimit -f 48; exec {} run build {rest}", env!("CARGO_BIN_EXE_fia"))]);
        let finished = program::run(&mut command);
        assert_eq!(finished.end(), "exit 3", "{finished}");
        assert!(finished.stderr.contains("error: ") && finished.stderr.contains("\nhint: "), "{finished}");
    };
    limited("-f big.md");
    assert_eq!(project.runs(), [""; 0], "a run without a first record is none");
    limited("do it");
    // Whatever is in the log can be read, and a later run works.
    assert_eq!(project.fia(&["events", &project.runs()[0], "--json"]).end(), "exit 0");
    assert_eq!(project.fia(&["resume"]).end(), "exit 0");
    assert_eq!(project.fia(&["run", "build", "-q", "do", "it"]).end(), "exit 0");
}

#[test]
fn an_engine_that_is_not_installed_ends_the_run_and_names_what_to_do() {
    let project = Project::new().config("defaults: { coding_agent: pi, model: a/b }\n");
    let finished = project.fia(&["run", "build", "do", "it"]);
    assert_eq!(finished.end(), "exit 1", "{finished}");
    assert_eq!(project.log().outcome().as_str(), "engine_exhausted");
    assert!(finished.stderr.contains("`pi` not found on PATH; install `pi`"), "{finished}");
}

#[test]
fn a_script_that_cannot_be_read_says_what_is_wrong_with_it() {
    let project = Project::new().script("phases: { build: [{ dance: true }] }\n");
    let finished = project.fia(&["run", "build", "do", "it"]);
    assert_eq!(finished.end(), "exit 1", "{finished}");
    let said = "rehearsal.yaml:1:21 unknown field `dance`, expected one of do, answer, ";
    assert!(finished.stderr.contains(&format!("scripted rehearsal: missing: {said}")), "{finished}");
    assert!(!finished.stderr.contains("install"), "{finished}");
    for args in [&["config", "check"][..], &["run", "build", "--dry-run", "x"]] {
        let told = refused(&project, args, "exit 2");
        assert!(told.stderr.contains(&format!("error: the script cannot be used: {said}")), "{told}");
    }
    let other =
        project.config("defaults: { coding_agent: claude, model: m }\nengines: { scripted: { script: no.yaml } }\n");
    assert!(refused(&other, &["config", "check"], "exit 2").stderr.contains("no.yaml cannot read it: No such file"));
    assert_eq!(other.fia(&["run", "build", "--dry-run", "x"]).end(), "exit 0");
}

#[test]
fn r3_1_a_configuration_that_is_there_and_cannot_be_read_is_no_missing_one() {
    let linked = Project::new();
    let file = linked.env().work().join("fia.config.yaml");
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("gone.yaml", &file).unwrap();
    let folder = Project::new();
    let file = folder.env().work().join("fia.config.yaml");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    for (project, said) in [(linked, "No such file"), (folder, "it is not a regular file")] {
        let finished = refused(&project, &["run", "build", "x"], "exit 2");
        assert!(finished.stderr.contains(said), "{finished}");
        // Who only looks is told and works on.
        let looked = project.fia(&["runs"]);
        assert!(looked.end() == "exit 0" && looked.stderr.contains("fia.config.yaml cannot be used"), "{looked}");
    }
}

#[test]
fn prompt_and_configuration_files_without_an_end_or_far_too_large_are_refused() {
    let prompt = |user: &str| {
        Project::new().with(&format!("agents: [{{ name: builder, prompt_engineering: {{ user: {user} }} }}]\n"))
    };
    let pipe = prompt("pipe");
    let made = std::process::Command::new("mkfifo").arg(pipe.env().work().join("pipe")).status().unwrap();
    assert!(made.success());
    let large = "a".repeat(1024 * 1024 + 1);
    let cases = [
        (pipe, "it is not a regular file"),
        (prompt("/dev/zero"), "it is not a regular file"),
        (prompt("large").file("large", &large), "it is larger than 1048576 bytes"),
        (Project::new().with(&format!("# {large}\n")), "it is larger than 1048576 bytes"),
    ];
    for (project, said) in cases {
        let finished = project.fia(&["config", "check"]);
        assert_eq!(finished.end(), "exit 2", "{finished}");
        assert!(finished.stderr.contains(said), "{finished}");
    }
    assert_eq!(prompt("fits").file("fits", &large[1..]).fia(&["config", "check"]).end(), "exit 0");
}

#[test]
fn nothing_that_is_written_in_a_configuration_steers_a_terminal() {
    let evil = "a\\nb\\e[31mred\\u202e";
    let project = Project::new()
        .config(&format!(
            "defaults: {{ coding_agent: scripted, model: \"{evil}\" }}\n\
             checks: {{ test: {{ run: \"true # {evil}\" }} }}\n\
             stop: {{ token_budget: \"{evil}\" }}\n\
             workflows: {{ w: {{ description: \"{evil}\", steps: [{{ name: s, agent: builder }}] }} }}\n"
        ))
        .file("\u{202e}odd", "");
    let commands: [&[&str]; 6] = [
        &["run", "w", "x", "--dry-run"],
        &["config", "show"],
        &["config", "check"],
        &["doctor"],
        &["workflows"],
        &["show", "\u{1b}[31m"],
    ];
    for command in commands {
        let told = project.fia(command);
        let steers = |letter: char| letter == '\u{202e}' || (letter.is_control() && letter != '\n');
        assert!(!format!("{}{}", told.stdout, told.stderr).contains(steers), "{command:?}: {told}");
    }
    assert!(project.fia(commands[0]).stdout.contains("scripted a b␛[31mred⟨202e⟩"));
}
