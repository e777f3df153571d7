//! `cases/pruning.json`: every case and every expectation in it. The file explains its format itself.

use std::time::Duration;

use fia::economy::prices::{CacheLifetime, Rates};
use fia::economy::requests::ASSUMED_REQUESTS;
use fia::prune::conversation::{Plan, PruneState, Request, RequestKind, Save, Shown};
use fia::prune::round::{CHARS_PER_TOKEN, IMAGE_CHARS};
use fia::prune::settings::{Mode, PLACEHOLDER, Settings, ToolFilter};
use fia::prune::wire::Body;
use fia::prune::{Message, pi};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::expand;

fn file() -> Value {
    serde_json::from_str(include_str!("../cases/pruning.json")).unwrap()
}

fn cases(kind: &str, count: usize) -> Vec<Value> {
    let all = file()["cases"].as_array().unwrap().clone();
    let cases: Vec<Value> = all.into_iter().filter(|case| case["kind"] == kind).collect();
    assert_eq!(cases.len(), count, "{kind}");
    cases
}

fn settings(case: &Value) -> Settings {
    let mut section = case["settings"].clone();
    section["mode"] = json!("cache-ttl");
    Settings::read(&section).unwrap()
}

/// The messages of a case as pi's hook hands them over, the roles and blocks of which map one to one.
fn pi_messages(messages: &Value) -> Vec<u8> {
    let list: Vec<Value> = messages.as_array().unwrap().iter().map(pi_message).collect();
    serde_json::to_vec(&list).unwrap()
}

fn pi_message(message: &Value) -> Value {
    let blocks: Vec<Value> = message["blocks"].as_array().unwrap().iter().map(pi_block).collect();
    if message["role"] == "tool" {
        return json!({"role": "toolResult", "toolCallId": message["tool_use_id"], "toolName": message["name"],
            "content": blocks, "isError": false});
    }
    json!({"role": message["role"], "content": blocks})
}

fn pi_block(block: &Value) -> Value {
    match block["type"].as_str().unwrap() {
        "text" => json!({"type": "text", "text": expand(&block["text"])}),
        "thinking" => json!({"type": "thinking", "thinking": expand(&block["thinking"]),
            "thinkingSignature": expand(&block["signature"])}),
        "tool_use" => {
            json!({"type": "toolCall", "id": block["id"], "name": block["name"], "arguments": block["input"]})
        }
        "image" => json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
        other => panic!("unknown block {other}"),
    }
}

