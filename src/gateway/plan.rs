//! What is sent in place of a body, and what is said about it.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use axum::body::Bytes;

use super::News;
use super::memory::{Kind, Memory, Outgoing, Question};
use super::session::Session;
use crate::event::{ContextPruned, PrefixChanged};
use crate::mask;
use crate::prune::conversation::{Plan, Request, RequestKind, Save, Ticket};
use crate::prune::prefix;
use crate::prune::round::NoRound;
use crate::prune::sticky::sha256;
use crate::prune::wire::Body;

/// The reason given when a round could not be saved and was therefore not sent.
const NOT_SAVED: &str = "not_saved";

impl Session {
    /// Decides what is sent in place of a body.
    pub(super) fn decide(&self, memory: &mut Memory, came: &Bytes, question: &Question, now_ms: i64) -> Outgoing {
        let Some(body) = Body::parse(came) else {
            self.say(memory, "", self.nothing_known());
            return Outgoing { body: came.clone(), ticket: None };
        };
        let conversation = body.conversation(question.sub_agent.as_deref());
        let body_sha256 = sha256(came);
        let kind = match question.kind {
            Kind::Model { retry } => RequestKind::Model { body_sha256: &body_sha256, retry },
            Kind::CountTokens => RequestKind::CountTokens,
        };
        let request = Request {
            conversation: &conversation,
            messages: body.messages(),
            now_ms,
            kind,
            window: self.window,
            lifetime: body.lifetime(),
            rates: self.rates,
            expected: self.expected.load(Ordering::Relaxed),
        };
        let (plan, saved) = self.plan(memory, &request);
        let sent = match body.replaced(&plan.shown) {
            Cow::Borrowed(_) => came.clone(),
            Cow::Owned(bytes) => bytes.into(),
        };
        if question.kind == Kind::CountTokens {
            return Outgoing { body: sent, ticket: None };
        }
        let first_changed = plan.first_changed_index().and_then(|index| body.label(index));
        self.say(memory, &conversation, self.event(&plan, saved, first_changed));
        self.compare(memory, &conversation, &sent, &plan);
        Outgoing { body: sent, ticket: Some(plan.ticket) }
    }

    /// Plans a request and saves what it changed. A round that cannot be saved is taken back: after a crash its
    /// bytes could not be sent again.
    pub(super) fn plan(&self, memory: &mut Memory, request: &Request<'_>) -> (Plan, Saved) {
        let before = memory.state.clone();
        let plan = memory.state.plan(self.settings.as_ref(), request);
        if plan.save == Save::NotNeeded {
            return (plan, Saved::Yes);
        }
        let Err(error) = (self.save)(&memory.state.render()) else { return (plan, Saved::Yes) };
        tracing::warn!("a round of pruning was not sent, as it cannot be saved: {error}");
        memory.state = before;
        (memory.state.plan(None, request), Saved::No)
    }

    /// Takes down a success. The clock is worth a write, not an error: without it the next round waits.
    pub(super) fn remember(&self, memory: &mut Memory, ticket: &Ticket, tokens: Option<u64>) {
        memory.state.succeeded(ticket, tokens);
        if let Err(error) = (self.save)(&memory.state.render()) {
            tracing::warn!("the time of the last request cannot be saved: {error}");
        }
    }

    pub(super) fn event(&self, plan: &Plan, saved: Saved, first_changed: Option<String>) -> ContextPruned {
        let event = plan.event(self.agent.clone(), first_changed);
        match saved {
            Saved::Yes => event,
            Saved::No => ContextPruned { reason: NOT_SAVED.to_owned(), ..event },
        }
    }

    fn nothing_known(&self) -> ContextPruned {
        ContextPruned {
            agent: self.agent.clone(),
            reason: NoRound::UnknownBody.as_str().to_owned(),
            soft: 0,
            hard: 0,
            chars_before: 0,
            chars_after: 0,
            ratio_before: 0.0,
            ratio_after: 0.0,
            gap_ms: None,
            first_changed: None,
        }
    }

    /// Says what a round did, and why none ran when that is another reason than last time.
    pub(super) fn say(&self, memory: &mut Memory, conversation: &str, event: ContextPruned) {
        let is_news = event.reason != NoRound::Retry.as_str();
        let known = memory.conversation(conversation);
        let ran = event.soft + event.hard > 0;
        if ran || (is_news && known.said != event.reason) {
            known.said.clone_from(&event.reason);
            self.tell(News::Pruned(event));
        }
    }

    /// Says where a body stops being an extension of the last one, unless a round of ours made it so.
    fn compare(&self, memory: &mut Memory, conversation: &str, sent: &Bytes, plan: &Plan) {
        let known = memory.conversation(conversation);
        let last = known.sent.replace(sent.clone());
        let Some(last) = last.filter(|_| plan.round.is_err()) else { return };
        let hide = |text: &str| mask::secrets(text).into_owned();
        if let Some(found) = prefix::difference(&last, sent, hide) {
            self.tell(News::PrefixChanged(PrefixChanged {
                agent: self.agent.clone(),
                block: found.block,
                byte: found.byte,
                before: found.before,
                after: found.after,
            }));
        }
    }
}

/// Whether what a plan changed is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saved {
    /// It is, or nothing changed.
    Yes,
    /// It is not, and the plan changes nothing.
    No,
}
