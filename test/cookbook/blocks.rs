//! Command lines and configurations.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use fia::rehearsal::script::Script;
use pretty_assertions::assert_eq;

use super::support::program;
use super::support::project::Project;
use super::tables::documented_payloads;
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

/// What became of the command lines.
#[derive(Debug, Default)]
struct Tried {
    ran: usize,
    scripts: usize,
    parsed: usize,
    skipped: usize,
}

#[expect(clippy::print_stdout, reason = "how much was tried is worth a line")]
#[test]
fn every_command_line_of_the_documents_works() {
    let mut tried = Tried::default();
    let documented = documented_payloads();
    let (mut blocks_tried, mut records) = (0, 0);
    for document in documents() {
        let project = scratch();
        for block in blocks(&document) {
            let place = format!("{}:{}", document.path.display(), block.line);
            if let Some(name) = block.rest.strip_prefix("file: ") {
                project.env().write(name, &block.body);
                project.env().git(&["add", "--", name]);
                project.env().git(&["commit", "--quiet", "--allow-empty", "--message", name]);
            } else if block.kind == "sh" {
                try_commands(&project, &block, &place, &mut tried);
                blocks_tried += 1;
            }
        }
        records += check_payloads(&project, &documented);
    }
    let Tried { ran, scripts, parsed, skipped } = tried;
    println!(
        "{ran} command lines and {scripts} scripts ran, {parsed} lines were parsed, {skipped} blocks were left out, \
         of {blocks_tried} blocks; the payloads of {records} records are as DOCS.md says"
    );
    assert!(ran >= 70 && scripts >= 3 && parsed >= 10, "{ran} {scripts} {parsed}");
}

/// Sees that the payloads of a project's runs have no key that the tables of events do not list.
fn check_payloads(project: &Project, documented: &BTreeMap<String, BTreeSet<String>>) -> usize {
    let mut records = 0;
    for run in project.runs() {
        let log = fs::read_to_string(project.env().work().join(".fia/runs").join(run).join("events.jsonl")).unwrap();
        for line in log.lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let kind = record["type"].as_str().unwrap();
            let kind = if kind == "log" { record["name"].as_str().unwrap() } else { kind };
            let keys = record["payload"].as_object().unwrap().keys();
            let unlisted: Vec<_> = keys.filter(|key| !documented[kind].contains(*key)).collect();
            assert!(
                unlisted.is_empty() || kind == "envelope",
                "DOCS.md does not list {unlisted:?} of `{kind}`: {line}"
            );
            records += 1;
        }
    }
    records
}

fn try_commands(project: &Project, block: &Block, place: &str, tried: &mut Tried) {
    if block.rest.starts_with("skip: ") {
        tried.skipped += 1;
        return;
    }
    if block.rest == "script" {
        shell(project, &format!("set -eu\n{}", block.body), "exit 0", place);
        tried.scripts += 1;
        return;
    }
    for line in block.body.lines() {
        assert!(line.starts_with("fia "), "{place}: only fia can be tried: {line}");
        match block.rest.as_str() {
            "" => {
                let end = line.rsplit_once("# exit ").map_or("0", |(_, status)| status);
                shell(project, line, &format!("exit {end}"), place);
                tried.ran += 1;
            }
            "parse" => {
                shell(project, &format!("{line} --help"), "exit 0", place);
                tried.parsed += 1;
            }
            other => panic!("{place}: `{other}` says nothing to this test"),
        }
    }
}

/// Has a shell do this, which must end so.
fn shell(project: &Project, text: &str, end: &str, place: &str) {
    let mut shell = project.env().command("sh");
    let finished = program::run(shell.args(["-c", text]).env("PATH", path()));
    assert_eq!(finished.end(), end, "{place}: {text}: {finished}");
}

#[expect(clippy::print_stdout, reason = "how much was tried is worth a line")]
#[test]
fn every_configuration_script_and_json_of_the_documents_can_be_read() {
    let mut read = BTreeMap::new();
    for document in documents() {
        let all = blocks(&document);
        let mut schema = String::new();
        for block in &all {
            let place = format!("{}:{}", document.path.display(), block.line);
            let what = match (block.kind.as_str(), block.rest.as_str()) {
                ("yaml", "script") => read_script(&block.body, &place),
                ("yaml", "plain") => {
                    let value: Result<serde_json::Value, _> = serde_saphyr::from_str(&block.body);
                    value.unwrap_or_else(|error| panic!("{place}: {error}"));
                    "other YAML"
                }
                ("yaml", "file: fia.config.yaml") => {
                    let beside =
                        all.iter().filter_map(|block| Some((block.rest.strip_prefix("file: ")?, &*block.body)));
                    check_configuration(&block.body, beside, &place)
                }
                ("yaml", rest) if rest.starts_with("file: ") => read_script(&block.body, &place),
                ("yaml", rest) => {
                    let names = rest.strip_prefix("files: ").into_iter().flat_map(|files| files.split(", "));
                    let text = |name: &str| if name.ends_with(".json") { &*schema } else { "phases: {}\n" };
                    check_configuration(&block.body, names.map(|name| (name, text(name))), &place)
                }
                ("json", _) => {
                    let value: serde_json::Value =
                        serde_json::from_str(&block.body).unwrap_or_else(|error| panic!("{place}: {error}"));
                    schema = value.to_string();
                    "JSON"
                }
                ("sh" | "text", _) => continue,
                (other, _) => panic!("{place}: a block of `{other}` says nothing to this test"),
            };
            *read.entry(what).or_insert(0) += 1;
        }
    }
    println!("blocks that were read: {read:?}");
    for (what, least) in [("configuration", 12), ("script", 6), ("JSON", 2)] {
        assert!(read.get(what).is_some_and(|count| *count >= least), "{what}: {read:?}");
    }
}

fn read_script(text: &str, place: &str) -> &'static str {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.yaml");
    fs::write(&file, text).unwrap();
    Script::load(&file, place).unwrap_or_else(|error| panic!("{error}"));
    "script"
}

/// Has a configuration checked, with these files beside it.
fn check_configuration<'a>(text: &str, beside: impl Iterator<Item = (&'a str, &'a str)>, place: &str) -> &'static str {
    let project = beside.fold(Project::new(), |project, (name, text)| project.file(name, text)).config(text);
    let finished = project.fia(&["config", "check"]);
    assert_eq!(finished.end(), "exit 0", "{place}: {finished}");
    "configuration"
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let link = regex::Regex::new(r"\]\(([^)]+)\)").unwrap();
    let mut followed = 0;
    for document in documents() {
        for found in link.captures_iter(&document.text) {
            let target = &found[1];
            if target.starts_with("https://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
            // Nothing before the anchor means this document.
            let path = if file.is_empty() { document.path.clone() } else { document.path.parent().unwrap().join(file) };
            let place = format!("{}: {target}", document.path.display());
            assert!(path.exists(), "{place}");
            if let Some(anchor) = anchor {
                let text = fs::read_to_string(path).unwrap();
                assert!(anchors(&text).any(|known| known == anchor), "{place}");
            }
            followed += 1;
        }
    }
    assert!(followed >= 30, "{followed}");
}

/// The names that pages give to the headings of a document.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings.map(|heading| {
        let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || *letter == ' ' || *letter == '-');
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    })
}
