use super::*;
use pretty_assertions::assert_eq;

fn kind_of(text: &str) -> FailureKind {
    of_text(text).kind
}

#[test]
fn r10_texts_are_placed_by_whole_words() {
    use FailureKind::{BadSession, ContextOverflow, Crash, Limit, Login, Missing, Overload};
    for (text, kind) in [
        ("Claude AI usage limit reached|1749924000", Limit),
        ("API Error: Request rejected (429) - busy", Limit),
        ("Invalid API key · Please run /login", Login),
        ("401 {\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"x\"}}", Login),
        ("529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}", Overload),
        (
            "400 {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long\"}}",
            ContextOverflow,
        ),
        ("400 {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"odd\"}}", Crash),
        ("Session ID 2 is already in use.", BadSession),
        ("address 127.0.0.1 is already in use", Crash),
        ("Error: Chat 12 not found", BadSession),
        ("Error: Unknown option: --x", Missing),
        ("ConnectError: [unavailable] socket hang up", Overload),
        ("[unauthenticated] Error", Login),
        ("MCP server \"db\" connection failed: 401 Unauthorized", Crash),
        ("the quota_exceeded_maps test failed; usage_limits unknown_modeling", Crash),
        ("wrote 429 lines", Crash),
        ("", Crash),
    ] {
        assert_eq!(kind_of(text), kind, "{text}");
    }
}

#[test]
fn r10_1_structured_fields_beat_the_text() {
    let evidence = Evidence {
        codes: &["api_error", "authentication_failed"],
        status: Some(429),
        text: "usage limit reached",
        ..Evidence::default()
    };
    assert_eq!(classify(&evidence).kind, FailureKind::Login);
    let evidence = Evidence { codes: &["unknown"], status: Some(503), text: "not logged in", ..Evidence::default() };
    assert_eq!(classify(&evidence).kind, FailureKind::Overload);
}

#[test]
fn messages_are_cut_and_masked() {
    let long = format!("token sk-aaaaaaaaaaaa {}", "é".repeat(9000));
    let message = failure(FailureKind::Crash, &long, Reset::Unknown).message;
    assert!(message.starts_with("token sk-*** é"));
    assert_eq!(message.chars().count(), KEPT_CHARS);
    assert_eq!(failure(FailureKind::Crash, " \n", Reset::Unknown).message, "the engine gave no reason");
}

#[test]
fn an_end_without_a_closing_event_says_how_and_what_was_printed_last() {
    let noise = "x\n".repeat(2000);
    let cases: [(Exit, String, FailureKind, &str); 6] = [
        (Exit::Code(0), String::new(), FailureKind::Crash, "ended without a closing event, exit status 0"),
        (Exit::Signal(9), " \n".into(), FailureKind::Crash, "ended without a closing event, by signal 9"),
        (Exit::Code(127), String::new(), FailureKind::Missing, "ended without a closing event, exit status 127"),
        (
            Exit::Code(1),
            "panicked at x\n".into(),
            FailureKind::Crash,
            "ended without a closing event, exit status 1: panicked at x",
        ),
        (Exit::Code(1), format!("{noise}Error: Not logged in\nbye"), FailureKind::Login, "Error: Not logged in\nbye"),
        (
            Exit::Code(1),
            "{\"type\":\"assistant\",\"text\":\"not logged in\"}\n".into(),
            FailureKind::Crash,
            "ended without a closing event, exit status 1",
        ),
    ];
    for (exit, stderr, kind, message) in cases {
        let failure = without_closing_event(exit, stderr.as_bytes());
        assert_eq!((failure.kind, failure.message.as_str()), (kind, message));
    }
}

#[test]
fn a_resume_that_fails_for_no_known_reason_is_a_bad_session() {
    let crash = failure(FailureKind::Crash, "x", Reset::Unknown);
    assert_eq!(of_resume(crash).kind, FailureKind::BadSession);
    let login = failure(FailureKind::Login, "x", Reset::Unknown);
    assert_eq!(of_resume(login).kind, FailureKind::Login);
}
