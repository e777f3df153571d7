//! What was delivered: one record an agent, channel and thread, valid for one native session only.
//!
//! Staging lives in memory and in the log's `message` event; a record is written only once the turn is
//! known to have succeeded, so that a failed phase swallows nothing. The file is replaced whole; what is
//! unreadable is as good as empty, which costs one snapshot and hides nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Row;
use crate::event::{DeliveredList, Delivery};
use crate::ids::{AgentName, SessionId};

/// Ids that a record keeps at most; older ones are covered by its time.
pub const MAX_IDS: usize = 200;

/// The number of the file format that this program writes.
const FORMAT: u32 = 1;

/// What one session has heard of one list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watermark {
    /// The engine's id of that session.
    pub native: SessionId,
    /// The newest time among the delivered rows.
    pub last_at: i64,
    /// The newest delivered ids, oldest first, at most [`MAX_IDS`].
    pub ids: Vec<String>,
}

impl Watermark {
    /// Whether a row was delivered, or is older than what was.
    pub fn covers(&self, row: &Row) -> bool {
        row.at <= self.last_at || self.ids.contains(&row.id)
    }
}

/// Where a record belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListKey {
    /// The agent.
    pub agent: AgentName,
    /// The channel: the run.
    pub channel: String,
    /// The root of the thread; empty for the channel itself.
    pub thread: String,
}

impl ListKey {
    /// Names a list of a channel for an agent.
    pub fn new(agent: &AgentName, channel: &str, thread: &str) -> Self {
        Self { agent: agent.clone(), channel: channel.to_owned(), thread: thread.to_owned() }
    }
}

/// All records of a watermark file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watermarks {
    records: BTreeMap<ListKey, Watermark>,
}

/// Why a file of watermarks could not be read; it is to be set aside with this as the warning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It holds nothing.
    #[error("the file is empty")]
    Empty,
    /// It is torn, or something else.
    #[error("the file is no list of watermarks: {0}")]
    Unreadable(String),
    /// Another version wrote it.
    #[error("the file has format {0}, and {FORMAT} is the one known here")]
    Format(u32),
}

#[derive(Serialize, Deserialize)]
struct File {
    format: u32,
    records: Vec<FileRecord>,
}

#[derive(Serialize, Deserialize)]
struct FileRecord {
    agent: AgentName,
    channel: String,
    thread: String,
    native: SessionId,
    last_at: i64,
    ids: Vec<String>,
}

/// Whether a commit changed what is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// The file is to be replaced.
    Changed,
    /// Nothing is to be written.
    Unchanged,
}

