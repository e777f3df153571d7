use pretty_assertions::assert_eq;

use super::*;

fn response(value: Value) -> Response {
    serde_json::from_value(value).unwrap()
}

fn fault(value: Value) -> Fault {
    response(value).fault
}

fn refusal(text: &str) -> String {
    Scenario::parse(text).unwrap_err().to_string()
}

#[test]
fn every_scenario_that_comes_with_the_provider_is_read() {
    for name in Scenario::builtin_names() {
        assert!(Scenario::builtin(name).is_some(), "{name}");
    }
    assert_eq!(Scenario::builtin("no such name"), None);
}

#[test]
fn an_answer_holds_thinking_text_and_calls_in_this_order() {
    let written = json!({"do": "bash", "command": "ls", "tool": "Glob", "input": {"a": 1}, "text": "t", "think": "h"});
    assert_eq!(
        response(written).content,
        [
            Content::Block(json!({"type": "thinking", "thinking": "h", "signature": "bG9vcGJhY2s="})),
            Content::Block(json!({"type": "text", "text": "t"})),
            Content::Block(json!({"type": "tool_use", "name": "Glob", "input": {"a": 1}})),
            Content::Do(Action::Bash { command: "ls".to_owned(), description: None }),
        ]
    );
}

#[test]
fn literal_blocks_stand_alone_and_an_empty_answer_says_done() {
    let blocks = json!({"blocks": [{"type": "server_tool_use", "id": "x"}], "text": "unused"});
    assert_eq!(response(blocks).content, [Content::Block(json!({"type": "server_tool_use", "id": "x"}))]);
    assert_eq!(response(json!({})), Response::text("done"));
}

#[test]
fn a_text_of_so_many_bytes_is_made_up() {
    let content = response(json!({"text_bytes": 20})).content;
    assert_eq!(content, [Content::Block(json!({"type": "text", "text": "0123456789abcde\n0123"}))]);
}

#[test]
fn faults_are_told_apart() {
    let overloaded = ErrorAnswer {
        status: 529,
        kind: "overloaded_error".to_owned(),
        message: "busy".to_owned(),
        headers: HeaderMap::from_iter([("retry-after".parse().unwrap(), "7".parse().unwrap())]),
    };
    let error = json!({"error": 529, "message": "busy", "headers": {"retry-after": 7}});
    assert_eq!(fault(error.clone()), Fault::Status(overloaded.clone()));
    let mut in_stream = error;
    in_stream["in_stream"] = json!(true);
    assert_eq!(fault(in_stream), Fault::InStream { error: overloaded, after: 2 });
    assert_eq!(fault(json!({"cut": true})), Fault::Cut { after: 4 });
    assert_eq!(fault(json!({"cut": 0})), Fault::Cut { after: 0 });
    assert_eq!(fault(json!({"hang": 1.5})), Fault::SilentBefore(Duration::from_millis(1500)));
    let mid = json!({"hang": 2, "when": "after", "events": 3});
    assert_eq!(fault(mid), Fault::SilentAfter { after: 3, silence: Duration::from_secs(2) });
    assert_eq!(fault(json!({"garbage": true})), Fault::Garbage);
    assert_eq!(fault(json!({"text": "fine"})), Fault::None);
}

#[test]
fn a_step_is_one_response_or_one_for_each_attempt() {
    let text = r#"{"match": "JOB-1", "steps": [{"text": "a"}, [{"error": 529}, {"text": "b"}]]}"#;
    let rule: Rule = serde_json::from_str(text).unwrap();
    let Fault::Status(error) = fault(json!({"error": 529})) else { panic!("a status") };
    let failed = Response { fault: Fault::Status(error), ..Response::text("done") };
    let steps = vec![Step(vec![Response::text("a")]), Step(vec![failed, Response::text("b")])];
    assert_eq!(rule, Rule { pattern: "JOB-1".to_owned(), steps });
}

#[test]
fn what_has_no_meaning_is_refused_with_its_reason() {
    for (text, reason) in [
        (r#"{"rule": []}"#, "unknown field `rule`"),
        (r#"{"exhausted": {"txt": "x"}}"#, "unknown field `txt`"),
        (r#"{"growth": 0}"#, "`growth` is not above 0"),
        (r#"{"rules": [{"match": "a", "steps": ["b"]}]}"#, "expected a response or a list of responses"),
        (r#"{"exhausted": {"do": "write"}}"#, "`do` needs `path` here"),
        (r#"{"exhausted": {"do": "fly"}}"#, "unknown variant `fly`"),
        (r#"{"exhausted": {"error": 200}}"#, "`error` is 200, no status from 400 to 599"),
        (r#"{"exhausted": {"error": 429, "headers": {"a b": 1}}}"#, "`a b: 1` is no header"),
        (r#"{"exhausted": {"cut": "now"}}"#, "`cut` is \"now\", neither a number of events nor true"),
        (r#"{"exhausted": {"hang": -1}}"#, "`hang`: "),
        (r#"{"responses": [{"repeat": 0}]}"#, "`repeat` is 0, neither above 0 nor -1"),
    ] {
        let found = refusal(text);
        assert!(found.contains(reason), "{text}: {found}");
    }
}
