//! What becomes of a phase whose engine died (SPEC 10 and 10.2): values in, decision out.
//!
//! The decision has two halves, since only some deaths ask for another engine, and finding one that is ready
//! means looking at the machine: [`first`] says whether this engine goes on, [`elsewhere`] chooses among
//! fallbacks that were looked at, a wait, and the end.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::event::FailureKind;
use crate::plan::Relay;

/// Transient deaths in a row after which another engine takes over.
pub const DEATHS_BEFORE_RELAY: u32 = 2;

/// The pause before the one retry on the same engine, before jitter: long enough for a dropped connection,
/// short enough that nobody wonders.
pub const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// The most that jitter adds to that pause, so that agents that died together do not come back together.
pub const RETRY_JITTER: Duration = Duration::from_secs(1);

/// Waits of one phase for a limit, in one stretch. An engine that names a near reset again and again must not
/// hold a run for ever.
pub const MAX_WAITS: u32 = 12;

/// The first wait when an engine does not say when its limit ends; each later one is twice as long.
const FIRST_BLIND_WAIT_MINUTES: i64 = 5;

/// The longest wait without a known end.
const LONGEST_BLIND_WAIT_MINUTES: i64 = 60;

/// Whether a phase was given a fresh session for this kind of failure already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// It can be, once.
    Possible,
    /// It was, or there is no session to leave.
    Used,
}

/// What is known of a death when it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// Its kind.
    pub kind: FailureKind,
    /// Transient deaths in a row in this phase, of any kind, this one included.
    pub in_a_row: u32,
    /// A fresh session for this kind.
    pub renewal: Renewal,
}

/// What the engine that died gets to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// The session to resume is gone: a fresh one, and no death.
    FreshForLost,
    /// The session is full: a fresh one, as a rotation.
    FreshForOverflow,
    /// Once more after a pause.
    Retry,
    /// Nothing: see [`elsewhere`].
    Nothing,
}

/// Decides whether the same engine goes on.
pub fn first(death: Death) -> First {
    match (death.kind, death.renewal) {
        (FailureKind::BadSession, Renewal::Possible) => First::FreshForLost,
        (FailureKind::ContextOverflow, Renewal::Possible) => First::FreshForOverflow,
        (FailureKind::Overload | FailureKind::Crash | FailureKind::Timeout, _)
            if death.in_a_row < DEATHS_BEFORE_RELAY =>
        {
            First::Retry
        }
        (
            FailureKind::BadSession
            | FailureKind::ContextOverflow
            | FailureKind::Overload
            | FailureKind::Crash
            | FailureKind::Timeout
            | FailureKind::Limit
            | FailureKind::Login
            | FailureKind::Missing,
            _,
        ) => First::Nothing,
    }
}

/// The pause before a retry; `share` of 0 to 255 spreads it over the jitter.
pub fn retry_pause(share: u8) -> Duration {
    RETRY_PAUSE + RETRY_JITTER * u32::from(share) / u32::from(u8::MAX)
}

/// What is known when an engine cannot go on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stuck {
    /// Why.
    pub kind: FailureKind,
    /// `relay:` of the plan.
    pub policy: Relay,
    /// Position of the first fallback that is ready, if one is.
    pub ready: Option<usize>,
    /// The clock.
    pub now: DateTime<Utc>,
    /// When the limit ends, if the engine said so.
    pub reset: Option<DateTime<Utc>>,
    /// Waits that this phase has had in this stretch.
    pub waits: u32,
    /// When the first of them began.
    pub waits_since: Option<DateTime<Utc>>,
    /// `stop.limit_wait_minutes`; 0 never waits.
    pub limit_wait_minutes: f64,
    /// When the minutes of the run are used up, if they are limited: a wait beyond that would be for nothing.
    pub run_ends: Option<DateTime<Utc>>,
}

/// What a phase does whose engine cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// The fallback at this position goes on at once.
    Relay(usize),
    /// It goes on after a resume; the stretch ends.
    RelayOnResume(usize),
    /// The same engine goes on then.
    Wait {
        /// The reset, or the end of the back-off when none is known.
        until: DateTime<Utc>,
        /// Which wait this is, from 1.
        count: u32,
    },
    /// No engine is left.
    Exhausted,
}

/// Decides who goes on, and when.
pub fn elsewhere(stuck: &Stuck) -> Elsewhere {
    match (stuck.policy, stuck.ready) {
        (Relay::Auto, Some(choice)) => return Elsewhere::Relay(choice),
        (Relay::Resume, Some(choice)) => return Elsewhere::RelayOnResume(choice),
        (Relay::Off, Some(_)) | (_, None) => {}
    }
    if stuck.kind != FailureKind::Limit || stuck.waits >= MAX_WAITS {
        return Elsewhere::Exhausted;
    }
    // All waits of the phase share one bound.
    let since = stuck.waits_since.unwrap_or(stuck.now);
    let bound = minutes(stuck.limit_wait_minutes).and_then(|span| since.checked_add_signed(span));
    // A reset that has passed and did not help is as good as none.
    let until = stuck.reset.filter(|reset| *reset > stuck.now).unwrap_or_else(|| stuck.now + blind_wait(stuck.waits));
    match bound {
        Some(bound) if until <= bound && stuck.run_ends.is_none_or(|end| until < end) => {
            Elsewhere::Wait { until, count: stuck.waits + 1 }
        }
        Some(_) | None => Elsewhere::Exhausted,
    }
}

fn blind_wait(waits: u32) -> TimeDelta {
    let doubled = FIRST_BLIND_WAIT_MINUTES.saturating_mul(1_i64.checked_shl(waits.min(16)).unwrap_or(i64::MAX));
    TimeDelta::minutes(doubled.min(LONGEST_BLIND_WAIT_MINUTES))
}

/// A limit in minutes as a span; `None` for 0, which switches it off, and for one beyond all calendars.
fn minutes(minutes: f64) -> Option<TimeDelta> {
    let span = Duration::try_from_secs_f64(minutes * 60.0).ok().filter(|span| !span.is_zero())?;
    TimeDelta::from_std(span).ok()
}

#[cfg(test)]
mod tests;
