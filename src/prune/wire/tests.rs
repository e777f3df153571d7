use super::super::conversation::{PruneState, Request, RequestKind};
use super::super::round::Cut;
use super::super::settings::{Mode, Settings};
use super::*;
use crate::economy::prices::Rates;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

fn shown(index: usize, text: &str) -> Shown {
    Shown { index, cut: Cut::Hard, text: text.to_owned() }
}

#[test]
fn r9_2_only_the_replaced_value_changes_in_the_bytes() {
    let bytes = br#"{ "max_tokens":1.50e2, "messages" : [
      {"content":"task","role":"user"},
      {"role":"assistant","content":[{"type":"thinking","thinking":"h","signature":"c2ln=="},
        {"id":"t1","type":"tool_use","name":"ex\u0065c","input":{"n":1.0}}]},
      {"role":"user","content":[{"type":"tool_result","is_error":true,"content" : "a\ud800b" ,"tool_use_id":"t1"},
        {"type":"tool_result","tool_use_id":"t\u0032","content":[{"type":"text","text":"x","cache_control":{ "type":"ephemeral" }}]},
        {"type":"text","text":"more"}]}], "system":"s" }"#;
    let body = Body::parse(bytes).unwrap();
    assert_eq!(body.messages().len(), 5);
    let Message::Tool(first) = &body.messages()[2] else { panic!("no result") };
    assert_eq!((first.tool.as_ref(), &first.blocks[..]), ("exec", &[Block::Foreign(3)][..]));
    let Message::Tool(second) = &body.messages()[3] else { panic!("no result") };
    assert_eq!((second.call.as_ref(), second.tool.as_ref()), ("t2", ""));
    assert_eq!(body.messages()[1], Message::Assistant { chars: 1 + 9 });
    assert_eq!(body.messages()[4], Message::User { chars: 4 });
    assert_eq!(body.label(3).as_deref(), Some("messages[2].content[1] tool_result"));

    let sent = String::from_utf8(body.replaced(&[shown(2, "go\"ne"), shown(3, "[x]")]).into_owned()).unwrap();
    let expected = std::str::from_utf8(bytes).unwrap().replace(r#""a\ud800b""#, r#""go\"ne""#).replace(
        r#"[{"type":"text","text":"x","cache_control":{ "type":"ephemeral" }}]"#,
        r#"[{"type":"text","text":"[x]","cache_control":{ "type":"ephemeral" }}]"#,
    );
    assert_eq!(sent, expected);
}

#[test]
fn r9_2_what_is_no_messages_request_is_not_understood() {
    for bytes in [
        &b""[..],
        b"[]",
        b"{}",
        b"{\"messages\":1}",
        b"{\"messages\":[{\"role\":\"user\",\"content\":[1]}]}",
        b"{\"messages\":[]",
        b"\xff",
    ] {
        assert!(Body::parse(bytes).is_none(), "{bytes:?}");
    }
    assert!(Body::parse(br#"{"messages":[]}"#).is_some());
}

#[test]
fn r9_2_a_result_without_content_or_with_an_unknown_block_is_left_alone() {
    let body = json!({"messages": [{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "a"},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "hologram", "text": "x"}]},
        {"type": "tool_result", "tool_use_id": "c", "content": null},
    ]}]})
    .to_string();
    let body = Body::parse(body.as_bytes()).unwrap();
    let settings = Settings::of(Mode::CacheTtl);
    for message in body.messages() {
        assert_eq!(super::super::shape(message, &settings).kind, super::super::round::Kind::Fixed);
    }
    assert!(matches!(body.replaced(&[shown(0, "gone")]), Cow::Borrowed(_)));
}

#[test]
fn r9_1_a_marker_of_an_hour_is_found_wherever_it_stands() {
    let with = |marker: Value| {
        let block = json!({"type": "text", "text": "\"cache_control\":{\"ttl\":\"1h\"}", "cache_control": marker});
        json!({"system": [block], "messages": [{"role": "user", "content": "x"}]}).to_string()
    };
    let lifetime = |json: &str| Body::parse(json.as_bytes()).unwrap().lifetime();
    assert_eq!(lifetime(&with(json!({"type": "ephemeral"}))), CacheLifetime::FiveMinutes);
    assert_eq!(lifetime(&with(json!({"type": "ephemeral", "ttl": "1h"}))), CacheLifetime::OneHour);
}

