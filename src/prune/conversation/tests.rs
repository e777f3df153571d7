use super::super::Block;
use super::*;
use crate::economy::requests::ASSUMED_REQUESTS;
use pretty_assertions::assert_eq;

const START: i64 = 1_000_000_000_000;

fn messages() -> Vec<Message<'static>> {
    let result = |call: &'static str| {
        Message::Tool(ToolResult {
            call: call.into(),
            tool: "exec".into(),
            blocks: vec![Block::Text("x".repeat(40_000).into())],
        })
    };
    let answer = Message::Assistant { chars: 2 };
    let mut messages = vec![Message::User { chars: 1 }, answer.clone(), result("t1")];
    messages.extend([answer.clone(), answer.clone(), answer]);
    messages
}

fn request<'a>(messages: &'a [Message<'a>], seconds: i64, kind: RequestKind<'a>) -> Request<'a> {
    Request {
        conversation: "main",
        messages,
        now_ms: START + seconds * 1000,
        kind,
        window: Some(20_000),
        lifetime: CacheLifetime::FiveMinutes,
        rates: Rates::STANDARD,
        expected: ASSUMED_REQUESTS,
    }
}

fn model(body_sha256: &str) -> RequestKind<'_> {
    RequestKind::Model { body_sha256, retry: false }
}

fn warm_state() -> PruneState {
    let mut state = PruneState::default();
    state.set_clock("main", START);
    state
}

#[test]
fn r9_2_a_gate_that_stays_shut_says_why() {
    let messages = messages();
    let settings = Settings::of(Mode::CacheTtl);
    let why =
        |state: &mut PruneState, settings, request: Request<'_>| state.plan(settings, &request).round.unwrap_err();
    let late = request(&messages, 400, model("a"));
    assert_eq!(why(&mut PruneState::default(), Some(&settings), late), NoRound::NoClock);
    assert_eq!(why(&mut warm_state(), None, late), NoRound::Off);
    let never = Settings { ttl: super::super::settings::Ttl::Never, ..settings.clone() };
    assert_eq!(why(&mut warm_state(), Some(&never), late), NoRound::Off);
    assert_eq!(why(&mut warm_state(), Some(&settings), request(&messages, 299, model("a"))), NoRound::Warm);
    assert_eq!(why(&mut warm_state(), Some(&settings), Request { window: None, ..late }), NoRound::NoWindow);
    let an_hour = Request { lifetime: CacheLifetime::OneHour, ..late };
    assert_eq!(why(&mut warm_state(), Some(&settings), an_hour), NoRound::Warm);
}

#[test]
fn r9_3_switching_pruning_off_stops_rounds_and_not_replay() {
    let messages = messages();
    let settings = Settings::of(Mode::CacheTtl);
    let mut state = warm_state();
    let first = state.plan(Some(&settings), &request(&messages, 400, model("a")));
    assert_eq!((first.save, first.shown.len()), (Save::Needed, 1));
    let off = state.plan(None, &request(&messages, 401, model("b")));
    assert_eq!((off.round.clone(), off.save), (Err(NoRound::Off), Save::NotNeeded));
    assert_eq!(off.shown, first.shown);
}

#[test]
fn r9_2_a_retry_gets_what_its_first_try_got_even_when_the_ttl_ran_out() {
    let messages = messages();
    let settings = Settings::of(Mode::CacheTtl);
    let mut state = warm_state();
    let first = state.plan(Some(&settings), &request(&messages, 299, model("a")));
    assert_eq!(first.shown, []);
    let again = RequestKind::Model { body_sha256: "a", retry: true };
    let retry = state.plan(Some(&settings), &request(&messages, 301, again));
    assert_eq!((retry.round, retry.shown), (Err(NoRound::Retry), Vec::new()));
    let other_body = RequestKind::Model { body_sha256: "b", retry: true };
    assert!(state.plan(Some(&settings), &request(&messages, 302, other_body)).round.is_ok());
}

#[test]
fn r9_2_a_question_about_sizes_is_told_what_would_be_sent_and_changes_nothing() {
    let messages = messages();
    let settings = Settings::of(Mode::CacheTtl);
    let mut state = warm_state();
    let asked = state.plan(Some(&settings), &request(&messages, 400, RequestKind::CountTokens));
    assert_eq!((asked.round, asked.shown), (Err(NoRound::CountTokens), Vec::new()));
    assert_eq!(state, warm_state());
    state.plan(Some(&settings), &request(&messages, 400, model("a")));
    assert_eq!(state.plan(Some(&settings), &request(&messages, 401, RequestKind::CountTokens)).shown.len(), 1);
}

