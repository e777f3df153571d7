//! Files of fia are the user's alone (SPEC 5.5).

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;

use crate::support::program;
use crate::support::project::Project;
use crate::support::test_env::TestEnv;

/// Everything in a folder that others may read or write, or that the user cannot.
fn open_to_others(folder: &Path) -> (usize, Vec<(PathBuf, String)>) {
    let (mut seen, mut open) = (0, Vec::new());
    for entry in walkdir::WalkDir::new(folder) {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
        seen += 1;
        // git makes its packs read-only.
        let allowed: &[u32] = if entry.file_type().is_dir() { &[0o700] } else { &[0o600, 0o400] };
        if !allowed.contains(&mode) {
            open.push((entry.path().strip_prefix(folder).unwrap().to_owned(), format!("{mode:o}")));
        }
    }
    (seen, open)
}

/// A process whose new files everybody could read.
fn careless(command: &mut std::process::Command) -> std::process::Command {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "umask 022; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().unwrap());
    shell
}

#[test]
fn r5_5_every_file_of_the_demo_is_0600_and_every_folder_0700() {
    let env = TestEnv::new();
    let mut command = env.command(env!("CARGO_BIN_EXE_fia"));
    let finished = program::run(&mut careless(command.args(["demo", "--keep", "kept"])));
    assert_eq!(finished.end(), "exit 0", "{finished}");
    let (seen, open) = open_to_others(&env.work().join("kept/.fia"));
    assert!(seen > 40, "{seen}");
    assert_eq!(open, []);
}

#[test]
fn r5_5_so_is_what_a_rollback_a_message_a_stop_and_a_resume_leave() {
    let project = Project::new()
        .with("agents: [{ name: builder, writes: [src/] }]\nworkflows:\n  two:\n    steps:\n      - { name: build, agent: builder }\n      - { name: ask, approve: {} }\n")
        .script("phases: { build: [{ do: [{ write: { other: x, untracked: y, src/a: z } }] }], build@2: [{}] }\n")
        .committed();
    project.env().write("untracked", "the only copy\n");
    let finished = program::run(&mut careless(&mut project.command(&["run", "two", "x"])));
    assert_eq!(finished.end(), "exit 1", "{finished}");
    for args in ["message hello", "stop --all", "resume", "stop --clear", "resume", "approve"] {
        let args: Vec<&str> = args.split(' ').collect();
        program::run(&mut careless(&mut project.command(&args)));
    }
    let finished = program::run(&mut careless(&mut project.command(&["resume"])));
    assert_eq!(finished.end(), "exit 0", "{finished}");
    let (seen, open) = open_to_others(&project.env().work().join(".fia"));
    assert!(seen > 25, "{seen}");
    assert_eq!(open, []);
}