#[test]
fn r9_2_a_conversation_is_known_by_what_does_not_change_in_it() {
    let id = |json: Value, agent| Body::parse(json.to_string().as_bytes()).unwrap().conversation(agent);
    let first = json!({"system": "s", "messages": [{"role": "user", "content": [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}]});
    let later = json!({"system": [{"type": "text", "text": "s"}], "messages": [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]});
    let side = json!({"system": "title", "messages": [{"role": "user", "content": "a"}]});
    assert_eq!(id(first.clone(), None), id(later, None));
    assert_ne!(id(first.clone(), None), id(side, None));
    assert_ne!(id(first.clone(), None), id(first, Some("sub")));
}

fn bodies() -> impl Strategy<Value = Value> {
    let text = "[a-zA-Zé😀\\\\\"\n]{0,40}";
    let result = (text, any::<bool>(), 1_usize..60).prop_map(|(text, array, times)| {
        let text = text.repeat(times);
        if array { json!([{"type": "text", "text": text}]) } else { json!(text) }
    });
    proptest::collection::vec((text, result), 0..12).prop_map(|turns| {
        let mut messages = vec![json!({"role": "user", "content": "task"})];
        for (at, (text, result)) in turns.into_iter().enumerate() {
            let id = format!("t{at}");
            messages.push(json!({"role": "assistant", "content": [{"type": "text", "text": text},
                {"type": "tool_use", "id": id, "name": "exec", "input": {"a": text}}]}));
            messages.push(json!({"role": "user", "content":
                [{"type": "tool_result", "tool_use_id": id, "content": result, "is_error": false}]}));
        }
        json!({"system": "s", "tools": [{"name": "exec"}], "messages": messages})
    })
}

fn eager() -> Settings {
    Settings {
        keep_last_assistants: 1,
        soft_trim_ratio: 0.0,
        hard_clear_ratio: 0.3,
        min_prunable_tool_chars: 0,
        soft_trim: super::super::settings::SoftTrim { max_chars: 100, head_chars: 20, tail_chars: 20 },
        ..Settings::of(Mode::CacheTtl)
    }
}

/// Plans a request and sends it, as a gateway would.
fn send(state: &mut PruneState, bytes: &[u8], now_ms: i64) -> Vec<u8> {
    let body = Body::parse(bytes).unwrap();
    let request = Request {
        conversation: "main",
        messages: body.messages(),
        now_ms,
        kind: RequestKind::Model { body_sha256: "", retry: false },
        window: Some(1000),
        lifetime: CacheLifetime::FiveMinutes,
        rates: Rates::STANDARD,
        expected: 15,
    };
    let plan = state.plan(Some(&eager()), &request);
    let sent = body.replaced(&plan.shown).into_owned();
    state.succeeded(&plan.ticket, None);
    sent
}

/// A request with the contents of its tool results taken out.
fn skeleton(bytes: &[u8]) -> Value {
    let mut body: Value = serde_json::from_slice(bytes).unwrap();
    for message in body["messages"].as_array_mut().unwrap() {
        for block in message["content"].as_array_mut().into_iter().flatten() {
            if block["type"] == "tool_result" {
                block["content"] = if block["content"].is_string() { json!("") } else { json!([]) };
            }
        }
    }
    body
}

proptest! {
    #[test]
    fn r9_2_nothing_but_old_results_changes_and_pairs_stay_paired(body in bodies()) {
        let bytes = serde_json::to_vec(&body).unwrap();
        let mut state = PruneState::default();
        state.set_clock("main", 0);
        let sent = send(&mut state, &bytes, 400_000);
        prop_assert_eq!(skeleton(&sent), skeleton(&bytes));
    }

    #[test]
    fn r9_3_later_requests_hold_the_same_bytes_and_a_second_round_in_the_ttl_adds_nothing(body in bodies(), cut in 0_usize..12) {
        let mut earlier = body.clone();
        let messages = earlier["messages"].as_array_mut().unwrap();
        messages.truncate(1 + 2 * cut);
        let mut state = PruneState::default();
        state.set_clock("main", 0);
        let first = send(&mut state, &serde_json::to_vec(&earlier).unwrap(), 400_000);
        let replaced = state.replacements().len();

        // A restart in between, then the next request of the loop: it extends what was sent.
        let mut state = PruneState::parse(&state.render()).0;
        let second = send(&mut state, &serde_json::to_vec(&body).unwrap(), 410_000);
        prop_assert_eq!(state.replacements().len(), replaced);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (first, second) = (text(&first), text(&second));
        prop_assert!(second.starts_with(first.strip_suffix("]}").unwrap()), "{first}\n{second}");

        // A later round may replace more, and never gives a replaced result its text back.
        let third = send(&mut state, &serde_json::to_vec(&body).unwrap(), 900_000);
        prop_assert!(state.replacements().len() >= replaced);
        prop_assert_eq!(skeleton(&third), skeleton(second.as_bytes()));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        Body::parse(&bytes);
        super::super::prefix::blocks(&bytes);
        super::super::pi::parse(&bytes);
    }
}
