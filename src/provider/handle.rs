//! From a request to its answer.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Method, header};
use axum::response::Response as HttpResponse;
use serde_json::{Value, json};

use super::answer::{self, Message};
use super::connection::Line;
use super::log::LoggedPrompt;
use super::play::{Entry, Shared};
use super::request::Request;
use super::scenario::{ErrorAnswer, Fault, Response};
use super::stream::{self, Ending};
use super::tokens;
use super::{Bodies, ProviderError};

/// The largest body that is read, in bytes: twice what the largest context window can hold.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// The models that `/v1/models` lists.
const MODELS: [&str; 3] = ["claude-sonnet-4-5", "claude-opus-4-5", "claude-haiku-4-5"];

/// Answers any request.
pub(super) async fn handle(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(line): ConnectInfo<Line>,
    request: axum::extract::Request,
) -> HttpResponse {
    let (parts, body) = request.into_parts();
    let mut entry = Entry::new(&shared, &parts);
    let Ok(raw) = axum::body::to_bytes(body, MAX_BODY_BYTES).await else {
        let body = answer::error_body("request_too_large", "body not read", &entry.request_id());
        entry.finish("413 unreadable body");
        return plain(413, &body, HeaderMap::new());
    };
    entry.record().raw_bytes = raw.len();
    let path = parts.uri.path().trim_end_matches('/');
    if parts.method != Method::POST {
        entry.finish("probe");
        return plain(200, &if path == "/v1/models" { models() } else { json!({}) }, HeaderMap::new());
    }
    let counts = path.ends_with("/messages/count_tokens");
    if !counts && !path.ends_with("/v1/messages") {
        entry.finish("sink");
        return plain(200, &json!({}), HeaderMap::new());
    }
    let Ok(body) = serde_json::from_slice::<Value>(&raw) else {
        return refuse(entry, "the body is not JSON");
    };
    let request = Request::new(&body, &parts.headers);
    if counts {
        let growth = shared.play().script.growth().unwrap_or(shared.options().growth);
        let tokens = tokens::count(&request, growth);
        entry.finish(format!("count_tokens {tokens}"));
        return plain(200, &json!({"input_tokens": tokens}), HeaderMap::new());
    }
    match take(&shared, &mut entry, &request, raw) {
        Ok((response, message)) => deliver(entry, response, message, request.wants_stream(), line).await,
        Err(error) => {
            let cause = std::error::Error::source(&error).map_or_else(String::new, |source| format!(": {source}"));
            refuse(entry, &format!("{error}{cause}"))
        }
    }
}

/// Everything that is decided before the first byte of an answer: its place in the scenario, its tokens, its text.
fn take(
    shared: &Shared,
    entry: &mut Entry,
    request: &Request<'_>,
    raw: Bytes,
) -> Result<(Response, Message), ProviderError> {
    let options = shared.options();
    if let Some(folder) = &options.dump_dir {
        let path = folder.join(format!("{:04}.json", entry.record().n));
        std::fs::write(&path, &raw).map_err(ProviderError::file("write", &path))?;
    }
    if options.bodies == Bodies::Keep {
        entry.record().body = Some(raw);
    }
    let mut guard = shared.play();
    let play = &mut *guard;
    play.reload()?;
    let growth = play.script.growth().unwrap_or(options.growth);
    let account = play.ledger.account(request, growth, options.cache_scope, options.cache_life, shared.now());
    let tokens = account.tokens;
    let (response, picked) = play.script.pick(request);
    let mut prompt = LoggedPrompt::new(request, account, picked);
    let message = Message::fill(&response, request, tokens, &mut play.ids, options.cwd.as_deref());
    drop(guard);
    let answers = !matches!(response.fault, Fault::Garbage | Fault::Status(_) | Fault::SilentBefore(_));
    if answers {
        prompt.usage.clone_from(&message.usage);
        prompt.message_id = Some(message.id.clone());
    }
    entry.record().prompt = Some(prompt);
    Ok((response, message))
}

