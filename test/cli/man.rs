//! `fia man`: pages of the program and its commands.

use std::collections::BTreeSet;
use std::fs;

use pretty_assertions::assert_eq;

use crate::support::program;
use crate::support::project::Project;

#[test]
fn there_is_a_page_of_fia_and_of_each_command_that_help_lists() {
    let project = Project::new();
    let help = project.fia(&["--help"]).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let commands: BTreeSet<_> =
        names.filter_map(|line| line.split(' ').next()).filter(|name| *name != "help").collect();
    for name in &commands {
        let page = project.fia(&["man", name]);
        assert_eq!(page.end(), "exit 0", "{page}");
        let title = format!(".TH fia-{name} 1  \"{name} {}\"", env!("CARGO_PKG_VERSION"));
        assert!(page.stdout.contains(&title), "{page}");
        assert!(!page.stdout.contains("\\-\\-version"), "{page}");
    }

    let written = project.fia(&["man", "--dir", "pages/man1"]);
    assert_eq!(written.end(), "exit 0", "{written}");
    let entries = fs::read_dir(project.env().work().join("pages/man1")).unwrap();
    let files: BTreeSet<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let of = |name: &str| format!("fia-{name}.1");
    let nested = ["config-check", "config-show", "config-schema", "verdict-set", "verdict-show", "verdict-clear"];
    let wanted = commands.into_iter().chain(nested).map(of).chain(["fia.1".to_owned()]);
    assert_eq!(files, wanted.collect());
    assert_eq!(project.env().read("pages/man1/fia-run.1"), project.fia(&["man", "run"]).stdout);
}

#[test]
fn a_page_names_every_flag_and_can_be_set() {
    let project = Project::new();
    let page = project.fia(&["man", "verdict", "set"]).stdout;
    for text in [".TH fia-verdict-set 1", "\\-\\-missing", "\\-\\-redo", "What is missing; once for each thing"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let mut groff = project.env().command("groff");
    let file = project.env().work().join("page.1");
    fs::write(&file, &page).unwrap();
    if groff.arg("--version").output().is_err() {
        eprintln!("not checked: groff is not installed");
        return;
    }
    let set = program::run(project.env().command("groff").args(["-man", "-Tutf8", "-ww"]).arg(file));
    assert_eq!((set.end().as_str(), set.stderr.as_str()), ("exit 0", ""));
    assert!(set.stdout.contains("fia"), "{set}");
}

#[test]
fn a_command_that_is_not_there_or_hidden_has_no_page() {
    let project = Project::new();
    for name in ["runn", "act-script", "provider"] {
        let finished = project.fia(&["man", name]);
        assert_eq!(finished.end(), "exit 2", "{finished}");
        assert_eq!(
            finished.stderr,
            format!("error: no command is called `{name}`\n\nhint: `fia --help` lists the commands\n")
        );
    }
}
