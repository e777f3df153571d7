//! The beginning of a turn: what its process is started with, and the record of it.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use super::TurnOrder;
use crate::engine::{Launch, ProcessKind, SessionChoice};
use crate::event::{AgentStart, Event};
use crate::host::Mark;
use crate::process::Child;
use crate::run::prompt::hexadecimal;
use crate::run::resident::Seat;
use crate::run::{Run, RunError};
use crate::store::Leg;

impl Run {
    pub(in crate::run) fn launch(&self, asked: &TurnOrder<'_>, system: &str) -> Launch {
        let agent = &self.plan.agents[asked.agent];
        let settings = self.plan.engines.get(&asked.choice.engine).cloned().unwrap_or_default();
        let agent_dir = self.place.dir.agent(asked.agent);
        Launch {
            cwd: self.place.top.clone(),
            run_dir: self.place.dir.path().to_owned(),
            system_file: agent_dir.join("system.md"),
            agent_dir,
            program: settings.program,
            args: settings.args,
            env: settings.env.into_iter().collect(),
            model: asked.choice.model.clone(),
            level: self.level(asked),
            tools: agent.tools.clone(),
            extensions: agent.extensions.clone(),
            permission_mode: settings.permission_mode,
            system: system.to_owned(),
            session: asked.session.clone(),
            process: ProcessKind::OneShot,
            max_turns: asked.bound.and_then(|bound| bound.max_turns),
            base_url: None,
            phase: asked.order.phase.to_string(),
            leg: asked.leg,
            turn: asked.turn,
        }
    }

    /// Effort or thinking of a phase.
    fn level(&self, asked: &TurnOrder<'_>) -> Option<String> {
        self.plan.agents[asked.agent].level(asked.choice, asked.order.label()).map(str::to_owned)
    }

    /// A file of a leg, relative to the run directory.
    pub(super) fn leg_file(asked: &TurnOrder<'_>, what: &str) -> PathBuf {
        Leg { phase: &asked.order.phase, leg: asked.leg }.place(asked.agent, what).into()
    }

    pub(super) fn save_prompt(&self, asked: &TurnOrder<'_>) -> Result<(), RunError> {
        let file = Self::leg_file(asked, &format!("{}.user.md", asked.turn));
        Ok(self.place.dir.save(&file, asked.prompt.as_bytes())?)
    }

    /// A child as it is written down for others to find.
    pub(in crate::run) fn mark_of(&self, child: &Child) -> Result<Mark, RunError> {
        Mark::new(child.identity()).map_err(|source| RunError::File {
            action: "read the boot id of this machine for",
            path: self.place.dir.path().to_owned(),
            source,
        })
    }

    pub(super) fn record_start(&self, asked: &TurnOrder<'_>, seat: &Seat, system: &str) -> Result<(), RunError> {
        let mark = self.mark_of(&seat.child)?;
        let session_id = match &asked.session {
            SessionChoice::Fresh => None,
            SessionChoice::Resume(session) => Some(session.clone()),
        };
        let start = AgentStart {
            agent: asked.agent.clone(),
            leg: asked.leg,
            turn: asked.turn,
            engine: asked.choice.engine,
            model: asked.choice.model.clone(),
            level: self.level(asked),
            lease: seat.lease,
            session_id,
            system_sha256: hexadecimal(&Sha256::digest(system.as_bytes())),
            host: mark.host,
            boot_id: mark.boot_id,
            pid: mark.pid,
            process_started: mark.process_started,
            prompt_sha256: hexadecimal(&Sha256::digest(asked.prompt.as_bytes())),
        };
        self.record(asked.phase, Event::AgentStart(start))
    }
}
