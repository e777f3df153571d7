//! What agents and people are told of checks and tools, and that no secret is in it.

use fia::channel::{Row, RowKind};
use pretty_assertions::assert_eq;

use crate::support::project::{Log, Project};

/// A value that an engine is given; checks and tools print it.
const SECRET: &str = "hunter2hunter2";

/// Rows of the channel of this kind.
fn rows(log: &Log, kind: RowKind) -> Vec<String> {
    let rows = log.file("channel.jsonl");
    let rows = rows.lines().map(|line| serde_json::from_str::<Row>(line).unwrap());
    rows.filter(|row| row.kind == kind).map(|row| row.text).collect()
}

#[test]
fn r5_1_a_secret_reaches_no_digest_no_row_and_no_prompt_of_a_failed_check() {
    let project = Project::new()
        .config(&format!(
            "
defaults: {{ coding_agent: scripted, model: rehearsal }}
engines: {{ scripted: {{ script: rehearsal.yaml, env: {{ LOOP_TOKEN: {SECRET} }} }} }}
checks: {{ test: {{ run: 'echo found {SECRET}; exit 1 # DEPLOY_API_KEY=abc123' }} }}
stop: {{ attempt_cap: 1 }}
workflows: {{ mend: {{ steps: [ {{ name: build, agent: builder }}, {{ repair: {{ check: [test], fix: builder }} }} ] }} }}
"
        ))
        .script(&format!(
            "phases: {{ '*': [ {{ do: [ {{ say: 'I know {SECRET}' }}, {{ run: 'echo {SECRET}' }} ] }} ] }}\n"
        ));
    let log = project.run("mend");
    let texts = [
        log.file("agents/builder/01_build.1.digest.md"),
        log.file("agents/builder/03_fix_1.1.digest.md"),
        log.prompt("builder", "03_fix_1", 1, 1),
        log.file("channel.jsonl"),
    ];
    for text in &texts {
        assert!(!text.contains(SECRET) && !text.contains("abc123"), "{text}");
    }
    assert!(texts[0].contains("I know ***\n") && texts[0].contains("result: ***\n"), "{}", texts[0]);
    assert!(texts[2].contains("found ***"), "{}", texts[2]);
    let said = &rows(&log, RowKind::Check)[0];
    assert!(said.starts_with("test: `echo found ***; exit 1 # DEPLOY_API_KEY=***` failed; whole output in "), "{said}");
    // What the check printed is on disk as it was: the file is its output.
    assert!(log.file("context_handoff/02_test_1.log").contains(SECRET));
}

#[test]
fn r5_1_a_secret_is_hidden_before_the_text_around_it_is_cut() {
    // Each ends the last characters that are told: a prompt's and a text's 2000, an argument's and a result's 200,
    // a call's 120, the 400 of an engine's last words.
    let at = |end: usize| format!("{}{SECRET}", "x".repeat(end - 10));
    let (said, ran, told) = (at(2000), at(120), at(200));
    let project = Project::new()
        .config(&format!(
            "
defaults: {{ coding_agent: scripted, model: rehearsal, relay: 'off' }}
engines: {{ scripted: {{ script: rehearsal.yaml, env: {{ LOOP_TOKEN: {SECRET} }} }} }}
workflows: {{ w: {{ steps: [ {{ name: build, agent: builder }}, {{ name: next, agent: builder }} ] }} }}
"
        ))
        .script(&format!(
            "phases:\n  build:\n    - do: [{{ say: '{said}' }}, {{ run: ': {ran}' }}, {{ run: ': {told}' }}, \
             {{ read: made }}]\n  next: [{{ exit: 1, stderr: '{}' }}]\n",
            at(500)
        ))
        .file("made", &format!("{told}\n"));
    let finished = project.fia(&["run", "w", &at(1900), "-q"]);
    assert_eq!(finished.end(), "exit 1", "{finished}");
    let log = project.log();
    // The prompt stands in the log as it was given.
    let events: String = log.file("events.jsonl").lines().skip(1).filter(|line| !line.contains("run_start")).collect();
    let digest = log.file("agents/builder/01_build.1.digest.md");
    for text in [&digest, &events, &finished.stderr] {
        assert!(!text.contains("xhunter"), "{text}");
    }
    assert!(digest.contains("x*** ") || digest.contains("x***\n"), "{digest}");
    assert!(events.contains("x***\""), "{events}");
}

#[test]
fn r4_8_a_green_check_passes_on_the_end_of_its_output_and_the_file_that_holds_the_whole() {
    const CHECKS: &str = "
checks:
  lint: { run: 'yes lint | head -n 3000; echo lint ends' }
  test: { run: 'yes test | head -n 3000; echo 12 passed' }
workflows:
  one: { steps: [ { name: look, check: [test] }, { name: tell, agent: builder } ] }
  two: { steps: [ { name: look, check: [lint, test] }, { name: tell, agent: builder } ] }
";
    let project = Project::new().with(CHECKS);
    let finished = project.fia(&["run", "one", "do", "it", "-q"]);
    assert!(finished.status.success(), "{finished}");
    let told = told(&project.log());
    assert_eq!(told["summary"], "all checks passed");
    let output = told["output"].as_str().unwrap();
    assert_eq!(output.chars().count(), 4000);
    assert!(output.ends_with("test\n12 passed\n"), "{output}");
    let passed = told["passed"][0].as_str().unwrap();
    assert!(
        passed.contains(" passed; whole output in ") && passed.ends_with("context_handoff/01_look.log"),
        "{passed}"
    );
    let project = Project::new().with(CHECKS);
    let finished = project.fia(&["run", "two", "do", "it", "-q"]);
    assert!(finished.status.success(), "{finished}");
    let told = self::told(&project.log());
    assert_eq!(told["passed"].as_array().unwrap().len(), 2);
    let output = told["output"].as_str().unwrap();
    assert!(output.chars().count() == 4000 && output.contains("lint ends\n"), "{output}");
}

/// The envelope that the second phase was handed.
fn told(log: &Log) -> serde_json::Value {
    let prompt = log.prompt("builder", "02_tell", 1, 1);
    let from = prompt.find("{\n  \"status\"").unwrap();
    let mut values = serde_json::Deserializer::from_str(&prompt[from..]).into_iter::<serde_json::Value>();
    values.next().unwrap().unwrap()
}
