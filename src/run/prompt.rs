//! What an agent is sent: the system prompt of the run, and the user prompt of each turn.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::order::AgentOrder;
use super::{Run, RunError};
use crate::engine::{self, SessionChoice};
use crate::envelope::{self, Schema};
use crate::event::{
    EngineContinuation, Event, Input, Order, PathChange, PrefixChanged, RepoPath, RetirementReason, RotationReason,
    SessionRetired, Work,
};
use crate::ids::{AgentName, PhaseName};
use crate::plan::EngineChoice;
use crate::plan::prompt::{SystemValues, UserValues, render_system, render_user};
use crate::session::AgentEntry;
use crate::session::digest::Digest;
use crate::session::reseed::{Fresh, Preamble};
use crate::store::{Leg, StoreError};

/// Characters of a check's output that the next agent is told; the whole is in a file that it is told too.
const CHECK_TAIL_CHARS: usize = 4000;

/// The kind of the file that holds a digest.
const DIGEST: &str = "digest.md";

/// How a leg begins.
pub(super) struct Opening {
    pub(super) session: SessionChoice,
    /// The one preamble of the leg, if it needs one.
    preamble: Option<String>,
}

/// Digests of the sessions that are live in this process.
pub(super) type Digests = BTreeMap<AgentName, Digest>;

impl Run {
    /// The system prompt of an agent: rendered once a run, stored, and the same bytes at every start.
    pub(super) fn system_prompt(&self, agent: &AgentName) -> Result<String, RunError> {
        let place = PathBuf::from(format!("agents/{agent}/system.md"));
        let values = SystemValues {
            prompt: &self.plan.prompt,
            context_handoff_dir: &self.place.handoff,
            run_id: self.place.run.as_str(),
        };
        let text = render_system(&self.plan.agents[agent].system, values)
            .map_err(|source| RunError::Prompt { phase: PhaseName::new(agent.as_str()), source })?;
        match self.place.dir.read(&place)? {
            Some(stored) if stored == text.as_bytes() => {
                self.ledger.borrow_mut().learn(&place, &stored);
                return Ok(text);
            }
            Some(stored) => self.prefix_changed(agent, text.as_bytes(), &stored)?,
            None => {}
        }
        self.save_for_later(&place, text.as_bytes())?;
        Ok(text)
    }

