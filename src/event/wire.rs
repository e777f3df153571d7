//! The one place that knows how an event is spelt in a record.

use std::borrow::Cow;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{EnvelopeTaken, Event, Record};
use crate::ids::{PhaseName, RunId, Seq};

/// A record as it stands on its line: the outer fields read, the payload not yet.
///
/// All but `seq` may be missing, so that a log of another program version still opens.
#[derive(Debug, Deserialize)]
pub struct Line<'a> {
    /// Number of the record.
    pub seq: Seq,
    /// When it was written, RFC 3339.
    #[serde(borrow, default)]
    pub ts: Cow<'a, str>,
    /// The run.
    #[serde(borrow, default)]
    pub run: Cow<'a, str>,
    /// The phase, if any.
    #[serde(borrow, default)]
    pub phase: Option<Cow<'a, str>>,
    /// `type` of the record.
    #[serde(borrow, default, rename = "type")]
    pub kind: Cow<'a, str>,
    /// `name` of the record.
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    /// The rest, unread.
    #[serde(borrow, default)]
    pub payload: Option<&'a RawValue>,
}

/// Why a line could not be turned into a record.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A type or log name that this fia does not know: of a newer one, or of none.
    #[error("record {seq}: unknown kind `{kind}` `{name}`")]
    UnknownKind {
        /// Number of the record.
        seq: Seq,
        /// Its `type`.
        kind: String,
        /// Its `name`.
        name: String,
    },
    /// A known kind whose payload is not of the known shape.
    #[error("record {seq}: payload of `{kind}` cannot be read")]
    Payload {
        /// Number of the record.
        seq: Seq,
        /// Its `type`.
        kind: String,
        /// What serde says.
        #[source]
        source: serde_json::Error,
    },
    /// A time that is none.
    #[error("record {seq}: `{ts}` is no time")]
    Time {
        /// Number of the record.
        seq: Seq,
        /// What stands there.
        ts: String,
    },
}

impl Line<'_> {
    /// Reads the payload.
    ///
    /// # Errors
    ///
    /// When the kind is unknown, or the payload or the time cannot be read.
    pub fn decode(&self) -> Result<Record, WireError> {
        let seq = self.seq;
        let ts = self.ts.parse::<DateTime<Utc>>().map_err(|_| WireError::Time { seq, ts: self.ts.to_string() })?;
        let payload = self.payload.map_or("{}", RawValue::get);
        let event = match Event::from_parts(&self.kind, &self.name, payload) {
            Ok(Some(event)) => event,
            Ok(None) => {
                return Err(WireError::UnknownKind { seq, kind: self.kind.to_string(), name: self.name.to_string() });
            }
            Err(source) => return Err(WireError::Payload { seq, kind: self.kind.to_string(), source }),
        };
        Ok(Record {
            seq,
            ts,
            run: RunId::new(self.run.as_ref()),
            phase: self.phase.as_deref().map(PhaseName::new),
            event,
        })
    }
}

/// Writes a time as records have it: RFC 3339 with milliseconds and `Z`.
pub fn time_text(ts: DateTime<Utc>) -> String {
    ts.to_rfc3339_opts(SecondsFormat::Millis, true)
}

impl Record {
    /// Appends the record to `out` as one line with its newline.
    pub fn write_line(&self, out: &mut Vec<u8>) {
        let head = Head {
            seq: self.seq,
            ts: time_text(self.ts),
            run: self.run.as_str(),
            phase: self.phase.as_ref().map(PhaseName::as_str),
            kind: self.event.kind(),
            name: self.event.name(),
        };
        to_memory(&head, out);
        out.pop();
        out.extend_from_slice(b",\"payload\":");
        self.event.write_payload(out);
        out.extend_from_slice(b"}\n");
    }
}

#[derive(Serialize)]
struct Head<'a> {
    seq: Seq,
    ts: String,
    run: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
    #[serde(rename = "type")]
    kind: &'a str,
    name: &'a str,
}

fn to_memory(value: &impl Serialize, out: &mut Vec<u8>) {
    let written: Result<(), serde_json::Error> = serde_json::to_writer(&mut *out, value);
    written.expect("payloads are plain data with text keys, and memory takes every write");
}

