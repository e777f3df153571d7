//! The files of one run, by name.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, Utc};

use crate::ids::{AgentName, PhaseName, RunId};

/// The directory of a run. It only knows names: what it returns may not be there.
///
/// Names of agents and phases become names of files as they are; the configuration lets none through
/// that is not fit for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    run: RunId,
    path: PathBuf,
}

/// Which try of which phase a file of an agent belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Leg<'a> {
    /// The phase.
    pub phase: &'a PhaseName,
    /// The try, from 1.
    pub leg: u32,
}

impl Leg<'_> {
    /// A file of the leg by its kind, relative to the run directory.
    pub fn place(self, agent: &AgentName, kind: &str) -> String {
        format!("agents/{agent}/{}.{}.{kind}", self.phase, self.leg)
    }
}

impl RunDir {
    /// The directory `path` of a run.
    pub fn new(run: RunId, path: impl Into<PathBuf>) -> Self {
        Self { run, path: path.into() }
    }

    /// The run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The event log.
    pub fn events(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    /// When the run was started: the time of its first record, that of its directory where that cannot be told.
    pub(super) fn started(&self) -> SystemTime {
        let recorded = first_time(&self.events()).map(SystemTime::from);
        let made = || fs::metadata(&self.path).and_then(|dir| dir.modified());
        recorded.or_else(|| made().ok()).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// The summary for people and tools.
    pub fn run_file(&self) -> PathBuf {
        self.path.join("run.json")
    }

    /// The agent map for people and tools.
    pub fn agent_map(&self) -> PathBuf {
        self.path.join("agent_map.json")
    }

    /// The messages.
    pub fn channel(&self) -> PathBuf {
        self.path.join("channel.jsonl")
    }

    /// Who has heard what.
    pub fn channel_watermarks(&self) -> PathBuf {
        self.path.join("channel_watermarks.json")
    }

    /// The file that stops the run by being there.
    pub fn stop(&self) -> PathBuf {
        self.path.join("stop")
    }

    /// The answer to an approval.
    pub fn approval(&self) -> PathBuf {
        self.path.join("approval.json")
    }

    /// A person's verdict.
    pub fn verdict(&self) -> PathBuf {
        self.path.join("verdict.json")
    }

    /// Contents of snapshots.
    pub fn objects(&self) -> PathBuf {
        self.path.join("objects")
    }

    /// What agents exchange.
    pub fn context_handoff(&self) -> PathBuf {
        self.path.join("context_handoff")
    }

    /// What was pruned from an agent's requests.
    pub fn pruning(&self, agent: &AgentName) -> PathBuf {
        self.path.join("pruning").join(format!("{agent}.json"))
    }

    /// The directory of an agent.
    pub fn agent(&self, agent: &AgentName) -> PathBuf {
        self.path.join("agents").join(agent.as_str())
    }

    /// The engine's output in a leg, byte for byte.
    pub fn transcript(&self, agent: &AgentName, leg: Leg<'_>) -> PathBuf {
        self.of_leg(agent, leg, "transcript.jsonl")
    }

    /// The engine's standard error in a leg.
    pub fn stderr(&self, agent: &AgentName, leg: Leg<'_>) -> PathBuf {
        self.of_leg(agent, leg, "stderr")
    }

    /// The user prompt as sent in a turn, from 1.
    pub fn user_prompt(&self, agent: &AgentName, leg: Leg<'_>, turn: u32) -> PathBuf {
        self.of_leg(agent, leg, &format!("{turn}.user.md"))
    }

    fn of_leg(&self, agent: &AgentName, leg: Leg<'_>, kind: &str) -> PathBuf {
        self.path.join(leg.place(agent, kind))
    }
}

/// The time of a log's first record, from its first bytes.
fn first_time(log: &Path) -> Option<DateTime<Utc>> {
    // Number and time come first in a record.
    const READ_BYTES: u64 = 96;
    // A pipe would be waited for.
    if !log.is_file() {
        return None;
    }
    let mut first = Vec::new();
    File::open(log).ok()?.take(READ_BYTES).read_to_end(&mut first).ok()?;
    let first = String::from_utf8_lossy(&first);
    let (_, behind) = first.split_once("\"ts\":\"")?;
    let (time, _) = behind.split_once('"')?;
    DateTime::parse_from_rfc3339(time).ok().map(|time| time.to_utc())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn r5_files_of_a_leg_lie_with_their_agent() {
        let dir = RunDir::new(RunId::new("20261130-142210-z321"), "runs/20261130-142210-z321");
        let (agent, phase) = (AgentName::new("builder"), PhaseName::new("03_fix_1"));
        let leg = Leg { phase: &phase, leg: 2 };
        let agents = Path::new("runs/20261130-142210-z321/agents/builder");
        assert_eq!(dir.transcript(&agent, leg), agents.join("03_fix_1.2.transcript.jsonl"));
        assert_eq!(dir.stderr(&agent, leg), agents.join("03_fix_1.2.stderr"));
        assert_eq!(leg.place(&agent, "digest.md"), "agents/builder/03_fix_1.2.digest.md");
        assert_eq!(dir.user_prompt(&agent, leg, 1), agents.join("03_fix_1.2.1.user.md"));
    }
}
