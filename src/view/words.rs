//! Events in words: one line each, for the plain log, `events` and the pages.

mod engine;
mod tree;

use chrono::{DateTime, Utc};

pub use engine::{agent_start, engine_model, engine_relay, short_session};
pub use tree::short_commit;

use super::numbers::{self, bytes, count, dollars, or_unknown, span};
use crate::event::{
    Approval, BreakCause, BudgetWarning, CheckRun, ContextPruned, ContextRead, Delivery, Event, EvictionReason,
    GateVerdict, PhaseEnd, PhaseStatus, RetirementReason, RotationReason, RunEnd, RunStart, SessionRotation,
    Unreported, Verdict, Waiting,
};
use engine::{agent_end, engine_error, engine_fallback, engine_retry, session};
use tree::{committed_text, external_change, permission_retry, tree_changed};

/// Says what an event is about, in words; raw text of agents is in it, so that the caller makes it safe.
///
/// `at` is the time of the record, against which a time to come is put.
pub fn describe(event: &Event, at: DateTime<Utc>) -> String {
    match event {
        Event::RunStart(start) => run_start(start),
        Event::RunEnd(end) => run_end(end),
        Event::PhaseStart(start) => format!("{} ({})", start.description, start.kind),
        Event::PhaseEnd(end) => phase_end(end),
        Event::AgentStart(start) => agent_start(start),
        Event::AgentEnd(end) => agent_end(end),
        Event::Session(seen) => session(seen),
        Event::Context(read) => context(read),
        Event::ToolCall(call) => {
            let failed = if call.ok { "" } else { " failed" };
            format!("{} {} {}{failed} in {}", call.agent, call.tool, call.summary, span(call.elapsed_ms))
        }
        Event::Envelope(taken) => envelope(&taken.output, &taken.envelope),
        Event::CheckStart(start) => format!("check {} started, process {}", start.check, start.mark.pid),
        Event::Check(check) => check_run(check),
        Event::GatePass(gate) => format!("gate {} passed", gate.gate),
        Event::GateFail(gate) => gate_fail(gate),
        Event::EngineError(error) => engine_error(error, at),
        Event::EngineRetry(retry) => engine_retry(retry),
        Event::EngineRelay(relay) => engine_relay(relay),
        Event::EngineFallback(fallback) => engine_fallback(fallback),
        Event::EngineContinuation(next) => {
            format!("{} goes on in leg {}, preamble {}", next.agent, next.leg, bytes(next.preamble_bytes as u64))
        }
        Event::CacheBreak(broken) => format!(
            "{}: {} of {} cached tokens were found again ({})",
            broken.agent,
            count(broken.seen),
            count(broken.expected),
            break_cause(broken.cause)
        ),
        Event::Waiting(waiting) => wait(waiting, at),
        Event::Approval(approval) => approval_text(approval),
        Event::Verdict(verdict) => verdict_text(verdict),
        Event::Message(delivery) => message(delivery),
        Event::Error(fault) => fault.message.clone(),
        Event::SessionRotation(rotation) => rotated(rotation),
        Event::SessionRetired(retired) => {
            format!("{} leaves its session: {}", retired.agent, retirement_reason(retired.reason))
        }
        Event::RotationStoodDown(stood) => {
            format!("{} was to rotate and could not: {}; tried again at its next phase", stood.agent, stood.message)
        }
        Event::UsageUnknown(unknown) => match unknown.what {
            Unreported::Tokens => format!("{} reports no usage: {} can never rotate", unknown.engine, unknown.agent),
            Unreported::Dollars => {
                format!("{} reports no cost for {}: `cost_budget_usd` sees only a part", unknown.engine, unknown.agent)
            }
        },
        Event::Compacted(compacted) => format!(
            "{} was compacted by its engine: context {} → {}",
            compacted.agent,
            or_unknown(compacted.before, count),
            or_unknown(compacted.after, count)
        ),
        Event::PhaseReused(reused) => format!("{} taken over from an earlier stretch", reused.phase),
        Event::StepSkipped(skipped) => step_skipped(skipped.step.as_str(), &skipped.when),
        Event::TreeChanged(changed) => tree_changed(changed),
        Event::PermissionRetry(retry) => permission_retry(retry),
        Event::ExternalChange(change) => external_change(change),
        Event::Committed(committed) => committed_text(committed),
        Event::BudgetWarning(warning) => budget_warning(warning),
        Event::BoundedContinuation(next) => format!(
            "{} was stopped at context {} and goes on in {} session",
            next.agent,
            or_unknown(next.context_tokens, count),
            if next.same_session { "the same" } else { "a fresh" }
        ),
        Event::PrefixChanged(changed) => format!(
            "system prompt of {} differs at {} byte {}: `{}` was `{}`",
            changed.agent, changed.block, changed.byte, changed.after, changed.before
        ),
        Event::ContextPruned(pruned) => context_pruned(pruned),
        Event::SessionEvicted(evicted) => {
            format!("resident process of {} {}", evicted.agent, eviction_reason(evicted.reason))
        }
        Event::ApiKeyBilling(key) => {
            format!("{} is set: {} may bill the API and not a subscription", key.variable, key.engine)
        }
    }
}

