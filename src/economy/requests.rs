//! How many requests a phase makes: what phases of the same step made before, in this run and in earlier ones.

use std::collections::BTreeMap;

use crate::event::{Event, PhaseStatus, Record};
use crate::ids::{AgentName, PhaseName, StepName};

/// Requests that a phase is taken to make while nobody has made one.
pub const ASSUMED_REQUESTS: u32 = 15;

/// The requests of phases that succeeded. A phase that was cut short says nothing of how long one takes.
///
/// Folded from records, one at a time; requests are those whose reading is in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    made: BTreeMap<AgentName, Vec<(StepName, u32)>>,
    /// Phases that have not ended.
    open: BTreeMap<PhaseName, (AgentName, StepName, u32)>,
}

impl Requests {
    /// Takes in a record; those of other kinds than phases and requests change nothing.
    pub fn apply(&mut self, record: &Record) {
        let Some(phase) = &record.phase else { return };
        if let Event::PhaseStart(start) = &record.event
            && let Some(agent) = &start.agent
        {
            // One that a resume goes on with keeps what it made before.
            let opened = (agent.clone(), start.order.step.clone(), 0);
            self.open.entry(phase.clone()).or_insert(opened);
        } else if let Event::Context(_) = &record.event
            && let Some((_, _, requests)) = self.open.get_mut(phase)
        {
            *requests += 1;
        } else if let Event::PhaseEnd(end) = &record.event
            && end.status == PhaseStatus::Success
            && let Some((agent, step, requests)) = self.open.remove(phase)
            && requests > 0
        {
            self.made.entry(agent).or_default().push((step, requests));
        }
    }

    /// Adds the phases of another run that have ended.
    pub fn add(&mut self, other: Self) {
        for (agent, phases) in other.made {
            self.made.entry(agent).or_default().extend(phases);
        }
    }

    fn of<'a>(&'a self, agent: &AgentName) -> impl Iterator<Item = &'a (StepName, u32)> {
        self.made.get(agent).into_iter().flatten()
    }
}

/// Requests that a phase of this step is expected to make: the median of what phases of the step made, else of all
/// phases of the agent, else [`ASSUMED_REQUESTS`].
pub fn expected(agent: &AgentName, step: &StepName, own: &Requests, earlier: &Requests) -> u32 {
    let all = || own.of(agent).chain(earlier.of(agent));
    let same_step = all().filter(|(of, _)| of == step).map(|(_, requests)| *requests);
    median(same_step.collect())
        .or_else(|| median(all().map(|(_, requests)| *requests).collect()))
        .unwrap_or(ASSUMED_REQUESTS)
}

/// The larger of the two in the middle; `None` of nothing.
fn median(mut numbers: Vec<u32>) -> Option<u32> {
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::event::{ContextRead, Order, PhaseEnd, PhaseStart, Work};
    use crate::ids::{RunId, Seq};

    /// A phase of so many requests.
    fn phase(requests: &mut Requests, name: &str, agent: &str, made: u32, status: PhaseStatus) {
        let step = StepName::new(name.split_once('_').unwrap().1);
        let order = Order { phase: name.into(), step: step.clone(), index: 0, round: 0, work: Work::Commit };
        let start = PhaseStart {
            step: step.clone(),
            order,
            kind: "agent".to_owned(),
            agent: Some(agent.into()),
            description: String::new(),
            attempt: 1,
            host: String::new(),
        };
        let read =
            ContextRead { agent: agent.into(), context_tokens: Some(1), window: None, usage: None, cost_usd: None };
        let end = PhaseEnd { step, status, elapsed_ms: 0, outcome: None, reason: None, tree_sha256: None };
        let mut events = vec![Event::PhaseStart(start)];
        events.extend((0..made).map(|_| Event::Context(read.clone())));
        events.push(Event::PhaseEnd(end));
        for event in events {
            let record =
                Record { seq: Seq(1), ts: DateTime::UNIX_EPOCH, run: RunId::new("r"), phase: Some(name.into()), event };
            requests.apply(&record);
        }
    }

    fn asked(step: &str, own: &Requests, earlier: &Requests) -> u32 {
        expected(&"builder".into(), &step.into(), own, earlier)
    }

    #[test]
    fn r6_9_the_step_says_more_than_the_agent_and_the_agent_more_than_nothing() {
        let (mut own, mut earlier) = (Requests::default(), Requests::default());
        assert_eq!(asked("build", &own, &earlier), ASSUMED_REQUESTS);
        phase(&mut own, "01_build", "builder", 40, PhaseStatus::Success);
        assert_eq!((asked("build", &own, &earlier), asked("fix", &own, &earlier)), (40, 40));
        for made in [3, 5, 4] {
            let mut run = Requests::default();
            phase(&mut run, "02_fix", "builder", made, PhaseStatus::Success);
            phase(&mut run, "03_fix", "reviewer", 99, PhaseStatus::Success);
            earlier.add(run);
        }
        assert_eq!((asked("fix", &own, &earlier), asked("polish", &own, &earlier)), (4, 5));
        // What this run made counts beside what others made.
        phase(&mut own, "02_fix", "builder", 9, PhaseStatus::Success);
        assert_eq!(asked("fix", &own, &earlier), 5);
    }

    #[test]
    fn r6_9_a_phase_that_failed_or_made_no_request_says_nothing_and_a_resumed_one_counts_whole() {
        let (mut own, earlier) = (Requests::default(), Requests::default());
        phase(&mut own, "01_build", "builder", 0, PhaseStatus::Success);
        phase(&mut own, "02_build", "builder", 7, PhaseStatus::Failed);
        assert_eq!(asked("build", &own, &earlier), ASSUMED_REQUESTS);
        phase(&mut own, "02_build", "builder", 2, PhaseStatus::Success);
        assert_eq!(asked("build", &own, &earlier), 9);
    }
}
