//! What a session remembers between requests.

use std::collections::VecDeque;

use axum::body::Bytes;

use crate::prune::conversation::{PruneState, Ticket};

/// Conversations whose last body is kept to compare the next one with: an agent and a few sub-agents.
const KEPT_CONVERSATIONS: usize = 8;

/// What a session remembers.
pub(super) struct Memory {
    pub(super) state: PruneState,
    /// The one whose request is oldest goes first.
    conversations: VecDeque<Conversation>,
    /// The request that pi has made and that is not answered yet.
    pub(super) open: Option<Ticket>,
}

/// What was last sent and said of one conversation.
pub(super) struct Conversation {
    name: String,
    pub(super) sent: Option<Bytes>,
    pub(super) said: String,
}

/// What a request asks for.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) kind: Kind,
    /// The id of the sub-agent that asks, which shares the session's.
    pub(super) sub_agent: Option<String>,
}

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A request of the model.
    Model {
        /// Whether the client says that it repeats itself.
        retry: bool,
    },
    /// A question about the size of one.
    CountTokens,
}

/// What leaves for the provider.
pub(super) struct Outgoing {
    pub(super) body: Bytes,
    /// To be handed back when the request succeeded.
    pub(super) ticket: Option<Ticket>,
}

impl Memory {
    pub(super) fn new(state: PruneState) -> Self {
        Self { state, conversations: VecDeque::new(), open: None }
    }

    /// What is known of a conversation, which is now the newest.
    pub(super) fn conversation(&mut self, name: &str) -> &mut Conversation {
        let known = self.conversations.iter().position(|known| known.name == name);
        let entry = known.and_then(|at| self.conversations.remove(at));
        let entry = entry.unwrap_or_else(|| Conversation { name: name.to_owned(), sent: None, said: String::new() });
        if self.conversations.len() >= KEPT_CONVERSATIONS {
            self.conversations.pop_front();
        }
        self.conversations.push_back(entry);
        self.conversations.back_mut().expect("one was just added")
    }
}