#[test]
fn r9_2_clocks_are_kept_by_conversation_and_replacements_by_session() {
    let messages = messages();
    let settings = Settings::of(Mode::CacheTtl);
    let mut state = warm_state();
    state.plan(Some(&settings), &request(&messages, 400, model("a")));
    let side = Request { conversation: "side", ..request(&messages, 900, model("b")) };
    let plan = state.plan(Some(&settings), &side);
    assert_eq!((plan.round.clone(), plan.shown.len()), (Err(NoRound::NoClock), 1));
    state.succeeded(&plan.ticket, None);
    assert_eq!((state.clock_ms("main"), state.clock_ms("side")), (Some(START + 400_000), Some(START + 900_000)));
}

#[test]
fn r9_2_an_answer_that_comes_late_never_turns_the_clock_back() {
    let messages = messages();
    let mut state = PruneState::default();
    let early = state.plan(None, &request(&messages, 1, model("a"))).ticket;
    let late = state.plan(None, &request(&messages, 2, model("b"))).ticket;
    state.succeeded(&late, None);
    state.succeeded(&early, None);
    assert_eq!(state.clock_ms("main"), Some(START + 2000));
}

#[test]
fn r9_2_measured_tokens_and_what_came_after_them_decide_the_ratio() {
    let mut messages = messages();
    let settings = Settings::of(Mode::CacheTtl);
    let mut state = warm_state();
    let ticket = state.plan(Some(&settings), &request(&messages, 1, model("a"))).ticket;
    state.succeeded(&ticket, Some(5000));
    messages.push(Message::User { chars: 3999 });
    let plan = state.plan(Some(&settings), &request(&messages, 400, model("b")));
    assert_eq!(plan.round, Err(NoRound::UnderRatio));
    let event = plan.event("builder".into(), None);
    assert_eq!((event.chars_before, event.reason.as_str(), event.gap_ms), (23_999, "under_ratio", Some(399_000)));
    messages.push(Message::User { chars: 1 });
    assert!(state.plan(Some(&settings), &request(&messages, 400, model("c"))).round.is_ok());
}

#[test]
fn r9_3_adaptive_prunes_a_warm_cache_only_when_it_pays() {
    let messages = messages();
    let settings = Settings { keep_last_assistants: 1, ..Settings::of(Mode::Adaptive) };
    let mut state = warm_state();
    let plan = state.plan(Some(&settings), &request(&messages, 10, model("a")));
    let report = plan.round.clone().unwrap();
    assert_eq!((report.opening, report.soft, report.hard), (Opening::Warm, 1, 0));
    assert_eq!(state.clock_ms("main"), Some(START + 10_000));
    let alone = Request { expected: 0, ..request(&messages, 10, model("a")) };
    assert_eq!(warm_state().plan(Some(&settings), &alone).round, Err(NoRound::Warm));
}

#[test]
fn r9_3_a_state_file_survives_its_own_reading_and_damage_is_said() {
    let messages = messages();
    let mut state = warm_state();
    let plan = state.plan(Some(&Settings::of(Mode::CacheTtl)), &request(&messages, 400, model("a")));
    state.succeeded(&plan.ticket, Some(9));
    let (read, damage) = PruneState::parse(&state.render());
    assert_eq!(damage, None);
    assert_eq!(read.render(), state.render());
    assert_eq!(read.replacements(), state.replacements());
    for bytes in [&b""[..], b"{", b"[]", b"{\"format\":1}"] {
        assert!(matches!(PruneState::parse(bytes), (_, Some(StateDamage::Unreadable(_)))), "{bytes:?}");
    }
    let newer = br#"{"format":2,"replacements":[],"conversations":{}}"#;
    assert_eq!(PruneState::parse(newer), (PruneState::default(), Some(StateDamage::Format(2))));
}

#[test]
fn conversations_are_forgotten_oldest_first() {
    let mut state = PruneState::default();
    for number in 0..100 {
        state.set_clock(&format!("c{number}"), number);
    }
    assert_eq!(state.conversations.len(), MAX_CONVERSATIONS);
    assert_eq!((state.clock_ms("c35"), state.clock_ms("c36")), (None, Some(36)));
}
