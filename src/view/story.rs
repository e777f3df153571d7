//! Runs made up for tests, told as they happen: `Story::begins(…).phase(…).turn(…).reads(…).ends()`.

use chrono::{DateTime, TimeDelta, TimeZone as _, Utc};
use serde_json::json;

use crate::event::{
    AgentEnd, AgentStart, CheckRun, Committed, ContextRead, Event, Expect, Input, LeaseKind, Order, Outcome, PhaseEnd,
    PhaseStart, PhaseStatus, Record, RepoPath, RotationReason, RunEnd, RunStart, SessionRotation, SessionSeen,
    ToolCall, TurnStatus, Usage, Work,
};
use crate::ids::{AgentName, EngineName, PhaseName, RunId, Seq, SessionId, StepName};
use crate::plan::{Action, Agent, Check, EngineChoice, Plan, PlannedStep, Writes};

/// A run under way. Every method adds records and moves the clock on.
pub(crate) struct Story {
    pub(crate) records: Vec<Record>,
    pub(crate) now: DateTime<Utc>,
    agents: Vec<(&'static str, EngineName, &'static str)>,
    phase: Option<(PhaseName, DateTime<Utc>)>,
    agent: &'static str,
    turn: Usage,
    spent: (Usage, Option<f64>),
    requests: u32,
    context: Option<u64>,
}

impl Story {
    /// The first stretch of `20261130-142210-k3fa`, with the roster of UX.md.
    pub(crate) fn begins(workflow: &str, prompt: &str) -> Self {
        let agents = vec![
            ("planner", EngineName::Claude, "sonnet"),
            ("builder", EngineName::Pi, "gpt-5.6"),
            ("reviewer", EngineName::Cursor, ""),
        ];
        Self::with_agents(workflow, prompt, agents)
    }

    /// The same with another roster.
    pub(crate) fn with_agents(
        workflow: &str,
        prompt: &str,
        agents: Vec<(&'static str, EngineName, &'static str)>,
    ) -> Self {
        let now = Utc.with_ymd_and_hms(2026, 11, 30, 14, 22, 10).unwrap();
        let mut story = Self {
            records: Vec::new(),
            now,
            agents,
            phase: None,
            agent: "",
            turn: Usage::default(),
            spent: (Usage::default(), Some(0.0)),
            requests: 0,
            context: None,
        };
        let plan = serde_json::to_value(story.plan(workflow, prompt)).unwrap();
        story.starts(workflow, prompt, Some(plan));
        story
    }

    fn plan(&self, workflow: &str, prompt: &str) -> Plan {
        let agents = self.agents.iter().map(|&(name, engine, model)| {
            let agent = Agent {
                choices: vec![EngineChoice { engine, model: model.to_owned(), level: None }],
                system: String::new(),
                user: String::new(),
                tools: Vec::new(),
                extensions: Vec::new(),
                writes: Writes::Anywhere,
                ceiling: 180_000,
                rotation: crate::plan::RotationPolicy::Ceiling,
                rotate_mid_phase: false,
                phase_levels: indexmap::IndexMap::default(),
            };
            (AgentName::from(name), agent)
        });
        Plan {
            workflow: workflow.to_owned(),
            description: String::new(),
            prompt: prompt.to_owned(),
            steps: vec![PlannedStep { name: StepName::from("save"), when: None, action: Action::Commit }],
            accept: None,
            agents: agents.collect(),
            checks: [("test".into(), Check { run: "cargo test".to_owned(), timeout_minutes: 10.0 })].into(),
            schemas: indexmap::IndexMap::default(),
            protected_files: Vec::new(),
            judge_files: Vec::new(),
            benign_paths: Vec::new(),
            engines: indexmap::IndexMap::default(),
            relay: crate::plan::Relay::Auto,
            session: crate::plan::SessionMode::FreshProcess,
            context_pruning: serde_json::Value::Null,
            models: serde_json::Value::Null,
        }
    }

    fn starts(&mut self, workflow: &str, prompt: &str, plan: Option<serde_json::Value>) {
        self.add(Event::RunStart(RunStart {
            workflow: workflow.to_owned(),
            format: 1,
            fia_version: "0.1.0".to_owned(),
            prompt: prompt.to_owned(),
            plan_digest: "d1".to_owned(),
            limits: Vec::new(),
            resumed: plan.is_none(),
            plan,
            stop: json!({"token_budget": 30_000_000}),
            base: None,
            branch: Some("main".to_owned()),
            worktree: false,
            linked: None,
            host: "desk".to_owned(),
        }));
    }

    /// The first stretch has these limits.
    pub(crate) fn limited(mut self, limits: serde_json::Value) -> Self {
        if let Event::RunStart(start) = &mut self.records[0].event {
            start.stop = limits;
        }
        self
    }

    /// Another stretch.
    pub(crate) fn resumes(mut self) -> Self {
        self.phase = None;
        self.starts("plan_build_test", "", None);
        self
    }

    fn add(&mut self, event: Event) {
        self.records.push(Record {
            seq: Seq(self.records.len() as u64 + 1),
            ts: self.now,
            run: RunId::from("20261130-142210-k3fa"),
            phase: self.phase.as_ref().map(|(name, _)| name.clone()),
            event,
        });
    }

