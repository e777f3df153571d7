//! A question to an agent between stretches: one turn in its own session, under the lock of the work tree.
//!
//! Question and reply are rows of the channel. What an asked agent writes into the work tree is undone: nobody is
//! there to judge it.

use super::hear::{Hearing, Post, end_with};
use super::order::{AgentOrder, minutes};
use super::turn::{TurnOrder, Turned};
use super::{Run, RunError};
use crate::channel::RowKind;
use crate::engine::{self, SessionChoice};
use crate::event::item::{Cut, TurnEnd};
use crate::event::{Event, ExternalChange, Input, Order, RetirementReason, Work};
use crate::ids::{AgentName, PhaseName};
use crate::plan::EngineChoice;
use crate::session::reseed::Fresh;
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
        let (session, mut prompt) = self.ask_in(&order, agent, &choice);
        prompt.push_str(question);
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
        self.look_at_own_files()?;
        let before = self.guard.before().await?;
        let turned = self
            .turn(TurnOrder {
                order: &order,
                phase: None,
                agent,
                leg: 1,
                turn: 1,
                choice: &choice,
                session,
                prompt,
                deadline: minutes(self.stop.phase_timeout_minutes).map(|span| tokio::time::Instant::now() + span),
                bound: None,
            })
            .await?;
        self.end_residents().await;
        let rescue = self.undo_writes(before, agent).await?;
        let answer = self.answered(agent, &asked.id, turned)?;
        self.sync()?;
        Ok(Asked { answer, rescue })
    }

    /// The session that is asked, and what its prompt begins with: a fresh one of an agent that has worked is told
    /// so, as everywhere.
    fn ask_in(&self, order: &Order, agent: &AgentName, choice: &EngineChoice) -> (SessionChoice, String) {
        let Some(entry) = self.with_state(|state| state.agents.entry(agent).cloned()) else {
            return (SessionChoice::Fresh, String::new());
        };
        let file = engine::for_name(choice.engine).facts().session_file;
        let there = file.is_none_or(|file| self.place.dir.agent(agent).join(file).exists());
        let same = entry.coding_agent == choice.engine && entry.model == choice.model;
        if let (true, true, Some(session)) = (there, same, entry.session_id) {
            return (SessionChoice::Resume(session), String::new());
        }
        let old = EngineChoice { engine: entry.coding_agent, model: entry.model, level: None };
        // A file that cannot be moved aside is named by the engine, which finds it in its way.
        let archived = self.archive(agent, &old).unwrap_or_default();
        let lost = if same { RetirementReason::SessionLost } else { RetirementReason::ModelChanged };
        let fresh = entry.fresh.filter(|_| entry.pending_reseed).unwrap_or(Fresh::Retired(lost));
        let order = AgentOrder::of(order).expect("a question is an order for an agent");
        (SessionChoice::Fresh, self.preamble(&order, 1, fresh, archived.first()))
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
        self.record(None, Event::ExternalChange(ExternalChange { what, undone: undone.changes, rescue }))?;
        Ok(rescue)
    }
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
