//! What is refused, and what nobody gets to see.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use chrono::Utc;
use fia::gateway::{Gateway, GatewayError};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::scene::{Scene, conversation};

/// Sends bytes to the gateway and gives the status line of its answer.
async fn status(scene: &Scene, request: impl Fn(&str, &str) -> String) -> String {
    let (host, path) = scene.session.base_url().trim_start_matches("http://").split_once('/').unwrap();
    let (address, request) = (host.to_owned(), request(host, &format!("/{path}")));
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        // A server that refuses early may close before it has read everything.
        let _closed = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    });
    answer.await.unwrap().lines().next().unwrap_or_default().to_owned()
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\n{headers}connection: close\r\n\r\n")
}

#[tokio::test]
async fn r9_4_only_the_path_of_a_session_is_let_through() {
    let mut scene = Scene::new(json!({}));
    let asked = async |scene: &Scene, path: &dyn Fn(&str) -> String| {
        status(scene, |host, own| get(&path(own), &format!("host: {host}\r\n"))).await
    };
    assert_eq!(asked(&scene, &|own| format!("{own}/v1/models")).await, "HTTP/1.1 200 OK");
    let not_found = "HTTP/1.1 404 Not Found";
    for path in ["/", "/v1/messages", "/s/", "/s//v1/models", "/s/00000000000000000000000000000000/v1/models"] {
        assert_eq!(asked(&scene, &|_| path.to_owned()).await, not_found, "{path}");
    }
    for change in [
        |own: &str| own[..own.len() - 1].to_owned(),
        |own: &str| format!("{own}0"),
        str::to_uppercase,
        |own: &str| format!("/x/..{own}"),
    ] {
        assert_eq!(asked(&scene, &|own| format!("{}/v1/models", change(own))).await, not_found);
    }
    assert_eq!(scene.provider.requests().len(), 1);
    let old = scene.session.base_url().to_owned();
    scene.restart();
    assert_ne!(scene.session.base_url(), old, "a path is made anew for each session");
    assert_eq!(scene.client.get(format!("{old}/v1/models")).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn r9_4_another_host_is_refused() {
    let scene = Scene::new(json!({}));
    let asked = async |headers: &dyn Fn(&str) -> String| {
        status(&scene, |host, path| get(&format!("{path}/v1/models"), &headers(host))).await
    };
    let port = |host: &str| host.rsplit(':').next().unwrap().to_owned();
    assert_eq!(asked(&|host| format!("host: localhost:{}\r\n", port(host))).await, "HTTP/1.1 200 OK");
    let refused = "HTTP/1.1 403 Forbidden";
    assert_eq!(asked(&|host| format!("host: rebound.example.invalid:{}\r\n", port(host))).await, refused);
    assert_eq!(asked(&|_| "host: 127.0.0.1\r\n".to_owned()).await, refused);
    assert_eq!(asked(&|host| format!("host: {host}\r\nhost: example.invalid\r\n")).await, refused);
    let whole = status(&scene, |host, path| {
        get(&format!("http://example.invalid{path}/v1/models"), &format!("host: {host}\r\n"))
    })
    .await;
    assert_eq!(whole, refused);
    assert_eq!(scene.provider.requests().len(), 1);
}

#[tokio::test]
async fn r9_4_oversized_headers_are_refused() {
    let scene = Scene::new(json!({}));
    for (bytes, expected) in [
        (60_000, "200 OK"),
        (66_000, "431 Request Header Fields Too Large"),
        (2_000_000, "431 Request Header Fields Too Large"),
    ] {
        let answer = status(&scene, |host, path| {
            get(&format!("{path}/v1/models"), &format!("host: {host}\r\nx-large: {}\r\n", "x".repeat(bytes)))
        });
        assert_eq!(answer.await, format!("HTTP/1.1 {expected}"), "{bytes}");
    }
    let many = status(&scene, |host, path| {
        let headers: String = (0..2000).map(|n| format!("x-{n}: {}\r\n", "x".repeat(40))).collect();
        get(&format!("{path}/v1/models"), &format!("host: {host}\r\n{headers}"))
    });
    assert_eq!(many.await, "HTTP/1.1 431 Request Header Fields Too Large");
}

#[tokio::test]
async fn r9_4_it_listens_on_loopback_only() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let address: SocketAddr = address.parse().unwrap();
        let refused = Gateway::start(address, Arc::new(Utc::now)).unwrap_err();
        assert!(matches!(refused, GatewayError::NotLoopback { .. }), "{refused}");
    }
}

#[tokio::test]
async fn no_key_and_no_path_appear_in_what_is_kept_said_or_shown() {
    let mut scene = Scene::new(json!({"exhausted": {"text": "done"}}));
    scene.send(&conversation(6)).await;
    scene.clock.advance_secs(300);
    scene.send(&conversation(6)).await;
    let token = scene.session.base_url().rsplit('/').next().unwrap().to_owned();
    let state = String::from_utf8(scene.saved.state().render()).unwrap();
    let rounds = scene.rounds();
    let shown = format!("{:?} {rounds:?}", scene.gateway);
    for secret in ["sk-ant-secret", token.as_str()] {
        assert!(!state.contains(secret) && !shown.contains(secret), "{shown}");
    }
}
