//! One payload of every kind of record, filled with drawn values: what tests that range over all kinds share.

use serde_json::{Map, Value, json};

use super::{Event, Outcome};

/// A source of values that are odd in the ways that logs have to bear.
pub(crate) struct Draw(u64);

impl Draw {
    /// Draws from a seed; the same seed draws the same.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number (`SplitMix64`, Steele and others 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let at = self.next() % from.len() as u64;
        from[usize::try_from(at).expect("less than a length")]
    }

    fn text(&mut self) -> Value {
        let number = self.next();
        let odd = ["", "a b", "naïve/路径", "line\none", "\u{0}\u{1b}\u{2028}", "\"}{\\", "0_s", "null", "-"];
        json!(format!("{}{}", self.pick(&odd), number % 1000))
    }

    fn whole(&mut self) -> Value {
        let number = self.next();
        json!(match number % 4 {
            0 => 0,
            1 => number >> 40,
            2 => u64::MAX >> 2,
            _ => number,
        })
    }

    fn small(&mut self) -> Value {
        json!(self.next() % 100_000)
    }

    #[expect(clippy::cast_precision_loss, reason = "any fraction will do")]
    fn fraction(&mut self) -> Value {
        json!(self.next() as f64 / self.next().max(1) as f64)
    }

    fn flag(&mut self) -> Value {
        json!(self.next().is_multiple_of(2))
    }

    fn maybe(&mut self, value: Value) -> Value {
        if self.next().is_multiple_of(3) { Value::Null } else { value }
    }

    fn time(&mut self) -> Value {
        json!(format!(
            "2026-{:02}-{:02}T12:00:00.{:03}Z",
            self.next() % 12 + 1,
            self.next() % 28 + 1,
            self.next() % 1000
        ))
    }

    fn texts(&mut self) -> Value {
        (0..self.next() % 3).map(|_| self.text()).collect()
    }

    fn usage(&mut self) -> Value {
        json!({"input": self.whole(), "output": self.whole(), "cache_read": self.whole(), "cache_write": self.whole()})
    }

    fn path(&mut self) -> Value {
        if self.next().is_multiple_of(4) { json!({"hex": "62ff64"}) } else { self.text() }
    }

    fn content(&mut self) -> Value {
        let kind = self.pick(&["file", "symlink", "special"]);
        let content = json!({"kind": kind, "mode": self.small(), "id": self.text()});
        self.maybe(content)
    }

    fn changes(&mut self) -> Value {
        (0..self.next() % 3)
            .map(|_| json!({"path": self.path(), "before": self.content(), "after": self.content()}))
            .collect()
    }

    fn engine(&mut self) -> Value {
        json!(self.pick(&["claude", "pi", "cursor", "scripted"]))
    }

    fn failure(&mut self) -> Value {
        let kinds = ["overload", "crash", "timeout", "limit", "login", "missing", "context_overflow", "bad_session"];
        json!(self.pick(&kinds))
    }

    fn work(&mut self) -> Value {
        match self.next() % 4 {
            0 => {
                let from = self.pick(&["envelope", "check"]);
                json!({"kind": "agent", "agent": self.text(), "output": self.text(), "gates": self.texts(),
                       "retries": self.small(), "input": {"from": from, "phase": self.text()}})
            }
            1 => {
                let pattern = self.text();
                json!({"kind": "check", "checks": self.texts(),
                       "expect": {"verdict": "red", "pattern": self.maybe(pattern)}})
            }
            2 => json!({"kind": "commit"}),
            _ => json!({"kind": "approve", "wait": {"wait": "seconds", "secs": self.small()}}),
        }
    }

    fn start(&mut self, kind: &str) -> Value {
        match kind {
            "run_start" => {
                let (plan, base) = (json!({"steps": self.texts()}), self.text());
                json!({"format": self.small(), "fia_version": self.text(), "prompt": self.text(),
                       "plan_digest": self.text(), "plan": plan, "stop": {"attempt_cap": self.small()},
                       "resumed": self.flag(), "base": self.maybe(base), "branch": self.text(),
                       "worktree": self.flag(), "host": self.text()})
            }
            "phase_start" => {
                let order = json!({"phase": self.text(), "step": self.text(), "index": self.small(),
                                   "round": self.small(), "work": self.work()});
                json!({"order": order, "kind": self.text(), "agent": self.text(), "description": self.text(),
                       "attempt": self.small(), "host": self.text()})
            }
            "check_start" => json!({"host": self.text(), "boot_id": self.text(), "pid": self.small(),
                                    "process_started": self.whole()}),
            _ => {
                let (session, lease) = (self.text(), self.pick(&["cold", "restored", "warm"]));
                json!({"leg": self.small(), "turn": self.small(), "engine": self.engine(), "model": self.text(),
                       "level": self.text(), "session_id": self.maybe(session), "lease": lease,
                       "system_sha256": self.text(), "host": self.text(), "boot_id": self.text(),
                       "pid": self.small(), "process_started": self.whole(), "prompt_sha256": self.text()})
            }
        }
    }

    fn end(&mut self, kind: &str, name: &str) -> Value {
        match kind {
            "run_end" => {
                let cost = self.fraction();
                json!({"outcome": name, "reason": self.text(), "tokens": self.usage(), "cost_usd": self.maybe(cost),
                       "phases": self.small(), "replayed": self.small(), "elapsed_ms": self.whole(),
                       "tree_sha256": self.text()})
            }
            "phase_end" => {
                let status = self.pick(&["success", "red", "failed", "stopped"]);
                json!({"status": status, "elapsed_ms": self.whole(), "outcome": "failed", "reason": self.text(),
                       "tree_sha256": self.text()})
            }
            _ => {
                let ended = self.pick(&["completed", "cut", "failed", "stopped"]);
                let (usage, context) = (self.usage(), self.whole());
                json!({"leg": self.small(), "turn": self.small(), "engine": self.engine(), "model": self.text(),
                       "ended": ended, "usage": self.maybe(usage), "cost_usd": self.fraction(),
                       "session_cost_usd": self.fraction(), "requests": self.small(),
                       "context_tokens": self.maybe(context), "cache_hit_ratio": self.fraction(),
                       "rewrite_factor": self.fraction(), "elapsed_ms": self.whole()})
            }
        }
    }

    /// The payload of a record of an engine, an agent or the channel.
    fn plain(&mut self, kind: &str, name: &str) -> Value {
        match kind {
            "run_start" | "phase_start" | "agent_start" | "check_start" => self.start(kind),
            "run_end" | "phase_end" | "agent_end" => self.end(kind, name),
            "session" => json!({"engine": self.engine(), "model": self.text(), "session_id": self.text(),
                                "new": self.flag()}),
            "context" => {
                let context = self.whole();
                json!({"context_tokens": self.maybe(context), "window": self.whole(), "usage": self.usage(),
                       "cost_usd": self.fraction()})
            }
            "tool_call" => json!({"agent": self.text(), "tool": self.text(), "ok": self.flag(),
                                  "elapsed_ms": self.whole()}),
            "envelope" => json!({"status": self.text(), "findings": self.texts(), "deep": {"er": self.fraction()}}),
            "check" => {
                let exit = json!(-1);
                json!({"passed": self.flag(), "exit": self.maybe(exit), "timed_out_minutes": 10.5, "log": self.text(),
                       "elapsed_ms": self.whole()})
            }
            "gate_pass" | "gate_fail" => json!({"attempt": self.small(), "violations": self.texts()}),
            "engine_error" => json!({"engine": self.engine(), "model": self.text(), "kind": self.failure(),
                                     "transient": self.flag(), "leg": self.small(), "count": self.small(),
                                     "message": self.text(), "retry_after": self.time()}),
            "engine_retry" => json!({"engine": self.engine(), "model": self.text(), "kind": self.failure(),
                                     "delay_ms": self.whole(), "leg": self.small(),
                                     "from": self.engine(), "to": self.engine()}),
            "engine_relay" => json!({"from": self.engine(), "from_model": self.text(), "to": self.engine(),
                                     "to_model": self.text(), "choice": self.small(), "kind": self.failure(),
                                     "phase": self.text()}),
            "engine_fallback" => json!({"engine": self.engine(), "model": self.text(), "ready": self.flag(),
                                        "reason": self.text(), "kind": self.failure(), "from": self.engine(),
                                        "to": self.engine()}),
            "engine_continuation" => json!({"leg": self.small(), "preamble_bytes": self.small(), "kind": "overload",
                                                "from": "pi", "to": "claude"}),
            "cache_break" => {
                let causes = [
                    "compaction",
                    "rotation",
                    "pruning",
                    "model_changed",
                    "prefix_changed",
                    "ttl_passed",
                    "resume_rewrite",
                    "unknown",
                ];
                json!({"expected": self.whole(), "seen": self.whole(), "cause": self.pick(&causes)})
            }
            "waiting" => {
                let until = self.time();
                json!({"until": self.maybe(until), "reason": self.text(), "agent": self.text(),
                       "count": self.small()})
            }
            "approval" => json!({"state": "answered", "approved": self.flag(), "reason": self.text()}),
            "verdict" => json!({"missing": self.texts(), "redo": self.texts(), "note": self.text()}),
            "message" => json!({"agent": self.text(), "delivery": self.text(),
                                "lists": [{"thread": self.text(), "ids": self.texts(), "last_at": -5,
                                           "shown": self.small()}],
                                "watermark": {"native": self.text(), "last_at": 7}}),
            "error" => {
                let kinds = ["storage", "git", "envelope", "commit_hook", "prompt", "notify", "check"];
                json!({"kind": self.pick(&kinds), "message": self.text()})
            }
            other => panic!("no sample of `{other}`: add one"),
        }
    }

    /// The payload of a record of type `log`.
    fn log(&mut self, name: &str) -> Value {
        match name {
            "session_rotation" => {
                let reasons = ["ceiling", "break_even", "expired", "mid_phase", "overflow"];
                json!({"agent": self.text(), "reason": self.pick(&reasons), "context_tokens": self.whole(),
                       "cap": self.whole(), "from_session": self.text(), "archived": self.texts(),
                       "preamble_bytes": self.small(), "price": {"resume": self.fraction()}})
            }
            "session_retired" => {
                let reason = self.pick(&["session_lost", "model_changed"]);
                json!({"agent": self.text(), "reason": reason, "from_session": self.text(),
                       "archived": self.texts()})
            }
            "rotation_stood_down" => json!({"agent": self.text(), "message": self.text()}),
            "usage_unknown" => json!({"agent": self.text(), "engine": self.engine()}),
            "compacted" => json!({"agent": self.text(), "before": self.whole(), "after": self.whole()}),
            "phase_reused" => json!({"step": self.text(), "phase": self.text()}),
            "step_skipped" => json!({"step": self.text(), "index": self.small(), "when": self.text()}),
            "tree_changed" => json!({"leg": self.small(), "changes": self.changes()}),
            "permission_retry" => json!({"agents": self.texts(), "undone": self.changes(), "rescue": self.small(),
                                         "again": self.flag()}),
            "external_change" => json!({"what": self.texts(), "undone": self.changes(), "rescue": self.small()}),
            "committed" => json!({"commit": self.text(), "branch": self.text(), "subject": self.text(),
                                  "paths": [self.path()], "declared_only": [self.path()], "mixed": [self.path()]}),
            "budget_warning" => json!({"limit": self.text(), "percent": self.small(), "used": self.fraction(),
                                       "of": self.fraction()}),
            "bounded_continuation" => json!({"agent": self.text(), "context_tokens": self.whole(),
                                             "same_session": self.flag()}),
            "prefix_changed" => json!({"agent": self.text(), "block": self.text(), "byte": self.small(),
                                       "before": self.text(), "after": self.text()}),
            "context_pruned" => json!({"agent": self.text(), "reason": self.text(), "soft": self.small(),
                                       "hard": self.small(), "chars_before": self.whole(),
                                       "chars_after": self.whole(), "ratio_before": self.fraction(),
                                       "ratio_after": self.fraction(), "gap_ms": self.whole(),
                                       "first_changed": self.text()}),
            "session_evicted" => json!({"agent": self.text(), "reason": self.pick(&["idle", "room", "lost"])}),
            "api_key_billing" => json!({"engine": self.engine(), "variable": self.text()}),
            other => panic!("no sample of the log record `{other}`: add one"),
        }
    }

    /// Type, name and payload of one record of every kind.
    pub(crate) fn every_kind(&mut self) -> Vec<(&'static str, String, Value)> {
        let plain = Event::KINDS.iter().filter(|kind| **kind != "log").map(|kind| {
            let named = match *kind {
                "run_end" => Outcome::ALL[usize::try_from(self.next() % 11).expect("small")].as_str().to_owned(),
                "waiting" | "approval" | "verdict" | "message" => String::new(),
                _ => self.text().as_str().expect("a text").to_owned(),
            };
            let payload = self.plain(kind, &named);
            (*kind, named, payload)
        });
        let mut all: Vec<_> = plain.collect();
        all.extend(Event::LOG_NAMES.iter().map(|name| ("log", (*name).to_owned(), self.log(name))));
        all
    }
}

/// The entries of a payload that say something: null is what is left out.
pub(crate) fn said(payload: &Value) -> Map<String, Value> {
    payload
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}