fn request<'a>(messages: &'a [Message<'a>], now_ms: i64, case: &Value) -> Request<'a> {
    Request {
        conversation: "main",
        messages,
        now_ms,
        kind: RequestKind::Model { body_sha256: "", retry: false },
        window: case["context_window_tokens"].as_u64(),
        lifetime: CacheLifetime::FiveMinutes,
        rates: Rates::STANDARD,
        expected: ASSUMED_REQUESTS,
    }
}

/// One round with the gate open: the last request was long ago.
fn one_round(case: &Value, messages: &[Message<'_>]) -> Plan {
    let mut state = PruneState::default();
    state.set_clock("main", 0);
    state.plan(Some(&settings(case)), &request(messages, 1_000_000_000_000, case))
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

fn call<'a>(messages: &'a [Message<'_>], index: usize) -> &'a str {
    let Message::Tool(result) = &messages[index] else { panic!("message {index} is no tool result") };
    &result.call
}

/// A replaced result in the words of the cases, with its text where the case has one.
fn described(messages: &[Message<'_>], shown: &Shown, with_text: bool) -> Value {
    let mut value = json!({
        "index": shown.index, "tool_use_id": call(messages, shown.index), "action": shown.cut,
        "len": shown.text.chars().count(), "sha256": sha256(&shown.text),
    });
    if with_text {
        value["text"] = json!(shown.text);
    }
    value
}

/// The expectations with their texts written out.
fn expanded(list: &Value) -> Vec<Value> {
    let mut list = list.as_array().unwrap().clone();
    for item in &mut list {
        if let Some(text) = item.get("text") {
            item["text"] = json!(expand(text));
        }
    }
    list
}

#[test]
fn r9_1_the_defaults_are_those_of_the_cases() {
    let ours = Settings::of(Mode::CacheTtl);
    let mut defaults = file()["defaults"].clone();
    defaults["mode"] = json!("cache-ttl");
    assert_eq!(
        Settings::read(&defaults).unwrap(),
        Settings { ttl: fia::prune::settings::Ttl::After(Duration::from_secs(300)), ..ours }
    );
    assert_eq!(defaults["hardClear"]["placeholder"], PLACEHOLDER);
    assert_eq!(defaults["chars_per_token"], CHARS_PER_TOKEN);
    assert_eq!(defaults["image_chars"], IMAGE_CHARS);
    assert_eq!(file()["cases"].as_array().unwrap().len(), 40);
}

#[test]
fn r9_2_every_prune_case() {
    for case in cases("prune", 24) {
        let id = &case["id"];
        let bytes = pi_messages(&case["messages"]);
        let messages = pi::parse(&bytes).unwrap();
        let plan = one_round(&case, &messages);
        let shown: Vec<Value> = plan.shown.iter().map(|shown| described(&messages, shown, true)).collect();
        assert_eq!(shown, expanded(&case["expect"]["changed"]), "{id}");
        assert_eq!(plan.round.is_err(), case["expect"]["unchanged"] == true, "{id}");
        let event = plan.event("builder".into(), None);
        assert_eq!(json!(event.chars_before), case["expect"]["total_chars_before"], "{id}");
        assert_eq!(json!(event.chars_after), case["expect"]["total_chars_after"], "{id}");
    }
}

#[test]
fn r9_3_every_sequence_case() {
    for case in cases("sequence", 10) {
        let settings = settings(&case);
        let mut state = PruneState::default();
        if let Some(clock) = case["clock_start_ms"].as_i64() {
            state.set_clock("main", clock);
        }
        let mut disk = state.render();
        for (number, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let id = format!("{} step {number}", case["id"]);
            if step["restart_before"] == true {
                state = PruneState::parse(&disk).0;
            }
            let bytes = pi_messages(&step["messages"]);
            let messages = pi::parse(&bytes).unwrap();
            let plan = state.plan(Some(&settings), &request(&messages, step["at_ms"].as_i64().unwrap(), &case));
            if plan.save == Save::Needed {
                disk = state.render();
            }
            if step["request_succeeds"] == true {
                state.succeeded(&plan.ticket, None);
                disk = state.render();
            }
            let expect = &step["expect"];
            let shown: Vec<Value> = plan.shown.iter().map(|shown| described(&messages, shown, false)).collect();
            assert_eq!(&json!(shown), &expect["shown"], "{id}");
            assert_eq!(json!(plan.round.is_ok()), expect["new_round"], "{id}");
            assert_eq!(json!(state.clock_ms("main")), expect["clock_after"], "{id}");
        }
    }
}

/// Any object whose keys are exactly `rep` and `n` stands for a string.
fn expand_everywhere(value: &Value) -> Value {
    match value {
        Value::Object(map) if map.len() == 2 && map.contains_key("rep") && map.contains_key("n") => {
            json!(expand(value))
        }
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), expand_everywhere(value))).collect(),
        Value::Array(list) => list.iter().map(expand_everywhere).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[test]
fn r9_2_every_wire_case() {
    for case in cases("wire", 3) {
        let id = &case["id"];
        let sent = expand_everywhere(&case["request"]);
        // Odd but valid spacing: only the replaced values may differ in the bytes.
        let bytes = serde_json::to_vec_pretty(&sent).unwrap();
        let body = Body::parse(&bytes).unwrap();
        let plan = one_round(&case, body.messages());
        let changed: Vec<Value> = plan
            .shown
            .iter()
            .map(|shown| {
                let (message, block) = body.position(shown.index).unwrap();
                let mut value = described(body.messages(), shown, true);
                let map = value.as_object_mut().unwrap();
                map.remove("index");
                map.insert("message".to_owned(), json!(message));
                map.insert("block".to_owned(), json!(block));
                value
            })
            .collect();
        assert_eq!(changed, expanded(&case["expect"]["changed"]), "{id}");

        let replaced = body.replaced(&plan.shown);
        let after: Value = serde_json::from_slice(&replaced).unwrap();
        let mut expected = sent.clone();
        let mut restored = without_space(&replaced);
        for change in &changed {
            let text = &change["text"];
            let content = content_of(&mut expected, change);
            let before = content.clone();
            *content = if before.is_string() { text.clone() } else { one_block(text, before[0].get("cache_control")) };
            let (new, old) =
                (without_space(content.to_string().as_bytes()), without_space(before.to_string().as_bytes()));
            assert_eq!(restored.matches(&new).count(), 1, "{id}");
            restored = restored.replace(&new, &old);
        }
        assert_eq!(after, expected, "{id}");
        assert_eq!(restored, without_space(&bytes), "{id}: every other byte is as it came");
        assert_eq!(body.replaced(&[]), bytes, "{id}: nothing to replace, the same bytes");
    }
}

fn content_of<'a>(request: &'a mut Value, change: &Value) -> &'a mut Value {
    let at = |key: &str| usize::try_from(change[key].as_u64().unwrap()).unwrap();
    &mut request["messages"][at("message")]["content"][at("block")]["content"]
}

fn one_block(text: &Value, marker: Option<&Value>) -> Value {
    let mut block = json!({"type": "text", "text": text});
    if let Some(marker) = marker {
        block["cache_control"] = marker.clone();
    }
    json!([block])
}

fn without_space(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).unwrap().chars().filter(|c| !c.is_ascii_whitespace()).collect()
}

#[test]
fn r9_1_every_settings_case() {
    let cases = cases("settings", 1);
    for row in cases[0]["rows"].as_array().unwrap() {
        let ours = Settings::read(&row["in"]).map_or(Value::Null, |settings| {
            let ttl = settings.ttl.resolve(CacheLifetime::FiveMinutes).unwrap();
            json!({
                "mode": "cache-ttl", "ttlMs": u64::try_from(ttl.as_millis()).unwrap(),
                "keepLastAssistants": settings.keep_last_assistants,
                "softTrimRatio": settings.soft_trim_ratio, "hardClearRatio": settings.hard_clear_ratio,
                "minPrunableToolChars": settings.min_prunable_tool_chars,
                "tools": if settings.tools == ToolFilter::default() { json!({}) } else { Value::Null },
                "softTrim": {"maxChars": settings.soft_trim.max_chars,
                    "headChars": settings.soft_trim.head_chars, "tailChars": settings.soft_trim.tail_chars},
                "hardClear": {"enabled": settings.hard_clear.enabled, "placeholder": settings.hard_clear.placeholder},
            })
        });
        assert_eq!(reals(&ours), reals(&row["out"]), "{}", row["in"]);
    }
}

/// Numbers compare by value, however they are written.
fn reals(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().unwrap()),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), reals(value))).collect(),
        Value::Array(list) => list.iter().map(reals).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

#[test]
fn r9_2_every_tool_case() {
    let case = &cases("tools", 1)[0];
    let patterns = |key: &str| -> Vec<&str> {
        case["tools"][key].as_array().unwrap().iter().map(|pattern| pattern.as_str().unwrap()).collect()
    };
    let filter = ToolFilter::new(&patterns("allow"), &patterns("deny"));
    for row in case["rows"].as_array().unwrap() {
        assert_eq!(json!(filter.allows(row["name"].as_str().unwrap())), row["prunable"], "{row}");
    }
}

#[test]
fn r9_2_every_invariant_case() {
    for case in cases("invariant", 1) {
        let bytes = pi_messages(&case["messages"]);
        let messages = pi::parse(&bytes).unwrap();
        let plan = one_round(&case, &messages);
        assert_eq!(plan.shown.len(), 1);
        assert_eq!(plan.shown[0].index, 1);
        assert_eq!(plan.shown[0].text, expand(&case["expect"]["scalar_count"]["text"]));
        assert!(!plan.shown[0].text.contains('\u{fffd}'));
    }
}
