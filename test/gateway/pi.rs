//! The questions of pi's extension.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::scene::{LONG, Scene};

fn messages(calls: usize) -> String {
    let mut messages = vec![json!({"role": "user", "content": [{"type": "text", "text": "the task"}], "timestamp": 1})];
    for call in 0..calls {
        let id = format!("call_{call}");
        messages.push(json!({"role": "assistant", "content": [{"type": "toolCall", "id": id, "name": "read", "arguments": {"path": "a"}}]}));
        messages.push(json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "isError": false,
            "content": [{"type": "text", "text": format!("{call} ").repeat(LONG / 2)}]}));
    }
    Value::from(messages).to_string()
}

fn scene() -> Scene {
    Scene::with(json!({}), |options| options.upstream = None)
}

async fn shown(scene: &Scene, calls: usize) -> Vec<Value> {
    let (status, answer) = scene.post("/context?window=200000", messages(calls)).await;
    assert_eq!(status, 200, "{answer}");
    serde_json::from_str::<Value>(&answer).unwrap()["replacements"].as_array().unwrap().clone()
}

#[tokio::test]
async fn r9_4_stored_and_new_replacements_come_with_every_answer() {
    let mut scene = scene();
    assert_eq!(shown(&scene, 6).await, Vec::<Value>::new());
    scene.post("/answered", r#"{"tokens": 90000}"#).await;
    scene.clock.advance_secs(300);
    let first = shown(&scene, 6).await;
    let indexes: Vec<_> = first.iter().map(|shown| shown["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, [2, 4, 6]);
    assert_eq!(shown(&scene, 9).await, first);
    assert_eq!(scene.reasons(), ["no_clock", "ttl", "warm"]);
}

#[tokio::test]
async fn a_request_that_was_not_answered_does_not_move_the_clock() {
    let mut scene = scene();
    shown(&scene, 6).await;
    scene.clock.advance_secs(300);
    assert_eq!(shown(&scene, 7).await, Vec::<Value>::new());
    assert_eq!(scene.reasons(), ["no_clock"]);
}

#[tokio::test]
async fn other_questions_and_messages_change_nothing() {
    let scene = scene();
    assert_eq!(scene.post("/v1/messages", "{}").await.0, 404);
    assert_eq!(scene.post("/answered", "nonsense").await.0, 404);
    assert_eq!(scene.post("/context", r#"{"no": "list"}"#).await, (200, r#"{"replacements":[]}"#.to_owned()));
}
