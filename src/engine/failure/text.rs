//! The sentences by which engines and their providers name a failure.

use crate::event::item::FailureKind;

/// Sentences by kind, in the order in which they decide; `*` stands for anything in the same line.
///
/// A limit goes before a login, because engines offer another account when one is used up. Words that
/// work may be about (`401`, `unauthorized`, `limit`) do not stand here alone.
const SENTENCES: &[(FailureKind, &[&str])] = &[
    (
        FailureKind::BadSession,
        &[
            "no conversation found",
            "no session found",
            "is not a valid pi session",
            "requires a valid session id",
            "invalid session id",
            "session id * is already in use",
            "chat * not found",
        ],
    ),
    (
        FailureKind::ContextOverflow,
        &[
            "prompt is too long",
            "input is too long",
            "request too large",
            "request_too_large",
            "context_length_exceeded",
            "context length exceeded",
            "maximum context length",
            "exceeds the context window",
            "exceeds the available context size",
            "context window exceeds",
            "greater than the context length",
            "input token count * exceeds",
            "maximum prompt length is",
            "exceeded model token limit",
            "reduce the length of the messages",
            "piped stdin input exceeds",
        ],
    ),
    (
        FailureKind::Limit,
        &[
            "usage limit",
            "usage limits",
            "usage_limit_reached",
            "hit your limit",
            "hit your * limit",
            "session limit",
            "weekly limit",
            "monthly limit",
            "rate limit",
            "rate limited",
            "rate_limit_error",
            "too many requests",
            "quota exceeded",
            "exceeded your current quota",
            "insufficient_quota",
            "insufficient balance",
            "credit balance",
            "out of credits",
            "payment required",
            "spending limit",
            "resource_exhausted",
        ],
    ),
    (
        FailureKind::Login,
        &[
            "not logged in",
            "run /login",
            "use /login",
            "invalid api key",
            "incorrect api key",
            "invalid x-api-key",
            "no api key found",
            "api key is missing",
            "missing api key",
            "authentication required",
            "authentication_error",
            "authentication failed",
            "failed to authenticate",
            "unauthenticated",
            "oauth token has expired",
            "oauth token revoked",
            "permission_error",
            "run 'agent login'",
        ],
    ),
    (
        FailureKind::Missing,
        &[
            "unknown option",
            "unknown argument",
            "unknown provider",
            "unknown model",
            "model not found",
            "model * not found",
            "model_not_found",
            "not_found_error",
            "issue with the selected model",
            "cannot use this model",
            "argument * is invalid",
            "workspace trust required",
            "cannot be used with root",
            "requires --verbose",
            "input must be provided",
            "command not found",
            "requested module * does not provide an export",
        ],
    ),
    (
        FailureKind::Overload,
        &[
            "overloaded",
            "overloaded_error",
            "internal server error",
            "service unavailable",
            "bad gateway",
            "gateway timeout",
            "request timed out",
            "connection refused",
            "connection reset",
            "connection dropped",
            "connection error",
            "other side closed",
            "socket hang up",
            "fetch failed",
            "network error",
            "stream ended without",
            "econnrefused",
            "econnreset",
            "etimedout",
            "enotfound",
            "eai_again",
        ],
    ),
];

/// What a status number follows when it is one: `429 {…}`, `API Error: 529`, `Request rejected (429)`.
const BEFORE_STATUS: [&str; 7] = ["", "api error: ", "http ", "status ", "status code ", "status: ", "rejected ("];

/// The kind that a text names; `None` when it names none.
pub(super) fn kind(text: &str) -> Option<FailureKind> {
    let lower = text.to_ascii_lowercase();
    let sentence =
        SENTENCES.iter().find(|(_, sentences)| sentences.iter().any(|sentence| position(&lower, sentence).is_some()));
    sentence.map(|(kind, _)| *kind).or_else(|| status(&lower).and_then(super::kind_of_status))
}

/// The part of a text that names its kind: from the beginning of that line on.
pub(super) fn telling(text: &str) -> &str {
    let lower = text.to_ascii_lowercase();
    let at =
        SENTENCES.iter().find_map(|(_, sentences)| sentences.iter().find_map(|s| position(&lower, s))).unwrap_or(0);
    // Lower case letter by letter keeps byte offsets, so `at` stands at the same place in `text`.
    &text[text[..at].rfind('\n').map_or(0, |newline| newline + 1)..]
}

/// Where a sentence stands in a text of lower case, as whole words.
fn position(text: &str, sentence: &str) -> Option<usize> {
    let Some((head, tail)) = sentence.split_once(" * ") else { return words(text, sentence) };
    let at = words(text, head)?;
    let rest = &text[at + head.len()..];
    let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
    words(line, tail).map(|_| at)
}

fn words(text: &str, words: &str) -> Option<usize> {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(words)
        .map(|(at, _)| at)
        .find(|at| !text[..*at].ends_with(is_inside) && !text[at + words.len()..].starts_with(is_inside))
}

/// An HTTP status where a message of lower case has one.
fn status(text: &str) -> Option<u64> {
    BEFORE_STATUS.iter().find_map(|before| {
        let rest = if before.is_empty() { text } else { &text[text.find(before)? + before.len()..] };
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if digits == 3 { rest[..digits].parse().ok() } else { None }
    })
}
