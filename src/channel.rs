//! The messages of a run: which of them an agent has not heard yet, and how they stand in its prompt.
//!
//! [`hear`] picks the rows, [`render`] writes the block, [`watermark`] remembers what was delivered. The
//! store hands out ids and times and keeps two files; everything else is decided here, as functions of
//! rows and records. Without a crash every message reaches every agent exactly once, after one at least once.

pub mod render;
pub mod watermark;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::event::{DeliveredList, Delivery};
use crate::ids::{AgentName, SessionId};
use watermark::{ListKey, Watermark, Watermarks};

/// Rows of one list that are shown at most in one block.
pub const CAP: usize = 12;

/// Characters of a body that are shown before it is cut.
pub const BODY_CHARS: usize = 600;

/// Rows of one list that are looked at, the answered one included.
pub const FETCH_ROWS: usize = 30;

/// A message as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Given by the store, unique in the channel.
    pub id: String,
    /// Given by the store: milliseconds since 1970, strictly increasing in the channel ([`next_at`]).
    pub at: i64,
    /// What kind of message it is.
    pub kind: RowKind,
    /// Who wrote it, as far as it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Id of the row that opened its thread; empty in the channel itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thread: String,
    /// The text, as it was written.
    pub text: String,
    /// Agents that the text names with `@`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<AgentName>,
    /// The engine's id of the session that wrote it, if an agent did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

/// Kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// A person wrote it.
    User,
    /// Notes of an agent for the next one.
    Agent,
    /// A check that failed.
    Check,
    /// A gate that was not passed.
    Gate,
    /// A question put to an agent.
    Question,
    /// An agent's answer to a question.
    Reply,
    /// A kind of a newer version.
    #[serde(other)]
    Other,
}

impl RowKind {
    /// The name as stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Agent => "agent",
            Self::Check => "check",
            Self::Gate => "gate",
            Self::Question => "question",
            Self::Reply => "reply",
            Self::Other => "other",
        }
    }
}

/// The time of a row that is inserted at `now_ms`, after a row of `last`: strictly increasing, whatever the clock says.
pub fn next_at(last: Option<i64>, now_ms: i64) -> i64 {
    last.map_or(now_ms, |last| now_ms.max(last.saturating_add(1)))
}

/// The agents of `roster` that `text` names with `@`, in the order of the text, each once.
pub fn mentioned(text: &str, roster: &[AgentName]) -> Vec<AgentName> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('@') {
        // An `@` inside a word is a mail address or the like.
        if text[..at].chars().next_back().is_some_and(char::is_alphanumeric) {
            continue;
        }
        let rest = &text[at + 1..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len());
        if let Some(agent) = roster.iter().find(|agent| agent.as_str() == &rest[..end])
            && !found.contains(agent)
        {
            found.push(agent.clone());
        }
    }
    found
}

/// Who listens, and to what.
#[derive(Debug, Clone, Copy)]
pub struct Listener<'a> {
    /// The agent.
    pub agent: &'a AgentName,
    /// The channel: the run.
    pub channel: &'a str,
    /// The session that answers now; absent when it is fresh, as its id is known only from its answer.
    pub session: Option<&'a SessionId>,
    /// Whether the agent remembers earlier turns at all.
    pub memory: Memory,
    /// The row that is being answered, if one is.
    pub answered: Option<&'a str>,
    /// Rows whose content stands elsewhere in the same prompt.
    pub elsewhere: &'a [String],
    /// Rows of one list that are shown at most: [`CAP`].
    pub cap: usize,
}

/// Whether an agent has a memory that outlives a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// It goes on with its sessions.
    Kept,
    /// It always starts fresh: watermarks are neither read nor written.
    None,
}

/// What one list has for a listener: the channel, or one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard<'a> {
    /// The row that opened the thread; `None` for the channel itself.
    pub root: Option<&'a Row>,
    /// Id of that row; empty for the channel.
    pub thread: &'a str,
    /// Rows to show, oldest first.
    pub shown: Vec<&'a Row>,
    /// Rows that count as delivered once the turn succeeded, those shown among them, oldest first.
    pub delivered: Vec<&'a Row>,
    /// New rows that found no room.
    pub left_out: LeftOut,
    /// Whether the session has heard this list before.
    pub contact: Contact,
}

/// New rows that the cap left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// So many.
    Exactly(usize),
    /// So many were seen, and older ones that were not looked at may be new too.
    AtLeast(usize),
}

/// Whether a session has heard a list before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact {
    /// No: what is shown is a snapshot.
    First,
    /// Yes: what is shown is new.
    Again,
}