impl Watermarks {
    /// Reads a file; what cannot be read is empty, and said.
    pub fn parse(bytes: &[u8]) -> (Self, Option<Damage>) {
        match Self::read(bytes) {
            Ok(read) => (read, None),
            Err(damage) => (Self::default(), Some(damage)),
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, Damage> {
        if bytes.trim_ascii().is_empty() {
            return Err(Damage::Empty);
        }
        let file: File = serde_json::from_slice(bytes).map_err(|error| Damage::Unreadable(error.to_string()))?;
        if file.format != FORMAT {
            return Err(Damage::Format(file.format));
        }
        let records = file.records.into_iter().map(|record| {
            let key = ListKey { agent: record.agent, channel: record.channel, thread: record.thread };
            let ids = newest(record.ids);
            (key, Watermark { native: record.native, last_at: record.last_at, ids })
        });
        Ok(Self { records: records.collect() })
    }

    /// The whole file, with a newline at its end.
    pub fn render(&self) -> Vec<u8> {
        let records = self.records.iter().map(|(key, mark)| FileRecord {
            agent: key.agent.clone(),
            channel: key.channel.clone(),
            thread: key.thread.clone(),
            native: mark.native.clone(),
            last_at: mark.last_at,
            ids: mark.ids.clone(),
        });
        let file = File { format: FORMAT, records: records.collect() };
        // Texts and numbers always have a JSON form; no bytes at all would be read as damage, not as empty.
        let mut bytes = serde_json::to_vec_pretty(&file).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// The record of a list, if it belongs to this very session; another one's is as if absent.
    pub fn of(&self, key: &ListKey, native: &SessionId) -> Option<&Watermark> {
        self.records.get(key).filter(|mark| mark.native == *native)
    }

    /// Every record with its place.
    pub fn iter(&self) -> impl Iterator<Item = (&ListKey, &Watermark)> {
        self.records.iter()
    }

    /// Puts a record in its place, over whatever stood there.
    pub fn insert(&mut self, key: ListKey, mark: Watermark) {
        self.records.insert(key, mark);
    }

    /// Takes a delivery as heard by the session that answered it. Call it on what is on disk now; repeating it,
    /// or committing in another order, changes nothing: times only rise and ids are united.
    pub fn commit(&mut self, channel: &str, delivery: &Delivery, native: &SessionId) -> Commit {
        let mut commit = Commit::Unchanged;
        for list in &delivery.lists {
            let key = ListKey::new(&delivery.agent, channel, &list.thread);
            let base = self.of(&key, native);
            let after = united(base, list, native);
            if base != Some(&after) {
                self.records.insert(key, after);
                commit = Commit::Changed;
            }
        }
        commit
    }
}

fn united(base: Option<&Watermark>, list: &DeliveredList, native: &SessionId) -> Watermark {
    let mut ids = base.map_or_else(Vec::new, |base| base.ids.clone());
    let new: Vec<String> = list.ids.iter().filter(|id| !ids.contains(id)).cloned().collect();
    ids.extend(new);
    let last_at = base.map_or(0, |base| base.last_at).max(list.last_at);
    Watermark { native: native.clone(), last_at, ids: newest(ids) }
}

fn newest(mut ids: Vec<String>) -> Vec<String> {
    let over = ids.len().saturating_sub(MAX_IDS);
    ids.drain(..over);
    ids
}

/// Deliveries on their way: staged, and neither committed nor discarded yet. Lost in a crash, on purpose.
#[derive(Debug, Clone, Default)]
pub struct Stages {
    by_delivery: BTreeMap<String, Delivery>,
}

impl Stages {
    /// Remembers a delivery under its own name; a second one of that name takes the place of the first.
    pub fn stage(&mut self, delivery: Delivery) {
        self.by_delivery.insert(delivery.delivery.clone(), delivery);
    }

    /// Ends a delivery as heard by `native`. Unknown, repeated and late ones have no effect.
    pub fn commit(&mut self, delivery: &str, channel: &str, native: &SessionId, on_disk: &mut Watermarks) -> Commit {
        match self.by_delivery.remove(delivery) {
            Some(staged) => on_disk.commit(channel, &staged, native),
            None => Commit::Unchanged,
        }
    }

    /// Ends a delivery as not heard: its rows come again.
    pub fn discard(&mut self, delivery: &str) {
        self.by_delivery.remove(delivery);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(ids: &[&str], last_at: i64) -> Delivery {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let list = DeliveredList { thread: String::new(), ids, last_at, shown: 0 };
        Delivery {
            agent: AgentName::from("builder"),
            delivery: "01_build.1".to_owned(),
            lists: vec![list],
            watermark: None,
        }
    }

    #[test]
    fn r8_3_a_file_survives_its_own_reading() {
        let mut marks = Watermarks::default();
        marks.commit("run", &delivered(&["a", "b"], 7), &SessionId::from("s|1"));
        assert_eq!(Watermarks::parse(&marks.render()), (marks, None));
    }

    #[test]
    fn r8_3_a_damaged_file_starts_empty_and_says_why() {
        assert_eq!(Watermarks::parse(b" \n"), (Watermarks::default(), Some(Damage::Empty)));
        assert_eq!(
            Watermarks::parse(br#"{"format":9,"records":[]}"#),
            (Watermarks::default(), Some(Damage::Format(9)))
        );
        for bytes in [&b"{\"format\":1,\"rec"[..], b"[]", b"\xff\xfe", b"{\"format\":1}"] {
            let (marks, damage) = Watermarks::parse(bytes);
            assert_eq!(marks, Watermarks::default());
            assert!(matches!(damage, Some(Damage::Unreadable(_))), "{damage:?}");
        }
    }

    #[test]
    fn r8_3_a_second_commit_of_the_same_rows_writes_nothing() {
        let mut marks = Watermarks::default();
        let session = SessionId::from("s");
        assert_eq!(marks.commit("run", &delivered(&["a"], 3), &session), Commit::Changed);
        assert_eq!(marks.commit("run", &delivered(&["a"], 3), &session), Commit::Unchanged);
        assert_eq!(marks.commit("run", &delivered(&["a"], 3), &SessionId::from("t")), Commit::Changed);
    }

    #[test]
    fn r8_3_a_foreign_file_with_too_many_ids_is_cut_to_the_newest() {
        let ids: Vec<String> = (0..300).map(|n| format!("m{n}")).collect();
        let file = serde_json::json!({"format": 1, "records": [{
            "agent": "builder", "channel": "run", "thread": "", "native": "s", "last_at": 5, "ids": ids,
        }]});
        let (marks, damage) = Watermarks::parse(file.to_string().as_bytes());
        assert_eq!(damage, None);
        let mark = marks.iter().next().unwrap().1;
        assert_eq!((mark.ids.len(), mark.ids[0].as_str()), (MAX_IDS, "m100"));
    }
}
