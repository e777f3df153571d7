//! What is sent to an engine process, from its lease alone.
//!
//! A live process is never sent its own transcript: it would read its answers as new input, and cost
//! would grow with the square of the turns.

use crate::event::LeaseKind;
use crate::ids::SessionId;

/// The texts that a turn is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texts<'a> {
    /// The role and its rules.
    pub framing: Framing<'a>,
    /// Everything the agent has to know, for a process that knows nothing.
    pub replay: &'a str,
    /// The newest user turn.
    pub newest: &'a str,
}

/// How the framing reaches the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing<'a> {
    /// By a flag of the CLI, the same bytes on every start; it stands in no prompt.
    ByFlag,
    /// In the prompt, for a CLI that has no such flag.
    InPrompt(&'a str),
}

impl<'a> Framing<'a> {
    /// How a system prompt reaches an engine. An empty one stands nowhere.
    pub fn of(system: &'a str, by_flag: bool) -> Self {
        let system = system.trim_end();
        if by_flag || system.is_empty() { Self::ByFlag } else { Self::InPrompt(system) }
    }
}

/// Puts together what is sent.
///
/// A process that knows its session is sent the newest user turn; without one (blank) it is treated as a
/// new process and gets the replay.
pub fn sent(lease: LeaseKind, texts: Texts<'_>) -> String {
    let blank = texts.newest.trim().is_empty();
    match lease {
        LeaseKind::Warm if !blank => texts.newest.to_owned(),
        LeaseKind::Restored if !blank => framed(texts.framing, texts.newest),
        LeaseKind::Cold | LeaseKind::Restored | LeaseKind::Warm => framed(texts.framing, texts.replay),
    }
}

fn framed(framing: Framing<'_>, text: &str) -> String {
    match framing {
        Framing::ByFlag => text.to_owned(),
        Framing::InPrompt(system) => format!("{system}\n\n{text}"),
    }
}

/// Whether a process had a turn before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessAge {
    /// It is to be started.
    New,
    /// It lives and knows its session.
    Living,
}

/// The lease of a process: what it knows when a turn begins.
pub fn lease_kind(process: ProcessAge, saved: Option<&SessionId>) -> LeaseKind {
    match (process, saved) {
        (ProcessAge::Living, _) => LeaseKind::Warm,
        (ProcessAge::New, Some(_)) => LeaseKind::Restored,
        (ProcessAge::New, None) => LeaseKind::Cold,
    }
}

/// The newest user turn of a conversation: the text of the last message whose role is none of the
/// machine's own, untrimmed; empty when there is none.
pub fn newest_user_turn<'a>(messages: impl DoubleEndedIterator<Item = (&'a str, &'a str)>) -> &'a str {
    messages.rev().find(|(role, _)| !matches!(*role, "assistant" | "system" | "tool")).map_or("", |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: Texts<'static> = Texts { framing: Framing::InPrompt("SYS"), replay: "all of it", newest: "now" };

    #[test]
    fn r7_2_a_warm_process_gets_the_newest_turn_and_nothing_else() {
        assert_eq!(sent(LeaseKind::Warm, TEXTS), "now");
        assert_eq!(sent(LeaseKind::Restored, TEXTS), "SYS\n\nnow");
        assert_eq!(sent(LeaseKind::Cold, TEXTS), "SYS\n\nall of it");
    }

    #[test]
    fn r7_2_without_a_newest_turn_every_lease_gets_the_replay() {
        for lease in [LeaseKind::Warm, LeaseKind::Restored, LeaseKind::Cold] {
            assert_eq!(sent(lease, Texts { newest: " \n\t", ..TEXTS }), "SYS\n\nall of it");
        }
    }

    #[test]
    fn a_framing_that_travels_by_flag_stands_in_no_prompt() {
        let texts = Texts { framing: Framing::of("SYS", true), ..TEXTS };
        assert_eq!(sent(LeaseKind::Cold, texts), "all of it");
        assert_eq!(sent(LeaseKind::Restored, texts), "now");
        assert_eq!(Framing::of("SYS\n", false), TEXTS.framing);
        assert_eq!(Framing::of("\n", false), Framing::ByFlag);
    }

    #[test]
    fn the_newest_user_turn_is_untrimmed_and_empty_when_there_is_none() {
        let messages = [("user", " a "), ("assistant", "b"), ("tool", "c"), ("system", "d")];
        assert_eq!(newest_user_turn(messages.into_iter()), " a ");
        assert_eq!(newest_user_turn([("assistant", "b")].into_iter()), "");
    }
}
