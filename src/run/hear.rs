//! The channel of a run: the rows that code writes by itself, and what an agent is told of those that it has not heard.
//!
//! A block of messages is put at the very end of a prompt and staged as a `message` event before that prompt leaves.
//! What a phase heard becomes its agent's watermark once the end of the phase is on disk, here or at the next resume,
//! so that a failed phase swallows nothing and a crash loses nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::order::AgentOrder;
use super::{Run, RunError};
use crate::channel::render::block;
use crate::channel::watermark::{Commit, Watermarks};
use crate::channel::{CAP, Heard, Listener, Memory, Row, RowKind, delivery, hear, mentioned};
use crate::engine::{self, SessionChoice};
use crate::event::{CheckRun, DeliveredMark, Event, Fault, FaultKind, GateVerdict, Input, Work};
use crate::ids::{AgentName, PhaseName, SessionId};
use crate::store::atomic::{self, Durability};
use crate::store::channel;
use crate::view::words;

/// What agents have heard, in the directory of the run.
const WATERMARKS: &str = "channel_watermarks.json";

/// A row before the store has it.
pub(super) struct Post<'a> {
    pub(super) kind: RowKind,
    pub(super) from: Option<&'a str>,
    /// Whom it is put to, beside those that the text names.
    pub(super) to: Option<&'a AgentName>,
    pub(super) text: &'a str,
    pub(super) session: Option<&'a SessionId>,
}

/// What a listener hears, and under which name.
pub(super) struct Hearing<'a> {
    pub(super) agent: &'a AgentName,
    /// `PHASE.LEG`, or the id of a question.
    pub(super) delivery: &'a str,
    /// The phase that the fact belongs to; none for a question between stretches.
    pub(super) phase: Option<&'a PhaseName>,
    pub(super) session: Option<&'a SessionId>,
    pub(super) answered: Option<&'a str>,
    pub(super) elsewhere: &'a [String],
}

impl Run {
    /// Adds a row to the channel.
    pub(super) fn post(&self, post: &Post<'_>) -> Result<Row, RunError> {
        let roster: Vec<AgentName> = self.plan.agents.keys().cloned().collect();
        let mut mentions = mentioned(post.text, &roster);
        mentions.extend(post.to.filter(|agent| !mentions.contains(agent)).cloned());
        let text = start_of(post.text, channel::MAX_TEXT_BYTES);
        let row = Row {
            id: String::new(),
            at: 0,
            kind: post.kind,
            from: post.from.map(str::to_owned),
            thread: String::new(),
            text: text.to_owned(),
            mentions,
            session: post.session.cloned(),
        };
        let row = channel::add_row(&self.place.dir.channel(), (self.now)().timestamp_millis(), row)?;
        self.from_people.borrow_mut().posted(&row);
        Ok(row)
    }

    /// Tells the channel what an agent noted for the next one.
    pub(super) fn post_notes(&self, agent: &AgentName, envelope: &Value) -> Result<(), RunError> {
        let Some(notes) = notes(envelope) else { return Ok(()) };
        let session = self.with_state(|state| state.agents.entry(agent)?.session_id.clone());
        let from = Some(agent.as_str());
        self.post(&Post { kind: RowKind::Agent, from, to: None, text: notes, session: session.as_ref() })?;
        Ok(())
    }

    /// Tells the channel of a check that failed.
    pub(super) fn post_failed_check(&self, check: &CheckRun) -> Result<(), RunError> {
        let text = self.judged_check(check);
        self.post(&Post { kind: RowKind::Check, from: None, to: None, text: &text, session: None })?;
        Ok(())
    }

    /// Tells the channel of a gate that was not passed.
    pub(super) fn post_failed_gate(&self, phase: &PhaseName, verdict: &GateVerdict) -> Result<(), RunError> {
        let text = format!("{} after {phase}: {}", verdict.gate, verdict.violations.join("; "));
        let text = self.mask.text(&text);
        self.post(&Post { kind: RowKind::Gate, from: None, to: None, text: &text, session: None })?;
        Ok(())
    }

