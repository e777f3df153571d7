use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::config::document::Document;
use crate::config::findings::Findings;
use crate::config::layer::Layers;
use crate::config::table::FILE;

fn read(text: &str) -> (Document, Findings) {
    Document::read("c.yaml", text.to_owned(), FILE)
}

fn problems(text: &str) -> Vec<String> {
    read(text).1.problems.iter().map(ToString::to_string).collect()
}

fn values(text: &str) -> Value {
    let (document, findings) = read(text);
    assert_eq!(findings.problems, []);
    document.value
}

fn stop(key: &str, written: &str) -> (Option<Value>, usize, Vec<String>) {
    let (document, findings) = read(&format!("stop:\n  {key}: {written}\n"));
    let problems = findings.problems.iter().map(ToString::to_string).collect();
    (document.value.pointer(&format!("/stop/{key}")).cloned(), findings.degraded.len(), problems)
}

#[test]
fn r3_2_all_problems_are_reported_at_once_with_place_key_and_nearest_name() {
    let text = "\
defaults:
  coding_agent: cloude
  sesion_rotation_context: 1
agents:
  - name: builder
    writes: [src/, '']
    effort: hi
  - model: x
stp: {}
";
    assert_eq!(
        problems(text),
        [
            "c.yaml:2:17 defaults.coding_agent: `cloude` is none of claude, pi, cursor, scripted; did you mean `claude`?",
            "c.yaml:3:3 defaults: unknown key `sesion_rotation_context`; did you mean `session_rotation_context`?",
            "c.yaml:6:20 agents[0].writes[1]: empty entry; a pattern here would allow every path",
            "c.yaml:7:13 agents[0].effort: `hi` is none of low, medium, high, xhigh, max",
            "c.yaml:8:5 agents[1]: `name` is missing",
            "c.yaml:9:1 unknown key `stp`; did you mean `stop`?",
        ]
    );
}

#[test]
fn r3_3_counts_are_floored_and_what_cannot_be_used_degrades() {
    let rows = [
        ("180_000", Some(json!(180_000))),
        ("12.9", Some(json!(12))),
        ("0", Some(json!(0))),
        ("0.0", Some(json!(0))),
        ("1e3", Some(json!(1000))),
        ("18446744073709551615", Some(json!(u64::MAX))),
        ("0.4", None),
        ("-1", None),
        ("-0.5", None),
        ("true", None),
        ("many", None),
        ("'5'", None),
        ("", None),
        ("~", None),
    ];
    for (written, expected) in rows {
        let degraded = usize::from(expected.is_none());
        assert_eq!(stop("token_budget", written), (expected, degraded, vec![]), "{written}");
    }
}

#[test]
fn r3_3_minutes_and_dollars_keep_their_fraction() {
    assert_eq!(stop("budget_minutes", "0.5"), (Some(json!(0.5)), 0, vec![]));
    assert_eq!(stop("cost_budget_usd", "2"), (Some(json!(2.0)), 0, vec![]));
    assert_eq!(stop("cost_budget_usd", "-2"), (None, 1, vec![]));
}

#[test]
fn r3_3_numbers_that_do_not_fit_are_errors_with_their_line() {
    for written in ["18446744073709551616", "99999999999999999999", "1e20", ".inf", "-.inf", ".nan"] {
        let expected = format!("c.yaml:2:17 stop.token_budget: `{written}` does not fit 64 bits");
        assert_eq!(stop("token_budget", written), (None, 0, vec![expected]));
    }
    assert_eq!(stop("budget_minutes", "1e19").2.len(), 1, "no timer counts that far");
}

#[test]
fn r3_3_a_degraded_knob_keeps_its_place_and_text() {
    let (_, findings) = read("agents:\n  - name: a\n    session_rotation_context: lots\n");
    let degraded = &findings.degraded[0];
    assert_eq!((degraded.at.as_str(), degraded.written.as_str()), ("/agents/0/session_rotation_context", "lots"));
}

#[test]
fn r3_4_a_permission_never_widens_by_accident() {
    for writes in
        ["", " ~", " null", " src/", " {a: b}", " ['']", " [' ']", " [~]", " [null]", " [!x src/]", " [[a]]", " !x [a]"]
    {
        let (document, findings) = read(&format!("agents:\n  - name: a\n    writes:{writes}\n"));
        assert_eq!(findings.problems.len(), 1, "writes:{writes}");
        assert_eq!(findings.problems[0].mark.map(|mark| mark.line), Some(3), "writes:{writes}");
        assert_eq!(document.value.pointer("/agents/0/writes/0"), None, "writes:{writes}");
    }
    assert_eq!(values("agents: [{name: a, writes: []}]")["agents"][0]["writes"], json!([]));
}