/// Makes the mapping in both directions from one table, so that neither can forget a variant.
macro_rules! wire {
    (
        named { $($named:ident = $named_kind:literal, $field:ident;)* }
        plain { $($plain:ident = $plain_kind:literal;)* }
        log { $($log:ident = $log_name:literal;)* }
    ) => {
        impl Event {
            /// `type` of its record.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$named(_) => $named_kind,)*
                    $(Self::$plain(_) => $plain_kind,)*
                    $(Self::$log(_) => "log",)*
                    Self::RunEnd(_) => "run_end",
                    Self::Envelope(_) => "envelope",
                }
            }

            /// `name` of its record.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$named(payload) => payload.$field.as_ref(),)*
                    $(Self::$plain(_) => "",)*
                    $(Self::$log(_) => $log_name,)*
                    Self::RunEnd(end) => end.outcome.as_str(),
                    Self::Envelope(taken) => &taken.output,
                }
            }

            fn write_payload(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$named(payload) => to_memory(payload, out),)*
                    $(Self::$plain(payload) => to_memory(payload, out),)*
                    $(Self::$log(payload) => to_memory(payload, out),)*
                    Self::RunEnd(end) => to_memory(end, out),
                    Self::Envelope(taken) => to_memory(&taken.envelope, out),
                }
            }

            /// Reads an event from the parts of its record; `None` when the kind is unknown.
            fn from_parts(kind: &str, name: &str, payload: &str) -> Result<Option<Self>, serde_json::Error> {
                Ok(Some(match (kind, name) {
                    $(($named_kind, name) => {
                        let mut event = Self::$named(serde_json::from_str(payload)?);
                        if let Self::$named(payload) = &mut event {
                            payload.$field = name.into();
                        }
                        event
                    })*
                    $(($plain_kind, _) => Self::$plain(serde_json::from_str(payload)?),)*
                    $(("log", $log_name) => Self::$log(serde_json::from_str(payload)?),)*
                    ("run_end", _) => Self::RunEnd(serde_json::from_str(payload)?),
                    ("envelope", output) => Self::Envelope(EnvelopeTaken {
                        output: output.to_owned(),
                        envelope: serde_json::from_str(payload)?,
                    }),
                    _ => return Ok(None),
                }))
            }

            /// Every `type` that a record can have, and every name of type `log`, as DOCS.md lists them.
            pub const KINDS: &'static [&'static str] = &[$($named_kind,)* $($plain_kind,)* "run_end", "envelope", "log"];
            /// The names of records of type `log`.
            pub const LOG_NAMES: &'static [&'static str] = &[$($log_name,)*];
        }
    };
}

wire! {
    named {
        RunStart = "run_start", workflow;
        PhaseStart = "phase_start", step;
        PhaseEnd = "phase_end", step;
        AgentStart = "agent_start", agent;
        AgentEnd = "agent_end", agent;
        Session = "session", agent;
        Context = "context", agent;
        ToolCall = "tool_call", summary;
        CheckStart = "check_start", check;
        Check = "check", check;
        GatePass = "gate_pass", gate;
        GateFail = "gate_fail", gate;
        EngineError = "engine_error", agent;
        EngineRetry = "engine_retry", agent;
        EngineRelay = "engine_relay", agent;
        EngineFallback = "engine_fallback", agent;
        EngineContinuation = "engine_continuation", agent;
        CacheBreak = "cache_break", agent;
        Error = "error", place;
    }
    plain {
        Waiting = "waiting";
        Approval = "approval";
        Verdict = "verdict";
        Message = "message";
    }
    log {
        SessionRotation = "session_rotation";
        SessionRetired = "session_retired";
        RotationStoodDown = "rotation_stood_down";
        UsageUnknown = "usage_unknown";
        Compacted = "compacted";
        PhaseReused = "phase_reused";
        StepSkipped = "step_skipped";
        TreeChanged = "tree_changed";
        PermissionRetry = "permission_retry";
        ExternalChange = "external_change";
        Committed = "committed";
        BudgetWarning = "budget_warning";
        BoundedContinuation = "bounded_continuation";
        PrefixChanged = "prefix_changed";
        ContextPruned = "context_pruned";
        SessionEvicted = "session_evicted";
        ApiKeyBilling = "api_key_billing";
    }
}

#[cfg(test)]
mod tests;