    /// Any other fact.
    pub(crate) fn event(mut self, event: Event) -> Self {
        self.add(event);
        self
    }

    /// Time passes.
    pub(crate) fn after(mut self, secs: i64) -> Self {
        self.now += TimeDelta::seconds(secs);
        self
    }

    /// An agent's phase begins.
    pub(crate) fn phase(mut self, name: &str, agent: &'static str) -> Self {
        let agent_name = AgentName::from(agent);
        self.agent = agent;
        let work = Work::Agent {
            agent: agent_name.clone(),
            output: "build".to_owned(),
            gates: Vec::new(),
            retries: 1,
            input: Input::Nothing,
        };
        self.phase_starts(name, work, Some(agent_name), format!("{agent} works"));
        self
    }

    fn phase_starts(&mut self, name: &str, work: Work, agent: Option<AgentName>, description: String) {
        let step = StepName::from(name.split_once('_').map_or(name, |(_, step)| step));
        self.phase = Some((PhaseName::from(name), self.now));
        let order = Order { phase: PhaseName::from(name), step: step.clone(), index: 0, round: 0, work };
        let kind = order.work.kind().to_owned();
        self.add(Event::PhaseStart(PhaseStart {
            step,
            order,
            kind,
            agent,
            description,
            attempt: 1,
            host: "desk".to_owned(),
        }));
    }

    /// A turn begins: in a fresh session, or in one that is resumed.
    pub(crate) fn turn(mut self, session: Option<&str>) -> Self {
        let (_, engine, model) = *self.agents.iter().find(|(name, ..)| *name == self.agent).unwrap();
        (self.turn, self.requests) = (Usage::default(), 0);
        if session.is_none() {
            self.context = None;
        }
        self.add(Event::AgentStart(AgentStart {
            agent: self.agent.into(),
            leg: 1,
            turn: 1,
            engine,
            model: model.to_owned(),
            level: None,
            session_id: session.map(SessionId::from),
            lease: if session.is_some() { LeaseKind::Restored } else { LeaseKind::Cold },
            system_sha256: "5y5".to_owned(),
            host: "desk".to_owned(),
            boot_id: "b1".to_owned(),
            pid: 4312,
            process_started: 99,
            prompt_sha256: String::new(),
        }));
        self
    }

    /// The engine names its session.
    pub(crate) fn session(self, id: &str) -> Self {
        let (agent, engine, model) = *self.agents.iter().find(|(name, ..)| *name == self.agent).unwrap();
        let seen =
            SessionSeen { agent: agent.into(), engine, model: model.to_owned(), session_id: id.into(), new: true };
        self.event(Event::Session(seen))
    }

    /// Requests with these live contexts, five seconds each: what was there is read from the cache, the rest written.
    pub(crate) fn reads(mut self, contexts: impl IntoIterator<Item = u64>) -> Self {
        for context in contexts {
            self.now += TimeDelta::seconds(5);
            let cached = self.context.unwrap_or(0).min(context);
            let usage = Usage {
                input: 10,
                output: 300,
                cache_read: cached,
                cache_write: (context - cached).saturating_sub(10),
                cache_write_1h: 0,
            };
            self.turn += usage;
            self.requests += 1;
            self.context = Some(context);
            self.add(Event::Context(ContextRead {
                agent: self.agent.into(),
                context_tokens: Some(context),
                window: Some(200_000),
                usage: Some(usage),
                cost_usd: None,
            }));
        }
        self
    }

    /// A tool call ends.
    pub(crate) fn tool(self, tool: &str, summary: &str) -> Self {
        let call = ToolCall {
            summary: summary.to_owned(),
            agent: self.agent.into(),
            tool: tool.to_owned(),
            ok: true,
            elapsed_ms: 20,
        };
        self.event(Event::ToolCall(call))
    }

    /// The turn ends well, with the usage of its requests and this cost.
    pub(crate) fn turn_ends(self, cost_usd: Option<f64>) -> Self {
        let usage = (self.requests > 0).then_some(self.turn);
        self.turn_ended(usage, cost_usd)
    }

    fn turn_ended(mut self, usage: Option<Usage>, cost_usd: Option<f64>) -> Self {
        let (agent, engine, model) = *self.agents.iter().find(|(name, ..)| *name == self.agent).unwrap();
        self.spent.0 += usage.unwrap_or_default();
        self.spent.1 = self.spent.1.zip(cost_usd).map(|(sum, cost)| sum + cost);
        let end = AgentEnd {
            agent: agent.into(),
            leg: 1,
            turn: 1,
            engine,
            model: model.to_owned(),
            ended: TurnStatus::Completed,
            usage,
            cost_usd,
            session_cost_usd: None,
            requests: self.requests,
            context_tokens: self.context.filter(|_| usage.is_some()),
            window: None,
            cache_hit_ratio: None,
            rewrite_factor: None,
            elapsed_ms: 1,
        };
        self.event(Event::AgentEnd(end))
    }

