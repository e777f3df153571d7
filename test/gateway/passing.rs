//! What passes unchanged: headers, status, errors, streams and their speed.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::http::HeaderMap;
use fia::gateway::Upstream;
use fia::provider::LoggedRequest;
use pretty_assertions::assert_eq;
use serde_json::json;
use tokio::sync::mpsc;

use super::scene::{Scene, conversation};

/// How long the provider may take to notice something.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that tells what it was sent, and answers with headers of its own.
async fn echo() -> (String, mpsc::UnboundedReceiver<(String, BTreeMap<String, String>)>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let app = Router::new().fallback(move |request: axum::extract::Request| {
        let sender = sender.clone();
        async move {
            let headers = request.headers().iter();
            let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
            sender.send((format!("{} {}", request.method(), request.uri()), headers.collect())).unwrap();
            let mut answer = HeaderMap::new();
            for (name, value) in [("request-id", "req_1"), ("retry-after", "7"), ("location", "/elsewhere")] {
                answer.insert(name, value.parse().unwrap());
            }
            (axum::http::StatusCode::TEMPORARY_REDIRECT, answer, "see elsewhere")
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/prefix", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, receiver)
}

#[tokio::test]
async fn method_path_query_and_headers_pass_but_those_of_the_connection() {
    let (url, mut seen) = echo().await;
    let scene = Scene::with(json!({}), |options| options.upstream = Some(Upstream::parse(&url).unwrap()));
    let answer = scene
        .request("/v1/files/a%2Fb?x=1&y=%20")
        .header("authorization", "Bearer oauth-secret")
        .header("anthropic-beta", "oauth-2025-04-20,extended-cache-ttl-2025-04-11")
        .header("accept-encoding", "gzip, br")
        .header("connection", "keep-alive, x-private")
        .header("x-private", "1")
        .header("accept", "application/json")
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 307);
    assert_eq!(
        (&answer.headers()["request-id"], &answer.headers()["retry-after"]),
        (&"req_1".parse().unwrap(), &"7".parse().unwrap())
    );
    assert_eq!(answer.text().await.unwrap(), "see elsewhere");
    let (line, headers) = seen.recv().await.unwrap();
    assert_eq!(line, "POST /prefix/v1/files/a%2Fb?x=1&y=%20");
    let host = url.trim_start_matches("http://").trim_end_matches("/prefix");
    let expected = [
        ("accept", "application/json"),
        ("anthropic-beta", "oauth-2025-04-20,extended-cache-ttl-2025-04-11"),
        ("authorization", "Bearer oauth-secret"),
        ("content-length", "2"),
        ("content-type", "application/json"),
        ("host", host),
        ("x-api-key", "sk-ant-secret"),
    ];
    assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

#[tokio::test]
async fn errors_of_the_provider_pass_with_their_status_and_headers() {
    let scene = Scene::new(json!({"exhausted": {"error": 429, "headers": {"retry-after": "3"}}}));
    let answer = scene.request("/v1/messages").body(conversation(1).to_string()).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].to_str().unwrap()), (429, "3"));
    assert!(answer.headers().contains_key("request-id"));
    assert!(answer.text().await.unwrap().contains("rate_limit_error"));
}

#[tokio::test]
async fn an_answer_arrives_chunk_by_chunk_as_it_is_made() {
    let scene = Scene::new(json!({"exhausted": {"hang": 3600, "when": "after", "text": "partial text, then silence"}}));
    let mut answer = scene.request("/v1/messages").body(conversation(1).to_string()).send().await.unwrap();
    let mut text = String::new();
    while !text.contains("content_block_delta") {
        let chunk = tokio::time::timeout(PATIENCE, answer.chunk()).await.unwrap().unwrap().unwrap();
        text.push_str(&String::from_utf8(chunk.to_vec()).unwrap());
    }
    assert!(text.starts_with("event: message_start"), "{text}");
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_request_to_the_provider() {
    for scenario in [
        json!({"exhausted": {"hang": 3600, "when": "before"}}),
        json!({"exhausted": {"hang": 3600, "when": "after", "text": "partial"}}),
    ] {
        let scene = Scene::new(scenario);
        let sending = scene.request("/v1/messages").body(conversation(1).to_string()).send();
        let sending = tokio::spawn(async move {
            let answer = sending.await.unwrap();
            answer.text().await
        });
        let provider = std::sync::Arc::new(scene.provider);
        let wait = |holds: fn(&[LoggedRequest]) -> bool| {
            let provider = std::sync::Arc::clone(&provider);
            tokio::task::spawn_blocking(move || provider.wait_until(PATIENCE, holds).map(|_| ()).map_err(|_| ()))
        };
        wait(|requests| requests.iter().any(|request| request.phase.is_some())).await.unwrap().unwrap();
        sending.abort();
        wait(|requests| requests.iter().any(|request| request.answer.ends_with("client closed")))
            .await
            .unwrap()
            .unwrap();
    }
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_named_without_path_or_key() {
    // Bound and not listening: nobody else gets the port.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    let url = format!("http://user:hidden@127.0.0.1:{port}/hidden");
    let scene = Scene::with(json!({}), |options| options.upstream = Some(Upstream::parse(&url).unwrap()));
    let (status, answer) = scene.post("/v1/messages?key=hidden", conversation(1).to_string()).await;
    assert_eq!(status, 502);
    assert!(answer.contains(&format!("no answer from http://127.0.0.1:{port}")), "{answer}");
    for secret in ["hidden", "sk-ant-secret", scene.session.base_url()] {
        assert!(!answer.contains(secret), "{answer}");
    }
}

#[tokio::test]
async fn a_body_of_many_megabytes_and_several_requests_pass_on_one_connection() {
    let scene = Scene::new(json!({"exhausted": {"text": "done"}}));
    let body = conversation(250);
    for _ in 0..2 {
        assert_eq!(scene.send(&body).await, body.to_string().as_bytes());
    }
    assert!(body.to_string().len() > 15_000_000);
}
