use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn schema(name: &str) -> Schema {
    Schema::built_in(name).unwrap()
}

#[test]
fn every_built_in_type_has_a_schema_that_compiles_and_asks_for_its_fields() {
    for name in BUILT_IN {
        let request = schema(name).request();
        assert!(request.contains("- `status` (\"success\" or \"fail\", required)"), "{name}: {request}");
    }
    assert!(schema("review").request().contains("- `approved` (boolean, required)"));
    assert!(schema("review").request().contains("- `findings` (list of {requirement, met, evidence}, optional)"));
    assert_eq!(built_in("poem"), None);
}

#[test]
fn r4_6_the_last_object_that_validates_is_taken() {
    let answer = concat!(
        "I used the shape {status, summary}; an example:\n",
        "```json\n{\"status\": \"success\", \"summary\": \"an example\"}\n```\n",
        "and fn main() { if x { y } }\n",
        "```json\n{\"status\": \"fail\", \"summary\": \"a } in a text \\\" {\"}\n```\n",
        "and, for the record, {\"unrelated\": true}. {unfinished",
    );
    assert_eq!(
        extract(answer, &schema("generic")).unwrap(),
        json!({"status": "fail", "summary": "a } in a text \" {"})
    );
}

#[test]
fn r4_6_an_object_inside_another_is_taken_when_the_outer_one_fails() {
    let answer = r#"{"report": {"status": "success", "nested": {"status": "fail"}}}"#;
    assert_eq!(
        extract(answer, &schema("generic")).unwrap(),
        json!({"status": "success", "nested": {"status": "fail"}})
    );
}

#[test]
fn an_answer_without_a_report_says_what_is_missing() {
    assert_eq!(extract("all done {really}", &schema("generic")), Err(EnvelopeError::NoObject));
    let error = extract(r#"{"status": "done"}"#, &schema("review")).unwrap_err();
    let EnvelopeError::Invalid { output, problems } = &error else { panic!("{error}") };
    assert_eq!(output, "review");
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(error.to_string().contains("/status"), "{error}");
    assert!(error.to_string().contains("approved"), "{error}");
}

#[test]
fn r5_1_an_envelope_over_64_kib_is_refused() {
    let answer = json!({"status": "success", "summary": "x".repeat(MAX_ENVELOPE_BYTES)}).to_string();
    let bytes = answer.len();
    assert_eq!(extract(&answer, &schema("generic")), Err(EnvelopeError::TooLarge { bytes }));
}

#[test]
fn open_braces_without_an_end_hold_no_object() {
    let answer = "{\"a\":".repeat(10_000);
    assert_eq!(extract(&answer, &schema("generic")), Err(EnvelopeError::NoObject));
}

#[test]
fn r4_8_the_next_agent_is_told_six_fields_in_at_most_8000_characters() {
    let small = json!({"status": "success", "approved": true, "summary": "s", "changed_files": ["a"], "secret": 1});
    assert_eq!(
        passed_on(&small),
        "{\n  \"status\": \"success\",\n  \"summary\": \"s\",\n  \"changed_files\": [\n    \"a\"\n  ]\n}"
    );
    let files: Vec<String> = (0..3000).map(|number| format!("src/module_{number}.rs")).collect();
    let large = json!({
        "status": "success", "summary": "é\"".repeat(9000), "changed_files": files,
        "failures": {"odd": "y".repeat(9000)},
    });
    let told = passed_on(&large);
    assert!(told.chars().count() <= MAX_PASSED_ON_CHARS, "{}", told.chars().count());
    let back: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(back["status"], "success");
    assert!(back["summary"].as_str().unwrap().starts_with("é\"é"));
    assert_eq!(back["changed_files"][0], "src/module_0.rs");
}

struct Tree;

impl gate::TreeFacts for Tree {
    fn size(&self, path: &str) -> Option<u64> {
        match path {
            "src/a.rs" => Some(10),
            "src/empty.rs" => Some(0),
            _ => None,
        }
    }

    fn changed_by_phase(&self) -> BTreeSet<String> {
        ["src/a.rs".to_owned()].into()
    }

    fn changed_by_run(&self) -> BTreeSet<String> {
        ["src/a.rs".to_owned(), "src/earlier.rs".to_owned()].into()
    }
}

fn violations(name: &str, envelope: &Value) -> Vec<String> {
    gate::apply(name, envelope, &Tree).unwrap()
}

#[test]
fn r4_7_gates_hold_the_report_against_the_tree() {
    let report = json!({"artifacts": ["./src/a.rs", "src/gone.rs"], "changed_files": ["src/empty.rs"]});
    assert_eq!(violations("artifacts_exist", &report), ["`src/gone.rs` is reported as an artifact and does not exist"]);
    assert_eq!(violations("files_non_empty", &report), ["`src/empty.rs` is empty"]);
    assert_eq!(
        violations("diff_matches_claims", &report),
        [
            "`src/empty.rs` is reported as changed and is unchanged",
            "`src/a.rs` was changed and is missing in `changed_files`"
        ]
    );
    let whole = json!({"changed_files": ["src/a.rs", "src/earlier.rs"]});
    assert_eq!(violations("diff_matches_claims", &whole), [""; 0]);
    assert_eq!(gate::apply("lint", &whole, &Tree), None);
}

#[test]
fn r4_7_all_violations_are_named_and_beyond_the_size_of_an_envelope_the_rest_is_counted() {
    let claims = |count: usize| {
        let files: Vec<String> = (0..count).map(|number| format!("gone/{number:05}.rs")).collect();
        violations("artifacts_exist", &json!({ "artifacts": files }))
    };
    let some = claims(1000);
    assert_eq!((some.len(), some[999].starts_with("`gone/00999.rs`")), (1000, true));
    let each = some[0].len();
    let fit = MAX_ENVELOPE_BYTES / each;
    let many = claims(5000);
    assert_eq!((many.len(), many.last().unwrap().as_str()), (fit + 1, format!("(+{} more)", 5000 - fit).as_str()));
}

#[test]
fn r4_7_a_verdict_must_agree_with_its_reasons() {
    let cases = [
        (json!({"approved": true, "blocking": ["x"]}), 1),
        (json!({"approved": true, "findings": [{"requirement": "r", "met": false}]}), 1),
        (json!({"approved": false}), 1),
        (json!({"approved": false, "blocking": ["x"]}), 0),
        (json!({"approved": true, "blocking": [], "findings": [{"requirement": "r", "met": true}]}), 0),
        (json!({"passed": true, "failures": ["f"]}), 1),
        (json!({"passed": false, "failures": []}), 1),
        (json!({"passed": false, "failures": ["f"]}), 0),
    ];
    for (report, count) in cases {
        assert_eq!(violations("verdict_consistent", &report).len(), count, "{report}");
    }
}