/// Picks what a listener has not heard: the channel's rows first, then those of the threads it is part of.
///
/// `rows` are all rows of the channel in store order.
pub fn hear<'a>(rows: &'a [Row], listener: &Listener<'a>, watermarks: &Watermarks) -> Vec<Heard<'a>> {
    let answered = listener.answered.and_then(|id| rows.iter().rfind(|row| row.id == id));
    let roots: HashMap<&str, &Row> = rows.iter().rev().map(|row| (row.id.as_str(), row)).collect();
    let mut lists: BTreeMap<&str, Vec<&Row>> = BTreeMap::from([("", Vec::new())]);
    for row in rows {
        lists.entry(&row.thread).or_default().push(row);
    }
    let heard = lists.into_iter().filter_map(|(thread, list)| {
        let root = roots.get(thread).copied().filter(|_| !thread.is_empty());
        let is_heard = thread.is_empty() || is_part_of(listener, thread, root, &list, answered);
        is_heard.then(|| {
            let key = ListKey::new(listener.agent, listener.channel, thread);
            let known = match listener.memory {
                Memory::Kept => listener.session.and_then(|session| watermarks.of(&key, session)),
                Memory::None => None,
            };
            hear_list(list.into_iter(), root, thread, listener, answered, known)
        })
    });
    heard.collect()
}

/// Whether an agent hears a thread: it wrote the root, is named in root or thread, or is asked there now.
fn is_part_of(
    listener: &Listener<'_>,
    thread: &str,
    root: Option<&Row>,
    list: &[&Row],
    answered: Option<&Row>,
) -> bool {
    let names = |row: &Row| row.mentions.contains(listener.agent);
    let wrote_root = root.is_some_and(|root| root.from.as_deref() == Some(listener.agent.as_str()));
    let asked = answered.is_some_and(|answered| answered.thread == thread);
    asked || wrote_root || root.is_some_and(names) || list.iter().any(|row| names(row))
}

fn hear_list<'a>(
    list: impl DoubleEndedIterator<Item = &'a Row>,
    root: Option<&'a Row>,
    thread: &'a str,
    listener: &Listener<'_>,
    answered: Option<&Row>,
    known: Option<&Watermark>,
) -> Heard<'a> {
    // Rows newer than the answered one wait for the next delivery.
    let mut fetched: Vec<&Row> =
        list.rev().skip_while(|row| answered.is_some_and(|a| row.at > a.at)).take(FETCH_ROWS).collect();
    fetched.reverse();

    let is_known = |row: &Row| known.is_some_and(|known| known.covers(row));
    let fetch_was_full = fetched.len() == FETCH_ROWS;
    let every_row_was_new = !fetched.iter().any(|row| is_known(row));
    let mut delivered: Vec<&Row> = fetched.iter().copied().filter(|row| !is_known(row)).collect();
    let mut shown: Vec<&Row> = delivered.iter().copied().filter(|row| !is_heard_anyway(row, listener)).collect();
    let over = shown.len().saturating_sub(listener.cap);
    let passed: Vec<&Row> = shown.drain(..over).collect();
    delivered.retain(|row| !passed.iter().any(|passed| std::ptr::eq(*passed, *row)));

    Heard {
        root,
        thread,
        shown,
        delivered: match listener.memory {
            Memory::Kept => delivered,
            Memory::None => Vec::new(),
        },
        left_out: if over > 0 && fetch_was_full && every_row_was_new {
            LeftOut::AtLeast(over)
        } else {
            LeftOut::Exactly(over)
        },
        contact: if known.is_some() { Contact::Again } else { Contact::First },
    }
}

/// Rows that an agent hears without the block: the one it answers (shown twice it would answer the echo), those
/// that stand elsewhere in the prompt, and those that its own session wrote.
fn is_heard_anyway(row: &Row, listener: &Listener<'_>) -> bool {
    listener.answered == Some(row.id.as_str())
        || listener.elsewhere.contains(&row.id)
        || (listener.session.is_some() && row.session.as_ref() == listener.session)
}

/// The fact for the log: what a turn under the name `delivery` covers. `None` when there is nothing to remember.
pub fn delivery(agent: &AgentName, delivery: &str, heard: &[Heard<'_>]) -> Option<Delivery> {
    let lists: Vec<DeliveredList> = heard
        .iter()
        .filter_map(|heard| {
            Some(DeliveredList {
                thread: heard.thread.to_owned(),
                ids: heard.delivered.iter().map(|row| row.id.clone()).collect(),
                last_at: heard.delivered.iter().map(|row| row.at).max()?,
                shown: heard.shown.len(),
            })
        })
        .collect();
    if lists.is_empty() {
        return None;
    }
    Some(Delivery { agent: agent.clone(), delivery: delivery.to_owned(), lists, watermark: None })
}

#[cfg(test)]
mod tests;