    /// How a check is put to agents.
    pub(super) fn judged_check(&self, ran: &CheckRun) -> String {
        let command = self.plan.checks.get(&ran.check).map_or("", |check| &check.run);
        let command = self.mask.text(command);
        let verdict = if ran.passed { "passed" } else { "failed" };
        let limit = words::timed_out(ran.timed_out_minutes);
        format!("{}: `{command}` {verdict}{limit}; whole output in {}", ran.check, self.place.shown(&ran.log))
    }

    /// The block that the prompt of a leg ends with; empty when there is nothing new.
    pub(super) fn hear_leg(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        session: &SessionChoice,
        prompt: &str,
    ) -> Result<String, RunError> {
        let phase = &order.order.phase;
        let rows = channel::rows(&self.place.dir.channel())?;
        let elsewhere = self.handed(order, &rows, prompt);
        let session = match session {
            SessionChoice::Fresh => None,
            SessionChoice::Resume(session) => Some(session),
        };
        self.hear(
            &rows,
            &Hearing {
                agent: order.agent,
                delivery: &format!("{phase}.{leg}"),
                phase: Some(phase),
                session,
                answered: None,
                elsewhere: &elsewhere,
            },
        )
    }

    /// Picks what is new, stages it and renders it; empty when there is nothing new.
    pub(super) fn hear(&self, rows: &[Row], hearing: &Hearing<'_>) -> Result<String, RunError> {
        if rows.is_empty() {
            return Ok(String::new());
        }
        let engine = engine::for_name(self.choice(hearing.agent).engine);
        let memory = if engine.capabilities().resume { Memory::Kept } else { Memory::None };
        let listener = Listener {
            agent: hearing.agent,
            channel: self.place.run.as_str(),
            session: hearing.session,
            memory,
            answered: hearing.answered,
            elsewhere: hearing.elsewhere,
            cap: CAP,
        };
        let heard = hear(rows, &listener, &self.watermarks()?);
        if let Some(mut staged) = delivery(hearing.agent, hearing.delivery, &heard) {
            let last_at = staged.lists.iter().map(|list| list.last_at).max();
            staged.watermark = last_at.map(|last_at| DeliveredMark { native: hearing.session.cloned(), last_at });
            if hearing.phase.is_none() {
                self.stages.borrow_mut().stage(staged.clone());
            }
            self.record(hearing.phase, Event::Message(staged))?;
        }
        self.render(&heard)
    }

