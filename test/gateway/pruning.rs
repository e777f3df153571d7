//! What shrinks, when, and that it stays so.

use std::io;

use fia::gateway::SessionOptions;
use fia::prune::settings::{Mode, Settings};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::scene::{LONG, Scene, conversation, options, result};

fn plain() -> serde_json::Value {
    json!({"exhausted": {"text": "done"}})
}

#[tokio::test]
async fn r9_2_old_results_are_shortened_after_a_pause_and_the_same_bytes_go_out_ever_after() {
    let mut scene = Scene::new(plain());
    let before = scene.send(&conversation(6)).await;
    assert_eq!(before, conversation(6).to_string().as_bytes(), "nothing to replace: the bytes that came");
    scene.clock.advance_secs(299);
    assert_eq!(scene.send(&conversation(6)).await, before);
    scene.clock.advance_secs(300);
    let after = scene.send(&conversation(7)).await;
    assert!(after.len() < before.len() * 2 / 3, "{} {}", after.len(), before.len());
    let kept = |call: usize| result(&after, call).len() == LONG;
    assert_eq!((0..7).map(kept).collect::<Vec<_>>(), [false, false, false, false, true, true, true]);

    // Warm again: what was shortened stays so, what is new goes whole, and every byte before it is the same.
    let later = scene.send(&conversation(9)).await;
    assert!(later.starts_with(after.strip_suffix(b"]}").unwrap()));
    assert_eq!((result(&later, 0), result(&later, 3)), (result(&after, 0), result(&after, 3)));
    assert_eq!(result(&later, 6).len(), LONG);

    let reasons = scene.reasons();
    assert_eq!(reasons, ["no_clock", "warm", "ttl", "warm"]);
}

#[tokio::test]
async fn r9_3_a_restart_sends_the_same_replacements_and_keeps_the_clock() {
    let mut scene = Scene::new(plain());
    scene.send(&conversation(6)).await;
    scene.clock.advance_secs(300);
    let pruned = scene.send(&conversation(6)).await;
    // The success of the second request is taken down before the third is looked at.
    scene.post("/v1/messages/count_tokens", conversation(6).to_string()).await;
    scene.restart();
    assert_eq!(scene.send(&conversation(6)).await, pruned);
    assert_eq!(scene.reasons(), ["warm"]);
    scene.clock.advance_secs(300);
    scene.send(&conversation(8)).await;
    assert_eq!(scene.reasons(), ["ttl"]);
}

#[tokio::test]
async fn r9_3_a_warm_round_runs_when_enough_requests_are_expected_to_pay_for_it() {
    let adaptive = |options: &mut SessionOptions| {
        options.settings = Some(Settings::of(Mode::Adaptive));
        options.expected = 2;
    };
    let mut scene = Scene::with(plain(), adaptive);
    scene.send(&conversation(9)).await;
    let whole = scene.send(&conversation(9)).await;
    scene.session.expect(40);
    let pruned = scene.send(&conversation(9)).await;
    assert_eq!(scene.reasons(), ["no_clock", "warm", "warm"]);
    assert!(pruned.len() < whole.len(), "{} {}", pruned.len(), whole.len());
}

#[tokio::test]
async fn a_round_names_what_it_removed_and_where_it_began() {
    let mut scene = Scene::new(plain());
    scene.send(&conversation(6)).await;
    scene.clock.advance_secs(3600);
    scene.send(&conversation(6)).await;
    let rounds = scene.rounds();
    let round = rounds.last().unwrap();
    assert_eq!((round.soft, round.hard, round.gap_ms), (3, 0, Some(3_600_000)));
    assert_eq!(round.first_changed.as_deref(), Some("messages[2].content[0] tool_result"));
    assert!(round.chars_before - round.chars_after > 150_000, "{round:?}");
    assert!(round.ratio_before > round.ratio_after && round.ratio_after > 0.0, "{round:?}");
}

#[tokio::test]
async fn a_failed_or_torn_request_does_not_move_the_clock() {
    let mut scene = Scene::new(
        json!({"responses": [{"text": "one"}, {"error": 529}, {"cut": 4, "text": "torn"}], "exhausted": {"text": "x"}}),
    );
    scene.send(&conversation(6)).await;
    scene.clock.advance_secs(200);
    assert_eq!(scene.post("/v1/messages", conversation(6).to_string()).await.0, 529);
    let torn = scene.request("/v1/messages").body(conversation(6).to_string()).send().await.unwrap();
    assert_eq!(torn.status(), 200);
    torn.text().await.expect_err("the stream is cut, and so is ours");
    scene.clock.advance_secs(100);
    scene.send(&conversation(6)).await;
    assert_eq!(scene.reasons().last().unwrap(), "ttl");
}

