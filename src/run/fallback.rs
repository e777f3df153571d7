//! Looking at the fallbacks of an agent: is the program there, and is somebody logged in (SPEC 10.2).

use std::ffi::OsString;
use std::time::Duration;

use super::order::AgentOrder;
use super::relay::Dead;
use super::wait::Asked;
use super::{Run, RunError};
use crate::engine::{self, LoginCheck, SessionChoice};
use crate::event::{EngineFallback, Event};
use crate::plan::EngineChoice;
use crate::process::{CommandSpec, Exit, OWNER, Said, ask, find_program};

/// How long a CLI may take to say whether somebody is logged in. One that hangs then would hang at work too.
const LOGIN_CHECK_LIMIT: Duration = Duration::from_secs(15);

impl Run {
    /// The position of the first fallback after the present engine that can take over. What was found of each
    /// one looked at is recorded. A request to stop ends the looking.
    pub(super) async fn ready_fallback(&self, dead: &Dead<'_>) -> Result<Result<Option<usize>, Asked>, RunError> {
        let order = dead.order;
        let at = self.with_state(|state| state.relayed.get(order.agent).copied().unwrap_or(0));
        for (position, choice) in self.plan.agents[order.agent].choices.iter().enumerate().skip(at + 1) {
            let reason = match self.unready(order, choice).await? {
                Ok(reason) => reason,
                Err(asked) => return Ok(Err(asked)),
            };
            let ready = reason.is_none();
            let looked = EngineFallback {
                agent: order.agent.clone(),
                engine: choice.engine,
                model: choice.model.clone(),
                ready,
                reason,
                kind: Some(dead.kind),
                from: Some(dead.choice.engine),
                to: Some(choice.engine),
            };
            self.record(Some(&order.order.phase), Event::EngineFallback(looked))?;
            if ready {
                return Ok(Ok(Some(position)));
            }
        }
        Ok(Ok(None))
    }

    /// Why a fallback cannot take over; `None` when it can, as far as can be told.
    async fn unready(
        &self,
        order: &AgentOrder<'_>,
        choice: &EngineChoice,
    ) -> Result<Result<Option<String>, Asked>, RunError> {
        let limited = self.with_state(|state| state.limited.get(&(choice.engine, choice.model.clone())).copied());
        if let Some(reset) = limited.filter(|reset| *reset > (self.now)()) {
            return Ok(Ok(Some(format!("its limit lasts until {}", self.local_time(reset)))));
        }
        let engine = engine::for_name(choice.engine);
        let launch = self.first_launch(order, choice)?;
        let spec = match engine.launch(&launch) {
            Ok(spec) => spec,
            Err(error) => return Ok(Ok(Some(format!("{error}; {}", error.hint)))),
        };
        if let Err(error) = find_program(&spec) {
            return Ok(Ok(Some(format!("{error}; {}", error.hint()))));
        }
        let facts = engine.facts();
        let asked: Vec<OsString> = match facts.login_check {
            LoginCheck::None => return Ok(Ok(None)),
            LoginCheck::Args(args) => args.iter().map(OsString::from).collect(),
            LoginCheck::ArgsAndModel(_) if choice.model.is_empty() => return Ok(Ok(None)),
            LoginCheck::ArgsAndModel(args) => {
                args.iter().map(OsString::from).chain([OsString::from(&choice.model)]).collect()
            }
        };
        // The configured arguments come first: a script that an interpreter is given stands there.
        let args = launch.args.iter().map(OsString::from).chain(asked).collect();
        let spec = CommandSpec { args, ..spec }.set(OWNER, self.new_owner());
        Ok(match ask(&spec, self.pause(LOGIN_CHECK_LIMIT)).await {
            Ok(Ok(Said { exit: Exit::Code(0), .. })) => Ok(None),
            Ok(Ok(_)) => Ok(Some(format!("nobody is logged in; log in with `{}`", facts.login))),
            Ok(Err(Some(asked))) => Err(asked),
            Ok(Err(None)) => {
                let limit = LOGIN_CHECK_LIMIT.as_secs();
                Ok(Some(format!("it did not say within {limit} s whether somebody is logged in")))
            }
            Err(error) => Ok(Some(format!("{error}; {}", error.hint()))),
        })
    }

    /// What the fallback would be started with.
    fn first_launch(&self, order: &AgentOrder<'_>, choice: &EngineChoice) -> Result<engine::Launch, RunError> {
        let system = self.system_prompt(order.agent)?;
        let asked = super::turn::TurnOrder {
            order: order.order,
            phase: None,
            agent: order.agent,
            leg: 1,
            turn: 1,
            choice,
            session: SessionChoice::Fresh,
            prompt: String::new(),
            deadline: None,
            bound: None,
        };
        Ok(self.launch(&asked, &system))
    }
}
