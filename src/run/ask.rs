//! A question to an agent between stretches: one turn in its own session, under the lock of the work tree.
//!
//! Question and reply are rows of the channel. What an asked agent writes into the work tree is undone: nobody is
//! there to judge it.

use super::hear::{Hearing, Post, end_with};
use super::order::{AgentOrder, minutes};
use super::turn::{TurnOrder, Turned};
use super::{Run, RunError};
use crate::channel::{Row, RowKind};
use crate::engine::{self, SessionChoice};
use crate::event::item::{Cut, TurnEnd};
use crate::event::{Event, ExternalChange, FailureKind, Input, Order, Work};
use crate::ids::{AgentName, PhaseName};
use crate::plan::EngineChoice;
use crate::store::channel;
use crate::tree::LegStart;

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The agent's words.
    Told(String),
    /// Why there are none.
    Failed(String),
}

/// What an agent was asked, and what of its writes was undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What came of it.
    pub answer: Answer,
    /// Number of the rescue that brings back what was undone, if anything was.
    pub rescue: Option<u32>,
}

impl Run {
    /// Puts a question to an agent of the plan and waits for its answer.
    ///
    /// # Errors
    ///
    /// When the log, the channel or the work tree cannot be read or written.
    pub async fn ask(&self, agent: &AgentName, question: &str) -> Result<Asked, RunError> {
        let choice = self.choice(agent).clone();
        let asked = Post { kind: RowKind::Question, from: None, to: Some(agent), text: question, session: None };
        let asked = self.post(&asked)?;
        let order = question_order(agent, &asked.id);
        self.look_at_own_files()?;
        let before = self.guard.before().await?;
        let turned = self.put_until_heard(&order, &asked, &choice).await;
        self.end_residents().await;
        let rescue = self.undo_writes(before, agent).await?;
        let answer = self.answered(agent, &asked.id, turned?)?;
        self.sync()?;
        Ok(Asked { answer, rescue })
    }

    /// Puts the question, in a fresh session when the engine does not know the old one.
    async fn put_until_heard(&self, order: &Order, asked: &Row, choice: &EngineChoice) -> Result<Turned, RunError> {
        let turned = self.put(order, asked, choice, 1).await?;
        let agent = order.work.agent().expect("a question is an order for an agent");
        if !is_lost(&turned) || self.with_state(|state| state.agents.entry(agent).is_none()) {
            return Ok(turned);
        }
        self.leave_lost_session(None, agent, choice)?;
        self.put(order, asked, choice, 2).await
    }

    /// Puts the question, with what the agent has not heard yet.
    async fn put(&self, order: &Order, asked: &Row, choice: &EngineChoice, leg: u32) -> Result<Turned, RunError> {
        let order_of = AgentOrder::of(order).expect("a question is an order for an agent");
        let agent = order_of.agent;
        let (session, mut prompt) = self.ask_in(&order_of, leg, choice)?;
        prompt.push_str(&asked.text);
        let rows = channel::rows(&self.place.dir.channel())?;
        let block = self.hear(
            &rows,
            &Hearing {
                agent,
                delivery: &asked.id,
                phase: None,
                session: match &session {
                    SessionChoice::Resume(session) => Some(session),
                    SessionChoice::Fresh => None,
                },
                answered: Some(&asked.id),
                elsewhere: &[],
            },
        )?;
        end_with(&mut prompt, &block);
        self.turn(TurnOrder {
            order,
            phase: None,
            agent,
            leg,
            turn: 1,
            choice,
            session,
            prompt,
            deadline: minutes(self.stop.phase_timeout_minutes).map(|span| tokio::time::Instant::now() + span),
            bound: None,
        })
        .await
    }

    /// The session that is asked, and what its prompt begins with: a fresh one of an agent that has worked is told
    /// so, as everywhere.
    fn ask_in(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        choice: &EngineChoice,
    ) -> Result<(SessionChoice, String), RunError> {
        let agent = order.agent;
        let Some(entry) = self.with_state(|state| state.agents.entry(agent).cloned()) else {
            return Ok((SessionChoice::Fresh, String::new()));
        };
        let file = engine::for_name(choice.engine).facts().session_file;
        let there = file.is_none_or(|file| self.place.dir.agent(agent).join(file).exists());
        let same = entry.coding_agent == choice.engine && entry.model == choice.model;
        if let (true, true, Some(session)) = (there, same, entry.session_id.clone()) {
            return Ok((SessionChoice::Resume(session), String::new()));
        }
        let (fresh, transcript) = self.leave_behind(None, agent, &entry, choice)?;
        Ok((SessionChoice::Fresh, self.preamble(order, leg, fresh, transcript.as_ref())))
    }

    /// Writes the reply down, and takes as heard what the agent was told.
    fn answered(&self, agent: &AgentName, question: &str, turned: Turned) -> Result<Answer, RunError> {
        let told = match turned {
            Turned::Stopped(_, reason) => return Ok(Answer::Failed(reason)),
            Turned::Ended(told) => told,
        };
        let failed = match told.end {
            TurnEnd::Completed => None,
            TurnEnd::Failed(failure) => Some(format!("{}: {}", failure.kind.as_str(), failure.message)),
            TurnEnd::Cut(Cut::OutputLimit) => Some("the answer ran into the output limit".to_owned()),
            TurnEnd::Cut(Cut::MaxTurns | Cut::Interrupted) => Some("the turn was ended before its answer".to_owned()),
        };
        if let Some(failed) = failed {
            return Ok(Answer::Failed(failed));
        }
        let text = told.text.unwrap_or_default();
        let session = self.with_state(|state| state.agents.entry(agent)?.session_id.clone());
        let from = Some(agent.as_str());
        let reply = Post { kind: RowKind::Reply, from, to: None, text: &text, session: session.as_ref() };
        self.post(&reply)?;
        self.sync()?;
        self.remember_answered(question, session.as_ref())?;
        Ok(Answer::Told(text))
    }

    /// Puts back whatever changed in the work tree while the agent answered.
    async fn undo_writes(&self, before: LegStart, agent: &AgentName) -> Result<Option<u32>, RunError> {
        let undone = self.judge_block(before).await?;
        if undone.is_empty() {
            return Ok(None);
        }
        let rescue = (undone.rescue > 0).then_some(undone.rescue);
        let what = vec![format!("what {agent} wrote while it was asked")];
        self.record(
            None,
            Event::ExternalChange(ExternalChange { what, undone: undone.changes, rescue, noticed: false }),
        )?;
        Ok(rescue)
    }
}

/// Whether the engine no longer knows the session that was asked.
fn is_lost(turned: &Turned) -> bool {
    let Turned::Ended(told) = turned else { return false };
    matches!(&told.end, TurnEnd::Failed(failure) if failure.kind == FailureKind::BadSession)
}

/// A question as an order, which names its files: `00_ask_m7`.
fn question_order(agent: &AgentName, row: &str) -> Order {
    let id: String = row.chars().filter(char::is_ascii_alphanumeric).collect();
    Order {
        phase: PhaseName::new(format!("00_ask_{id}")),
        step: "ask".into(),
        index: 0,
        round: 0,
        work: Work::Agent {
            agent: agent.clone(),
            output: "generic".to_owned(),
            gates: Vec::new(),
            retries: 0,
            input: Input::Nothing,
        },
    }
}