async fn deliver(
    mut entry: Entry,
    response: Response,
    message: Message,
    wants_stream: bool,
    line: Line,
) -> HttpResponse {
    if !response.delay.is_zero() {
        tokio::time::sleep(response.delay).await;
    }
    let request_id = entry.request_id();
    match response.fault {
        Fault::None | Fault::InStream { .. } | Fault::Cut { .. } | Fault::SilentAfter { .. } if wants_stream => {}
        Fault::Garbage => {
            entry.finish("garbage");
            let page = Body::from("<html><body>not an API</body></html>");
            return build(200, "text/html", page, HeaderMap::new());
        }
        Fault::SilentBefore(silence) => return never(entry, "hang before headers", silence, line).await,
        // A client that falls back to a plain request meets the same fault.
        Fault::Status(error) | Fault::InStream { error, after: _ } => return refuse_with(entry, &error),
        Fault::SilentAfter { silence, after: _ } => return never(entry, "hang without a byte", silence, line).await,
        Fault::Cut { after: _ } => {
            entry.finish("cut without a byte");
            return broken(line).await;
        }
        Fault::None => {
            entry.finish(format!("200 json {}", message.stop_reason));
            return plain(200, &message.to_json(), with_id(&request_id));
        }
    }
    let mut events = message.events(response.chunk);
    let ending = end_events(&mut events, response.fault, &message.stop_reason, &request_id);
    let mut headers = with_id(&request_id);
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-cache"));
    let body = stream::body(entry, events, ending, response.chunk_delay, line);
    build(200, "text/event-stream; charset=utf-8", body, headers)
}

/// Leaves the events that are sent, and says how their stream ends.
fn end_events(events: &mut Vec<String>, fault: Fault, stop_reason: &str, request_id: &str) -> Ending {
    match fault {
        Fault::InStream { error, after } => {
            events.truncate(after);
            events.push(answer::error_event(&error, request_id));
            Ending::Polite { answer: format!("error {} in stream", error.status) }
        }
        Fault::Cut { after } => {
            events.truncate(after);
            Ending::Reset { answer: format!("cut after {after} events") }
        }
        Fault::SilentAfter { after, silence } => {
            events.truncate(after);
            Ending::Silence(silence)
        }
        Fault::None | Fault::Garbage | Fault::Status(_) | Fault::SilentBefore(_) => {
            Ending::Polite { answer: format!("200 sse {stop_reason}") }
        }
    }
}

/// Says nothing, and then breaks the connection.
async fn never(mut entry: Entry, answer: &str, silence: Duration, line: Line) -> HttpResponse {
    entry.begin(answer);
    // A client that goes away takes this future with it, and with it the entry.
    tokio::time::sleep(silence).await;
    entry.finish(format!("{answer}: time over"));
    broken(line).await
}

/// Breaks the connection, which ends this future.
async fn broken(line: Line) -> HttpResponse {
    line.reset();
    std::future::pending().await
}

fn refuse_with(mut entry: Entry, error: &ErrorAnswer) -> HttpResponse {
    let request_id = entry.request_id();
    let body = answer::error_body(&error.kind, &error.message, &request_id);
    entry.finish(error.status.to_string());
    let mut headers = with_id(&request_id);
    headers.extend(error.headers.clone());
    plain(error.status, &body, headers)
}

/// Answers 400 with a reason, which also stands in the log.
fn refuse(mut entry: Entry, reason: &str) -> HttpResponse {
    let body = answer::error_body("invalid_request_error", reason, &entry.request_id());
    entry.finish(format!("400 {reason}"));
    plain(400, &body, HeaderMap::new())
}

fn with_id(request_id: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = request_id.try_into() {
        headers.insert("request-id", value);
    }
    headers
}

fn plain(status: u16, body: &Value, headers: HeaderMap) -> HttpResponse {
    build(status, "application/json", Body::from(body.to_string()), headers)
}

fn build(status: u16, kind: &'static str, body: Body, headers: HeaderMap) -> HttpResponse {
    let mut response = HttpResponse::new(body);
    *response.status_mut() = axum::http::StatusCode::from_u16(status).unwrap_or_default();
    *response.headers_mut() = headers;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

fn models() -> Value {
    let model = |id: &str| json!({"type": "model", "id": id, "display_name": id, "created_at": "2025-01-01T00:00:00Z"});
    json!({"data": MODELS.map(model), "has_more": false, "first_id": MODELS[0], "last_id": MODELS[2]})
}
