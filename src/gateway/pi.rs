//! The questions of pi's extension: what to shorten in the next request, and that the last one was answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Bytes;
use serde::Deserialize;

use super::memory::Memory;
use super::session::Session;
use crate::economy::prices::CacheLifetime;
use crate::prune::conversation::{Request, RequestKind};
use crate::prune::pi::{self, Answer};
use crate::prune::sticky::sha256;

/// The one conversation of a pi session.
const CONVERSATION: &str = "pi";

/// What the extension knows beside the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    /// Of the model, where the configuration does not say it.
    window: Option<u64>,
    lifetime: CacheLifetime,
}

#[derive(Debug, Deserialize)]
struct Answered {
    /// Input tokens of the request, cached ones included.
    #[serde(default)]
    tokens: Option<u64>,
}

/// Answers a question, in JSON; `None` when it is none of pi's.
pub(super) async fn answer(session: &Arc<Session>, path: &str, query: Option<&str>, body: Bytes) -> Option<Bytes> {
    match path {
        "/context" => {
            let (told, now_ms) = (told(query.unwrap_or_default()), session.now_ms());
            let shown = session.with_memory(move |session, memory| session.shorten(memory, &body, told, now_ms)).await;
            // An answer is owed in any case; without one pi would wait.
            Some(shown.unwrap_or_else(nothing))
        }
        "/answered" => {
            let tokens = serde_json::from_slice::<Answered>(&body).ok()?.tokens.filter(|tokens| *tokens > 0);
            session
                .with_memory(move |session, memory| {
                    if let Some(ticket) = memory.open.take() {
                        session.remember(memory, &ticket, tokens);
                    }
                })
                .await;
            Some(Bytes::from_static(b"{}"))
        }
        _ => None,
    }
}

fn told(query: &str) -> Told {
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let lifetime = match value("cache") {
        Some("long") => CacheLifetime::OneHour,
        Some(_) | None => CacheLifetime::FiveMinutes,
    };
    Told { window: value("window").and_then(|tokens| tokens.parse().ok()), lifetime }
}

fn nothing() -> Bytes {
    Bytes::from_static(br#"{"replacements":[]}"#)
}

impl Session {
    fn shorten(&self, memory: &mut Memory, body: &Bytes, told: Told, now_ms: i64) -> Bytes {
        let Some(messages) = pi::parse(body) else { return nothing() };
        let body_sha256 = sha256(body);
        let request = Request {
            conversation: CONVERSATION,
            messages: &messages,
            now_ms,
            // pi does not say that it tries again: the same question, and the last one was not answered.
            kind: RequestKind::Model { body_sha256: &body_sha256, retry: memory.open.is_some() },
            window: self.window.or(told.window),
            lifetime: told.lifetime,
            rates: self.rates,
            expected: self.expected.load(Ordering::Relaxed),
        };
        let (plan, saved) = self.plan(memory, &request);
        let first_changed = plan.first_changed_index().map(|index| format!("messages[{index}] toolResult"));
        self.say(memory, CONVERSATION, self.event(&plan, saved, first_changed));
        memory.open = Some(plan.ticket);
        serde_json::to_vec(&Answer { replacements: &plan.shown }).map_or_else(|_| nothing(), Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pi_does_not_say_is_unknown() {
        let five = CacheLifetime::FiveMinutes;
        assert_eq!(told("window=200000&cache=long"), Told { window: Some(200_000), lifetime: CacheLifetime::OneHour });
        assert_eq!(told("cache=short&windows=1&window="), Told { window: None, lifetime: five });
        assert_eq!(told(""), Told { window: None, lifetime: five });
    }
}
