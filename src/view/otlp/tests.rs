use insta::assert_snapshot;

use super::*;
use crate::view::story::{self, Story};

fn spans(story: &Story) -> Vec<Value> {
    let mut fold = SpanFold::default();
    story.records.iter().for_each(|record| fold.push(record));
    fold.close();
    let mut spans = Vec::new();
    while let Some(request) = fold.batch() {
        spans.extend(request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone());
    }
    spans
}

fn text<'a>(span: &'a Value, key: &str) -> &'a str {
    span[key].as_str().unwrap()
}

/// The tree of a trace, a line a span, in the order of their starts.
fn tree(spans: &[Value]) -> String {
    fn below(spans: &[Value], parent: &str, depth: usize, lines: &mut Vec<String>) {
        let mut children: Vec<&Value> = spans.iter().filter(|span| text(span, "parentSpanId") == parent).collect();
        children.sort_by_key(|span| text(span, "startTimeUnixNano").to_owned());
        for child in children {
            lines.push(format!("{}{} {}", "  ".repeat(depth), text(child, "name"), child["status"]));
            for event in child["events"].as_array().unwrap() {
                lines.push(format!("{}· {}", "  ".repeat(depth + 1), text(event, "name")));
            }
            below(spans, text(child, "spanId"), depth + 1, lines);
        }
    }
    let mut lines = Vec::new();
    below(spans, "", 0, &mut lines);
    lines.join("\n")
}

#[test]
fn a_run_is_a_trace_of_phases_turns_and_tools() {
    assert_snapshot!(tree(&spans(&story::fixed())), @r#"
        invoke_workflow plan_build_test {"code":1}
          phase plan {"code":1}
            invoke_agent planner {"code":1}
          phase build {"code":1}
            invoke_agent builder {"code":1}
              execute_tool edit {"code":1}
          phase test_1 {}
            · fia.check
          phase fix_1 {"code":1}
            · fia.session_rotation
            invoke_agent builder {"code":1}
              execute_tool edit {"code":1}
          phase test_2 {"code":1}
            · fia.check
          phase save {"code":1}
            · fia.committed
        "#);
}

#[test]
fn a_turn_carries_the_names_of_the_conventions() {
    let spans = spans(&story::fixed());
    let turn = spans.iter().find(|span| text(span, "name") == "invoke_agent planner").unwrap();
    let attributes: Vec<String> = turn["attributes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attribute| format!("{} {}", text(attribute, "key"), attribute["value"]))
        .collect();
    assert_snapshot!(attributes.join("\n"), @r#"
        gen_ai.operation.name {"stringValue":"invoke_agent"}
        gen_ai.agent.name {"stringValue":"planner"}
        gen_ai.provider.name {"stringValue":"anthropic"}
        gen_ai.request.model {"stringValue":"sonnet"}
        fia.engine {"stringValue":"claude"}
        fia.leg {"intValue":"1"}
        fia.turn {"intValue":"1"}
        gen_ai.conversation.id {"stringValue":"84f0b9e9-1111-4222-8333-444455556666"}
        gen_ai.usage.input_tokens {"intValue":"220000"}
        gen_ai.usage.output_tokens {"intValue":"2400"}
        gen_ai.usage.cache_read.input_tokens {"intValue":"182000"}
        gen_ai.usage.cache_creation.input_tokens {"intValue":"37920"}
        fia.requests {"intValue":"8"}
        fia.context_tokens {"intValue":"38000"}
        fia.cost_usd {"doubleValue":0.06}
        "#);
    let ids = ["traceId", "spanId", "parentSpanId"].map(|key| text(turn, key).len());
    assert_eq!(ids, [32, 16, 16]);
    assert_eq!(text(turn, "startTimeUnixNano"), "1796048530000000000");
    assert_eq!(turn["kind"], 1);
}

#[test]
fn a_live_run_exported_piece_by_piece_is_the_same_trace() {
    let mut fold = SpanFold::default();
    let mut pieces = Vec::new();
    for record in &story::fixed().records {
        fold.push(record);
        while let Some(request) = fold.batch() {
            pieces.extend(request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone());
        }
    }
    assert_eq!(pieces, spans(&story::fixed()));
}

#[test]
fn a_killed_run_ends_its_spans_where_the_log_ends() {
    assert_snapshot!(tree(&spans(&story::fixing())), @r#"
        invoke_workflow plan_build_test {"code":2,"message":"no end was recorded"}
          phase plan {"code":1}
            invoke_agent planner {"code":1}
          phase build {"code":1}
            invoke_agent builder {"code":1}
              execute_tool edit {"code":1}
          phase test_1 {}
            · fia.check
          phase fix_1 {"code":2,"message":"no end was recorded"}
            · fia.session_rotation
            invoke_agent builder {"code":2,"message":"no end was recorded"}
              execute_tool edit {"code":1}
        "#);
    let resumed = spans(&story::fixing().resumes().run_ends(Outcome::Aborted, "again"));
    let roots = resumed.iter().filter(|span| text(span, "parentSpanId").is_empty()).count();
    assert_eq!(roots, 2, "a stretch each");
}

#[test]
fn what_agents_wrote_does_not_leave() {
    let story = story::fixing().tool("bash", "echo secret-argument").turn_ends(None);
    let json = serde_json::to_string(&spans(&story)).unwrap();
    assert!(!json.contains("secret-argument") && !json.contains("health endpoint"), "{json}");
}

#[test]
fn a_long_run_goes_in_batches() {
    let mut story = Story::begins("build", "x").phase("01_build", "builder").turn(None);
    for _ in 0..BATCH {
        story = story.tool("read", "a");
    }
    let mut fold = SpanFold::default();
    story.records.iter().for_each(|record| fold.push(record));
    fold.close();
    let sizes: Vec<usize> = std::iter::from_fn(|| fold.batch())
        .map(|request| request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [BATCH, 3]);
}
