//! A configuration to begin with: written for one repository, from what is found in it and on the machine.
//!
//! Everything that the file does not need stands in it as a comment, with its default, taken from the tables that
//! files are checked by. The roster and its system prompts are those that ship, so that nothing changes by
//! writing them down; each prompt has one more section, about the repository.

mod taken_over;

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::builtin::{self, RolePrompts};
use super::found;
use super::table::{DEFAULT_CEILING, STOP, Shape};
use crate::ids::EngineName;

pub use taken_over::taken_over;

/// Where a comment begins, if what it is about is not longer.
const COMMENT_COLUMN: usize = 38;

/// Files that say how to work in a repository, if they are there.
const GUIDES: [&str; 6] = ["AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md", "README.md", "README.rst", "README"];

/// Manifests of other ways to build, and how they run the tests. What a run finds by itself comes before them.
const OTHER_TESTS: [(&str, &str); 12] = [
    ("gradlew", "./gradlew test"),
    ("build.gradle", "gradle test"),
    ("build.gradle.kts", "gradle test"),
    ("mvnw", "./mvnw -q test"),
    ("pom.xml", "mvn -q test"),
    ("mix.exs", "mix test"),
    ("Package.swift", "swift test"),
    ("deno.json", "deno test"),
    (".rspec", "bundle exec rspec"),
    ("build.zig", "zig build test"),
    ("dune-project", "dune test"),
    ("stack.yaml", "stack test"),
];

/// Build files whose target `test` runs the tests.
const TARGETS: [(&str, &str); 3] = [("Makefile", "make test"), ("GNUmakefile", "make test"), ("justfile", "just test")];

/// What `fia init` writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starter {
    /// The text of `fia.config.yaml`.
    pub config: String,
    /// System prompts: path from the top of the work tree, and text.
    pub prompts: Vec<(String, String)>,
    /// Checks that were found: name, command line, and the file that suggested it.
    pub checks: Vec<(&'static str, String, &'static str)>,
}

impl Starter {
    /// Looks at the repository at `top`; `installed` are the engines that are there, best first.
    pub fn new(top: &Path, installed: &[EngineName]) -> Self {
        let checks = checks(top);
        let about = about(top, &checks);
        let roster = roster();
        let prompts = roster.iter().map(|(name, _)| (prompt_file(name), prompt(builtin::prompts(name), &about)));
        Self { prompts: prompts.collect(), config: config(installed, &checks, &roster), checks }
    }
}

/// The agents that ship, by name.
fn roster() -> Vec<(String, Value)> {
    let shipped = builtin::layer().value;
    let agents = shipped["agents"].as_array().cloned().unwrap_or_default();
    agents.into_iter().map(|agent| (agent["name"].as_str().unwrap_or_default().to_owned(), agent)).collect()
}

fn prompt_file(agent: &str) -> String {
    format!("prompts/{agent}/system.md")
}

/// What a run would find, and where it finds no tests, what other manifests suggest.
fn checks(top: &Path) -> Vec<found::Found> {
    let mut checks = found::checks(top);
    if !checks.iter().any(|(name, ..)| *name == "test") {
        let has_target = |file: &str| {
            let text = std::fs::read_to_string(top.join(file)).unwrap_or_default();
            text.lines().any(|line| line.starts_with("test:"))
        };
        let target = TARGETS.into_iter().find(|(file, _)| has_target(file));
        let other = target.or_else(|| OTHER_TESTS.into_iter().find(|(file, _)| top.join(file).is_file()));
        checks.extend(other.map(|(file, run)| ("test", run.to_owned(), file)));
    }
    checks
}

/// The section about the repository.
fn about(top: &Path, checks: &[found::Found]) -> String {
    let mut text = "This repository\n".to_owned();
    let guides: Vec<_> = GUIDES.into_iter().filter(|file| top.join(file).is_file()).map(quoted).collect();
    if !guides.is_empty() {
        text += &format!("- Read first: {}.\n", guides.join(", "));
    }
    match checks {
        [] => text += "- No check is configured: find out how it is built and tested, and say so in your report.\n",
        checks => {
            let named: Vec<_> = checks.iter().map(|(name, run, _)| format!("{name} is {}", quoted(run))).collect();
            text += &format!("- Its checks, which the run makes by itself after you: {}.\n", named.join(", "));
        }
    }
    text
}