/// A step that was passed over.
pub fn step_skipped(step: &str, when: &str) -> String {
    format!("{step} skipped, as `{when}` does not hold")
}

fn run_start(start: &RunStart) -> String {
    if start.resumed { "resumed".to_owned() } else { format!("“{}”", start.prompt) }
}

fn run_end(end: &RunEnd) -> String {
    format!(
        "{} in {}, {} tokens, {}: {}",
        outcome_words(end.outcome.as_str()),
        span(end.elapsed_ms),
        or_unknown(end.tokens, |tokens| count(tokens.total())),
        or_unknown(end.cost_usd, dollars),
        end.reason
    )
}

/// The name of an outcome as words.
pub fn outcome_words(name: &str) -> String {
    name.replace('_', " ")
}

fn phase_end(end: &PhaseEnd) -> String {
    let reason = end.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{} in {}{reason}", phase_status(end.status), span(end.elapsed_ms))
}

fn phase_status(status: PhaseStatus) -> &'static str {
    match status {
        PhaseStatus::Success => "done",
        PhaseStatus::Red => "red",
        PhaseStatus::Failed => "failed",
        PhaseStatus::Stopped => "stopped",
    }
}

fn context(read: &ContextRead) -> String {
    let window = read.window.map(|window| format!(" of {}", count(window))).unwrap_or_default();
    format!("{} context {}{window}", read.agent, or_unknown(read.context_tokens, count))
}

fn envelope(output: &str, envelope: &serde_json::Value) -> String {
    let text = |key: &str| envelope.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    match (text("status"), text("summary")) {
        ("", "") => format!("{output} report"),
        (status, "") => format!("{output} report: {status}"),
        (status, summary) => format!("{output} report: {status}: {summary}"),
    }
}

/// What a check found, with its log when it was not satisfied.
pub fn check_run(check: &CheckRun) -> String {
    if check.passed {
        return format!("{} passed in {}", check.check, span(check.elapsed_ms));
    }
    let ended = check_end(check.exit, check.timed_out_minutes);
    format!("{} failed, {ended}, in {}: {}", check.check, span(check.elapsed_ms), check.log)
}

/// How a check ended: its exit status, or the time limit that it ran into.
pub fn check_end(exit: Option<i32>, timed_out_minutes: Option<f64>) -> String {
    match (timed_out_minutes, exit) {
        (Some(minutes), _) => format!("timed out after {minutes} min"),
        (None, Some(exit)) => format!("exit {exit}"),
        (None, None) => "no exit status".to_owned(),
    }
}

/// The time limit that a check ran into, to be put behind its name; empty when it ran into none.
pub fn timed_out(minutes: Option<f64>) -> String {
    minutes.map_or_else(String::new, |_| format!(", {}", check_end(None, minutes)))
}

fn gate_fail(gate: &GateVerdict) -> String {
    format!("gate {} failed (look {}): {}", gate.gate, gate.attempt, gate.violations.join("; "))
}

/// The cause of a cache break, in words.
pub fn break_cause(cause: BreakCause) -> &'static str {
    match cause {
        BreakCause::Compaction => "compaction",
        BreakCause::Rotation => "rotation",
        BreakCause::Pruning => "pruning",
        BreakCause::ModelChanged => "model changed",
        BreakCause::PrefixChanged => "prefix changed",
        BreakCause::TtlPassed => "ttl passed",
        BreakCause::ResumeRewrite => "resume rewrite",
        BreakCause::Unknown => "unknown",
    }
}

