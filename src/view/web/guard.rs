//! Who may read, and what a browser may do with what it gets.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Shared;

/// Nothing but what this server serves, and no script but its own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Lets a request through that names this machine and the token, and only reads.
pub(super) async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response = match refusal(&shared, &request) {
        Some(status) => status.into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refusal(shared: &Shared, request: &Request) -> Option<StatusCode> {
    if !is_here(request.headers(), shared.port) {
        return Some(StatusCode::MISDIRECTED_REQUEST);
    }
    let first = request.uri().path().split('/').nth(1).unwrap_or_default();
    if !same(first.as_bytes(), shared.token.as_bytes()) {
        return Some(StatusCode::NOT_FOUND);
    }
    let reads = request.method() == Method::GET || request.method() == Method::HEAD;
    (!reads).then_some(StatusCode::METHOD_NOT_ALLOWED)
}

/// Whether the one `Host` is a name of this machine: a name that was bent to it by DNS is not.
fn is_here(headers: &HeaderMap, port: u16) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    [format!("127.0.0.1:{port}"), format!("localhost:{port}")].iter().any(|name| host.as_bytes() == name.as_bytes())
}

/// Compares in a time that does not tell how much is the same.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