fn quoted(text: impl AsRef<str>) -> String {
    format!("`{}`", text.as_ref())
}

/// The prompt that ships, with the section about the repository before the one about the report, which comes last.
fn prompt(shipped: RolePrompts, about: &str) -> String {
    let report = "\nYour report\n";
    shipped.system.replacen(report, &format!("\n{about}{report}"), 1)
}

fn config(installed: &[EngineName], checks: &[found::Found], roster: &[(String, Value)]) -> String {
    let mut text = "\
# How fia works in this repository. Everything here may be deleted: what is left out keeps its default.
# `fia config check` finds mistakes, `fia config show` prints every value in force with its origin, and
# `fia config schema` prints a JSON Schema for editors.

defaults:
"
    .to_owned();
    defaults(&mut text, installed);
    text += "\nagents:\n";
    agents(&mut text, roster, installed);
    text.push('\n');
    checks_section(&mut text, checks);
    text.push('\n');
    commented(&mut text, "# stop:", "limits at which a run stops by itself; 0 switches one off");
    for field in STOP {
        if let Shape::Knob(knob) = &field.shape {
            commented(&mut text, &format!("#   {}: {}", field.key, knob.default), field.about);
        }
    }
    text += "\n# `fia workflows` lists the workflows that ship, and `fia workflows NAME` prints one to copy from.\n";
    commented(&mut text, "# workflows:", "your own, or others in place of those that ship");
    text += "#   careful:
#     description: build, test, review, commit
#     steps:
#       - { name: build, agent: builder, output: build, gates: [diff_matches_claims] }
#       - { name: tests, repair: { check: [test], fix: builder } }
#       - { name: review, agent: reviewer, output: review, when: \"tests.passed\" }
#       - { name: save, commit: {}, when: \"review.envelope.approved\" }
";
    text
}

fn defaults(text: &mut String, installed: &[EngineName]) {
    let engine = installed.first().copied().unwrap_or(EngineName::Claude);
    let found: Vec<_> = installed.iter().map(|name| name.as_str()).collect();
    let found =
        if found.is_empty() { "none found here".to_owned() } else { format!("found here: {}", found.join(", ")) };
    commented(text, &format!("  coding_agent: {engine}"), &format!("claude | pi | cursor | scripted; {found}"));
    commented(text, "  # model: NAME", "as the engine calls it; left out, the engine chooses");
    commented(text, "  # effort: high", "claude: low | medium | high | xhigh | max; for pi see `thinking`");
    let ceiling = format!("  # session_rotation_context: {DEFAULT_CEILING}");
    commented(text, &ceiling, "tokens of live context at which an agent gets a fresh session");
    commented(text, "  # protected_files: [\"fia.config.yaml\", \".env*\"]", "what no agent may write");
}

fn agents(text: &mut String, roster: &[(String, Value)], installed: &[EngineName]) {
    for (name, agent) in roster {
        let _infallible = writeln!(text, "  - name: {name}");
        let _infallible = writeln!(text, "    prompt_engineering: {{ system: {} }}", prompt_file(name));
        match agent.get("writes") {
            Some(writes) if writes == &Value::Array(Vec::new()) => commented(text, "    writes: []", "read-only"),
            Some(writes) => commented(text, &format!("    writes: {}", list(writes)), "and nowhere else"),
            None => commented(text, "    # writes: [\"src/\", \"test/\"]", "left out: anywhere not protected"),
        }
        if let Some(tools) = agent.get("tools") {
            let _infallible = writeln!(text, "    tools: {}", list(tools).replace('"', ""));
        }
        if name == "builder"
            && let [_, other, ..] = installed
        {
            commented(
                text,
                &format!("    # fallbacks: [{{ coding_agent: {other} }}]"),
                "who takes over when its engine dies",
            );
        }
    }
}