#[test]
fn r9_1_pruning_keys_are_known_in_both_spellings_and_numbers_brought_into_range() {
    let (document, findings) = read(
        "context_pruning: {mode: cache-ttl, keepLastAssistants: -2, soft_trim_ratio: 1.7, softTrim: {maxChars: 9.5}, ttl: soon}",
    );
    assert_eq!(findings.problems, []);
    assert_eq!(findings.warnings.len(), 4);
    assert_eq!(
        document.value["context_pruning"],
        json!({"mode": "cache-ttl", "keep_last_assistants": 0, "soft_trim_ratio": 1.0, "soft_trim": {"max_chars": 9}})
    );
    assert_eq!(problems("context_pruning: {soft_trim_ratio: 1, softTrimRatio: 1}").len(), 1);
    assert_eq!(problems("defaults: {dataDir: x}").len(), 1, "camelCase is for context_pruning only");
}

#[test]
fn keys_that_are_not_served_are_accepted_whatever_they_hold() {
    let (document, findings) = read(
        "qa: {a: [1]}\nagents:\n  - {name: a, color: !x red, purpose: }\n\
         stop: {observability: 1}\nworkflows: {w: {color: blue, steps: [{check: [test], sdlc: x}]}}\n",
    );
    assert_eq!(findings.problems, []);
    let everywhere = [
        "/qa",
        "/agents/0/color",
        "/agents/0/purpose",
        "/stop/observability",
        "/workflows/w/color",
        "/workflows/w/steps/0/sdlc",
    ];
    assert_eq!(findings.not_served, everywhere);
    let expected = json!({
        "agents": [{"name": "a"}], "stop": {}, "workflows": {"w": {"steps": [{"check": ["test"]}]}},
    });
    assert_eq!(document.value, expected);
}

#[test]
fn a_key_without_value_is_an_empty_section_but_no_text() {
    assert_eq!(
        values("agents:\nstop:\nworkflows: {w: {steps: [{commit: }]}}").pointer("/workflows/w/steps/0/commit"),
        Some(&json!({}))
    );
    assert_eq!(problems("defaults:\n  model:\n"), ["c.yaml:2:8 defaults.model: a value is missing"]);
}

#[test]
fn the_address_of_a_webhook_is_never_repeated() {
    let problems = problems("notify: {targets: [{kind: webhook, url: 'http://example.invalid/s3cret'}]}");
    assert_eq!(problems.len(), 1);
    assert!(!problems[0].contains("s3cret"), "{}", problems[0]);
}

#[test]
fn text_that_is_no_yaml_is_shown() {
    let (_, findings) = read("agents:\n  - name: a\n    writes: [**/*.md]\n");
    let excerpt = findings.problems[0].excerpt.clone().unwrap();
    assert_eq!(excerpt, "3 |     writes: [**/*.md]\n  |              ^");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "([a-z]{1,8}|defaults|agents|writes|stop|token_budget|workflows|steps|[0-9_.]{1,4}|[:,#&*!|>'\"%@~\\[\\]{}-]|\\PC|[ \t\r\n]|\n  |: ){0,40}") {
        let (document, findings) = read(&text);
        let _layers = Layers::new(&document, &[], &[]);
        for problem in findings.problems {
            let _shown = problem.to_string();
        }
    }
}

#[test]
fn a_value_of_the_wrong_shape_is_told_with_what_to_write() {
    let rows = [
        ("checks: { test: npm test }", "1:17 checks.test: a mapping expected: write `test: { run: \"npm test\" }`"),
        ("agents: [{ name: a, writes: src/ }]", "1:29 agents[0].writes: a list expected: write `writes: [\"src/\"]`"),
        ("agents: [{ name: a, writes: }]", "1:27 agents[0].writes: a list of patterns expected; `[]` is none of them"),
        (
            "defaults: { tools: 'read, grep' }",
            "1:20 defaults.tools: a list expected: write `tools: [\"read\", \"grep\"]`",
        ),
        ("agents: builder", "1:9 agents: a list expected: write `agents: [{ name: \"builder\" }]`"),
        ("agents: [builder]", "1:10 agents[0]: a mapping expected: write `{ name: \"builder\" }`"),
        (
            "workflows: { w: { steps: [build] } }",
            "1:27 workflows.w.steps[0]: a mapping expected: write `{ agent: \"build\" }`",
        ),
        (
            "workflows: { w: { steps: [{ commit: yes }] } }",
            "1:37 workflows.w.steps[0].commit: a mapping expected: write `commit: {}`",
        ),
        (
            "workflows: { w: { steps: [{ repair: test }] } }",
            "1:37 workflows.w.steps[0].repair: a mapping expected: write `repair: { check: \"test\", fix: … }`",
        ),
        ("stop: 5", "1:7 stop: a mapping expected: write `stop: { attempt_cap: … }`"),
        ("defaults: { model: [sonnet] }", "1:20 defaults.model: a single value expected: write `model: \"sonnet\"`"),
        ("defaults: { model: { a: b } }", "1:20 defaults.model: a single value expected, not a mapping"),
        // The address may hold a secret.
        (
            "notify: { targets: https://example.invalid/secret }",
            "1:20 notify.targets: a list expected: one `- …` a line",
        ),
        ("engines: { pi: { env: A=secret } }", "1:23 engines.pi.env: a mapping expected: `name: …`"),
    ];
    for (text, told) in rows {
        assert_eq!(problems(text), [format!("c.yaml:{told}")], "{text}");
    }
}