    /// The stored prompt is not the one of this run: says where, and it is put back.
    fn prefix_changed(&self, agent: &AgentName, wanted: &[u8], found: &[u8]) -> Result<(), RunError> {
        let byte = wanted.iter().zip(found).position(|(left, right)| left != right);
        let byte = byte.unwrap_or(wanted.len().min(found.len()));
        let excerpt = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(&bytes[byte.min(bytes.len())..(byte + 60).min(bytes.len())]);
            self.mask.text(&text).into_owned()
        };
        let phase = self.with_state(|state| state.open_phases().next().map(|(name, _)| name.clone()));
        let changed = PrefixChanged {
            agent: agent.clone(),
            block: "system.md".to_owned(),
            byte,
            before: excerpt(wanted),
            after: excerpt(found),
        };
        self.record(phase.as_ref(), Event::PrefixChanged(changed))
    }

    /// The first prompt of a leg, outermost part first (SPEC 4.9).
    pub(super) fn compose(
        &self,
        order: &Order,
        opening: &Opening,
        note: Option<&str>,
        schema: &Schema,
    ) -> Result<String, RunError> {
        let Work::Agent { agent, input, .. } = &order.work else { return Ok(String::new()) };
        let previous = self.previous(input)?;
        let template = &self.plan.agents[agent].user;
        let values = UserValues {
            prompt: &self.plan.prompt,
            previous_envelope: &previous,
            context_handoff_dir: &self.place.handoff,
            run_id: self.place.run.as_str(),
        };
        let rendered =
            render_user(template, values).map_err(|source| RunError::Prompt { phase: order.phase.clone(), source })?;
        let mut prompt = String::new();
        for part in
            [note, opening.preamble.as_deref(), self.verdict_scope(order, opening).as_deref()].into_iter().flatten()
        {
            prompt.push_str(part);
        }
        prompt.push_str(rendered.trim_end());
        prompt.push_str("\n\n");
        prompt.push_str(&schema.request());
        Ok(prompt)
    }

    /// What a person found missing: told once a phase, and again to a fresh session, which has not heard it.
    fn verdict_scope(&self, order: &Order, opening: &Opening) -> Option<String> {
        self.with_state(|state| {
            let (verdict, told) = state.verdict.as_ref()?;
            if told.contains(&order.phase) && opening.session != SessionChoice::Fresh {
                return None;
            }
            let mut text = "# Scope: a person looked at this run and found it incomplete\n\nMissing:\n".to_owned();
            verdict.missing.iter().for_each(|missing| text += &format!("- {missing}\n"));
            if let Some(note) = &verdict.note {
                text += &format!("\n{note}\n");
            }
            text += "\nDo what is missing; leave alone what is not concerned.\n\n";
            Some(text)
        })
    }

    /// What a phase is handed as the previous envelope.
    fn previous(&self, input: &Input) -> Result<String, RunError> {
        match input {
            Input::Nothing => Ok(String::new()),
            Input::Envelope { phase } => Ok(self.with_state(|state| {
                let envelope = state.phases.get(phase).and_then(|phase| phase.envelope.as_ref());
                envelope.map(envelope::passed_on).unwrap_or_default()
            })),
            Input::Check { phase } => self.judged(phase),
        }
    }

    /// What a check phase found as an envelope, with the end of the output: of the checks that failed, or of all when
    /// none did. The whole of it is in the files that are named.
    fn judged(&self, phase: &PhaseName) -> Result<String, RunError> {
        let checks = self.with_state(|state| state.phases.get(phase).map(|phase| phase.checks.clone()));
        let checks = checks.unwrap_or_default();
        let (passed, failed): (Vec<_>, Vec<_>) = checks.iter().partition(|check| check.passed);
        let mut told = json!({
            "status": if failed.is_empty() { "success" } else { "fail" },
            "summary": match failed.as_slice() {
                [] => "all checks passed".to_owned(),
                some => format!("{} of {} checks failed", some.len(), checks.len()),
            },
            "failures": failed.iter().map(|check| self.judged_check(check)).collect::<Vec<_>>(),
        });
        if !passed.is_empty() {
            told["passed"] = passed.iter().map(|check| self.judged_check(check)).collect();
        }
        let telling = if failed.is_empty() { passed } else { failed };
        let mut output = String::new();
        for check in &telling {
            output += &self.tail(&check.log, CHECK_TAIL_CHARS / telling.len())?;
        }
        told["output"] = Value::String(output);
        Ok(serde_json::to_string_pretty(&told).expect("a value is JSON"))
    }

    /// The end of a check's output. Secrets are masked before it is cut, so that none is cut in two.
    fn tail(&self, log: &str, chars: usize) -> Result<String, RunError> {
        let bytes = self.place.dir.read_tail(Path::new(log), chars * 4)?;
        let text = String::from_utf8_lossy(&bytes);
        let text = self.mask.text(&text);
        let skip = text.chars().count().saturating_sub(chars);
        Ok(text.chars().skip(skip).collect())
    }

    /// Moves an engine's session file aside.
    pub(super) fn archive(&self, agent: &AgentName, choice: &EngineChoice) -> Result<Vec<String>, StoreError> {
        self.residents.discard(agent);
        let Some(file) = engine::for_name(choice.engine).facts().session_file else { return Ok(Vec::new()) };
        let archived = self.place.dir.archive(agent, file)?;
        Ok(archived.or_else(|| self.archived_unrecorded(agent, file)).into_iter().collect())
    }

    /// The same where a fresh session follows in any case: an engine goes on with a session file that it finds.
    pub(super) fn leave_session(&self, agent: &AgentName, choice: &EngineChoice) -> Result<Vec<String>, RunError> {
        self.archive(agent, choice).map_err(|source| RunError::Archive { agent: agent.clone(), source })
    }

    /// A session file that was moved aside by a fia that died before it could record that.
    fn archived_unrecorded(&self, agent: &AgentName, file: &str) -> Option<String> {
        let last = self.place.dir.last_archived(agent, file)?;
        let recorded = self.with_state(|state| {
            let retired = state.agents.entry(agent).into_iter().flat_map(|entry| &entry.retired);
            retired.into_iter().any(|retired| retired.transcript.as_ref() == Some(&last))
        });
        (!recorded).then_some(last)
    }

    /// The session that a leg goes on with, or a fresh one and the preamble that it begins with.
    pub(super) fn opening(&self, order: &AgentOrder<'_>, leg: u32, choice: &EngineChoice) -> Result<Opening, RunError> {
        let phase = &order.order.phase;
        let (entry, died) = self.with_state(|state| {
            let died = state.phases.get(phase).is_some_and(|phase| phase.death_marker);
            (state.agents.entry(order.agent).cloned(), died)
        });
        let Some(entry) = entry else {
            // A session that the log knows nothing of: its beginning was not acknowledged.
            self.leave_session(order.agent, choice)?;
            return self.continued(order, leg, SessionChoice::Fresh, died);
        };
        let same = entry.coding_agent == choice.engine && entry.model == choice.model;
        let file = engine::for_name(choice.engine).facts().session_file;
        let there = file.is_none_or(|file| self.place.dir.agent(order.agent).join(file).exists());
        if let (true, true, Some(session)) = (same, there, entry.session_id.clone()) {
            return self.continued(order, leg, SessionChoice::Resume(session), died);
        }
        let (fresh, transcript) = self.leave_behind(Some(phase), order.agent, &entry, choice)?;
        let why = match fresh {
            // An overflow is a death whose answer is this very session.
            Fresh::Rotated { reason: RotationReason::Overflow, .. } if same => fresh,
            Fresh::Rotated { .. } | Fresh::Retired(_) | Fresh::Continued if died => Fresh::Continued,
            Fresh::Rotated { .. } | Fresh::Retired(_) | Fresh::Continued => fresh,
        };
        let preamble = self.preamble(order, leg, why, transcript.as_ref());
        if why == Fresh::Continued {
            self.record_continuation(order, leg, &preamble)?;
        }
        self.digests.borrow_mut().remove(order.agent);
        Ok(Opening { session: SessionChoice::Fresh, preamble: Some(preamble) })
    }

    /// Why the next session of an agent that has worked is a fresh one, and where the file of the one before is. A
    /// session that nobody left on purpose yet is left here.
    pub(super) fn leave_behind(
        &self,
        phase: Option<&PhaseName>,
        agent: &AgentName,
        entry: &AgentEntry,
        choice: &EngineChoice,
    ) -> Result<(Fresh, Option<String>), RunError> {
        if let Some(fresh) = entry.fresh.filter(|_| entry.pending_reseed) {
            return Ok((fresh, entry.retired.last().and_then(|retired| retired.transcript.clone())));
        }
        let same = entry.coding_agent == choice.engine && entry.model == choice.model;
        let reason = if same { RetirementReason::SessionLost } else { RetirementReason::ModelChanged };
        let old = EngineChoice { engine: entry.coding_agent, model: entry.model.clone(), level: None };
        let archived = self.leave_session(agent, &old)?;
        let transcript = archived.first().cloned();
        let retired = SessionRetired { agent: agent.clone(), reason, from_session: entry.session_id.clone(), archived };
        self.record(phase, Event::SessionRetired(retired))?;
        Ok((Fresh::Retired(reason), transcript))
    }

    /// A leg that needs no reseed: it begins with the continuation preamble when an engine died in its phase.
    fn continued(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        session: SessionChoice,
        died: bool,
    ) -> Result<Opening, RunError> {
        let preamble = died.then(|| self.preamble(order, leg, Fresh::Continued, None));
        if let Some(preamble) = &preamble {
            self.record_continuation(order, leg, preamble)?;
        }
        Ok(Opening { session, preamble })
    }

    fn record_continuation(&self, order: &AgentOrder<'_>, leg: u32, preamble: &str) -> Result<(), RunError> {
        let died = self.with_state(|state| state.phases.get(&order.order.phase).and_then(|phase| phase.last_death));
        let continuation = EngineContinuation {
            agent: order.agent.clone(),
            leg,
            preamble_bytes: preamble.len(),
            kind: died.map(|(_, kind)| kind),
            from: died.map(|(engine, _)| engine),
            to: Some(self.choice(order.agent).engine),
        };
        self.record(Some(&order.order.phase), Event::EngineContinuation(continuation))
    }

    pub(super) fn preamble(&self, order: &AgentOrder<'_>, leg: u32, fresh: Fresh, archived: Option<&String>) -> String {
        let (changed, last) = self.with_state(|state| {
            let changed: Vec<RepoPath> = state.changed.keys().cloned().collect();
            // Of this phase only legs before this one have a digest.
            let last = state.last_leg(order.agent).map(|(name, legs)| {
                (name.clone(), if *name == order.order.phase { legs.min(leg.saturating_sub(1)) } else { legs })
            });
            (changed, last.filter(|(_, legs)| *legs > 0))
        });
        let of_last = |what: &str| {
            let (phase, legs) = last.as_ref()?;
            Some(Leg { phase, leg: *legs }.place(order.agent, what))
        };
        let digest = of_last(DIGEST).map(|path| self.place.shown(&path));
        let transcript = archived.cloned().or_else(|| of_last("transcript.jsonl")).map(|path| self.place.shown(&path));
        let report_below = match &order.order.work {
            Work::Agent { input, .. } => *input != Input::Nothing,
            Work::Check { .. } | Work::Commit | Work::Approve { .. } => false,
        };
        Preamble {
            fresh,
            changed: &changed,
            digest: digest.as_deref(),
            transcript: transcript.as_deref(),
            report_below,
        }
        .render()
    }

    /// Changes the digest of an agent. It cuts what it is given, so secrets are masked before.
    pub(super) fn with_digest(&self, agent: &AgentName, change: impl FnOnce(&mut Digest)) {
        let mut digests = self.digests.borrow_mut();
        let digest = match digests.entry(agent.clone()) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => new.insert(self.saved_digest(agent)),
        };
        change(digest);
    }

    /// The digest that an earlier process of fia left of a session that goes on.
    fn saved_digest(&self, agent: &AgentName) -> Digest {
        let resumed = self.with_state(|state| {
            state.agents.entry(agent).and_then(|entry| entry.session_id.as_ref())?;
            state.last_leg(agent).map(|(phase, leg)| Leg { phase, leg }.place(agent, DIGEST))
        });
        let saved = resumed.and_then(|file| self.place.dir.read(Path::new(&file)).ok().flatten());
        saved.map(|bytes| Digest::resume(&String::from_utf8_lossy(&bytes))).unwrap_or_default()
    }

    pub(super) fn digest_prompt(&self, agent: &AgentName, phase: &PhaseName, prompt: &str) {
        let prompt = self.mask.text(prompt);
        self.with_digest(agent, |digest| digest.prompt(phase.as_str(), &prompt));
    }

    pub(super) fn save_digest(&self, agent: &AgentName, phase: &PhaseName, leg: u32) -> Result<(), RunError> {
        let text = self.digests.borrow().get(agent).map(Digest::render).unwrap_or_default();
        let folder = PathBuf::from(format!("agents/{agent}"));
        // The newest is the one that is used again.
        self.ledger.borrow_mut().forget(&folder, ".digest.md");
        self.save_for_later(Path::new(&Leg { phase, leg }.place(agent, DIGEST)), text.as_bytes())
    }
}

/// Told to an agent whose writes were undone, in front of everything else.
pub(super) fn permission_note(undone: &[PathChange]) -> String {
    let mut text = "# Not allowed: some of your writes were undone\n\n\
         You wrote to paths that are outside of what you may write, and they were put back as they were:\n"
        .to_owned();
    undone.iter().take(20).for_each(|change| text += &format!("- {}\n", change.path));
    if undone.len() > 20 {
        text += &format!("(+{} more)\n", undone.len() - 20);
    }
    text + "\nDo the task again without touching them; a second time ends the run.\n\n"
}

/// Asks for a report again, naming what was wrong with the last one.
pub(super) fn report_correction(problem: &str, schema: &Schema) -> String {
    format!("Your report could not be taken: {problem}.\n\nDo not repeat the work. {}", schema.request())
}

/// Asks to mend what gates found.
pub(super) fn gate_correction(violations: &[String]) -> String {
    format!(
        "Your report does not agree with the work tree:\n- {}\n\n\
         Mend the work or the report, whichever is wrong, and end with the whole report again.\n",
        violations.join("\n- ")
    )
}

/// Bytes in hexadecimal.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}