/// A list as it is written in one line.
fn list(value: &Value) -> String {
    value.to_string().replace(',', ", ")
}

fn checks_section(text: &mut String, checks: &[found::Found]) {
    if checks.is_empty() {
        commented(text, "# checks:", "commands that judge the tree; none was found, and without one nothing is tested");
        *text += "#   test: { run: \"make test\", timeout_minutes: 10 }\n";
        return;
    }
    commented(text, "checks:", "commands that judge the tree");
    for (name, run, manifest) in checks {
        let check = format!("  {name}: {{ run: {}, timeout_minutes: 10 }}", Value::from(run.as_str()));
        commented(text, &check, &format!("found in {manifest}"));
    }
}

/// A line and what it is about.
fn commented(text: &mut String, line: &str, about: &str) {
    let _infallible = writeln!(text, "{line:COMMENT_COLUMN$} # {about}");
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{Config, Surroundings, load};
    use super::*;

    fn starter(files: &[(&str, &str)], installed: &[EngineName]) -> Starter {
        let top = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(top.path().join(name), text).unwrap();
        }
        Starter::new(top.path(), installed)
    }

    /// The checks found, as `name: command (file)`.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let checks = starter(files, &[]).checks;
        checks.iter().map(|(name, run, file)| format!("{name}: {run} ({file})")).collect()
    }

    #[test]
    fn other_languages_get_the_check_that_their_manifest_suggests() {
        assert_eq!(found(&[("pom.xml", "")]), ["test: mvn -q test (pom.xml)"]);
        assert_eq!(found(&[("pom.xml", ""), ("mvnw", "")]), ["test: ./mvnw -q test (mvnw)"]);
        assert_eq!(
            found(&[("Makefile", "all:\n\ttrue\ntest: all\n"), ("pom.xml", "")]),
            ["test: make test (Makefile)"]
        );
        assert_eq!(found(&[("Makefile", "all:\n\ttrue\n")]), [""; 0]);
        assert_eq!(found(&[("go.mod", "module x\n"), ("Makefile", "test:\n")])[0], "test: go test ./... (go.mod)");
    }

    #[test]
    fn each_prompt_is_the_one_that_ships_with_a_section_about_the_repository_before_the_report() {
        let starter = starter(&[("Cargo.toml", ""), ("AGENTS.md", "")], &[EngineName::Claude]);
        assert_eq!(starter.prompts.len(), 6);
        for (file, text) in &starter.prompts {
            let section = text.find("\nThis repository\n- Read first: `AGENTS.md`.\n- Its checks,").expect(file);
            let report = text.find("\nYour report\n").expect(file);
            assert!(section < report, "{file}");
            let shipped = builtin::prompts(file.split('/').nth(1).unwrap()).system;
            assert_eq!(text.lines().filter(|line| !shipped.contains(line)).count(), 3, "{file}");
        }
    }

    #[test]
    fn what_it_writes_holds_the_same_as_no_file_at_all() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("go.mod"), "module x\n").unwrap();
        let engines = [EngineName::Pi, EngineName::Cursor];
        let around = Surroundings { top: top.path(), engines: &engines };
        // Where prompts come from is what differs.
        let shown = |config: &Config| {
            let mut shown = config.show()["config"].take();
            for agent in shown["agents"].as_array_mut().unwrap() {
                agent.as_object_mut().unwrap().shift_remove("prompt_engineering");
            }
            shown
        };
        let before = shown(&load(None, around).unwrap().config);
        let starter = Starter::new(top.path(), &engines);
        for (file, text) in &starter.prompts {
            fs::create_dir_all(top.path().join(file).parent().unwrap()).unwrap();
            fs::write(top.path().join(file), text).unwrap();
        }
        let file = top.path().join("fia.config.yaml");
        fs::write(&file, &starter.config).unwrap();
        let loaded = load(Some(&file), around).unwrap();
        assert_eq!(loaded.warnings, []);
        assert_eq!(shown(&loaded.config), before);
    }
}
