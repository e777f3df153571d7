//! What kind of death: one classifier for every engine (SPEC 10 and 10.1).
//!
//! It reads what an engine says about itself: names and statuses of errors first, then the text of a
//! failed result or of standard error. It is never given the agent's own words or a tool's output, and
//! a text decides by whole words only. What it cannot place is a crash.

pub mod reset;
mod text;

use serde::Deserialize;

use super::json::{self, Count, Raw};
use crate::event::item::{Failure, FailureKind, Reset};
use crate::mask;
use crate::process::Exit;

pub use reset::retry_at;

/// Characters of a failure's message.
pub const MESSAGE_CHARS: usize = 500;

/// Characters of a message that are kept until the secrets of the environment are hidden in it.
const KEPT_CHARS: usize = 4 * MESSAGE_CHARS;

/// Exit statuses by which a shell says that a program is no program or is not there.
const NOT_STARTED: [i32; 2] = [126, 127];

/// What an engine gave away about a failed turn.
#[derive(Debug, Default)]
pub(super) struct Evidence<'a> {
    /// Names of the error in the engine's own terms, the more telling first.
    pub(super) codes: &'a [&'a str],
    /// The status of the HTTP answer.
    pub(super) status: Option<u64>,
    /// When the limit ends, from a field made for it.
    pub(super) reset: Option<Reset>,
    /// The text of the failed result, or of standard error.
    pub(super) text: &'a str,
}

/// Places a failure.
pub(super) fn classify(evidence: &Evidence<'_>) -> Failure {
    let detail = Detail::find(evidence.text);
    let kind = evidence
        .codes
        .iter()
        .find_map(|code| kind_of_code(code))
        .or_else(|| evidence.status.and_then(kind_of_status))
        .or_else(|| detail.as_ref().and_then(Detail::kind))
        .or_else(|| text::kind(evidence.text))
        .unwrap_or(FailureKind::Crash);
    let reset = match (kind, &evidence.reset) {
        (FailureKind::Limit, Some(reset)) => reset.clone(),
        (FailureKind::Limit, None) => {
            detail.and_then(|detail| detail.reset()).unwrap_or_else(|| reset::find(evidence.text))
        }
        _ => Reset::Unknown,
    };
    failure(kind, evidence.text, reset)
}

/// Places a failure of which only a text is known.
pub fn of_text(text: &str) -> Failure {
    classify(&Evidence { text, ..Evidence::default() })
}

/// A failure of a known kind: its message cut and without secrets, never empty.
pub fn failure(kind: FailureKind, message: &str, reset: Reset) -> Failure {
    let message = if message.trim().is_empty() { "the engine gave no reason" } else { message.trim() };
    let message = mask::secrets(message).chars().take(KEPT_CHARS).collect();
    Failure { kind, message, reset }
}

/// Places the end of a process that had a turn open and never closed it.
///
/// `stderr_tail` is what is kept of standard error of this leg. A message that mirrors the event stream is
/// left out, for it holds the agent's own words.
pub fn without_closing_event(exit: Exit, stderr_tail: &[u8]) -> Failure {
    let stderr = String::from_utf8_lossy(stderr_tail);
    let said: Vec<&str> = stderr.lines().filter(|line| !line.trim_start().starts_with("{\"")).collect();
    let said = said.join("\n");
    let ended = match exit {
        Exit::Code(code) => format!("ended without a closing event, exit status {code}"),
        Exit::Signal(signal) => format!("ended without a closing event, by signal {signal}"),
    };
    if said.trim().is_empty() {
        let kind = match exit {
            Exit::Code(code) if NOT_STARTED.contains(&code) => FailureKind::Missing,
            Exit::Code(_) | Exit::Signal(_) => FailureKind::Crash,
        };
        return failure(kind, &ended, Reset::Unknown);
    }
    let mut failure = of_text(&said);
    if failure.kind == FailureKind::Crash {
        if matches!(exit, Exit::Code(code) if NOT_STARTED.contains(&code)) {
            failure.kind = FailureKind::Missing;
        }
        failure.message = self::failure(failure.kind, &format!("{ended}: {}", tail(&said)), Reset::Unknown).message;
    } else {
        failure.message = self::failure(failure.kind, text::telling(&said), Reset::Unknown).message;
    }
    failure
}