#[tokio::test]
async fn a_retry_sends_what_the_first_try_sent_even_if_the_pause_ran_out_in_between() {
    let scene = Scene::new(json!({"responses": [{"text": "one"}, {"error": 529}], "exhausted": {"text": "x"}}));
    scene.send(&conversation(6)).await;
    scene.clock.advance_secs(250);
    let body = conversation(7).to_string();
    scene.post("/v1/messages", body.clone()).await;
    let first = scene.received();
    scene.clock.advance_secs(250);
    scene.request("/v1/messages").header("x-stainless-retry-count", "1").body(body).send().await.unwrap();
    assert_eq!(scene.received(), first);
}

#[tokio::test]
async fn a_question_about_sizes_is_told_what_would_be_sent_and_changes_nothing() {
    let mut scene = Scene::new(plain());
    scene.send(&conversation(6)).await;
    scene.clock.advance_secs(300);
    let count = async |scene: &Scene| scene.post("/v1/messages/count_tokens", conversation(6).to_string()).await.1;
    let whole = count(&scene).await;
    let writes = scene.saved.writes();
    assert_eq!(count(&scene).await, whole);
    assert_eq!(scene.saved.writes(), writes);
    scene.send(&conversation(6)).await;
    let tokens =
        |answer: &str| serde_json::from_str::<serde_json::Value>(answer).unwrap()["input_tokens"].as_u64().unwrap();
    let shortened = count(&scene).await;
    assert!(tokens(&shortened) < tokens(&whole) / 2 + tokens(&whole) / 10, "{shortened} {whole}");
    assert_eq!(scene.reasons(), ["no_clock", "ttl"]);
}

#[tokio::test]
async fn what_cannot_be_saved_is_not_sent() {
    let mut scene =
        Scene::with(plain(), |options| options.save = Box::new(|_| Err(io::Error::other("disk full").into())));
    scene.send(&conversation(6)).await;
    scene.clock.advance_secs(300);
    assert_eq!(scene.send(&conversation(6)).await, conversation(6).to_string().as_bytes());
    assert_eq!(scene.reasons(), ["no_clock", "not_saved"]);
}

#[tokio::test]
async fn switched_off_it_repeats_what_was_shortened_and_shortens_no_more() {
    let mut scene = Scene::new(plain());
    scene.send(&conversation(6)).await;
    scene.clock.advance_secs(300);
    let pruned = scene.send(&conversation(6)).await;
    scene.session = scene
        .gateway
        .session(fia::gateway::SessionOptions { settings: None, ..options(&scene.provider, &scene.saved) })
        .unwrap();
    scene.clock.advance_secs(9000);
    assert_eq!(scene.send(&conversation(6)).await, pruned);
    assert_eq!(scene.reasons(), ["off"]);
}

#[tokio::test]
async fn sub_agents_and_side_calls_have_clocks_of_their_own() {
    let mut scene = Scene::new(plain());
    scene.send(&conversation(6)).await;
    scene.clock.advance_secs(300);
    let body = conversation(6).to_string();
    scene.request("/v1/messages").header("x-claude-code-agent-id", "a1").body(body.clone()).send().await.unwrap();
    assert_eq!(scene.received(), body.as_bytes());
    let mut side = conversation(6);
    side["system"] = json!("make a title");
    scene.send(&side).await;
    assert_eq!(scene.reasons(), ["no_clock", "no_clock", "no_clock"]);
}

#[tokio::test]
async fn a_prefix_that_changed_is_named_and_secrets_in_it_are_not() {
    let mut scene = Scene::new(plain());
    let mut body = conversation(2);
    body["system"] = json!("key sk-ant-aaaaaaaaaaaaaaaaaaaaaaaa");
    scene.send(&body).await;
    body["messages"][1]["content"][0]["thinking"] = json!("sk-ant-bbbbbbbbbbbbbbbbbbbbbbbb");
    scene.send(&body).await;
    let events: Vec<String> = std::iter::from_fn(|| scene.session.news()).map(|event| format!("{event:?}")).collect();
    let changed = events.iter().find(|event| event.contains("PrefixChanged")).unwrap();
    assert!(changed.contains("messages[1].content[0] thinking") && !changed.contains("bbbb"), "{changed}");
}

#[tokio::test]
async fn a_body_that_is_not_understood_passes_and_is_said() {
    let mut scene = Scene::new(plain());
    let body = r#"{"model": "m", "messages": {"0": 1}}"#;
    scene.post("/v1/messages", body).await;
    assert_eq!(scene.received(), body.as_bytes());
    assert_eq!(scene.reasons(), ["unknown_body"]);
}
