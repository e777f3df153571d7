//! What the log says of each agent's requests: how its sessions grow, and where the provider's cache did not hold.
//!
//! Folded from records, one at a time, live and at a resume alike.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::break_even::{CacheState, Estimate, Reading, Readings, Standing};
use super::cache::{Between, cause, miss};
use super::prices::{CacheLifetime, Rates};
use super::requests::Requests;
use crate::event::{AgentStart, CacheBreak, ContextRead, Event, LeaseKind, Record, Usage};
use crate::ids::{AgentName, EngineName};

/// The requests of all agents of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Watch {
    agents: BTreeMap<AgentName, Watched>,
    requests: Requests,
    /// What the last record showed, until it is in the log itself.
    broken: Option<CacheBreak>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Watched {
    /// The last request with usage, and when it answered.
    last: Option<(Usage, DateTime<Utc>)>,
    /// What happened since.
    between: Between,
    /// Engine, model and level of the last turn.
    works_on: Option<(EngineName, String, Option<String>)>,
    /// Whether its writes were seen to last an hour.
    hour: bool,
    readings: Readings,
    session: u32,
}

impl Watch {
    /// Takes in a record.
    pub fn apply(&mut self, record: &Record) {
        self.broken = None;
        self.requests.apply(record);
        match &record.event {
            Event::AgentStart(start) => self.agents.entry(start.agent.clone()).or_default().started(start),
            Event::Context(read) => {
                let watched = self.agents.entry(read.agent.clone()).or_default();
                self.broken = watched.answered(record, read);
            }
            Event::SessionRotation(rotation) => self.note(&rotation.agent, |between| between.rotated = true),
            Event::Compacted(compacted) => self.note(&compacted.agent, |between| between.compacted = true),
            Event::PrefixChanged(changed) => self.note(&changed.agent, |between| between.prefix_changed = true),
            Event::ContextPruned(pruned) if pruned.soft + pruned.hard > 0 => {
                self.note(&pruned.agent, |between| between.pruned = true);
            }
            Event::RunStart(_)
            | Event::RunEnd(_)
            | Event::PhaseStart(_)
            | Event::PhaseEnd(_)
            | Event::AgentEnd(_)
            | Event::Session(_)
            | Event::ToolCall(_)
            | Event::Envelope(_)
            | Event::CheckStart(_)
            | Event::Check(_)
            | Event::GatePass(_)
            | Event::GateFail(_)
            | Event::EngineError(_)
            | Event::EngineRetry(_)
            | Event::EngineRelay(_)
            | Event::EngineFallback(_)
            | Event::EngineContinuation(_)
            | Event::CacheBreak(_)
            | Event::Waiting(_)
            | Event::Approval(_)
            | Event::Verdict(_)
            | Event::Message(_)
            | Event::Error(_)
            | Event::SessionRetired(_)
            | Event::RotationStoodDown(_)
            | Event::UsageUnknown(_)
            | Event::PhaseReused(_)
            | Event::StepSkipped(_)
            | Event::TreeChanged(_)
            | Event::PermissionRetry(_)
            | Event::ExternalChange(_)
            | Event::Committed(_)
            | Event::BudgetWarning(_)
            | Event::BoundedContinuation(_)
            | Event::ContextPruned(_)
            | Event::SessionEvicted(_)
            | Event::ApiKeyBilling(_) => {}
        }
    }

    fn note(&mut self, agent: &AgentName, change: impl FnOnce(&mut Between)) {
        change(&mut self.agents.entry(agent.clone()).or_default().between);
    }

    /// The cache break that the last record showed; to be written down next.
    pub fn broken(&self) -> Option<&CacheBreak> {
        self.broken.as_ref()
    }

    /// What an agent's sessions have been like; `None` before its first request.
    pub fn estimate(&self, agent: &AgentName) -> Option<Estimate> {
        self.agents.get(agent)?.readings.estimate()
    }

    /// Requests that phases of this run have made.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// An agent's session of so much live context against a fresh one, at `now`, with so many requests to come;
    /// `None` before its first request.
    pub fn standing(
        &self,
        agent: &AgentName,
        context: u64,
        expected: u32,
        now: DateTime<Utc>,
        rates: Rates,
    ) -> Option<Standing> {
        let watched = self.agents.get(agent)?;
        let estimate = watched.readings.estimate()?;
        let lifetime = watched.lifetime();
        let idle = watched.last.and_then(|(_, at)| (now - at).to_std().ok()).unwrap_or_default();
        Some(Standing {
            context,
            fresh: estimate.fresh,
            prefix: estimate.prefix,
            expected,
            cache: if idle >= lifetime.duration() { CacheState::Cold } else { CacheState::Warm },
            rates,
            lifetime,
        })
    }
}

impl Watched {
    fn started(&mut self, start: &AgentStart) {
        if start.session_id.is_none() {
            self.session += 1;
        }
        let works_on = (start.engine, start.model.clone(), start.level.clone());
        self.between.model_changed |= self.works_on.as_ref().is_some_and(|before| *before != works_on);
        self.between.new_process |= start.lease != LeaseKind::Warm;
        self.works_on = Some(works_on);
    }