/// What failed in a resumed session before any message came: the session, unless a cause is known.
#[must_use]
pub fn of_resume(failure: Failure) -> Failure {
    match failure.kind {
        FailureKind::Crash => Failure { kind: FailureKind::BadSession, ..failure },
        FailureKind::Overload
        | FailureKind::Timeout
        | FailureKind::Limit
        | FailureKind::Login
        | FailureKind::Missing
        | FailureKind::ContextOverflow
        | FailureKind::BadSession => failure,
    }
}

/// The end of a long text, at most 400 characters, from the beginning of a line where there is one.
fn tail(text: &str) -> &str {
    const TAIL_CHARS: usize = 400;
    let text = text.trim();
    let Some((from, _)) = text.char_indices().rev().nth(TAIL_CHARS) else { return text };
    let tail = &text[from..];
    tail.split_once('\n').map_or(tail, |(_, lines)| lines)
}

/// The kind that a vendor's name for an error stands for; `None` when the name covers several.
fn kind_of_code(code: &str) -> Option<FailureKind> {
    Some(match code {
        "authentication_failed" | "authentication_error" | "permission_error" | "oauth_org_not_allowed" => {
            FailureKind::Login
        }
        "rate_limit"
        | "rate_limit_error"
        | "billing_error"
        | "usage_limit_reached"
        | "usage_not_included"
        | "insufficient_quota"
        | "rate_limit_exceeded" => FailureKind::Limit,
        "server_error" | "overloaded" | "overloaded_error" | "api_error_overloaded" | "timeout_error" => {
            FailureKind::Overload
        }
        "model_not_found" | "not_found_error" => FailureKind::Missing,
        "prompt_too_long" | "blocking_limit" | "image_error" | "request_too_large" | "context_length_exceeded" => {
            FailureKind::ContextOverflow
        }
        _ => return None,
    })
}

/// The kind that an HTTP status stands for; `None` where the text has to say.
fn kind_of_status(status: u64) -> Option<FailureKind> {
    Some(match status {
        401 | 403 => FailureKind::Login,
        402 | 429 => FailureKind::Limit,
        404 => FailureKind::Missing,
        413 => FailureKind::ContextOverflow,
        408 | 500..=599 => FailureKind::Overload,
        _ => return None,
    })
}

/// An error object as providers send it, quoted whole in an engine's message.
#[derive(Deserialize)]
struct Detail<'a> {
    #[serde(borrow, default)]
    error: Raw<'a>,
    #[serde(default)]
    status_code: Count,
}

#[derive(Deserialize)]
struct Inner<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Raw<'a>,
    #[serde(borrow, default)]
    code: Raw<'a>,
    #[serde(default)]
    resets_at: Count,
    #[serde(default)]
    resets_in_seconds: Count,
}

impl<'a> Detail<'a> {
    /// Finds one that begins at the first brace.
    fn find(text: &'a str) -> Option<Self> {
        let at = text.find('{')?;
        serde_json::Deserializer::from_str(&text[at..]).into_iter().next()?.ok()
    }

    fn inner(&self) -> Option<Inner<'a>> {
        json::read(self.error)
    }

    fn kind(&self) -> Option<FailureKind> {
        let inner = self.inner()?;
        let named = [inner.kind, inner.code].into_iter().find_map(|code| kind_of_code(&json::name(code)?));
        named.or_else(|| self.status_code.0.and_then(kind_of_status))
    }

    fn reset(&self) -> Option<Reset> {
        let inner = self.inner()?;
        let at = inner.resets_at.0.and_then(reset::at_epoch).map(Reset::At);
        at.or_else(|| Some(Reset::After(std::time::Duration::from_secs(inner.resets_in_seconds.0?))))
    }
}

#[cfg(test)]
mod tests;