    /// The phase ends.
    pub(crate) fn ends(mut self, status: PhaseStatus) -> Self {
        let (name, began) = self.phase.clone().unwrap();
        let elapsed_ms = u64::try_from((self.now - began).num_milliseconds()).unwrap();
        let step = StepName::from(name.as_str().split_once('_').map_or("", |(_, step)| step));
        self.add(Event::PhaseEnd(PhaseEnd {
            step,
            status,
            elapsed_ms,
            outcome: None,
            reason: None,
            tree_sha256: None,
        }));
        self.phase = None;
        self
    }

    /// A check phase of twelve seconds.
    pub(crate) fn check(mut self, name: &str, passed: bool) -> Self {
        let work = Work::Check { checks: vec!["test".into()], expect: Expect::Green };
        self.phase_starts(name, work, None, "check test".to_owned());
        self.now += TimeDelta::seconds(12);
        self.add(Event::Check(CheckRun {
            check: "test".into(),
            passed,
            exit: Some(if passed { 0 } else { 101 }),
            timed_out_minutes: None,
            log: format!("context_handoff/{name}.log"),
            elapsed_ms: 12_000,
        }));
        self.ends(if passed { PhaseStatus::Success } else { PhaseStatus::Red })
    }

    /// The agent of the phase is given a fresh session.
    pub(crate) fn rotates(self, context: u64) -> Self {
        let rotation = SessionRotation {
            agent: self.agent.into(),
            reason: RotationReason::Ceiling,
            context_tokens: Some(context),
            cap: 180_000,
            from_session: Some("s-1".into()),
            archived: vec!["agents/builder/pi_session.1.rotated.jsonl".to_owned()],
            preamble_bytes: 1_400,
            price: None,
        };
        self.event(Event::SessionRotation(rotation))
    }

    /// A commit of these paths.
    pub(crate) fn commits(mut self, name: &str, paths: &[&str]) -> Self {
        self.phase_starts(name, Work::Commit, None, "commit what the run made".to_owned());
        self.now += TimeDelta::seconds(1);
        self.add(Event::Committed(Committed {
            commit: Some("4f2a91c0de4f2a91c0de4f2a91c0de4f2a91c0de".to_owned()),
            branch: Some("main".to_owned()),
            subject: "Add a health endpoint".to_owned(),
            paths: paths.iter().map(|path| RepoPath::from(*path)).collect(),
            declared_only: Vec::new(),
            mixed: Vec::new(),
            unfit: Vec::new(),
        }));
        self.ends(PhaseStatus::Success)
    }

    /// The stretch ends.
    pub(crate) fn run_ends(mut self, outcome: Outcome, reason: &str) -> Self {
        self.phase = None;
        let began = self.records.iter().rev().find(|r| matches!(r.event, Event::RunStart(_))).unwrap().ts;
        let elapsed_ms = u64::try_from((self.now - began).num_milliseconds()).unwrap();
        let (tokens, cost_usd) = self.spent;
        self.event(Event::RunEnd(RunEnd {
            outcome,
            reason: reason.to_owned(),
            tokens: Some(tokens),
            cost_usd,
            phases: 1,
            replayed: 0,
            elapsed_ms,
            tree_sha256: None,
        }))
    }
}

/// The run of UX.md up to the red test: planned, built to 187k, not yet fixed.
pub(crate) fn built() -> Story {
    Story::begins("plan_build_test", "add a /health endpoint")
        .phase("01_plan", "planner")
        .turn(None)
        .session("84f0b9e9-1111-4222-8333-444455556666")
        .reads((1..=8).map(|n| 14_000 + n * 3_000))
        .turn_ends(Some(0.06))
        .after(1)
        .ends(PhaseStatus::Success)
        .phase("02_build", "builder")
        .turn(None)
        .session("s-1")
        .reads((1..=70).map(|n| 19_000 + n * 2_400))
        .tool("edit", "src/health.rs")
        .turn_ends(Some(0.88))
        .after(12)
        .ends(PhaseStatus::Success)
        .check("03_test_1", false)
}

/// The same in the middle of its fix, in a rotated session.
pub(crate) fn fixing() -> Story {
    built()
        .phase("04_fix_1", "builder")
        .rotates(187_000)
        .turn(None)
        .session("s-2")
        .reads((1..=12).map(|n| 11_000 + n * 1_000))
        .tool("edit", "src/health.rs")
        .after(12)
}

/// The same to its good end.
pub(crate) fn fixed() -> Story {
    fixing()
        .reads((13..=31).map(|n| 11_000 + n * 1_000))
        .turn_ends(Some(0.09))
        .ends(PhaseStatus::Success)
        .check("05_test_2", true)
        .commits("06_save", &["src/health.rs", "src/main.rs", "test/health.rs"])
        .run_ends(Outcome::GoalMet, "every step succeeded")
}

/// The same to a bad end: three fixes in vain.
pub(crate) fn capped() -> Story {
    fixing()
        .turn_ends(Some(0.09))
        .ends(PhaseStatus::Success)
        .check("09_test_4", false)
        .run_ends(Outcome::AttemptCap, "the suite is still red after 3 fixes")
}
