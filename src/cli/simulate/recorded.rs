//! What the log of a run and its files say about requests, results and messages.

use std::collections::BTreeMap;
use std::fs;

use super::Replay;
use super::transcript::{self, Request, lifetime};
use crate::channel::Row;
use crate::cli::report::CliError;
use crate::event::{ContextRead, Delivery, Event};
use crate::ids::{AgentName, EngineName, PhaseName};
use crate::plan::Plan;
use crate::simulate::pruning;
use crate::simulate::rotation::recorded::{Recorded, replay};
use crate::simulate::watermark::{self, Replies, Script, Turn};
use crate::store::{Entry, LogReader, RunDir, StoreError, Tail};

/// The parts of a run that simulations ask for, by agent.
#[derive(Default)]
pub(super) struct Recording {
    agents: BTreeMap<AgentName, Agent>,
    plan: Option<Plan>,
}

#[derive(Default)]
struct Agent {
    requests: Vec<Recorded>,
    unknown: usize,
    phase: Option<PhaseName>,
    phases: u32,
    sessions: u32,
    /// Its legs in order: transcript files, and the engines that wrote them.
    legs: Vec<(String, EngineName)>,
    deliveries: Vec<Delivery>,
}

impl Agent {
    fn read(&mut self, at_ms: i64, phase: Option<&PhaseName>, read: &ContextRead) {
        if self.phase.as_ref() != phase {
            self.phase = phase.cloned();
            self.phases += 1;
        }
        match read.context_tokens {
            Some(context) => {
                let (phase, session) = (self.phases, self.sessions);
                self.requests.push(Recorded { at_ms, phase, session, context, usage: read.usage });
            }
            None => self.unknown += 1,
        }
    }
}

impl Recording {
    /// Reads the log of a run.
    pub(super) fn read(dir: &RunDir) -> Result<Self, StoreError> {
        let mut recording = Self::default();
        let mut reader = LogReader::open(&dir.events(), Tail::Final)?;
        while let Some(entry) = reader.next()? {
            let Entry::Record { line, .. } = entry else { continue };
            let Ok(record) = line.decode() else { continue };
            recording.push(record.ts.timestamp_millis(), record.phase.as_ref(), record.event);
        }
        Ok(recording)
    }

    fn push(&mut self, at_ms: i64, phase: Option<&PhaseName>, event: Event) {
        if let Event::RunStart(start) = event {
            self.plan = self.plan.take().or_else(|| serde_json::from_value(start.plan?).ok());
        } else if let Event::AgentStart(start) = event {
            let agent = self.agents.entry(start.agent.clone()).or_default();
            agent.sessions += u32::from(start.session_id.is_none());
            if let Some(phase) = phase {
                let file = format!("agents/{}/{phase}.{}.transcript.jsonl", start.agent, start.leg);
                if agent.legs.last().is_none_or(|(known, _)| *known != file) {
                    agent.legs.push((file, start.engine));
                }
            }
        } else if let Event::Context(read) = event {
            self.agents.entry(read.agent.clone()).or_default().read(at_ms, phase, &read);
        } else if let Event::Message(delivery) = event {
            self.agents.entry(delivery.agent.clone()).or_default().deliveries.push(delivery);
        }
    }

    fn replay(
        &self,
        left_out: Vec<String>,
        simulate: impl Fn(&AgentName, &Agent) -> Option<crate::simulate::Simulation>,
    ) -> Replay {
        let agents = self.agents.iter().filter_map(|(name, agent)| Some((name.to_string(), simulate(name, agent)?)));
        Replay { agents: agents.collect(), left_out }
    }

    /// Its agents under other rules of rotation.
    pub(super) fn rotation(&self) -> Replay {
        let mut left_out: Vec<String> = Vec::new();
        for (name, agent) in &self.agents {
            if agent.unknown > 0 {
                left_out.push(format!("{name}: {} requests without a reading are left out.", agent.unknown));
            }
            if agent.requests.is_empty() {
                left_out.push(format!("{name}: its engine reports no live context, and it is left out."));
            }
        }
        self.replay(left_out, |name, agent| {
            let ceiling = self.plan.as_ref().and_then(|plan| plan.agents.get(name)).map(|role| role.ceiling);
            let usages = agent.requests.iter().filter_map(|request| request.usage);
            replay(&agent.requests, lifetime(usages), ceiling.filter(|tokens| *tokens > 0))
        })
    }

    /// Its agents under other rules of pruning. Sizes of results stand in the transcripts of claude and pi alone.
    pub(super) fn pruning(&self, dir: &RunDir) -> Replay {
        let mut left_out = Vec::new();
        let mut read = BTreeMap::new();
        for (name, agent) in &self.agents {
            let (known, others): (Vec<_>, Vec<_>) =
                agent.legs.iter().partition(|(_, engine)| matches!(engine, EngineName::Claude | EngineName::Pi));
            if !others.is_empty() {
                left_out.push(format!("{name}: {} transcripts without tool results are left out.", others.len()));
            }
            let mut requests: Vec<Request> = Vec::new();
            for (file, _) in known {
                let path = dir.path().join(file);
                match fs::read(&path) {
                    Ok(text) => requests.extend(transcript::read(&text)),
                    Err(error) => left_out.push(format!("{name}: `{file}` is left out: {error}.")),
                }
            }
            // The stream has no times; the log has one a request.
            if requests.len() == agent.requests.len() {
                for (request, recorded) in requests.iter_mut().zip(&agent.requests) {
                    request.at_ms = Some(recorded.at_ms);
                }
            } else if !requests.is_empty() {
                left_out.push(format!("{name}: log and transcripts count differently, and no pauses are known."));
            }
            read.insert(name.clone(), requests);
        }
        left_out.push("Prompts are not in the transcripts: their sizes are left out.".to_owned());
        self.replay(left_out, |name, _| {
            let requests = read.get(name).filter(|requests| !requests.is_empty())?;
            Some(pruning::replay(&transcript::turns(requests)))
        })
    }

    /// Its deliveries under other rules.
    pub(super) fn watermark(&self, dir: &RunDir) -> Result<Replay, CliError> {
        let text = match fs::read(dir.channel()) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(StoreError::Io { action: "read", path: dir.channel(), source }.into()),
        };
        let rows: Vec<Row> =
            text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Row>(line).ok()).collect();
        let left_out =
            vec!["Prompts and answers have no sizes here, and phases that heard nothing new are left out.".to_owned()];
        Ok(self.replay(left_out, |_, agent| {
            let turn = |delivery: &Delivery| {
                let channel = delivery.lists.iter().find(|list| list.thread.is_empty())?;
                let row = rows.iter().rposition(|row| row.thread.is_empty() && row.at <= channel.last_at)?;
                // A question is delivered under its own id, and a phase answers no row.
                let replies = if rows[row].id == delivery.delivery { Replies::ToIt } else { Replies::ToNone };
                Some(Turn { row, replies, call: 0, reply: 0 })
            };
            let turns: Vec<Turn> = agent.deliveries.iter().filter_map(turn).collect();
            let prefix = agent.requests.first().map_or(0, |request| request.context);
            (!turns.is_empty()).then(|| watermark::replay(&Script::recorded(rows.clone(), turns, prefix)))
        }))
    }
}