    fn render(&self, heard: &[Heard<'_>]) -> Result<String, RunError> {
        let Some(block) = block(heard, |row| self.place.shown(&whole_message(row))) else { return Ok(String::new()) };
        for row in &block.cut {
            self.place.dir.save(&PathBuf::from(whole_message(row)), row.text.as_bytes())?;
        }
        Ok(block.text)
    }

    /// Rows that stand in a prompt already: the notes or the failures that the phase is handed.
    fn handed(&self, order: &AgentOrder<'_>, rows: &[Row], prompt: &str) -> Vec<String> {
        let Work::Agent { input, .. } = &order.order.work else { return Vec::new() };
        let told: BTreeSet<(RowKind, String)> = self.with_state(|state| match input {
            Input::Nothing => BTreeSet::new(),
            Input::Envelope { phase } => {
                let envelope = state.phases.get(phase).and_then(|phase| phase.envelope.as_ref());
                envelope.and_then(notes).map(|notes| (RowKind::Agent, notes.to_owned())).into_iter().collect()
            }
            Input::Check { phase } => {
                let checks = state.phases.get(phase).map(|phase| &*phase.checks).unwrap_or_default();
                let failed = checks.iter().filter(|check| !check.passed);
                failed.map(|check| (RowKind::Check, self.judged_check(check))).collect()
            }
        });
        // A template of the user's may leave the envelope out, and a long one is cut: what counts is the prompt.
        let stands = |text: &str| serde_json::to_string(text).is_ok_and(|json| prompt.contains(json.trim_matches('"')));
        rows.iter()
            .filter(|row| told.contains(&(row.kind, row.text.clone())) && stands(&row.text))
            .map(|row| row.id.clone())
            .collect()
    }

    /// Makes what succeeded phases heard the watermarks of their agents. Whatever of it is on disk already, and
    /// whatever an earlier session heard, changes nothing.
    pub(super) fn remember_heard(&self) -> Result<(), RunError> {
        // Only the last delivery of an agent can be missing: the one before was committed before its phase began.
        let last = self.with_state(|state| {
            let mut last = std::collections::BTreeMap::new();
            for staged in &state.deliveries {
                let now = state.agents.entry(&staged.agent).and_then(|entry| entry.session_id.as_ref());
                if let Some(session) = staged.session.as_ref().filter(|session| Some(*session) == now) {
                    last.insert(staged.agent.clone(), (staged.delivery.clone(), session.clone()));
                }
            }
            last
        });
        if last.is_empty() {
            return Ok(());
        }
        let mut marks = self.watermarks()?;
        let mut changed = false;
        for (staged, session) in last.values() {
            changed |= marks.commit(self.place.run.as_str(), staged, session) == Commit::Changed;
        }
        if changed { self.save_watermarks(&marks) } else { Ok(()) }
    }

    /// Makes what an asked agent heard its watermark.
    pub(super) fn remember_answered(&self, question: &str, session: Option<&SessionId>) -> Result<(), RunError> {
        let Some(session) = session else { return Ok(()) };
        let mut marks = self.watermarks()?;
        let committed = self.stages.borrow_mut().commit(question, self.place.run.as_str(), session, &mut marks);
        if committed == Commit::Changed { self.save_watermarks(&marks) } else { Ok(()) }
    }

    fn save_watermarks(&self, marks: &Watermarks) -> Result<(), RunError> {
        let bytes = marks.render();
        atomic::replace(&self.place.dir.channel_watermarks(), &bytes, Durability::Synced)?;
        // It is read back, so no agent may write it.
        self.ledger.borrow_mut().learn(Path::new(WATERMARKS), &bytes);
        Ok(())
    }

    /// What is on disk. A file that cannot be read is set aside, which costs one snapshot and hides nothing.
    fn watermarks(&self) -> Result<Watermarks, RunError> {
        let Some(bytes) = self.place.dir.read(&PathBuf::from(WATERMARKS))? else { return Ok(Watermarks::default()) };
        let (marks, damage) = Watermarks::parse(&bytes);
        if let Some(damage) = damage {
            let aside = self.place.dir.set_aside(WATERMARKS)?;
            let message = format!("{WATERMARKS}: {damage}; moved to {aside}, and messages may be shown once more");
            let fault = Fault { place: "channel".to_owned(), kind: FaultKind::Storage, message };
            self.record(None, Event::Error(fault))?;
        }
        Ok(marks)
    }
}

/// Ends a prompt with a block of messages, after a blank line.
pub(super) fn end_with(prompt: &mut String, block: &str) {
    if !block.is_empty() {
        prompt.truncate(prompt.trim_end().len());
        prompt.push_str("\n\n");
        prompt.push_str(block);
    }
}

/// The first bytes of a text, without cutting a character.
fn start_of(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The notes of an envelope, if there are any.
fn notes(envelope: &Value) -> Option<&str> {
    envelope.get("notes_for_next_agent").and_then(Value::as_str).filter(|notes| !notes.trim().is_empty())
}

/// Where the whole of a long message lies, relative to the run directory. Ids of foreign rows lead nowhere else.
fn whole_message(row: &Row) -> String {
    let id: String = row.id.chars().take(40).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("context_handoff/message_{id}.md")
}
