//! Command lines and configurations.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use fia::rehearsal::script::Script;
use pretty_assertions::assert_eq;

use super::support::program;
use super::support::project::Project;
use super::{Document, documents};

/// A fenced block.
struct Block {
    /// The word behind the fence, and what follows it.
    kind: String,
    rest: String,
    line: usize,
    body: String,
}

/// The fenced blocks of a document.
fn blocks(document: &Document) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (index, line) in document.text.lines().enumerate() {
        match (is_open, line.strip_prefix("```")) {
            (false, Some(info)) => {
                let (kind, rest) = info.split_once(' ').unwrap_or((info, ""));
                let (kind, rest) = (kind.to_owned(), rest.to_owned());
                blocks.push(Block { kind, rest, line: index + 1, body: String::new() });
                is_open = true;
            }
            (true, Some(_)) => is_open = false,
            (true, None) => {
                let block = blocks.last_mut().expect("an open block");
                block.body += line;
                block.body.push('\n');
            }
            (false, None) => {}
        }
    }
    assert!(!is_open, "{}: a block without an end", document.path.display());
    blocks
}

/// A repository in which the command lines of a document make sense: it has a brief, a check, a run, and the workflow
/// that the recipe about workflows speaks of.
fn scratch() -> Project {
    let project = Project::new()
        .with(
            "
checks: { test: { run: 'true' }, lint: { run: 'true' } }
workflows:
  release: { steps: [{ name: build, agent: builder, output: build }] }
",
        )
        .file("brief.md", "Add a flag.\n")
        .file("test.sh", "true\n")
        .committed();
    let ran = project.fia(&["run", "build", "-q", "a run to look at"]);
    assert_eq!(ran.end(), "exit 0", "{ran}");
    project
}

/// `PATH` with the program under test in front.
fn path() -> OsString {
    let own = Path::new(env!("CARGO_BIN_EXE_fia")).parent().unwrap().to_owned();
    let all = [own].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap()).collect::<Vec<_>>());
    env::join_paths(all).unwrap()
}

#[expect(clippy::print_stdout, reason = "how much was tried is worth a line")]
#[test]
fn every_command_line_of_the_documents_works() {
    let (mut ran, mut parsed, mut skipped) = (0, 0, 0);
    for document in documents() {
        let project = scratch();
        for block in blocks(&document).into_iter().filter(|block| block.kind == "sh") {
            let place = format!("{}:{}", document.path.display(), block.line);
            if block.rest.starts_with("skip: ") {
                skipped += 1;
                continue;
            }
            for line in block.body.lines() {
                assert!(line.starts_with("fia "), "{place}: only fia can be tried: {line}");
                let line = match block.rest.as_str() {
                    "" => line.to_owned(),
                    "parse" => format!("{line} --help"),
                    other => panic!("{place}: `{other}` says nothing to this test"),
                };
                let mut shell = project.env().command("sh");
                let finished = program::run(shell.args(["-c", &line]).env("PATH", path()));
                assert_eq!(finished.end(), "exit 0", "{place}: {line}: {finished}");
                if block.rest.is_empty() { ran += 1 } else { parsed += 1 }
            }
        }
    }
    println!("{ran} command lines ran, {parsed} were parsed, {skipped} blocks were left out");
    assert!(ran >= 20 && parsed >= 4, "{ran} {parsed}");
}

#[expect(clippy::print_stdout, reason = "how much was tried is worth a line")]
#[test]
fn every_configuration_script_and_json_of_the_documents_can_be_read() {
    let (mut configs, mut scripts, mut values) = (0, 0, 0);
    for document in documents() {
        let mut schema = String::new();
        for block in blocks(&document) {
            let place = format!("{}:{}", document.path.display(), block.line);
            match (block.kind.as_str(), block.rest.as_str()) {
                ("yaml", "script") => {
                    let folder = tempfile::tempdir().unwrap();
                    let file = folder.path().join("script.yaml");
                    fs::write(&file, &block.body).unwrap();
                    Script::load(&file).unwrap_or_else(|error| panic!("{place}: {error}"));
                    scripts += 1;
                }
                ("yaml", rest) => {
                    let mut project = Project::new().config(&block.body);
                    for file in rest.strip_prefix("files: ").into_iter().flat_map(|files| files.split(", ")) {
                        project = project.file(file, if file.ends_with(".json") { &schema } else { "phases: {}\n" });
                    }
                    let finished = project.fia(&["config", "check"]);
                    assert_eq!(finished.end(), "exit 0", "{place}: {finished}");
                    configs += 1;
                }
                ("json", _) => {
                    let value: serde_json::Value =
                        serde_json::from_str(&block.body).unwrap_or_else(|error| panic!("{place}: {error}"));
                    schema = value.to_string();
                    values += 1;
                }
                ("sh" | "text", _) => {}
                (other, _) => panic!("{place}: a block of `{other}` says nothing to this test"),
            }
        }
    }
    println!("{configs} configurations, {scripts} scripts and {values} JSON values were read");
    assert!(configs >= 5 && scripts >= 3 && values >= 2, "{configs} {scripts} {values}");
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let link = regex::Regex::new(r"\]\(([^)#][^)]*)\)").unwrap();
    for document in documents() {
        for found in link.captures_iter(&document.text) {
            let target = &found[1];
            let is_there = target.starts_with("https://") || document.path.parent().unwrap().join(target).exists();
            assert!(is_there, "{}: {target}", document.path.display());
        }
    }
}