/// What is waited for, and until when.
pub fn wait(waiting: &Waiting, at: DateTime<Utc>) -> String {
    let who = waiting.agent.as_ref().map(|agent| format!("{agent}: ")).unwrap_or_default();
    let until = waiting.until.map(|until| format!(", until {}", numbers::due(until, at))).unwrap_or_default();
    format!("waiting: {who}{}{until}", waiting.reason)
}

fn approval_text(approval: &Approval) -> String {
    match approval {
        Approval::Asked => "approval asked for: fia approve, or fia reject".to_owned(),
        Approval::Answered { approved, reason } => {
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{}{reason}", if *approved { "approved" } else { "rejected" })
        }
    }
}

fn verdict_text(verdict: &Verdict) -> String {
    let redo = match verdict.redo.as_slice() {
        [] => String::new(),
        phases => format!("; again: {}", join(phases)),
    };
    format!("verdict: missing {}{redo}", verdict.missing.join("; "))
}

fn message(delivery: &Delivery) -> String {
    let rows = delivery.lists.iter().map(|list| list.ids.len() as u64).sum();
    format!("{} heard {}", delivery.agent, numbers::plural(rows, "message"))
}

/// The note of a rotation.
fn rotated(rotation: &SessionRotation) -> String {
    let archived = match rotation.archived.as_slice() {
        [] => String::new(),
        files => {
            let names: Vec<&str> = files.iter().map(|file| file.rsplit('/').next().unwrap_or(file)).collect();
            format!(", archived {}", names.join(" "))
        }
    };
    let preamble = bytes(rotation.preamble_bytes as u64);
    format!(
        "{} {}, reseed {preamble}{archived}",
        rotation.agent,
        rotation_reason(rotation.reason, rotation.context_tokens, rotation.cap)
    )
}

/// Why a session was rotated: against the ceiling where that decided.
pub fn rotation_reason(reason: RotationReason, context: Option<u64>, cap: u64) -> String {
    let context = or_unknown(context, count);
    match reason {
        RotationReason::Ceiling => format!("{context} ≥ {}", count(cap)),
        RotationReason::MidPhase => format!("{context} ≥ {} inside the phase", count(cap)),
        RotationReason::BreakEven => format!("{context}: a fresh session is cheaper"),
        RotationReason::Expired => format!("{context}: its cache has expired"),
        RotationReason::Overflow => format!("{context}: no longer fits the model"),
    }
}

fn retirement_reason(reason: RetirementReason) -> &'static str {
    match reason {
        RetirementReason::SessionLost => "the engine no longer knows it",
        RetirementReason::ModelChanged => "another engine or model works now",
    }
}

fn eviction_reason(reason: EvictionReason) -> &'static str {
    match reason {
        EvictionReason::Idle => "was idle too long",
        EvictionReason::Room => "made room for another",
        EvictionReason::Lost => "was lost",
    }
}

fn budget_warning(warning: &BudgetWarning) -> String {
    let figure = |value: f64| match warning.limit.as_str() {
        limit if limit.ends_with("_usd") => dollars(value),
        limit if limit.ends_with("_minutes") => format!("{value:.0} minutes"),
        _ => count(whole(value)),
    };
    // A request under way is let finish, so that a share may be jumped over.
    let share = if warning.of > 0.0 { whole(warning.used * 100.0 / warning.of) } else { 0 };
    let percent = share.max(u64::from(warning.percent));
    format!("{percent}% of {} used: {} of {}", warning.limit, figure(warning.used), figure(warning.of))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a figure for people; a cast saturates")]
fn whole(value: f64) -> u64 {
    value as u64
}

fn context_pruned(pruned: &ContextPruned) -> String {
    if !pruned.has_shortened() {
        return format!("{} was not pruned: {}", pruned.agent, pruned.reason);
    }
    format!(
        "{} pruned ({}): {} trimmed, {} cleared, {} → {} characters",
        pruned.agent,
        pruned.reason,
        pruned.soft,
        pruned.hard,
        count(pruned.chars_before),
        count(pruned.chars_after)
    )
}

fn join<T: AsRef<str>>(names: &[T]) -> String {
    names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}
