use pretty_assertions::assert_eq;

use super::First::{FreshForLost, FreshForOverflow, Nothing, Retry};
use super::*;

const KINDS: [FailureKind; 8] = [
    FailureKind::Overload,
    FailureKind::Crash,
    FailureKind::Timeout,
    FailureKind::Limit,
    FailureKind::Login,
    FailureKind::Missing,
    FailureKind::ContextOverflow,
    FailureKind::BadSession,
];

fn at(minute: i64) -> DateTime<Utc> {
    "2026-11-30T12:00:00Z".parse::<DateTime<Utc>>().unwrap() + TimeDelta::minutes(minute)
}

fn stuck(kind: FailureKind) -> Stuck {
    Stuck {
        kind,
        policy: Relay::Auto,
        ready: None,
        now: at(0),
        reset: None,
        waits: 0,
        waits_since: None,
        limit_wait_minutes: 360.0,
        run_ends: None,
    }
}

fn wait(minute: i64, count: u32) -> Elsewhere {
    Elsewhere::Wait { until: at(minute), count }
}

#[test]
fn r10_the_first_answer_to_each_kind_is_that_of_the_table() {
    let told = |in_a_row, renewal| KINDS.map(|kind| first(Death { kind, in_a_row, renewal }));
    assert_eq!(
        told(1, Renewal::Possible),
        [Retry, Retry, Retry, Nothing, Nothing, Nothing, FreshForOverflow, FreshForLost]
    );
    assert_eq!(told(1, Renewal::Used), [Retry, Retry, Retry, Nothing, Nothing, Nothing, Nothing, Nothing]);
    assert_eq!(told(2, Renewal::Used), [Nothing; 8], "the second transient death in a row is one too many");
}

#[test]
fn r10_the_pause_before_a_retry_has_jitter_within_its_bounds() {
    assert_eq!(retry_pause(0), RETRY_PAUSE);
    assert_eq!(retry_pause(255), RETRY_PAUSE + RETRY_JITTER);
    assert!(retry_pause(100) < retry_pause(101));
}

#[test]
fn r10_2_a_ready_fallback_takes_over_at_once_on_resume_or_never() {
    for kind in KINDS {
        let ready = Stuck { ready: Some(2), ..stuck(kind) };
        assert_eq!(elsewhere(&ready), Elsewhere::Relay(2), "{kind:?}");
        assert_eq!(elsewhere(&Stuck { policy: Relay::Resume, ..ready }), Elsewhere::RelayOnResume(2), "{kind:?}");
        let off = if kind == FailureKind::Limit { wait(5, 1) } else { Elsewhere::Exhausted };
        assert_eq!(elsewhere(&Stuck { policy: Relay::Off, ..ready }), off, "{kind:?}");
    }
}

#[test]
fn r10_2_without_a_fallback_every_kind_but_a_limit_is_the_end_under_each_policy() {
    for kind in KINDS.into_iter().filter(|kind| *kind != FailureKind::Limit) {
        for policy in [Relay::Auto, Relay::Resume, Relay::Off] {
            assert_eq!(elsewhere(&Stuck { policy, reset: Some(at(1)), ..stuck(kind) }), Elsewhere::Exhausted);
        }
    }
}

#[test]
fn r10_a_limit_waits_for_its_reset_within_the_bound_and_not_beyond() {
    let limit = stuck(FailureKind::Limit);
    assert_eq!(elsewhere(&Stuck { reset: Some(at(360)), ..limit }), wait(360, 1));
    assert_eq!(elsewhere(&Stuck { reset: Some(at(361)), ..limit }), Elsewhere::Exhausted);
    assert_eq!(elsewhere(&Stuck { reset: Some(at(1)), limit_wait_minutes: 0.0, ..limit }), Elsewhere::Exhausted);
    let short = Stuck { run_ends: Some(at(30)), ..limit };
    assert_eq!(elsewhere(&Stuck { reset: Some(at(29)), ..short }), wait(29, 1));
    assert_eq!(elsewhere(&Stuck { reset: Some(at(30)), ..short }), Elsewhere::Exhausted, "nothing could follow");
}

#[test]
fn r10_all_waits_of_a_phase_share_one_bound_and_are_counted() {
    let again = Stuck { now: at(200), waits: 1, waits_since: Some(at(0)), ..stuck(FailureKind::Limit) };
    assert_eq!(elsewhere(&Stuck { reset: Some(at(300)), ..again }), wait(300, 2));
    assert_eq!(elsewhere(&Stuck { reset: Some(at(400)), ..again }), Elsewhere::Exhausted);
    let often = Stuck { waits: MAX_WAITS, reset: Some(at(201)), ..again };
    assert_eq!(elsewhere(&often), Elsewhere::Exhausted);
    assert_eq!(elsewhere(&Stuck { waits: MAX_WAITS - 1, ..often }), wait(201, MAX_WAITS));
}

#[test]
fn r10_an_unknown_or_passed_reset_is_waited_for_longer_each_time_within_the_bound() {
    let blind = |waits| elsewhere(&Stuck { waits, waits_since: Some(at(0)), ..stuck(FailureKind::Limit) });
    assert_eq!(
        [0, 1, 2, 3, 4, 9].map(blind),
        [wait(5, 1), wait(10, 2), wait(20, 3), wait(40, 4), wait(60, 5), wait(60, 10)]
    );
    let limit = stuck(FailureKind::Limit);
    assert_eq!(elsewhere(&Stuck { reset: Some(at(-1)), ..limit }), wait(5, 1));
    assert_eq!(elsewhere(&Stuck { limit_wait_minutes: 4.0, ..limit }), Elsewhere::Exhausted);
}
