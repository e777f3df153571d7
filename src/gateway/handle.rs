//! From a request of a client to its answer.

use std::error::Error as _;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use serde_json::json;

use super::answer::{Copy, Passing};
use super::memory::{Kind, Outgoing, Question};
use super::session::Session;
use super::{Shared, Upstream, pi};

/// Headers of a request at most, names and values together, in bytes; claude 2.1.332 sends about 2,000.
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// A body at most, in bytes: twice what the provider takes.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Headers that speak of one connection alone (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Why a request is not let through.
struct Refusal {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into() }
    }

    /// In the form in which the provider would refuse it.
    fn into_response(self) -> Response<Body> {
        let error = json!({ "type": self.kind, "message": format!("fia gateway: {}", self.message) });
        let body = json!({ "type": "error", "error": error }).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// Answers any request.
pub(super) async fn handle(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let answered = match admit(&shared, &parts) {
        Ok((session, path)) => answer(session, path, &parts, body).await,
        Err(refusal) => Err(refusal),
    };
    answered.unwrap_or_else(Refusal::into_response)
}

/// Lets a request in: whose it is, and the path that is meant for the provider.
fn admit<'a>(shared: &Shared, parts: &'a Parts) -> Result<(Arc<Session>, &'a str), Refusal> {
    let bytes: usize = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > MAX_HEADER_BYTES {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Err(Refusal::new(status, "request_too_large", "the headers are too large"));
    }
    // A page in a browser that resolves its own name to loopback still says that name.
    let is_own = |host: &[u8]| shared.hosts.iter().any(|own| own.as_bytes() == host);
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let named = parts.uri.authority().is_none_or(|authority| is_own(authority.as_str().as_bytes()));
    if !named || !hosts.next().is_some_and(|host| is_own(host.as_bytes())) || hosts.next().is_some() {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "permission_error", "this is not the host that was asked for"));
    }
    let path = parts.uri.path();
    let below = path.strip_prefix("/s/").unwrap_or_default();
    let (token, _) = below.split_once('/').unwrap_or((below, ""));
    match shared.session(token) {
        Some(session) => Ok((session, &below[token.len()..])),
        None => Err(Refusal::new(StatusCode::NOT_FOUND, "not_found_error", "there is nothing here")),
    }
}

async fn answer(session: Arc<Session>, path: &str, parts: &Parts, body: Body) -> Result<Response<Body>, Refusal> {
    let body = axum::body::to_bytes(body, MAX_BODY_BYTES).await.map_err(|_| {
        let message = format!("the body did not arrive whole, or has more than {MAX_BODY_BYTES} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
    })?;
    let Some((upstream, client)) = session.upstream() else {
        let answered = pi::answer(&session, path, parts.uri.query(), body).await;
        return answered
            .map(json)
            .ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "not_found_error", "there is no such question"));
    };
    let outgoing = match question(path, parts) {
        Some(question) => session.prepare(body, question).await,
        None => Outgoing { body, ticket: None },
    };
    let url = upstream.join(path, parts.uri.query());
    let request = client.request(parts.method.clone(), url).headers(for_provider(&parts.headers));
    let has_body = !outgoing.body.is_empty() || parts.headers.contains_key(header::CONTENT_LENGTH);
    let request = if has_body { request.body(outgoing.body) } else { request };
    let came = request.send().await.map_err(|error| unreachable(upstream, error))?;
    let (mut head, body) = Response::<reqwest::Body>::from(came).into_parts();
    without_hops(&mut head.headers);
    let ticket = outgoing.ticket.filter(|_| head.status.is_success());
    let copy = ticket.map(|ticket| Copy::new(&head.headers, Arc::clone(&session), ticket));
    Ok(Response::from_parts(head, Body::new(Passing::new(body, copy))))
}

/// What of a request concerns pruning; `None` when nothing does.
fn question(path: &str, parts: &Parts) -> Option<Question> {
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let kind = match path.trim_end_matches('/') {
        "/v1/messages" => {
            let tries = text("x-stainless-retry-count").and_then(|count| count.trim().parse::<u64>().ok());
            Kind::Model { retry: tries.is_some_and(|count| count > 0) }
        }
        "/v1/messages/count_tokens" => Kind::CountTokens,
        _ => return None,
    };
    let sub_agent = text("x-claude-code-agent-id").map(str::to_owned);
    (parts.method == Method::POST).then_some(Question { kind, sub_agent })
}

/// The headers as they came, less those of this connection.
///
/// `accept-encoding` goes too: what is compressed can be neither read nor passed on chunk by chunk as it is made.
fn for_provider(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    without_hops(&mut headers);
    for name in [header::HOST, header::CONTENT_LENGTH, header::ACCEPT_ENCODING, header::EXPECT] {
        headers.remove(name);
    }
    headers
}

fn without_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

/// The provider did not answer. The innermost cause says why; those around it name the whole URL.
fn unreachable(upstream: &Upstream, error: reqwest::Error) -> Refusal {
    let error = error.without_url();
    let mut cause = error.to_string();
    let mut inner = error.source();
    while let Some(source) = inner {
        cause = source.to_string();
        inner = source.source();
    }
    Refusal::new(StatusCode::BAD_GATEWAY, "api_error", format!("no answer from {upstream}: {cause}"))
}

/// A JSON answer of the gateway's own.
fn json(body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