    fn answered(&mut self, record: &Record, read: &ContextRead) -> Option<CacheBreak> {
        let usage = read.usage?;
        self.hour |= usage.cache_write_1h > 0;
        let context = usage.context();
        self.readings.push(Reading { session: self.session, context, cache_read: usage.cache_read });
        let mut between = std::mem::take(&mut self.between);
        let (before, at) = self.last.replace((usage, record.ts))?;
        between.gap = (record.ts - at).to_std().ok();
        let missed = miss(&before, &usage)?;
        let cause = cause(&between, self.lifetime().duration());
        Some(CacheBreak { agent: read.agent.clone(), expected: missed.expected, seen: missed.seen, cause })
    }

    fn lifetime(&self) -> CacheLifetime {
        if self.hour { CacheLifetime::OneHour } else { CacheLifetime::FiveMinutes }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chrono::TimeZone as _;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::event::{BreakCause, Compacted, RotationReason, SessionRotation};
    use crate::ids::{PhaseName, RunId, Seq, SessionId};

    /// A log that is told request by request.
    struct Told {
        watch: Watch,
        at: DateTime<Utc>,
    }

    impl Told {
        fn new() -> Self {
            let at = Utc.with_ymd_and_hms(2026, 11, 30, 12, 0, 0).unwrap();
            Self { watch: Watch::default(), at }
        }

        fn event(&mut self, event: Event) -> Option<BreakCause> {
            let phase = Some(PhaseName::new("01_build"));
            self.watch.apply(&Record { seq: Seq(1), ts: self.at, run: RunId::new("r"), phase, event });
            self.watch.broken().map(|broken| broken.cause)
        }

        fn start(&mut self, session: Option<&str>, lease: LeaseKind, level: Option<&str>) {
            let start = AgentStart {
                agent: "builder".into(),
                leg: 1,
                turn: 1,
                engine: EngineName::Claude,
                model: "sonnet".to_owned(),
                level: level.map(str::to_owned),
                session_id: session.map(SessionId::new),
                lease,
                system_sha256: String::new(),
                host: String::new(),
                boot_id: String::new(),
                pid: 1,
                process_started: 1,
                prompt_sha256: String::new(),
            };
            self.event(Event::AgentStart(start));
        }

        fn request(&mut self, read: u64, write: u64) -> Option<BreakCause> {
            self.at += Duration::from_secs(2);
            let usage = Usage { input: 0, output: 1, cache_read: read, cache_write: write, cache_write_1h: 0 };
            self.event(Event::Context(ContextRead {
                agent: "builder".into(),
                context_tokens: Some(usage.context()),
                window: None,
                usage: Some(usage),
                cost_usd: None,
            }))
        }
    }

    #[test]
    fn r6_8_a_session_that_grows_breaks_nothing_and_a_shortfall_has_the_cause_that_fits_first() {
        let mut told = Told::new();
        told.start(None, LeaseKind::Cold, None);
        assert_eq!(told.request(0, 40_000), None);
        assert_eq!(told.request(40_000, 1000), None);
        assert_eq!(told.request(0, 42_000), Some(BreakCause::Unknown));
        told.start(Some("s"), LeaseKind::Restored, None);
        assert_eq!(told.request(0, 43_000), Some(BreakCause::ResumeRewrite));
        told.start(Some("s"), LeaseKind::Warm, None);
        told.at += Duration::from_secs(300);
        assert_eq!(told.request(0, 44_000), Some(BreakCause::TtlPassed));
        told.start(Some("s"), LeaseKind::Restored, Some("high"));
        assert_eq!(told.request(0, 45_000), Some(BreakCause::ModelChanged));
        told.event(Event::Compacted(Compacted { agent: "builder".into(), before: None, after: None }));
        assert_eq!(told.request(9000, 1000), Some(BreakCause::Compaction));
        assert_eq!(told.request(10_000, 1000), None);
    }

    #[test]
    fn r6_8_a_fresh_session_after_a_rotation_is_seen_with_its_cause() {
        let mut told = Told::new();
        told.start(None, LeaseKind::Cold, None);
        told.request(0, 190_000);
        told.event(Event::SessionRotation(SessionRotation {
            agent: "builder".into(),
            reason: RotationReason::Ceiling,
            context_tokens: Some(190_000),
            cap: 180_000,
            from_session: None,
            archived: Vec::new(),
            preamble_bytes: 0,
            price: None,
        }));
        told.start(None, LeaseKind::Cold, None);
        assert_eq!(told.request(17_000, 3000), Some(BreakCause::Rotation));
    }

    #[test]
    fn r6_9_a_session_stands_against_what_the_agent_was_like_before() {
        let mut told = Told::new();
        told.start(None, LeaseKind::Cold, None);
        for request in 0..9 {
            told.request(20_000 + 1000 * request, 1000);
        }
        told.request(29_000, 1000);
        let agent = AgentName::from("builder");
        let at = |now| told.watch.standing(&agent, 30_000, 9, now, Rates::STANDARD).unwrap();
        let warm = at(told.at);
        assert_eq!((warm.fresh, warm.prefix, warm.expected, warm.cache), (21_000, 20_000, 9, CacheState::Warm));
        assert_eq!(at(told.at + Duration::from_secs(300)).cache, CacheState::Cold);
        assert_eq!(told.watch.standing(&"scout".into(), 1, 9, told.at, Rates::STANDARD), None);
    }
}
