//! Tables of DOCS.md that mirror code.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use fia::event::{Event, Outcome};
use pretty_assertions::assert_eq;
use serde_json::Value;

use super::support::project::Project;

/// The rows of the table below this heading row, cell by cell.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let docs = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("DOCS.md")).unwrap();
    let mut lines = docs.lines().skip_while(|line| *line != heading);
    assert!(lines.next().is_some(), "DOCS.md has no table `{heading}`");
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// The first cells, without backticks.
fn firsts(rows: &[Vec<String>]) -> BTreeSet<String> {
    rows.iter().map(|row| row[0].trim_matches('`').to_owned()).collect()
}

fn texts(of: impl IntoIterator<Item = impl ToString>) -> BTreeSet<String> {
    of.into_iter().map(|text| text.to_string()).collect()
}

#[test]
fn the_table_of_commands_is_what_the_program_says() {
    let help = Project::new().fia(&["--help"]).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A long description goes on in the next line, further in.
    let mut said: Vec<String> = Vec::new();
    for line in listed.filter(|line| !line.trim_start().starts_with("help ")) {
        match line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) {
            Some(rest) => {
                let (command, about) = rest.split_once("  ").unwrap();
                said.push(format!("`fia {command}` | {}", about.trim()));
            }
            None => write!(said.last_mut().unwrap(), " {}", line.trim()).unwrap(),
        }
    }
    let written = rows("| command | does |").into_iter().map(|row| row.join(" | "));
    assert_eq!(written.collect::<BTreeSet<_>>(), texts(said));
}

#[test]
fn the_table_of_outcomes_has_all_eleven() {
    assert_eq!(firsts(&rows("| outcome | when |")), texts(Outcome::ALL));
}

#[test]
fn the_tables_of_events_have_every_type_and_log_name() {
    let kinds = Event::KINDS.iter().filter(|kind| **kind != "log");
    assert_eq!(firsts(&rows("| type | name | says | payload |")), texts(kinds));
    assert_eq!(firsts(&rows("| name | says | payload |")), texts(Event::LOG_NAMES));
}

/// The keys of each kind of payload as the tables of events list them, by type, and for `log` by name.
pub(crate) fn documented_payloads() -> BTreeMap<String, BTreeSet<String>> {
    let tables = [("| type | name | says | payload |", 3), ("| name | says | payload |", 2)];
    let rows = tables.into_iter().flat_map(|(heading, at)| rows(heading).into_iter().map(move |row| (row, at)));
    let keys = |cell: &str| cell.split(", ").map(str::to_owned).collect();
    rows.map(|(row, at)| (row[0].trim_matches('`').to_owned(), keys(&row[at]))).collect()
}

#[test]
fn the_table_of_keys_is_the_table_that_configurations_are_checked_by() {
    let mut known = BTreeSet::new();
    keys("", &fia::config::json_schema(), &mut known);
    let written = rows("| key | value; default | what it is |");
    let written: BTreeSet<_> =
        written.iter().map(|row| (row[0].trim_matches('`').to_owned(), row[2].clone())).collect();
    assert_eq!(written, known);
}

/// Every key below a schema, with what it is; those that are not acted on are told in a sentence.
fn keys(above: &str, schema: &Value, found: &mut BTreeSet<(String, String)>) {
    for (key, of) in schema["properties"].as_object().into_iter().flatten() {
        let about = of["description"].as_str().unwrap();
        // camelCase is another spelling of the same key.
        if about == "not acted on" || key.contains(char::is_uppercase) {
            continue;
        }
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        found.insert((path.clone(), about.to_owned()));
        if of["properties"].is_object() {
            keys(&path, of, found);
        } else if of["items"]["properties"].is_object() {
            keys(&format!("{path}[]"), &of["items"], found);
        } else if of["additionalProperties"]["properties"].is_object() {
            let free = match key.as_str() {
                "engines" => "ENGINE",
                "models" => "MODEL",
                "phase_overrides" => "STEP",
                _ => "NAME",
            };
            keys(&format!("{path}.{free}"), &of["additionalProperties"], found);
        }
    }
}

#[test]
fn every_dependency_has_a_reason() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let mut section = "";
    let mut used = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if let ("[dependencies]" | "[dev-dependencies]", Some((name, _))) = (section, line.split_once(" = ")) {
            used.insert(name.to_owned());
        }
    }
    assert_eq!(firsts(&rows("| crate | why |")), used);
}
